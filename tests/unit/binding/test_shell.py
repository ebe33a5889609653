"""Binding's shell against the simulated cluster: every fault ends in the definite truth."""

import asyncio
from typing import Any

import pytest

from services.binding.shell import BindingShell, PodSemaphore
from shared.events.base import Configured, Event
from shared.events.binding import Bound, Evicted, EvictionsAsked, ProvisioningRefused
from shared.events.ingest import NodesSet, PodsNamed
from shared.events.observed import PodsSeen
from shared.events.preemption import EvictAsked
from shared.events.queueing import Parked, ProvisioningAsked, TryFailed
from shared.model.api_outcome import Answer
from shared.model.columns import join, pack, unpack
from shared.model.groups.provisioning import ProvisioningWrite
from shared.model.objects import Node, PodSpec
from shared.model.world import Arrival, World
from shared.ports.cluster import BindRequest, NodesRequest, PodRead
from shared.simulated.cluster import SimCluster
from shared.simulated.config import SimConfig
from tests.support.steps import Steps
from tests.unit.binding.inputs import binding, reserved

NODES = (Node(uid="n1", name="node-1"), Node(uid="n2", name="node-2"))


class Owner:
    """Steps a core over what its shell offers, in real time; effects start after each step."""

    def __init__(self, cluster: SimCluster, steps: Any) -> None:
        self.steps, self.cluster = steps, cluster
        self.waiting: list[Event] = []
        self.decided: list[Any] = []
        self.started = 0
        self.shell = BindingShell(cluster)
        self.shell.start(self)

    @property
    def state(self) -> Any:
        return self.steps.state

    @property
    def submitted(self) -> int:
        return len(self.waiting)

    def submit(self, *events: Event) -> None:
        self.waiting.extend(events)

    def turn(self, *inputs: Event) -> None:
        waiting, self.waiting = self.waiting, []
        now_ms = int(asyncio.get_running_loop().time() * 1_000)
        self.decided += self.steps.when(*waiting, *inputs, at_ms=now_ms)
        for number, effect in list(self.steps.core.effects(self.state).items()):
            if number > self.started:
                self.started = number
                self.shell.effect(number, effect)

    async def settle(self) -> None:
        async with asyncio.timeout(5):
            while self.state.open or self.waiting or self.state.evictions:
                self.turn()
                await asyncio.sleep(0.001)

    def all_ids(self, kind: Any) -> list[int]:
        found = [unpack(event.ids).tolist() for event in self.decided if type(event) is kind]
        return [pod for ids in found for pod in ids]


def owner_of(count: int, **config) -> Owner:
    uids = [f"uid-{i}" for i in range(1, count + 1)]
    names = [f"pod-{i}" for i in range(1, count + 1)]
    arrival = Arrival(at_ms=0, pods=PodsSeen(PodSpec(), join(uids), join(names), b""))
    cluster = SimCluster(World(name="w", nodes=NODES, arrivals=(arrival,)), SimConfig(**config))
    cluster.start()
    steps = binding(repeat_initial_ms=5, repeat_max_ms=20)
    ids = pack(range(1, count + 1))
    revisions = pack([cluster.pods[uid].revision for uid in uids])
    steps.given(
        NodesSet(0, pack([1, 2]), NODES), PodsNamed(ids, join(uids), join(names), revisions)
    )
    return Owner(cluster, steps)


async def test_a_column_is_bound_and_answered():
    owner = owner_of(3_000)
    owner.turn(reserved({i: 1 + i % 2 for i in range(1, 3_001)}))
    await owner.settle()
    assert sorted(owner.all_ids(Bound)) == list(range(1, 3_001))
    for i in range(1, 3_001):
        assert owner.cluster.pods[f"uid-{i}"].node == f"node-{1 + i % 2}"
    binds = [h.uid for h in owner.cluster.history if h.kind == "bind"]
    assert binds == [f"uid-{i}" for i in range(1, 3_001)], "in the order of decision"
    await owner.shell.stop()


async def test_pods_that_come_one_by_one_wait_for_no_answer_of_others(monkeypatch):
    asked: list[str] = []
    over = asyncio.Event()

    async def bind(requests: list[BindRequest]) -> list[PodRead]:
        asked.extend(request.name for request in requests)
        await over.wait()
        return [PodRead(Answer.DONE)] * len(requests)

    owner = owner_of(100)
    monkeypatch.setattr(owner.cluster, "bind", bind)
    for pod in range(1, 101):
        owner.turn(reserved({pod: 1}))
        await asyncio.sleep(0)
    owner.turn()
    await asyncio.sleep(0)
    assert asked == [f"pod-{pod}" for pod in range(1, 101)]
    over.set()
    await owner.shell.stop()


