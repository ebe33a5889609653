"""Custom plugins in a cycle: what they see and decide, and how their errors are handled."""

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pytest

from shared.model.objects import PodSpec, Taint
from shared.model.profile import DEFAULT_FILTERS, DEFAULT_SCORES, CustomPlugin, Profile
from shared.scheduling.api.custom.plugin import (
    PLUGINS,
    Amounts,
    Nodes,
    Plugin,
    PluginMissing,
    Pod,
    registered,
    shown,
)
from shared.scheduling.cycle.kernel import Kernel
from shared.scheduling.cycle.report import explain, pre_filter, reasons
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.profile import Plugins
from shared.scheduling.table.table import NodeTable
from tests.support.custom_plugins import (
    SHA256,
    Breaks,
    ByZone,
    ByZoneEach,
    FewRacks,
    Packs,
    Tainted,
    known,
)
from tests.unit.scheduling.tables import node, rows, spec, table_of

NODES = (
    node(1, labels={"zone": "x", "size": "4"}),
    node(2, labels={"zone": "y", "size": "1"}, taints=(Taint("k", "", "NoSchedule"),)),
    node(3, labels={"size": "wide"}),
)
SMALL, LARGE = spec(cpu=1), spec(cpu=1000)


@pytest.fixture
def compiled() -> Iterator[Callable[..., Signature]]:
    """A pod compiled for a table, under a profile with one plugin of a user, weight 3."""
    with known(ByZone, ByZoneEach, Tainted, FewRacks, Packs, Breaks) as custom:

        @cache
        def plugins_with(name: str) -> Plugins:
            filters = [name] if "filter" in PLUGINS[name].points else []
            profile = Profile(
                filters=(*DEFAULT_FILTERS, *filters),
                scores=(*DEFAULT_SCORES, (name, 3)),
                custom=tuple(one for one in custom if one.name == name),
            )
            return Plugins(profile)

        def make(table: NodeTable, pod: PodSpec, kind: type[Plugin]) -> Signature:
            plugins = plugins_with(kind.__name__)
            table.score_resources(plugins.scored)
            return Signature(table, 1, pod, plugins)

        yield make


def scores(table: NodeTable, sig: Signature, kind: type[Plugin]) -> dict[str, int]:
    """The plugin's score on each feasible node, weighted."""
    return {
        report.name: score.normalised * score.weight
        for report in explain(table, sig)
        if not report.plugin
        for score in report.scores
        if score.plugin == kind.__name__
    }


@pytest.mark.parametrize("kind", [ByZone, ByZoneEach])
def test_a_filter_refuses_with_its_message_and_by_what_it_reads(kind, compiled):
    table = table_of(*NODES)
    small, large = compiled(table, SMALL, kind), compiled(table, LARGE, kind)
    assert reasons(table, small).messages == (
        ("node(s) had untolerated taint(s)", 1),
        ("node(s) were in zone x", 1),
    )
    picks = [Kernel().place_one(table, one) for one in (large, small)]
    found = [table.nodes[pick.row].name for pick in picks if pick is not None]
    assert found == ["n1", "n3"], "they differ in nothing but the part that is read"
    assert reasons(table, large).messages == (("node(s) had untolerated taint(s)", 1),)
    assert {one.name: one.plugin for one in explain(table, small)}["n1"] == kind.__name__


@pytest.mark.parametrize("kind", [ByZone, ByZoneEach])
def test_raw_scores_are_normalised_over_the_feasible_nodes(kind, compiled):
    table = table_of(*NODES)
    assert scores(table, compiled(table, LARGE, kind), kind) == {"n1": 300, "n3": 48}
    assert scores(table, compiled(table, SMALL, kind), kind) == {"n3": 300}


def test_lower_is_better_where_the_plugin_says_so(compiled):
    table = table_of(*NODES)
    assert scores(table, compiled(table, LARGE, FewRacks), FewRacks) == {"n1": 60, "n3": 0}


def test_a_score_that_is_not_normalised_counts_as_it_is_and_only_where_pre_score_lets_it(compiled):
    table = table_of(*(NODES[0], NODES[2], node(4, taints=(Taint("k", "", "NoExecute"),))))
    assert scores(table, compiled(table, SMALL, Tainted), Tainted) == {"n1": 270, "n3": 270}
    picky = spec(cpu=1, node_selector=(("zone", "x"),))
    assert scores(table, compiled(table, picky, Tainted), Tainted) == {}


def test_pre_filter_refuses_the_pod_as_a_whole(compiled):
    table = table_of(*NODES)
    sig = compiled(table, spec(cpu=1, priority=13), Tainted)
    assert pre_filter(table, sig) == ("Tainted", "pod(s) were of priority 13")
    assert reasons(table, sig).messages == (("pod(s) were of priority 13", 0),)
    assert Kernel().place_one(table, sig) is None
    assert pre_filter(table, compiled(table, spec(cpu=1, priority=12), Tainted)) is None


def test_a_score_by_amounts_follows_what_pods_take(compiled):
    table = table_of(node(1), node(2), node(3, cpu=2000))
    sig, kernel = compiled(table, LARGE, Packs), Kernel()
    assert scores(table, sig, Packs) == {"n1": 75, "n2": 75, "n3": 150}
    picks = kernel.place(table, sig, 3)
    names = [table.nodes[row].name for row in picks.rows.tolist()]
    assert names[:2] == ["n3", "n3"], "the smaller one is the fuller one"
    table.charge(sig, picks.rows, picks.masks)
    assert set(scores(table, sig, Packs).values()) == {75, 150}


