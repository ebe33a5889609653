"""The kernel's cache, its limits and its explanations; that picks are right is a property test."""

from itertools import pairwise

import numpy as np

from shared.model.objects import PREFER_NO_SCHEDULE, GpuRequest, Taint
from shared.scheduling.cycle.kernel import Kernel
from shared.scheduling.cycle.report import explain
from tests.unit.scheduling.tables import GI, at, node, rows, sig, spec, table_of


def test_one_pod_of_a_new_signature_leaves_no_row():
    table, kernel = table_of(*(node(i) for i in range(50))), Kernel()
    pod = sig(table, spec(500, 1 * GI))
    kernel.place(table, pod, 1)
    assert len(kernel.cache) == 0
    kernel.place(table, pod, 1)
    assert len(kernel.cache) == 1


def test_the_cache_is_bounded_in_bytes_and_forgets_the_least_recently_used():
    table = table_of(*(node(i) for i in range(100)))
    kernel = Kernel(cache_bytes=3 * 700)
    pods = [sig(table, spec(100 * i, 1 * GI)) for i in range(1, 6)]
    for pod in (*pods[:3], pods[0], pods[3]):
        kernel.place(table, pod, 2)
        assert kernel.cache.bytes <= 3 * 700
    assert kernel.cache.entry(table, pods[0]) is not None
    assert kernel.cache.entry(table, pods[1]) is None
    table.set_nodes([1000], [node(1000)])
    for pod in pods * 2:
        kernel.place(table, pod, 2)
        assert 0 <= kernel.cache.bytes <= 3 * 700


def test_equal_nodes_fill_in_tie_order_level_by_level():
    table = table_of(*(node(i) for i in range(4)))
    picks = Kernel().place(table, sig(table, spec(100, 200 * (1 << 20))), 9)
    # 100m of 4 and 200Mi of 8Gi keep the least allocated share at 97, 95, 92 ...: one pod a level.
    assert picks.rows.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0]
    assert picks.totals.tolist() == sorted(picks.totals.tolist(), reverse=True)
    assert (picks.feasible, picks.runner_up) == (4, picks.totals[0])


def test_a_score_that_rises_is_recorded_as_it_was_at_its_pick():
    table = table_of(*(node(i, cpu=10_000, memory=80 * GI, gpu_count=8) for i in range(60)))
    table.charge(sig(table, spec(4000, 1 * GI)), np.arange(60))
    # Percents are cut twice, so the sum of what falls and what rises goes up now and then.
    for pod in (spec(0, 160 << 20), spec(0, 160 << 20, gpu=GpuRequest(50))):
        picks = Kernel().place(table, sig(table, pod), 300)
        trial, singles = table.trial(), []
        for _ in range(300):
            one = Kernel().place_naive(trial, sig(table, pod))
            trial.charge(sig(table, pod), one.rows, one.masks)
            singles.append((int(one.rows[0]), int(one.totals[0]), int(one.masks[0])))
        assert list(zip(*(part.tolist() for part in picks[:3]), strict=True)) == singles
        assert any(later > earlier for earlier, later in pairwise(picks.totals.tolist()))


def test_the_last_node_of_a_class_changes_the_terms_of_the_others():
    soft = (Taint("busy", "", PREFER_NO_SCHEDULE),)
    twice = (*soft, Taint("old", "", PREFER_NO_SCHEDULE))
    table = table_of(node(1, taints=soft), node(2, taints=twice, pods=1), node(3, pods=1))
    picks = Kernel().place(table, sig(table, spec(1000, 2 * GI)), 4)
    names = [table.nodes[row].name for row in picks.rows.tolist()]
    # n1 is worth 150 beside n2 (one taint of two) and nothing beside n3 alone.
    assert names == ["n3", "n1", "n1", "n1"]
    assert picks.totals.tolist() == [300 + 175, 150 + 175, 150 + 150, 150 + 125]
    more = Kernel().place(table, sig(table, spec(1000, 2 * GI)), 9)
    assert [table.nodes[row].name for row in more.rows.tolist()] == ["n3", *["n1"] * 4, "n2"]
    assert more.totals.tolist()[4:] == [150 + 100, 0 + 175]


def test_feasible_any_looks_at_the_rows_it_is_given():
    table, kernel = table_of(*(node(i) for i in range(40))), Kernel()
    pod = sig(table, spec(2000, 1 * GI))
    table.charge(sig(table, spec(3000, 1 * GI)), np.arange(39))
    assert not kernel.feasible_any(table, pod, np.arange(39))
    assert not kernel.feasible_any(table, pod, rows(3, 4))
    assert kernel.feasible_any(table, pod, np.arange(40))
    assert kernel.feasible_any(table, pod, rows(39))
    last = table.node_id_at(39)
    assert not kernel.feasible_any(table, pod, rows(39), {last: [(pod, 0), (pod, 0)]})
    assert not kernel.feasible_any(table, pod, rows())


def test_resolvable_rows_are_those_where_removing_pods_could_help():
    table = table_of(node(1), node(2, cpu=100), node(3), node(4, unschedulable=True))
    table.charge(sig(table, spec(4000, 1 * GI)), rows(at(table, 1)))
    pod = sig(table, spec(500, 1 * GI))
    found = Kernel().resolvable_rows(table, pod)
    assert [table.nodes[row].name for row in found.tolist()] == ["n1"]


def test_a_full_node_of_the_wrong_model_is_not_resolvable():
    table = table_of(
        node(1, gpu_count=2, gpu_model="T4"), node(2, gpu_count=2, gpu_model="G3"), node(3)
    )
    table.charge(sig(table, spec(4000, 1 * GI)), rows(*range(3)))
    pod = sig(table, spec(500, 1 * GI, gpu=GpuRequest(1000, 1, ("G3",))))
    found = Kernel().resolvable_rows(table, pod)
    assert [table.nodes[row].name for row in found.tolist()] == ["n2"]


def test_explain_agrees_with_the_picks_and_names_nominations():
    table = table_of(node(1), node(2), node(3, cpu=100))
    pod = sig(table, spec(3000, 1 * GI))
    reports = explain(table, pod)
    picks = Kernel().place(table, pod, 1)
    assert max(report.total for report in reports) == picks.totals[0]
    assert [report.node_id for report in reports] == table.ids.tolist()
    held = {1: [(pod, 0)], 99: [(pod, 0)]}
    by_name = {report.name: report for report in explain(table, pod, held)}
    assert (by_name["n1"].plugin, by_name["n1"].messages) == (
        "NodeResourcesFit",
        ("Insufficient cpu",),
    )
    assert by_name["n1"].resolvable
    assert not by_name["n3"].resolvable
    assert Kernel().reasons(table, pod, held) == ((("Insufficient cpu", 2),), 1)
    assert Kernel().place(table, pod, 3, held).rows.tolist() == [at(table, 2)]