async def test_a_bounded_number_of_pods_is_in_flight_in_order():
    room = PodSemaphore(10)
    inside: list[int] = []

    async def enter(number: int, pods: int, leave: asyncio.Event) -> None:
        async with room.acquire(pods):
            inside.append(number)
            await leave.wait()

    leaves = [asyncio.Event() for _ in range(4)]
    sizes = (6, 5, 4, 50)
    tasks = [asyncio.create_task(enter(n, sizes[n], leaves[n])) for n in range(4)]
    await asyncio.sleep(0.01)
    assert inside == [0], "the third would fit, but the second was first"
    leaves[0].set()
    await asyncio.sleep(0.01)
    assert inside == [0, 1, 2]
    leaves[1].set()
    await asyncio.sleep(0.01)
    assert inside == [0, 1, 2]
    leaves[2].set()
    leaves[3].set()
    await asyncio.gather(*tasks)
    assert inside == [0, 1, 2, 3], "more than ever fit go alone"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "faults",
    [
        {"lost_response": 0.5},
        {"lost_request": 0.5},
        {"late": 0.5, "late_ms": 20},
        {"refused": 0.3, "busy": 0.3},
        {"foreign": 0.4, "foreign_ms": 5, "lost_response": 0.3, "late": 0.3, "latency_ms": 4},
    ],
    ids="+".join,
)
async def test_every_recorded_outcome_is_true(faults, seed):
    owner = owner_of(30, seed=seed, **faults)
    want = {i: 1 + i % 2 for i in range(1, 31)}
    owner.turn(reserved(want))
    await owner.settle()
    await asyncio.sleep(0.025)
    await owner.shell.stop()
    shown = {i: owner.cluster.pods[f"uid-{i}"].node for i in want}
    for pod in owner.all_ids(Bound):
        assert shown[pod] == f"node-{want[pod]}"
    failed = [
        (e.reason, pod)
        for e in owner.decided
        if hasattr(e, "reason")
        for pod in unpack(e.ids).tolist()
    ]
    for reason, pod in failed:
        assert shown[pod] != f"node-{want[pod]}" or reason == "foreign"
        assert (shown[pod] == "") is (reason == "abandoned")
    answered = owner.all_ids(Bound) + [pod for _reason, pod in failed]
    assert sorted(answered) == sorted(want)


async def test_a_later_owner_sends_open_effects_again():
    owner = owner_of(4, latency_ms=50)
    owner.turn(reserved({1: 1, 2: 2, 3: 1, 4: 2}))
    await asyncio.sleep(0.005)
    await owner.shell.stop()
    owner.steps.reload()
    owner.steps.given(Configured({"binding": {"repeat_initial_ms": 5, "repeat_max_ms": 20}}))
    second = Owner(owner.cluster, owner.steps)
    await second.settle()
    assert sorted(second.all_ids(Bound)) == [1, 2, 3, 4]
    assert owner.waiting == [], "the first owner offers nothing after stop"
    await second.shell.stop()


async def test_evictions_reach_the_cluster():
    owner = owner_of(3, grace_ms=1_000)
    owner.turn(EvictAsked(7, 99, 1, pack([1, 2, 3]), pack([2, 3])))
    await owner.settle()
    assert sorted(owner.all_ids(Evicted)) == [1, 2, 3]
    asks = [unpack(e.ids).tolist() for e in owner.decided if isinstance(e, EvictionsAsked)]
    assert asks == [[1, 2], [3]]
    assert all(owner.cluster.pods[f"uid-{i}"].deleting for i in (1, 2, 3))
    assert owner.shell.evictions == [1, 2], "two beyond their budgets"
    await owner.shell.stop()


async def test_parked_messages_reach_the_cluster():
    owner = owner_of(2)
    owner.steps.given(Configured({"binding": {"status_patches": True}}))
    owner.turn(Parked(1, pack([1]), "0/2 nodes are available"))
    async with asyncio.timeout(2):
        while owner.steps.core.effects(owner.state):
            await asyncio.sleep(0.001)
            owner.turn()
    assert owner.cluster.history[-1].detail == "0/2 nodes are available"
    assert int(owner.state.table.revisions[0]) == owner.cluster.pods["uid-1"].revision
    await owner.shell.stop()


