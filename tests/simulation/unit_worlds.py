"""Worlds full of groups whose pods leave together, and pods and gangs of higher priority."""

import dataclasses
import random
from collections.abc import Iterator

from msgspec.structs import replace

from muster.simulation.scenario import HEAL_S, PLACEMENTS, Mutation, Scenario, make_scenario
from muster.simulation.worlds import ARRIVALS_MS, GIB, make_spec, make_world
from shared.events.observed import PodsSeen
from shared.model.columns import join
from shared.model.groups.below_minimum import EVICT, SHRINK, WAIT, BelowMinimum
from shared.model.groups.topology import Topology
from shared.model.objects import Gang, PodSpec
from shared.model.world import Arrival, World
from tests.simulation.ruled_worlds import ZONE

LOW = (0, 10, 20)


def make_unit_world(seed: int) -> World:
    """Return a seed's world with units and their preemptors."""
    base, rng, gangs, arrivals = _begun(seed, "units")
    for number, priority, count in _groups(rng):
        is_unit = rng.random() < 0.8
        key = f"default/unit-{number}"
        least = rng.choice((1, 2, count))
        gangs.append(Gang(key=key, min_count=least, is_unit=is_unit, priority=priority))
        arrivals += _pods(rng, f"unit-{number}", count, priority, range(ARRIVALS_MS // 2), key)
    return _with_preemptors(rng, base, f"units-{seed}", gangs, arrivals)


def make_elastic_world(seed: int) -> World:
    """Return a seed's world with groups that keep their minimum, and their preemptors."""
    base, rng, gangs, arrivals = _begun(seed, "elastic")
    early = range(ARRIVALS_MS // 2)
    for number, priority, count in _groups(rng):
        key, least = f"default/elastic-{number}@volcano", rng.randint(2, count)
        gangs.append(Gang(key=key, min_count=least, keeps_minimum=rng.random() < 0.9))
        arrivals += _pods(rng, f"elastic-{number}", count, priority, early, key)
        if rng.random() < 0.2:
            other = priority + rng.choice((0, 1))
            arrivals += _pods(rng, f"more-{number}", 1, other, range(ARRIVALS_MS), key)
    return _with_preemptors(rng, base, f"elastic-{seed}", gangs, arrivals)


def make_falling_world(seed: int) -> World:
    """Return a seed's world with groups that fall below their minimum, and what they say then."""
    base, rng, gangs, arrivals = _begun(seed, "falling")
    early = range(ARRIVALS_MS // 2)
    for number, priority, count in _groups(rng):
        key, rule = f"default/falling-{number}", rng.choice((WAIT, EVICT, EVICT, SHRINK, SHRINK))
        below = BelowMinimum(rule, rng.choice((500, 3_000))) if rule != WAIT else None
        least = rng.randint(2, count)
        gangs.append(Gang(key=key, min_count=least, priority=priority, below_minimum=below))
        arrivals += _pods(rng, f"falling-{number}", count, priority, early, key)
        for more in range(rng.randint(0, 2)):
            arrivals += _pods(rng, f"more-{number}-{more}", 1, priority, range(ARRIVALS_MS), key)
    return _with_preemptors(rng, base, f"falling-{seed}", gangs, arrivals)


def make_growing_world(seed: int) -> World:
    """Return a seed's world with groups of few priorities that grow above a small minimum."""
    base, rng, gangs, arrivals = _begun(seed, "growing")
    for number, _priority, count in _groups(rng):
        key, topology = f"default/growing-{number}", rng.choice((None, None, Topology((ZONE,))))
        gangs.append(Gang(key=key, min_count=rng.randint(1, 2), topology=topology))
        when, priority = range(ARRIVALS_MS // 2), rng.choice((0, 10))
        arrivals += _pods(rng, f"growing-{number}", count, priority, when, key)
        for more in range(rng.randint(0, 3)):
            arrivals += _pods(rng, f"more-{number}-{more}", 2, priority, range(ARRIVALS_MS), key)
    return _with_preemptors(rng, base, f"growing-{seed}", gangs, arrivals)


def make_protected_world(seed: int) -> World:
    """Return a seed's world with groups whose pods run for a while before they may be victims."""
    base, rng, gangs, arrivals = _begun(seed, "protected")
    for number, priority, count in _groups(rng):
        key, run_ms = f"default/protected-{number}", rng.choice((0, 2_000, 6_000))
        is_unit, least = rng.random() < 0.3, rng.randint(1, count)
        gang = Gang(key=key, min_count=least, is_unit=is_unit, priority=priority)
        gangs.append(replace(gang, minimum_run_ms=run_ms))
        when = range(ARRIVALS_MS)
        arrivals += _pods(rng, f"protected-{number}", count, priority, when, key)
    return _with_preemptors(rng, base, f"protected-{seed}", gangs, arrivals)


def make_holding_world(seed: int) -> World:
    """Return a seed's world in which most pods are in groups that keep the places of lost members,
    all pods of a spec in one. Later pods come in the place of earlier ones.
    """
    base, rng, gangs, arrivals = _begun(seed, "holding")
    keys: dict[PodSpec, str] = {}
    for at, one in enumerate(arrivals):
        if one.pods.gang or rng.random() < 0.2:
            continue
        if one.pods.spec not in keys:
            key = keys[one.pods.spec] = f"default/holding-{len(keys)}"
            gang = Gang(key=key, min_count=rng.choice((1, 1, 2, 4)))
            topology = rng.choice((None, None, None, Topology((ZONE,))))
            hold_ms = rng.choice((500, 3_000, 20_000, 60_000))
            gangs.append(replace(gang, topology=topology, replacement_hold_ms=hold_ms))
        arrivals[at] = replace(one, pods=replace(one.pods, gang=keys[one.pods.spec]))
    return _with_preemptors(rng, base, f"holding-{seed}", gangs, arrivals)


def make_holding_scenario(seed: int, placements: int = PLACEMENTS) -> Scenario:
    """Return a seed's scenario of such a world, with many more pods deleted on nodes."""
    made, rng = make_scenario(seed, make_holding_world(seed), placements), random.Random(seed)
    lost = (Mutation(rng.uniform(4, HEAL_S - 1), "delete-bound") for _ in range(12))
    return dataclasses.replace(made, mutations=(*made.mutations, *lost))


def _begun(seed: int, name: str) -> tuple[World, random.Random, list[Gang], list[Arrival]]:
    """Return a seed's world, the source of this name's choices, and what the world has already."""
    base = make_world(seed)
    return base, random.Random(f"{seed}/{name}"), list(base.gangs), list(base.arrivals)


def _groups(rng: random.Random) -> Iterator[tuple[int, int, int]]:
    """Yield number, priority and pods of each group of low priority."""
    for number in range(rng.randint(8, 14)):
        yield number, rng.choice(LOW), rng.randint(2, 6)


def _with_preemptors(
    rng: random.Random, base: World, name: str, gangs: list[Gang], arrivals: list[Arrival]
) -> World:
    late = range(ARRIVALS_MS // 2, ARRIVALS_MS + 3_000)
    for number in range(rng.randint(4, 8)):
        arrivals += _pods(rng, f"above-{number}", rng.randint(1, 3), rng.choice((15, 100)), late)
    for number in range(rng.randint(1, 3)):
        count, key = rng.randint(2, 5), f"default/above-gang-{number}"
        gangs.append(Gang(key=key, min_count=count, timeout_ms=20_000))
        arrivals += _pods(rng, f"above-gang-{number}", count, 200, late, key)
    arrivals.sort(key=lambda one: one.at_ms)
    return replace(base, name=name, arrivals=tuple(arrivals), gangs=tuple(gangs))


def _pods(
    rng: random.Random, name: str, count: int, priority: int, when: range, gang: str = ""
) -> Iterator[Arrival]:
    names = [f"{name}-{number}" for number in range(count)]
    seen = PodsSeen(
        spec=make_spec(rng.choice((500, 1_500, 3_000)), GIB, priority=priority),
        uids=join(f"{one}-uid" for one in names),
        names=join(names),
        revisions=b"",
        labels=(("app", rng.choice(("web", "job"))),),
        gang=gang,
    )
    yield Arrival(at_ms=rng.choice(when), pods=seen)
