"""A plan is a function of the workload and its seed."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from muster.flood.arrivals import times_ms
from muster.flood.plan import AddNodes, AddPods, FailNodes, RemovePods, plan_of
from muster.flood.workload import (
    Arrivals,
    Barrier,
    CreateNodes,
    CreatePods,
    DeleteNodes,
    DeletePods,
    Sleep,
    Template,
    Workload,
)
from shared.kubernetes.objects.labels import HOSTNAME_LABEL, ZONE_LABEL
from shared.model.objects import Node, PodSpec

POISSON = Arrivals("poisson", 200.0)
DIURNAL = Arrivals("diurnal", 200.0, swing=0.8, period_ms=10_000)
SECOND = Arrivals(size=1, every_ms=1_000)


def template(name: str) -> Template:
    return Template(name, PodSpec(), (), False, False, {})


def pods(count: int, arrivals: Arrivals = SECOND, **others) -> CreatePods:
    mix = others.pop("mix", ((template("a"), 1),))
    return CreatePods(count, mix, "default", arrivals, **others)


def nodes(count: int, arrivals: Arrivals | None = None) -> CreateNodes:
    node = Node(uid="", name="", allocatable=(), labels={"pool": "p"})
    return CreateNodes("node", count, node, ("x", "y"), arrivals or Arrivals())


def stages(*steps, seed=1):
    return plan_of(Workload("w", seed, steps)).stages


def times(arrivals: Arrivals, count: int, seed: int = 1) -> list[int]:
    return times_ms(arrivals, count, random.Random(seed))


def test_a_burst_comes_at_once_or_in_waves():
    assert times(Arrivals(), 3) == [0, 0, 0]
    assert times(Arrivals(size=2, every_ms=500), 5) == [0, 0, 500, 500, 1_000]


def test_even_arrivals_have_the_rate():
    assert times(Arrivals("even", 4.0), 6) == [0, 250, 500, 750, 1_000, 1_250]


@pytest.mark.parametrize("arrivals", [POISSON, DIURNAL])
def test_arrivals_by_chance_have_the_rate_in_the_long_run_and_come_in_order(arrivals):
    found = times(arrivals, 20_000)
    assert found == sorted(found)
    assert found[-1] == pytest.approx(100_000, rel=0.03)
    assert times(arrivals, 20_000) == found
    assert times(arrivals, 20_000, seed=2) != found


def test_a_day_has_a_busy_half_and_a_quiet_one():
    found = times(DIURNAL, 2_000)
    by_half = Counter(at_ms // 5_000 for at_ms in found)
    # 200 * (5 + 0.8 * 10 / pi) = 1,509 in the first half, 491 in the other.
    assert by_half[0] == pytest.approx(1_509, rel=0.1)
    assert by_half[1] == pytest.approx(491, rel=0.2)


def test_the_same_seed_gives_the_same_flood():
    mix = (template("a"), 3), (template("b"), 1)
    steps = nodes(9), pods(500, POISSON, mix=mix), DeleteNodes("node", 3, POISSON)
    assert stages(*steps) == stages(*steps)
    assert stages(*steps) != stages(*steps, seed=2)


def test_first_nodes_exist_before_and_later_ones_come():
    plan = plan_of(Workload("w", 1, (nodes(3), Sleep(50), nodes(2), pods(1))))
    assert [node.name for node in plan.nodes] == ["node-0", "node-1", "node-2"]
    assert plan.nodes[1].labels == {"pool": "p", HOSTNAME_LABEL: "node-1", ZONE_LABEL: "y"}
    (at_ms, later), _ = plan.stages[0]
    assert isinstance(later, AddNodes)
    assert (at_ms, [node.name for node in later.nodes]) == (50, ["node-3", "node-4"])


def test_steps_overlap_until_a_barrier():
    first, second = stages(pods(3), Sleep(1_500), pods(1), Barrier(), pods(2))
    assert [(at_ms, list(one.numbers)) for at_ms, one in first] == [
        (0, [0]),
        (1_000, [1]),
        (1_500, [3]),
        (2_000, [2]),
    ]
    assert [(at_ms, list(one.numbers)) for at_ms, one in second] == [(0, [4]), (1_000, [5])]


def test_a_last_sleep_is_slept():
    first, second = stages(pods(1), Sleep(700), Barrier(), Sleep(300))
    assert [at_ms for at_ms, _ in first] == [0, 700]
    assert second == [(300, RemovePods(()))]


def test_nodes_that_run_for_a_while_fail_then_and_not_by_chance():
    short = replace(nodes(2, SECOND), prefix="short", runs_for_ms=300)
    (stage,) = stages(nodes(1), Sleep(5), short, DeleteNodes("short", 2, Arrivals()))
    failed = [(at_ms, a.names) for at_ms, a in stage if isinstance(a, FailNodes)]
    assert failed == [(305, ("short-0",)), (1_305, ("short-1",))]


def test_nodes_fail_once_each():
    (stage,) = stages(nodes(5), DeleteNodes("node", 3, SECOND), DeleteNodes("node", 9, Arrivals()))
    gone = [name for _, action in stage if isinstance(action, FailNodes) for name in action.names]
    assert sorted(gone) == [f"node-{number}" for number in range(5)]


def test_the_oldest_pods_of_the_namespace_are_deleted():
    (_, last) = stages(pods(4, Arrivals()), Barrier(), DeletePods("default", 3, SECOND))
    assert [(at_ms, list(action.numbers)) for at_ms, action in last] == [
        (0, [0]),
        (1_000, [1]),
        (2_000, [2]),
    ]


def test_a_roll_out_deletes_as_many_old_pods_as_new_ones_come():
    new = pods(3, Arrivals(size=2, every_ms=100), replaces=True)
    _, stage = stages(pods(3, Arrivals()), Barrier(), new)
    deleted = [(at_ms, list(a.numbers)) for at_ms, a in stage if isinstance(a, RemovePods)]
    assert deleted == [(0, [0, 1]), (100, [2])]


def test_a_gang_comes_whole_and_once():
    mix = (template("a"), 1), (template("b"), 1)
    gangs = pods(3, SECOND, mix=mix, gang_size=4, min_count=3, timeout_ms=9)
    (stage,) = stages(gangs)
    by_gang: dict[str, list[int]] = {}
    for at_ms, action in stage:
        assert isinstance(action, AddPods)
        by_gang.setdefault(action.gang, []).extend(action.numbers)
        assert at_ms == 1_000 * (min(action.numbers) // 4)
    assert [sorted(numbers) for numbers in by_gang.values()] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9, 10, 11],
    ]
    new = [gang.min_count for _, action in stage for gang in action.gangs]
    assert new == [3, 3, 3]


def test_a_mix_has_its_weights_and_each_pod_once():
    mix = (template("hot"), 9), (template("cold"), 1)
    (stage,) = stages(pods(10_000, Arrivals(), mix=mix))
    found = {"hot": list[int](), "cold": list[int]()}
    for _, action in stage:
        found[action.template.name].extend(action.numbers)
    assert sorted(found["hot"] + found["cold"]) == list(range(10_000))
    assert len(found["hot"]) == pytest.approx(9_000, rel=0.02)
    assert len(stage) == 20, "pods of a template that come together are created together"
