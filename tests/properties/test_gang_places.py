"""Room for gangs: the number of places is exact, each counts those before it, and no eviction is in
vain. Shards and preemption are real; a second copy of the rules checks them, for amounts alone.
"""

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from services.preemption.core.core import PreemptionCore
from shared.events.base import Event
from shared.events.ingest import BudgetCovers, BudgetSet
from shared.events.placement import (
    CandidatesFound,
    GangNominated,
    GangNominationStale,
    NominationLost,
    NominationReady,
    PlacesFound,
)
from shared.events.preemption import (
    DryRunAsked,
    EvictAsked,
    GangDryRunAsked,
    GangNominateAsked,
    GangPreemptionClosed,
    GangRoomMade,
    NominationCleared,
)
from shared.events.queueing import GangPreemptAsked, Members
from shared.model.columns import pack, unpack
from shared.model.objects import PodTerm, Requirement
from tests.support.steps import Steps
from tests.unit.placement.shard import Shard, node, spec

CPU = 4_000
HOSTNAME = "kubernetes.io/hostname"
FIRST = 1_000  # member
GANG = 7
SEEDS = st.integers(0, 1 << 32)


class World:
    """Shards of nodes that are more or less full of low pods; members of three signatures."""

    def __init__(self, seed: int, shards: int = 1, low: tuple[int, ...] = (1, 2, 3)) -> None:
        self.draw = Random(seed)
        self.shards = [Shard(number, shards) for number in range(shards)]
        self.amounts: dict[int, int] = {}
        self.priority = dict(enumerate((0, 1, 5), start=1))
        self.members = {4: 4, 5: 4, 6: 6}  # signature -> priority
        self.where: dict[int, tuple[int, int]] = {}  # low pod -> node, signature
        for sig in low:
            self._sig(sig, self.draw.choice((500, 1_000, 1_500)), self.priority[sig])
        for sig, priority in self.members.items():
            self._sig(sig, self.draw.choice((500, 1_000, 2_500)), priority)
        for number in range(1, self.draw.randint(2, 7) + shards):
            self._fill(self.shards[number % shards], number, low)

    def _sig(self, sig: int, cpu: int, priority: int) -> None:
        self.amounts[sig] = cpu
        for shard in self.shards:
            shard.sig(sig, spec(cpu=cpu, memory=0, priority=priority))

    def _fill(self, shard: Shard, number: int, low: tuple[int, ...]) -> None:
        shard.nodes(number, node(f"n{number}", labels={HOSTNAME: f"n{number}"}))
        left = CPU
        while (sig := self.draw.choice(low)) and self.amounts[sig] <= left:
            left -= self.amounts[sig]
            pod = len(self.where) + 1
            self.where[pod] = number, sig
            shard.assigned((pod, sig, number))

    def free(self, number: int, gone: set[int]) -> int:
        there = (sig for pod, (at, sig) in self.where.items() if at == number and pod not in gone)
        return CPU - sum(self.amounts[sig] for sig in there)

    def nodes(self) -> set[int]:
        return {number for shard in self.shards for number in shard.state.nodes}

    def groups(self, *sigs: int) -> tuple[Members, ...]:
        count = self.draw.randint(1, 6)
        return tuple(
            Members(sig, pack(range(FIRST + 100 * sig, FIRST + 100 * sig + count))) for sig in sigs
        )


def needed_of(members: tuple[Members, ...]) -> int:
    return sum(len(unpack(group.ids)) for group in members)


def places(shard: Shard, members: tuple[Members, ...], needed: int, **more) -> PlacesFound:
    (found,) = shard.given(GangDryRunAsked(1, GANG, needed, members, **more)).run()
    assert isinstance(found, PlacesFound)
    return found