def test_a_plugin_that_adds_to_the_amounts_it_is_given_changes_no_node(monkeypatch, compiled):
    def adds(self: Packs, pod: Pod, nodes: Amounts) -> object:
        used, whole = nodes.requested("cpu"), nodes.allocatable("cpu")
        used += pod["requests.cpu"]
        whole -= used
        return whole * 0

    monkeypatch.setattr(Packs, "score", adds)
    table = table_of(node(1), node(2))
    sig = compiled(table, LARGE, Packs)
    before = table.cols.copy()
    assert Kernel().place_one(table, sig) is not None
    assert (table.cols == before).all()


def test_an_exception_in_a_filter_refuses_every_node_and_names_its_line(compiled):
    table = table_of(*NODES)
    sig = compiled(table, LARGE, Breaks)
    before = PLUGINS["Breaks"].made_with("").errors
    (_, tainted), (message, rest) = sorted(reasons(table, sig).messages, key=lambda one: one[1])
    assert (tainted, rest) == (1, 2)
    said, _, line = message.rpartition(" ")
    assert said == "plugin Breaks raised KeyError at line"
    # Of the user's file, not of the code that raised it.
    assert int(line) in {one for *_, one in Breaks.filter.__code__.co_lines()}
    assert PLUGINS["Breaks"].made_with("").errors > before


def test_an_exception_in_a_score_adds_nothing(compiled):
    table = table_of(*NODES)
    with known(Breaks) as custom:
        plugins = Plugins(Profile(scores=(*DEFAULT_SCORES, ("Breaks", 3)), custom=custom))
        sig = Signature(table, 1, LARGE, plugins)
        assert scores(table, sig, Breaks) == {"n1": 0, "n3": 0}
        assert PLUGINS["Breaks"].made_with("").errors > 0


def test_nodes_asked_one_by_one_are_counted(compiled):
    table = table_of(*NODES)
    sig = compiled(table, SMALL, ByZoneEach)
    before = PLUGINS["ByZoneEach"].made_with("").scalar_calls
    Kernel().place_one(table, sig)
    assert PLUGINS["ByZoneEach"].made_with("").scalar_calls - before == 2 * len(NODES)
    Kernel().place_one(table, compiled(table, SMALL, ByZone))
    assert PLUGINS["ByZone"].made_with("").scalar_calls == 0


def test_nodes_asked_one_by_one_are_shown_as_they_are_now():
    table = table_of(*NODES)
    assert table.shown() is table.shown(), "made once, for all pods"
    assert table.trial().shown() is table.shown()
    table.set_nodes([3], [node(3, labels={"zone": "w"})])
    assert {one.name: one.labels.get("zone") for one in table.shown()}["n3"] == "w"
    table.remove_nodes([3])
    assert sorted(one.name for one in table.shown()) == ["n1", "n2"]


def test_a_pod_shows_what_the_plugin_reads_and_nothing_else():
    reads = ("labels.a", "labels.b", "annotations.c", "namespace", "requests.cpu", "nodeSelector")
    of = shown(("annotations.c", "labels.a", "labels.b", "namespace"), "ns", {"a": "1"}, {"c": "2"})
    pod = Pod(spec(cpu=7, shown=of, node_selector=(("k", "v"),)), reads)
    assert [pod[read] for read in reads] == ["1", None, "2", "ns", 7, {"k": "v"}]
    with pytest.raises(KeyError):
        pod["labels.other"]


def test_nodes_are_columns():
    nodes = Nodes(table_of(*NODES))
    names = [one.name for one in nodes.each()]
    order = [names.index(name) for name in ("n1", "n2", "n3")]
    assert nodes.labelled("size")[order].tolist() == [True, True, True]
    assert nodes.labelled("zone", "x", "y")[order].tolist() == [True, True, False]
    assert nodes.labelled("none")[order].tolist() == [False, False, False]
    assert nodes.number("size", 9)[order].tolist() == [4, 1, 9]
    assert nodes.tainted("k")[order].tolist() == [False, True, False]
    assert nodes.named("n3", "n1")[order].tolist() == [True, False, True]
    assert len(nodes) == 3
    assert nodes.number("none").dtype == np.int64


def test_a_label_beyond_int64_is_no_number():
    nodes = Nodes(table_of(node(1, labels={"rack": "9" * 25}), node(2, labels={"rack": "-7"})))
    assert sorted(nodes.number("rack", 1).tolist()) == [-7, 1]


def test_amounts_are_columns_too():
    table = table_of(node(1, cpu=4000, memory=500, extra={"a/b": 7}))
    table.score_resources(["a/b"])
    sig = Signature(table, 1, spec(cpu=1000, memory=200, extra={"a/b": 2}))
    table.charge(sig, rows(0, 0), rows(0, 0))
    amounts = Amounts(table.cols, table.scored)
    have = {one: amounts.allocatable(one).tolist() for one in ("cpu", "memory", "a/b")}
    used = {one: amounts.requested(one).tolist() for one in ("cpu", "memory", "a/b")}
    assert have == {"cpu": [4000.0], "memory": [500.0], "a/b": [7.0]}
    assert used == {"cpu": [2000.0], "memory": [400.0], "a/b": [4.0]}
    with pytest.raises(KeyError):
        amounts.requested("a/c")


def test_a_plugin_of_another_file_is_not_the_one_that_was_used():
    with known(ByZone):
        registered(CustomPlugin("ByZone", SHA256))
        with pytest.raises(
            PluginMissing, match=r"ByZone is not the one that was used: .* 00000000"
        ):
            registered(CustomPlugin("ByZone", "1" * 64))
        with pytest.raises(PluginMissing, match="plugin Other is needed: give its file"):
            registered(CustomPlugin("Other", SHA256))
