"""Preemption under any interleaving: late answers, failing evictions, changing pods.

A shard and binding of a few lines each read preemption's journal with a lag. Victims are never
shared, no pod is evicted without a nomination, and at the end nothing is left over.
"""

from collections import deque
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from services.preemption.core.core import PreemptionCore
from shared.events.base import Event
from shared.events.binding import Bound, Evicted, EvictionFailed
from shared.events.ingest import BudgetSet, PodsGone
from shared.events.placement import (
    Candidate,
    CandidatesFound,
    Nominated,
    NominationLost,
    NominationReady,
    NominationStale,
)
from shared.events.preemption import (
    DryRunAsked,
    EvictAsked,
    EvictRecalled,
    NominateAsked,
    NominationCleared,
    PreemptionClosed,
)
from shared.events.queueing import PreemptAsked
from shared.model.columns import pack, size, unpack
from tests.support.steps import Steps

PREEMPTORS = range(100, 104)
LONG_MS = 600_000


@dataclass
class Shard:
    """Nodes with pods; node number = shard * 10 + index."""

    number: int
    nodes: dict[int, list[int]]
    nominations: dict[int, tuple[int, int, set[int]]] = field(default_factory=dict)
    said_ready: set[int] = field(default_factory=set)

    def apply(self, event: Event) -> list[Event]:
        match event:
            case DryRunAsked():
                taken = set(unpack(event.taken).tolist())
                found = [
                    Candidate(node, pack(pods), 0, 0, len(pods), 0, 1)
                    for node, pods in sorted(self.nodes.items())
                    if pods and not taken & set(pods)
                ]
                if not event.others:
                    return [CandidatesFound(self.number, event.ask, event.pod, tuple(found), (), 2)]
                series = tuple(found[: 1 + size(event.others)])
                answer = CandidatesFound(self.number, event.ask, event.pod, (), (), 2, series)
                # Now and then it looks no further than one node.
                is_cut = event.ask % 2 == 0 and len(series) > 1
                return [replace(answer, series=series[:1], cut=True) if is_cut else answer]
            case NominateAsked(shard=self.number):
                return [self.nominate(event)]
            case NominationCleared(shard=self.number):
                self.nominations.pop(event.ask, None)
        return []

    def nominate(self, event: NominateAsked) -> Event:
        victims = unpack(event.victims).tolist()
        if not set(victims) <= set(self.nodes[event.node]):
            return NominationStale(self.number, event.ask, event.pod)
        self.nominations[event.ask] = (event.pod, event.node, set(victims))
        return Nominated(self.number, event.ask, event.pod, event.sig, event.node, pack(victims))

    def left(self, pod: int) -> list[Event]:
        for pods in self.nodes.values():
            if pod in pods:
                pods.remove(pod)
        said: list[Event] = []
        for ask, (owner, node, victims) in sorted(self.nominations.items()):
            victims.discard(pod)
            if owner == pod:
                del self.nominations[ask]
                said.append(NominationLost(self.number, ask, owner, "gone"))
            elif not victims and ask not in self.said_ready:
                self.said_ready.add(ask)
                said.append(NominationReady(self.number, ask, owner, node))
        return said

    def lose(self) -> list[Event]:
        for ask, (owner, _node, _victims) in sorted(self.nominations.items()):
            del self.nominations[ask]
            return [NominationLost(self.number, ask, owner, "the space is taken")]
        return []


@dataclass
class Binding:
    """Evictions not answered yet, by ask."""

    unsent: list[tuple[int, int]] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)

    def apply(self, event: Event) -> list[Event]:
        match event:
            case EvictAsked():
                self.unsent += [(event.ask, pod) for pod in unpack(event.victims).tolist()]
            case EvictRecalled():
                mine = [pod for ask, pod in self.unsent if ask == event.ask]
                self.unsent = [one for one in self.unsent if one[0] != event.ask]
                return [EvictionFailed(event.ask, pack(mine), "recalled")] if mine else []
        return []

    def answer(self, ok: bool) -> list[Event]:
        if not self.unsent:
            return []
        ask, pod = self.unsent.pop(0)
        if not ok:
            return [EvictionFailed(ask, pack([pod]), "refused")]
        self.accepted.append(pod)
        return [Evicted(ask, pack([pod]))]


