"""Golden scores: kube-scheduler 1.35's own figures."""

import numpy as np
import pytest

from shared.model.objects import (
    DEFAULT_MEMORY_BYTES,
    PREFER_NO_SCHEDULE,
    PreferredTerm,
    Requirement,
    SelectorTerm,
    Taint,
    Toleration,
)
from shared.scheduling.api.plugin import normalise
from shared.scheduling.cycle.kernel import Kernel
from shared.scheduling.cycle.node_scores import local_columns, stays_within
from shared.scheduling.cycle.one_node import OneNode
from shared.scheduling.cycle.report import explain
from shared.scheduling.profile import BALANCED_ALLOCATION, LEAST_ALLOCATED
from tests.unit.scheduling.tables import GI, node, rows, sig, spec, table_of

BEST_EFFORT = spec()


def scores(pod, held=None, **of_node) -> tuple[int, int]:
    """LeastAllocated and BalancedAllocation of one node, the same for arrays and for one node."""
    table = table_of(node(1, **of_node))
    if held is not None:
        table.charge(sig(table, held), rows(0))
    pod = sig(table, pod)
    found = []
    for plugin in (LEAST_ALLOCATED, BALANCED_ALLOCATION):
        alone = plugin.score(pod, OneNode(table, 0).values) if plugin.applies(pod) else 0
        if plugin.applies(pod):
            for within in (False, stays_within(pod, table.cols[:, 0].tolist())):
                assert plugin.scores(pod, table.cols, table.whole, within).tolist() == [alone]
        found.append(alone)
    return found[0], found[1]


@pytest.mark.parametrize(
    ("pod", "held", "of_node", "expected"),
    [
        (spec(500, 1 * GI), None, {}, (87, 100)),
        (BEST_EFFORT, None, {}, (97, 0)),
        (spec(0, 0), None, {}, (100, 0)),
        (spec(2000, 1 * GI), None, {}, (68, 81)),
        (spec(100, 3 * GI), spec(2000, 1 * GI), {}, (48, 98)),
        (spec(4000, 8 * GI), None, {}, (0, 100)),
        # A resource of which the node has none leaves the mean and the deviation.
        (spec(1000, 0), None, {"memory": 0}, (75, 100)),
        (spec(0, 2 * GI), None, {"cpu": 0}, (75, 100)),
        (BEST_EFFORT, None, {"cpu": 0, "memory": 0}, (0, 0)),
    ],
)
def test_golden_scores(pod, held, of_node, expected):
    assert scores(pod, held, **of_node) == expected


@pytest.mark.parametrize(
    ("of_node", "expected"),
    [
        ({"cpu": 200}, ((8 * GI - 3 * DEFAULT_MEMORY_BYTES - GI // 8) * 100 // (8 * GI)) // 2),
        ({"memory": GI // 4}, ((4000 - 3 * 100 - 100) * 100 // 4000) // 2),
    ],
)
def test_the_share_of_a_node_with_more_defaults_than_it_has_is_zero_and_not_negative(
    of_node, expected
):
    table = table_of(node(1, **of_node))
    small = sig(table, BEST_EFFORT)
    table.charge(small, rows(0, 0, 0))
    asks = sig(table, spec(100, GI // 8))
    assert Kernel().place(table, asks, 1).rows.tolist() == [0]
    assert LEAST_ALLOCATED.score(asks, OneNode(table, 0).values) == expected
    assert LEAST_ALLOCATED.scores(asks, table.cols, True, False).tolist() == [expected]


def test_the_golden_total_with_default_weights():
    # kube-scheduler's 487: 3 * 100 TaintToleration, 87 LeastAllocated, 100 BalancedAllocation.
    # Its other default plugins add nothing for this pod: NodeAffinity, InterPodAffinity and
    # PodTopologySpread skip (no terms, no constraints, no owner), ImageLocality finds no image.
    table = table_of(node(1))
    picks = Kernel().place(table, sig(table, spec(500, 1 * GI)), 1)
    assert picks.totals.tolist() == [487]
    parts = explain(table, sig(table, spec(500, 1 * GI)))[0].scores
    assert {part.plugin: part.normalised * part.weight for part in parts} == {
        "TaintToleration": 300,
        "NodeResourcesFit": 87,
        "NodeResourcesBalancedAllocation": 100,
        "ImageLocality": 0,
    }


def test_amounts_up_to_the_limit_are_divided_like_integers():
    # Memory of 2**46 bytes: 100 * free / memory lies as close to whole percents as it can.
    memory = 1 << 46
    table = table_of(*(node(i, cpu=100, memory=memory - 1) for i in range(3)))
    for share in range(1, 100):
        for off in (-1, 0, 1):
            asked = (memory - 1) - ((memory - 1) * share // 100 + off)
            pod = sig(table, spec(0, asked))
            expected = (100 + (memory - 1 - asked) * 100 // (memory - 1)) // 2
            assert LEAST_ALLOCATED.scores(pod, table.cols, True, True)[0] == expected
            assert LEAST_ALLOCATED.score(pod, OneNode(table, 0).values) == expected


@pytest.mark.parametrize(
    ("raw", "highest", "reverse", "expected"),
    [(0, 0, True, 100), (0, 0, False, 0), (1, 3, False, 33), (1, 3, True, 67), (3, 3, True, 0)],
)
def test_default_normalize_score(raw, highest, reverse, expected):
    assert normalise(raw, highest, reverse) == expected


def test_preferred_terms_and_taints_are_normalised_over_feasible_nodes_only():
    prefers = PreferredTerm(10, SelectorTerm(labels=(Requirement("disk", "In", ("ssd",)),)))
    strongly = PreferredTerm(40, SelectorTerm(labels=(Requirement("disk", "In", ("nvme",)),)))
    soft = Taint("busy", "", PREFER_NO_SCHEDULE)
    table = table_of(
        node(1, labels={"disk": "ssd"}),
        node(2, taints=(soft,)),
        node(3, labels={"disk": "nvme"}, unschedulable=True),
    )
    pod = spec(500, 1 * GI, affinity_preferred=(prefers, strongly))
    by_name = {report.name: report for report in explain(table, sig(table, pod))}
    assert by_name["n1"].total == 187 + 300 + 200
    assert by_name["n2"].total == 187
    assert by_name["n3"].messages == ("node(s) were unschedulable",)
    tolerant = spec(500, 1 * GI, tolerations=(Toleration("busy", "Exists"),))
    assert {r.total for r in explain(table, sig(table, tolerant)) if r.total >= 0} == {487}


def test_infeasible_nodes_stay_far_below_every_total():
    table = table_of(node(1), node(2, cpu=100))
    row = local_columns(sig(table, spec(500, 1 * GI)), table.cols, table.whole)
    assert sorted(row.tolist()) == [-30_000, 187]
    assert row.dtype == np.int16
