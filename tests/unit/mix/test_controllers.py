"""What controllers want, step by step: pods end, are lost and replaced; and what is counted."""

import pytest

from muster.flood.book import Seen
from muster.flood.plan import AddNodes, AddPods, FailNodes, RemovePods
from muster.flood.workload import Arrivals, Template
from muster.mix.controllers import Controllers
from muster.mix.draw import Outage
from muster.mix.mix import Durations, Inference, Jobs, Mix, Nodes
from shared.model.groups.topology import Topology
from shared.model.objects import CPU, GpuRequest, Node, PodSpec

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
TEMPLATE = Template(
    "a", PodSpec(requests=((CPU, 1_000),), gpu=GpuRequest(1_000, 2)), (), False, False, {}
)
MADE = Node(uid="", name="", allocatable=((CPU, 8_000),), gpu_count=8)
RUNS = Durations("constant", 10 * MINUTE_MS)


def jobs(size: int, is_gang: bool) -> Jobs:
    once = Arrivals("burst", 0.0, 1, HOUR_MS)
    return Jobs("jobs", TEMPLATE, once, ((size, 1),), RUNS, is_gang, "rack" if is_gang else "")


def ended(on: Controllers, since_ms: float) -> list[int]:
    """Return the pods that end in the second from a time on, in order of their numbers."""
    return sorted(number for numbers in removed(on.due(since_ms + 1_000)) for number in numbers)


def played(
    *classes: Jobs, inference: tuple[Inference, ...] = (), horizon_ms=HOUR_MS, seed=1
) -> Controllers:
    nodes = (Nodes("n", 4, MADE, (("rack", 2),)),)
    return Controllers(Mix("m", seed, horizon_ms, nodes, classes, inference))


def bind(on: Controllers, nodes: dict[int, str], at_ms: float, now_ms: float | None = None) -> list:
    seen = Seen(list(nodes), [at_ms] * len(nodes), (), list(nodes.values()))
    return on.take(seen, at_ms if now_ms is None else now_ms)


def added(actions: list) -> list:
    return [one.numbers for one in actions if isinstance(one, AddPods)]


def removed(actions: list) -> list[list[int]]:
    return [list(one.numbers) for one in actions if isinstance(one, RemovePods)]


def test_a_gang_comes_as_one_and_ends_when_it_has_run_since_its_last_bind():
    on = played(jobs(2, True))
    (comes,) = on.due(0)
    assert isinstance(comes, AddPods)
    (gang,) = comes.gangs
    assert (gang.key, gang.min_count) == (comes.gang, 2)
    assert gang.topology == Topology(("rack",))
    assert not bind(on, {0: "n-0"}, 1_000)
    assert not bind(on, {1: "n-1"}, 2_000)
    assert not on.due(2_000 + 10 * MINUTE_MS - 1)
    assert ended(on, 2_000 + 10 * MINUTE_MS) == [0, 1]
    (account,) = on.accounts
    assert account.sizes[2].waits_ms == [2_000]
    assert account.sizes[2].completions_ms == [pytest.approx(10 * MINUTE_MS + 2_500, abs=500)]
    (spread,) = account.spreads
    assert (spread.looks, spread.domains, spread.fullest) == (1, 1, 1.0)


def test_members_end_one_by_one_as_kubelets_notice_and_none_is_made_anew_then():
    on = played(jobs(8, True))
    on.due(0)
    bind(on, {number: f"n-{number % 2}" for number in range(8)}, 0)
    ends: list[int] = []
    while not ends:
        ends = [number for numbers in removed(on.due(on.next_ms())) for number in numbers]
    assert len(ends) < 8
    lost = next(number for number in range(8) if number not in ends)
    assert not on.take(Seen(gone=[lost]), 10 * MINUTE_MS + 999)
    assert sorted([*ends, lost, *ended(on, 10 * MINUTE_MS)]) == list(range(8))
    (account,) = on.accounts
    assert (account.restarts, account.sizes[8].ended, account.evicted) == (0, 1, 1)
    assert (on.running, account.waiting) == (0, 0)


def test_a_gang_that_loses_a_member_starts_anew_and_all_its_work_is_lost():
    on = played(jobs(2, True))
    on.due(0)
    bind(on, {0: "n-0", 1: "n-1"}, 0)
    actions = on.take(Seen(gone=[1]), MINUTE_MS)
    assert (removed(actions), added(actions)) == ([[0]], [range(2, 4)])
    (account,) = on.accounts
    assert (account.restarts, account.evicted, account.failed) == (1, 1, 0)
    assert account.lost == [2 * 1_000 * MINUTE_MS, 0, 2 * 2_000 * MINUTE_MS]
    assert not on.due(10 * MINUTE_MS), "the first start ends no more"
    bind(on, {2: "n-0", 3: "n-1"}, 2 * MINUTE_MS)
    assert ended(on, 12 * MINUTE_MS) == [2, 3]
    assert account.sizes[2].waits_ms == [0], "the wait is that for the first start"
    assert account.sizes[2].completions_ms == [pytest.approx(12 * MINUTE_MS + 500, abs=500)]


