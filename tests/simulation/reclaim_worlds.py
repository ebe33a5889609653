"""Worlds full of pods of queues that borrow, and of queues that get their guarantees back."""

import dataclasses
import random

from msgspec.structs import replace

from muster.simulation.scenario import QUEUES, Mutation, Scenario, make_scenario
from muster.simulation.worlds import ARRIVALS_MS, GIB, make_spec, make_world
from shared.events.observed import PodsSeen
from shared.model.cluster_objects import Queue
from shared.model.columns import join
from shared.model.objects import Gang
from shared.model.queues import QUEUE_LABEL
from shared.model.world import Arrival, World

TEAMS = ("team-a", "team-b", "team-c", "team-d")


def make_reclaim_world(seed: int) -> World:
    """Return a seed's world; one or two teams borrow most of it before the others come."""
    base, rng = make_world(seed), random.Random(f"{seed}/reclaim")
    tree, gangs, arrivals = _tree(rng), list(base.gangs), list(base.arrivals)
    early, late = range(ARRIVALS_MS // 3), range(ARRIVALS_MS // 2, ARRIVALS_MS + 3_000)
    teams = rng.sample(TEAMS, 4)
    for number in range(rng.randint(8, 12)):
        team = teams[number % rng.choice((1, 2))]
        arrivals.append(_pods(rng, f"early-{number}", rng.randint(4, 8), team, early))
    for number in range(rng.randint(10, 16)):
        team = rng.choice((*teams[1:], *teams, ""))
        arrivals.append(_pods(rng, f"late-{number}", rng.randint(1, 4), team, late))
    for number in range(rng.randint(0, 2)):
        key, count = f"default/gang-{number}", rng.randint(2, 4)
        gangs.append(Gang(key=key, min_count=count, timeout_ms=20_000))
        arrivals.append(_pods(rng, f"gang-{number}", count, rng.choice(teams), late, key))
    arrivals.sort(key=lambda one: one.at_ms)
    return replace(
        base,
        name=f"reclaim-{seed}",
        arrivals=tuple(arrivals),
        gangs=tuple(gangs),
        objects=(*base.objects, *tree),
    )


def make_reclaim_scenario(seed: int, placements: int) -> Scenario:
    """Return the scenario of such a world; sometimes queues change meanwhile."""
    rng = random.Random(f"{seed}/reclaim-changes")
    count = rng.choice((0, 0, 3))
    changes = tuple(Mutation(rng.uniform(1, 20), QUEUES) for _ in range(count))
    made = make_scenario(seed, make_reclaim_world(seed), placements)
    return dataclasses.replace(made, mutations=(*made.mutations, *changes))


def _tree(rng: random.Random) -> list[Queue]:
    """Return one or two levels. Guarantees of the teams are less than the cluster has."""
    part = rng.choice((None, {"cpu": 48_000}, {}))
    parents = {team: "part" if part is not None and rng.random() < 0.5 else "" for team in TEAMS}
    least = {
        team: {
            "cpu": rng.choice((0, 3_000, 6_000, 12_000)),
            "memory": rng.choice((0, 0, 8 * GIB)),
            "pods": rng.choice((0, 0, 5)),
        }
        for team in TEAMS
    }
    tree = [_queue(team, parents[team], least[team]) for team in TEAMS]
    if part is not None:
        tree.append(_queue("part", "", part))
    return tree


def _queue(name: str, parent: str, least: dict[str, int]) -> Queue:
    given = tuple(sorted((kind, amount) for kind, amount in least.items() if amount))
    return Queue(uid=f"{name}-uid", name=name, parent=parent, guaranteed=given)


def _pods(
    rng: random.Random, name: str, count: int, team: str, when: range, gang: str = ""
) -> Arrival:
    cpu, memory = rng.choice((500, 1_000, 2_000, 3_000)), rng.choice((1, 1, 2)) * GIB
    names = [f"{name}-{number}" for number in range(count)]
    seen = PodsSeen(
        spec=make_spec(cpu, memory, priority=rng.choice((0, 0, 10, 20))),
        uids=join(f"uid-{one}" for one in names),
        names=join(names),
        revisions=b"",
        gang=gang,
        labels=((QUEUE_LABEL, team),) if team else (),
    )
    return Arrival(at_ms=rng.choice(when), pods=seen)