@settings(deadline=None)
@given(SEEDS)
def test_places_are_as_many_as_without_all_lower_priority_pods(seed: int) -> None:
    world = World(seed)
    members = world.groups(4)
    found = places(world.shards[0], members, needed_of(members))
    lower = {pod for pod, (_node, sig) in world.where.items() if world.priority[sig] < 4}
    room = sum(world.free(at, lower) // world.amounts[4] for at in world.nodes())
    assert len(found.places) == min(needed_of(members), room)


@settings(deadline=None)
@given(SEEDS)
def test_members_that_avoid_each_other_get_a_node_each(seed: int) -> None:
    world = World(seed)
    apart = PodTerm(HOSTNAME, (Requirement("app", "In", ("web",)),))
    named: dict[str, Any] = {"namespace": "ns", "labels": (("app", "web"),)}
    cpu = world.amounts[4]
    shard = world.shards[0].sig(
        9, spec(cpu=cpu, memory=0, priority=4, pod_anti_affinity=(apart,), **named)
    )
    pods = pack(range(FIRST, FIRST + 6))
    found = places(shard, (Members(9, pods),), 6)
    lower = {pod for pod, (_node, sig) in world.where.items() if world.priority[sig] < 4}
    nodes = [one.candidate.node for one in found.places]
    assert len(set(nodes)) == len(nodes)
    assert len(nodes) == min(6, sum(world.free(at, lower) >= cpu for at in world.nodes()))


@settings(deadline=None)
@given(SEEDS)
def test_places_without_victims_are_used_before_any_eviction(seed: int) -> None:
    world = World(seed)
    members = world.groups(4)
    found = places(world.shards[0], members, needed_of(members))
    room = sum(world.free(at, set()) // world.amounts[4] for at in world.nodes())
    first = found.places[:room]
    assert not any(one.candidate.victims for one in first)


@settings(deadline=None)
@given(SEEDS)
def test_members_with_one_victim_each_get_what_single_preemptors_get(seed: int) -> None:
    world = World(seed, low=(1,))
    shard = world.shards[0].sig(8, spec(cpu=world.amounts[1], memory=0, priority=4))
    for at in world.nodes():  # no room that is free
        if world.free(at, set()):
            shard.nodes(at, node(f"n{at}", cpu=CPU - world.free(at, set())))
    pods = pack(range(FIRST, FIRST + 4))
    found = places(shard, (Members(8, pods),), 4)
    (alone,) = shard.given(DryRunAsked(2, FIRST, 8, others=pack(range(FIRST + 1, FIRST + 4)))).run()
    assert isinstance(alone, CandidatesFound)
    assert [one.candidate for one in found.places] == list(alone.series)


@settings(deadline=None)
@given(SEEDS)
def test_looking_for_places_changes_nothing(seed: int) -> None:
    world = World(seed)
    shard = world.shards[0]
    shard.given(BudgetCovers(1, pack([1, 2, 3])))
    shard.run()
    before = shard.dumped()
    members = world.groups(6, 4, 5)
    first = places(shard, members, needed_of(members))
    assert shard.dumped() == before
    assert places(shard.reload(), members, needed_of(members)) == first


class Mesh(World):
    """Shards and preemption; the shards' answers arrive in a drawn order."""

    def __init__(self, seed: int) -> None:
        shards = Random(seed).randint(1, 3)
        super().__init__(seed, shards)
        self.preemption = Steps(PreemptionCore(shards))
        self.kept: dict[int, GangNominated] = {}
        self.evicted: list[int] = []
        self.closed = self.made = 0
        for budget in range(1, self.draw.choice((1, 2, 3))):
            self._cover(budget)

    def _cover(self, budget: int) -> None:
        ids = pack(sorted(self.draw.sample(sorted(self.where), len(self.where) // 3)))
        self.preemption.given(BudgetSet(budget, self.draw.randint(0, 2), covered=ids))
        for shard in self.shards:
            shard.given(BudgetCovers(budget, ids))

    def ask(self) -> int:
        members = self.groups(6, 4, 5)
        needed = self.draw.randint(1, needed_of(members))
        self._handle(self.preemption.when(GangPreemptAsked(GANG, needed, members)))
        return needed

    def _handle(self, events: list[Event]) -> None:
        """Send preemption's decisions to the shards, and their answers back."""
        answers: list[Event] = []
        for event in events:
            match event:
                case GangDryRunAsked():
                    self.kept = {}
                    for shard in self.shards:
                        answers += shard.given(event).run()
                case GangNominateAsked() | NominationCleared():
                    answers += self._changed(self.shards[event.shard]).given(event).run()
                case EvictAsked():
                    self.evicted += unpack(event.victims).tolist()
                case GangPreemptionClosed():
                    self.closed += 1
                case GangRoomMade():
                    self.made += 1
        self.draw.shuffle(answers)
        for answer in answers:
            self._told(answer)

    def _changed(self, shard: Shard) -> Shard:
        """Let a pod leave between a choice and its validation."""
        here = [pod for pod, (at, _sig) in self.where.items() if at in shard.state.nodes]
        if here and self.draw.random() < 0.2:
            pod = self.draw.choice(here)
            del self.where[pod]
            shard.gone(pod)
        return shard

    def _told(self, answer: Event) -> None:
        if isinstance(answer, GangNominated):
            self.kept[answer.shard] = answer
        known = PlacesFound | GangNominated | GangNominationStale | NominationReady | NominationLost
        if isinstance(answer, known):
            self._handle(self.preemption.when(answer))


@settings(deadline=None)
@given(SEEDS)
def test_no_eviction_for_a_gang_unless_all_needed_members_fit(seed: int) -> None:
    mesh = Mesh(seed)
    needed = mesh.ask()
    nominees = [one for kept in mesh.kept.values() for one in kept.nominees]
    if not mesh.evicted:
        return
    assert len(nominees) == needed
    assert len({one.pod for one in nominees}) == needed
    victims = [pod for one in nominees for pod in unpack(one.victims).tolist()]
    assert sorted(mesh.evicted) == sorted(set(victims)) == sorted(victims)
    for at in mesh.nodes():
        here = [one for one in nominees if one.node == at]
        wanted = sum(mesh.amounts[one.sig] for one in here)
        gone = {pod for pod in victims if mesh.where[pod][0] == at}
        assert wanted <= mesh.free(at, gone), f"node {at} is over-full"
        for pod in gone:
            assert wanted > mesh.free(at, gone - {pod}), f"victim {pod} could stay"
    for one in nominees:
        for pod in unpack(one.victims).tolist():
            assert mesh.priority[mesh.where[pod][1]] < mesh.members[one.sig]


@settings(deadline=None)
@given(SEEDS)
def test_open_asks_hold_places_in_every_shard_and_closed_ones_in_none(seed: int) -> None:
    mesh = Mesh(seed)
    mesh.ask()
    kept = sum(len(shard.state.nominations) for shard in mesh.shards)
    assert mesh.closed + len(mesh.preemption.state.gang_asks) == 1
    assert kept == sum(len(gang_ask.asks) for gang_ask in mesh.preemption.state.gang_asks.values())
    assert not mesh.closed or not mesh.evicted