class Mesh:
    """Preemption, its journal, and the others with their lag."""

    def __init__(self, nodes: list[int], shards: int) -> None:
        self.steps = Steps(PreemptionCore(shards))
        self.shards = [Shard(number, {}) for number in range(shards)]
        pod = 0
        for index, count in enumerate(nodes):
            shard = self.shards[index % shards]
            shard.nodes[shard.number * 10 + index] = list(range(pod + 1, pod + 1 + count))
            pod += count
        self.binding = Binding()
        self.readers: list[Shard | Binding] = [*self.shards, self.binding]
        self.journal: list[Event] = []
        self.read = [0] * len(self.readers)
        self.answers: list[deque[Event]] = [deque() for _ in self.readers]
        self.gone: set[int] = set()
        self.bound: set[int] = set()
        self.leaving: dict[int, int] = {}
        self.closed: set[int] = set()
        self.nominated: set[int] = set()

    def turn(self, *events: Event) -> None:
        for event in events:
            if isinstance(event, Nominated):
                self.nominated.add(event.ask)
            if isinstance(event, EvictionFailed):
                for pod in unpack(event.ids).tolist():
                    self.leaving.pop(pod, None)
        self.steps.given(*events)
        for event in self.steps.when():
            self.judge(event)
            self.journal.append(event)

    def judge(self, event: Event) -> None:
        assert getattr(event, "ask", 0) not in self.closed, "a closed ask goes on"
        match event:
            case EvictAsked():
                assert event.ask in self.nominated, "an eviction before its nomination"
                for pod in unpack(event.victims).tolist():
                    assert pod not in self.leaving, "a shared victim"
                    self.leaving[pod] = event.ask
            case PreemptionClosed():
                self.closed.add(event.ask)

    def reads(self, reader: int) -> None:
        if self.read[reader] < len(self.journal):
            event = self.journal[self.read[reader]]
            self.read[reader] += 1
            self.answers[reader].extend(self.readers[reader].apply(event))

    def hears(self, reader: int) -> None:
        if self.answers[reader]:
            self.turn(self.answers[reader].popleft())

    def goes(self, pod: int) -> None:
        if pod in self.gone:
            return
        self.gone.add(pod)
        self.leaving.pop(pod, None)
        for shard in self.shards:
            self.answers[shard.number].extend(shard.left(pod))
        if pod in self.binding.accepted:
            self.binding.accepted.remove(pod)
        self.turn(PodsGone(pack([pod])))

    def evictions(self, ok: bool) -> None:
        self.answers[-1].extend(self.binding.answer(ok))
        self.binding.accepted = [pod for pod in self.binding.accepted if pod not in self.gone]

    def binds(self, pod: int, node: int) -> None:
        if pod not in self.gone | self.bound:
            self.bound.add(pod)
            for shard in self.shards:
                for ask, (owner, _node, _victims) in sorted(shard.nominations.items()):
                    if owner == pod:
                        del shard.nominations[ask]
            self.turn(Bound(pack([pod]), pack([node])))

    def settle(self) -> None:
        for _round in range(3):
            while (
                any(self.answers)
                or any(at < len(self.journal) for at in self.read)
                or self.binding.unsent
                or self.binding.accepted
            ):
                for reader in range(len(self.readers)):
                    self.reads(reader)
                    self.hears(reader)
                self.evictions(True)
                if self.binding.accepted:
                    self.goes(self.binding.accepted[0])
            self.steps.at(self.steps.state.now_ms + LONG_MS)
            self.turn()


MOVES = st.one_of(
    st.tuples(st.just("reads"), st.integers(0, 2)), st.tuples(st.just("hears"), st.integers(0, 2))
)
ACTIONS = st.one_of(
    st.tuples(st.just("asks"), st.sampled_from(PREEMPTORS)),
    st.tuples(st.just("ask together"), st.sets(st.sampled_from(PREEMPTORS), min_size=1)),
    st.tuples(st.just("goes"), st.integers(1, 12) | st.sampled_from(PREEMPTORS)),
    st.tuples(st.just("binds"), st.sampled_from(PREEMPTORS), st.integers(0, 12)),
    st.tuples(st.just("evictions"), st.booleans()),
    st.tuples(st.just("leaves")),
    st.tuples(st.just("loses"), st.integers(0, 1)),
    st.tuples(st.just("budget"), st.integers(0, 3), st.sets(st.integers(1, 12), max_size=3)),
    st.tuples(st.just("time"), st.integers(1, LONG_MS)),
    st.tuples(st.just("reload")),
)
SCHEDULES = st.lists(st.one_of(MOVES, MOVES, ACTIONS), min_size=25, max_size=70)
NODES = st.lists(st.integers(1, 3), min_size=1, max_size=4)


def act(mesh: Mesh, action: tuple) -> None:
    match action:
        case ("asks", pod):
            mesh.turn(PreemptAsked(pod, pod, 1))
        case ("ask together", pods):
            first, *others = sorted(pods)
            mesh.turn(PreemptAsked(first, PREEMPTORS[0], 1, pack(others)))
        case ("reads" | "hears" as what, reader):
            getattr(mesh, what)(reader % len(mesh.readers))
        case ("goes", pod):
            mesh.goes(pod)
        case ("binds", pod, node):
            mesh.binds(pod, node)
        case ("evictions", ok):
            mesh.evictions(ok)
        case ("leaves",) if mesh.binding.accepted:
            mesh.goes(mesh.binding.accepted[0])
        case ("loses", number):
            shard = mesh.shards[number % len(mesh.shards)]
            mesh.answers[shard.number].extend(shard.lose())
        case ("budget", allowed, pods):
            ids = pack(sorted(pods))
            mesh.turn(BudgetSet(1, allowed, "b", b"" if allowed else ids, ids))
        case ("time", passed_ms):
            mesh.steps.at(mesh.steps.state.now_ms + passed_ms)
            mesh.turn()
        case ("reload",):
            mesh.steps.reload()


def run(nodes: list[int], shards: int, schedule: list[tuple], *, reloads: bool) -> Mesh:
    mesh = Mesh(nodes, shards)
    for action in schedule:
        if reloads or action != ("reload",):
            act(mesh, action)
    mesh.settle()
    return mesh


@settings(max_examples=200)
@given(NODES, st.integers(1, 2), SCHEDULES)
def test_no_victim_is_shared_and_no_charge_is_left(nodes, shards, schedule):
    mesh = run(nodes, shards, schedule, reloads=False)
    state = mesh.steps.state
    assert state.asks == {}
    assert state.victims == {}
    assert mesh.leaving == {}
    for shard in mesh.shards:
        assert shard.nominations == {}


@settings(max_examples=200)
@given(NODES, st.integers(1, 2), SCHEDULES)
def test_a_loaded_state_continues_identically(nodes, shards, schedule):
    plain = run(nodes, shards, schedule, reloads=False)
    reloaded = run(nodes, shards, schedule, reloads=True)
    assert plain.journal == reloaded.journal
    assert plain.steps.dumped() == reloaded.steps.dumped()