def test_a_lost_pod_of_an_array_alone_is_made_anew():
    on = played(jobs(2, False))
    on.due(0)
    bind(on, {0: "n-0", 1: "n-1"}, 1_000)
    assert added(on.take(Seen(gone=[1]), MINUTE_MS)) == [range(2, 3)]
    assert removed(on.due(1_000 + 10 * MINUTE_MS)) == [[0]]
    bind(on, {2: "n-1"}, 20 * MINUTE_MS)
    assert removed(on.due(30 * MINUTE_MS)) == [[2]]
    (account,) = on.accounts
    assert account.sizes[2].waits_ms == [1_000, 1_000], "the first of each place"
    assert account.sizes[2].completions_ms == [30 * MINUTE_MS]
    assert account.lost[0] == 1_000 * (MINUTE_MS - 1_000)


def test_a_deployment_follows_its_hours_and_gives_up_pods_without_a_node_first():
    chat = Inference("chat", TEMPLATE, 1, (3, 1, 2))
    on = played(inference=(chat,), horizon_ms=4 * HOUR_MS)
    assert added(on.due(0)) == [range(3)]
    bind(on, {0: "n-0", 1: "n-2"}, 0)
    assert removed(on.due(HOUR_MS)) == [[2, 1]], "then the youngest"
    assert added(on.due(2 * HOUR_MS)) == [range(3, 4)]
    assert added(on.due(3 * HOUR_MS)) == [range(4, 5)], "the hours begin anew"
    (account,) = on.accounts
    assert account.sizes[1].came == 5
    assert (account.waiting, on.running) == (2, 1)


def test_a_node_fails_with_its_pods_and_is_back_as_another_one():
    on = played(jobs(1, False))
    on.due(0)
    bind(on, {0: "n-0"}, 0)
    for outage in (Outage(1_000, 9_000, ("n-0",)), Outage(2_000, 5_000, ("n-0", "n-1"))):
        on._at(outage.from_ms, on._fail, outage)
        on._at(outage.to_ms, on._repair, outage)
    fails, collects, creates = on.due(1_000)
    assert fails == FailNodes(("n-0",))
    assert (removed([collects]), added([creates])) == ([[0]], [range(1, 2)])
    assert (on.accounts[0].failed, on.accounts[0].evicted) == (1, 0)
    (also,) = on.due(2_000)
    assert also == FailNodes(("n-1",)), "the other one is gone already"
    (back,) = on.due(5_000)
    assert isinstance(back, AddNodes)
    assert [(node.name, node.uid) for node in back.nodes] == [("n-1", "node.n-1.2")]
    (last,) = on.due(9_000)
    assert isinstance(last, AddNodes)
    assert [node.name for node in last.nodes] == ["n-0"]
    assert on.nodes_failed == 2


def test_a_gang_that_loses_two_members_with_a_node_starts_anew_once():
    on = played(jobs(3, True))
    on.due(0)
    bind(on, {0: "n-0", 1: "n-0", 2: "n-1"}, 0)
    on._fail(Outage(0, HOUR_MS, ("n-0",)), 1_000)
    actions = on.due(1_000)
    assert (removed(actions), added(actions)) == ([[0, 1], [1, 2]], [range(3, 6)])
    (account,) = on.accounts
    assert (account.restarts, account.failed, account.evicted) == (1, 2, 0)


def test_a_pod_that_was_bound_to_a_node_that_had_failed_is_collected():
    on = played(jobs(1, False))
    on.due(0)
    outage = Outage(0, HOUR_MS, ("n-0",))
    on._fail(outage, 100)
    on.due(100)
    actions = bind(on, {0: "n-0"}, 101)
    assert (removed(actions), added(actions)) == ([[0]], [range(1, 2)])
    assert on.accounts[0].failed == 1


def test_usage_counts_what_runs_of_what_is_there_and_free_gpus_on_used_nodes():
    on = played(jobs(2, False))
    on.due(0)
    bind(on, {0: "n-0", 1: "n-1"}, 0)
    on.due(10 * MINUTE_MS)
    on.due(HOUR_MS)
    cpu, memory, gpu = on.usage.total.shares()
    assert cpu == pytest.approx(2 / 32 / 6)
    assert memory == 0
    assert gpu == pytest.approx(4 / 32 / 6)
    broken, free = 12 / 6, 32 - 4 / 6
    assert on.usage.total.fragmentation() == pytest.approx(broken / free)