async def test_errors_reach_the_cluster_as_such(monkeypatch):
    """kube-scheduler's reason is SchedulerError then."""
    owner = owner_of(2)
    owner.steps.given(Configured({"binding": {"status_patches": True}}))
    written: list[tuple[str, str]] = []
    touch = owner.cluster.touch

    async def noting(pods: Any, messages: Any, reasons: Any = ()) -> Any:
        written.extend(zip(messages, reasons, strict=True))
        return await touch(pods, messages, reasons)

    monkeypatch.setattr(owner.cluster, "touch", noting)
    for event in (TryFailed(1, pack([1]), "code 500"), Parked(1, pack([1]), "0/2 nodes")):
        owner.turn(event)
        async with asyncio.timeout(2):
            while owner.steps.core.effects(owner.state):
                await asyncio.sleep(0.001)
                owner.turn()
    owner.turn(reserved({1: 1}))
    await owner.settle()
    assert written == [("code 500", "SchedulerError"), ("0/2 nodes", "Unschedulable")]
    assert owner.state.errors == {}
    await owner.shell.stop()


async def test_a_pod_bound_in_the_meantime_gets_no_waiting_message():
    owner = owner_of(2)
    owner.steps.given(Configured({"binding": {"status_patches": True}}))
    owner.turn(Parked(1, pack([1, 2]), "0/2 nodes are available"))
    owner.turn(reserved({1: 1}))
    await owner.settle()
    touched = [entry.uid for entry in owner.cluster.history if entry.kind == "touch"]
    assert touched == ["uid-2"]
    assert owner.all_ids(Bound) == [1]
    await owner.shell.stop()


async def test_an_unreachable_cluster_is_unknown_not_failed():
    owner = owner_of(2)

    async def unreachable(_requests: Any) -> Any:
        raise ConnectionResetError("reset by peer")

    fine = owner.cluster.bind
    owner.cluster.bind = unreachable  # type: ignore[assignment,method-assign]
    owner.turn(reserved({1: 1, 2: 2}))
    await asyncio.sleep(0.005)
    owner.turn()
    assert owner.decided[-1:]
    assert not owner.all_ids(Bound)
    owner.cluster.bind = fine  # type: ignore[method-assign]
    await owner.settle()
    assert sorted(owner.all_ids(Bound)) == [1, 2]
    await owner.shell.stop()


def test_steps_are_driven_as_in_other_tests():
    assert isinstance(binding(), Steps)


async def test_a_shell_does_not_change_the_state():
    """The shell runs beside the fold: no replay would have a row that it added."""
    owner = owner_of(2)
    owner.turn(EvictAsked(1, 99, 1, pack([1, 2])))
    before = owner.steps.core.dump(owner.state)
    await asyncio.sleep(0.005)
    assert owner.waiting, "the evictions were answered"
    assert owner.steps.core.dump(owner.state) == before
    await owner.shell.stop()


@pytest.mark.parametrize("error", [None, ConnectionError("lost")])
async def test_a_request_for_nodes_has_the_names_of_its_samples(monkeypatch, error):
    asked: list[NodesRequest] = []

    async def request_nodes(requests: list[NodesRequest]) -> list[str]:
        asked.extend(requests)
        if error is not None:
            raise error
        return ["may not create"]

    owner = owner_of(1)
    monkeypatch.setattr(owner.cluster, "request_nodes", request_nodes)
    # The second is reserved before its name is known, and the third is deleted.
    write = ProvisioningWrite("team/g", "team/g", "class", (1, 2, 3), (4, 5, 6))
    owner.turn(reserved({2: 1}), ProvisioningAsked(1, write))
    await asyncio.sleep(0.01)
    owner.turn()
    (request,) = asked
    assert (request.namespace, request.name, request.counts) == ("team", "g", (4, 5, 6))
    assert [sample.name for sample in request.samples] == ["pod-1", "", ""]
    refused = [] if error else [ProvisioningRefused(("team/g",), ("may not create",))]
    assert [one for one in owner.decided if isinstance(one, ProvisioningRefused)] == refused
    assert not owner.state.effects
    await owner.shell.stop()
