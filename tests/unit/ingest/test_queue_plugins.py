"""Answers of queue plugins: asked once for each signature, recorded before its pods."""

from typing import Any

import pytest
from msgspec import to_builtins

from shared.events.base import Configured
from shared.events.ingest import PodsPending, SignatureDefined, SignaturesQueued
from shared.model.columns import pack, unpack
from shared.model.objects import PodSpec
from shared.scheduling.api.custom.plugin import PLUGINS, PluginMissing
from tests.support.custom_plugins import ByRank, HasTeam, known
from tests.unit.ingest.inputs import SMALL, ids, ingest, names, nodes, one, pods

TEAM = PodSpec(shown=(("labels.team", "a"),))
RANKED = PodSpec(shown=(("annotations.rank", "-4"), ("labels.team", "a")), priority=3)
NO_TEAM = "HasTeam: the pod names no team"


def _options(team: Any, rank: Any = None, **more: Any) -> dict[str, Any]:
    gating = {"pre_enqueue": {"default-scheduler": (team,)}} if team else {}
    sorting = {"queue_sort": rank} if rank else {}
    found: dict[str, Any] = to_builtins({**gating, **sorting, **more})
    return found


def _said(event: SignaturesQueued) -> list[tuple[int, int, str]]:
    columns = unpack(event.sigs).tolist(), unpack(event.orders).tolist(), event.gates
    return list(zip(*columns, strict=True))


@pytest.fixture
def plugins():
    with known(HasTeam, ByRank) as found:
        yield found


def test_a_signature_is_recorded_with_the_plugins_answers(plugins):
    steps = ingest(**_options(*plugins))
    decided = steps.when(pods("a", "b"))
    assert names(decided) == ["SignatureDefined", "SignaturesQueued", "PodsNamed", "PodsPending"]
    assert _said(one(decided, SignaturesQueued)) == [(1, 0, NO_TEAM)]
    assert not one(decided, PodsPending).gated, "the pod has no gates of its own"
    assert SignaturesQueued not in map(type, steps.when(pods("c", at=9))), "asked once"
    decided = steps.when(pods("d", at=10, spec=RANKED))
    assert _said(one(decided, SignaturesQueued)) == [(2, -4, "")]


def test_default_answers_are_not_recorded(plugins):
    steps = ingest(**_options(*plugins))
    assert SignaturesQueued not in map(type, steps.when(pods("a", spec=TEAM)))


def test_pods_of_others_are_not_asked_about(plugins):
    steps = ingest(**_options(*plugins, schedulers=("mine",)))
    assert names(steps.when(pods("a"))) == ["SignatureDefined", "PodsNamed"]


def test_a_pod_that_gets_the_label_gets_another_signature(plugins):
    steps = ingest(**_options(*plugins))
    steps.when(pods("a", at=1))
    decided = steps.when(pods("a", at=2, spec=TEAM))
    assert one(decided, SignatureDefined).sig == 2
    pending = one(decided, PodsPending)
    assert (pending.sig, ids(pending)) == (2, [1])
    assert SignaturesQueued not in map(type, decided)


def test_a_new_configuration_records_signatures_and_pending_pods_again(plugins):
    team, rank = plugins
    steps = ingest()
    steps.when(nodes("n"))
    steps.when(pods("a", "b", "c"), pods("d", at=4, gated=True), pods("e", at=5, spec=TEAM))
    steps.when(pods("c", at=9, on="n"), pods("f", at=10))
    steps.when(pods("f", at=11, on="not-known-yet"))
    with_both = Configured({"ingest": _options(team, rank)})
    assert steps.when(with_both) == [
        SignaturesQueued(pack([1]), pack([0]), (NO_TEAM,), again=True),
        PodsPending(1, pack([1, 2])),
        PodsPending(1, pack([4]), gated=True),
    ]
    assert steps.when(with_both) == [], "nothing is new"
    steps.reload()
    assert steps.when(Configured({"ingest": _options(None, rank)})) == [
        SignaturesQueued(pack([1]), pack([0]), ("",), again=True),
        PodsPending(1, pack([1, 2])),
        PodsPending(1, pack([4]), gated=True),
    ]


def test_pods_of_other_schedulers_are_not_recorded(plugins):
    steps = ingest(schedulers=("mine",))
    steps.when(pods("a"))
    decided = steps.when(Configured({"ingest": _options(plugins[0])}))
    assert names(decided) == ["SignaturesQueued"], "the pods follow when they are seen again"


def test_a_changed_order_records_no_pods_again(plugins):
    steps = ingest()
    steps.when(pods("a", spec=RANKED))
    decided = steps.when(Configured({"ingest": _options(None, plugins[1])}))
    assert decided == [SignaturesQueued(pack([1]), pack([-4]), ("",), again=True)]
    decided = steps.when(Configured({"ingest": {}}))
    assert decided == [SignaturesQueued(pack([1]), pack([3]), ("",), again=True)]


def test_a_loaded_state_says_the_same(plugins):
    steps = ingest(**_options(*plugins))
    steps.when(pods("a"), pods("b", at=2, spec=RANKED))
    before = [(held.sig, held.queued) for held in steps.state.sigs.values()]
    dumped = steps.dumped()
    steps.reload()
    assert [(held.sig, held.queued) for held in steps.state.sigs.values()] == before
    assert steps.dumped() == dumped


def test_without_the_files_nothing_is_configured_or_loaded(plugins):
    steps = ingest(**_options(*plugins))
    steps.when(pods("a", spec=SMALL))
    PLUGINS.clear()
    with pytest.raises(PluginMissing, match="plugin HasTeam is needed"):
        steps.reload()
    with pytest.raises(PluginMissing, match="plugin ByRank is needed"):
        ingest(**_options(None, plugins[1]))
