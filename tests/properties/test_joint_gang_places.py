"""Room for gangs with rules over zones: after the evictions the whole gang fits, and no victim
could have stayed. A second copy of the rules checks the shard's places and nominations.
"""

from collections import Counter
from random import Random
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from shared.events.placement import GangNominated, PlacesFound
from shared.events.preemption import GangDryRunAsked, GangNominateAsked
from shared.events.queueing import Members
from shared.model.columns import pack, unpack
from shared.model.objects import PodTerm, Requirement, SpreadConstraint
from shared.model.preemption.victims import Nominee
from tests.unit.placement.shard import Shard, node, spec

CPU = 4_000
ZONE = "topology.kubernetes.io/zone"
APART, SPREAD, TOGETHER = "apart", "spread", "together"
GANG, FIRST, WEB = 7, 1_000, 9
SIGS = {1: (1_000, 0, False), 2: (500, 5, False), 3: (1_500, 0, True), 4: (1_000, 20, False)}
"""Signature -> cpu, priority, whether it is a pod of the gang's app."""
SEEDS = st.integers(0, 1 << 32)


def rules(kind: str) -> dict[str, Any]:
    web = (Requirement("app", "In", ("web",)),)
    if kind == SPREAD:
        return {"spread": (SpreadConstraint(ZONE, 1, True, web),)}
    return {"pod_anti_affinity" if kind == APART else "pod_affinity": (PodTerm(ZONE, web),)}


def labels(is_web: bool) -> dict[str, Any]:
    return {"namespace": "ns", "labels": (("app", "web" if is_web else "other"),)}


class World:
    """A shard of nodes in zones, more or less full; members of one signature."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.kind = self.draw.choice((APART, SPREAD, TOGETHER))
        self.cpu = self.draw.choice((1_000, 2_000, 3_500))
        self.shard = Shard()
        for sig, (cpu, priority, is_web) in SIGS.items():
            self.shard.sig(sig, spec(cpu=cpu, memory=0, priority=priority, **labels(is_web)))
        member = spec(cpu=self.cpu, memory=0, priority=10, **labels(True), **rules(self.kind))
        self.shard.sig(WEB, member)
        self.zones = {at: self.draw.choice("abc") for at in range(1, self.draw.randint(3, 7))}
        self.where: dict[int, tuple[int, int]] = {}
        for at, zone in self.zones.items():
            self.shard.nodes(at, node(f"n{at}", labels={ZONE: zone}))
            self._fill(at)

    def _fill(self, at: int) -> None:
        left = CPU
        for sig in self.draw.choices((1, 2, 3, 4), (5, 5, 1, 1), k=self.draw.randint(0, 8)):
            if SIGS[sig][0] <= left:
                left -= SIGS[sig][0]
                pod = len(self.where) + 1
                self.where[pod] = at, sig
                self.shard.assigned((pod, sig, at))

    def fits(self, nodes: list[int], gone: set[int]) -> bool:
        """Return whether members fit on these nodes, one beside those before it."""
        stay = [one for pod, one in self.where.items() if pod not in gone]
        return all(self._fits(at, nodes[:number], stay) for number, at in enumerate(nodes))

    def _fits(self, at: int, before: list[int], stay: list[tuple[int, int]]) -> bool:
        used = sum(SIGS[sig][0] for there, sig in stay if there == at)
        if used + self.cpu * (before.count(at) + 1) > CPU:
            return False
        web = Counter(self.zones[there] for there, sig in stay if SIGS[sig][2])
        web.update(self.zones[there] for there in before)
        zone = self.zones[at]
        if self.kind == APART:
            return not web[zone]
        if self.kind == TOGETHER:
            return not web or bool(web[zone])
        return web[zone] + 1 - min(web[one] for one in set(self.zones.values())) <= 1


def lower(world: World) -> set[int]:
    return {pod for pod, (_at, sig) in world.where.items() if SIGS[sig][1] < 10}


def search(seed: int) -> tuple[World, PlacesFound, int]:
    world = World(seed)
    needed = world.draw.randint(1, 4)
    members = (Members(WEB, pack(range(FIRST, FIRST + needed))),)
    (found,) = world.shard.given(GangDryRunAsked(1, GANG, needed, members)).run()
    assert isinstance(found, PlacesFound)
    event(f"{world.kind}, {'found' if found.places else 'none'}")
    return world, found, needed


def check(world: World, nodes: list[int], victims: list[int], is_last: bool) -> None:
    """Check victims; `is_last`: also that of a spread none could stay beside those put back after
    it.
    """
    gone = set(victims)
    assert len(gone) == len(victims)
    assert gone <= lower(world)
    assert world.fits(nodes, gone)
    for pod in victims if is_last or world.kind != SPREAD else ():
        assert not world.fits(nodes, gone - {pod}), f"{pod} could stay"


@settings(deadline=None, max_examples=60)
@given(SEEDS)
def test_no_eviction_unless_the_whole_gang_then_fits(seed: int) -> None:
    world, found, needed = search(seed)
    assert len(found.places) in (0, needed)
    nodes = [one.candidate.node for one in found.places]
    victims = [unpack(one.candidate.victims).tolist() for one in found.places]
    check(world, nodes, [pod for own in victims for pod in own], is_last=False)
    if not found.places:
        return
    nominees = tuple(
        Nominee(100 + at, FIRST + at, WEB, one.candidate.node, one.candidate.victims)
        for at, one in enumerate(found.places)
    )
    left = world.draw.choice([None, *world.where])
    if left is not None:  # between the choice and its validation
        world.shard.gone(left)
        del world.where[left]
    answer, *_news = world.shard.given(GangNominateAsked(1, GANG, 0, nominees)).run()
    if isinstance(answer, GangNominated):
        kept = [pod for one in answer.nominees for pod in unpack(one.victims).tolist()]
        check(world, nodes, kept, is_last=True)
    else:
        rest = {pod for own in victims for pod in own} & set(world.where)
        assert not world.fits(nodes, rest), "the places were good"


@settings(deadline=None, max_examples=60)
@given(SEEDS)
def test_a_gang_whose_members_want_zones_of_their_own_gets_them_if_there_are_enough(
    seed: int,
) -> None:
    world, found, needed = search(seed)
    if world.kind != APART:
        return
    gone = lower(world)
    zones = {zone for at, zone in world.zones.items() if world.fits([at], gone)}
    assert bool(found.places) == (len(zones) >= needed)
