"""Worlds whose pods are in queues, on two levels, which change while they run; two of three have
guarantees.
"""

import dataclasses
import random

from msgspec.structs import replace

from muster.simulation.scenario import QUEUES, Mutation, Scenario, make_scenario
from muster.simulation.worlds import make_world
from shared.model.cluster_objects import Namespace, Queue
from shared.model.columns import join, split
from shared.model.queues import QUEUE_LABEL, tree_faults
from shared.model.world import Arrival, World

KINDS = {"cpu": 9_000, "pods": 12, "nvidia.com/gpu": 2_000, "memory": 20 << 30}
NAMES = ("team-a", "team-b", "team-c")


def make_queue_world(seed: int) -> World:
    """Return a seed's world with queues; most pods name one, or one that does not exist."""
    base, rng = make_world(seed), random.Random(f"{seed}/queues")
    tree = [_queue("all", "", rng, 4), *(_queue(name, "all", rng, 1) for name in NAMES)]
    if rng.random() < 0.5:
        tree.append(_queue("default", "", rng, 1))
    if seed % 3:
        tree = _with_guarantees(tree, random.Random(f"{seed}/guarantees"))
    labels = ((QUEUE_LABEL, "team-b"),) if rng.random() < 0.5 else ()
    spaces = (Namespace(uid="default-ns", name="default", labels=labels),)
    arrivals = tuple(part for one in base.arrivals for part in _in_queues(one, rng))
    objects = (*base.objects, *spaces, *tree)
    return replace(base, name=f"queues-{seed}", arrivals=arrivals, objects=objects)


def make_queue_scenario(seed: int, placements: int) -> Scenario:
    """Return the scenario of such a world; queues change meanwhile."""
    rng = random.Random(f"{seed}/queue-changes")
    changes = tuple(Mutation(rng.uniform(1, 20), QUEUES) for _ in range(rng.randint(0, 8)))
    made = make_scenario(seed, make_queue_world(seed), placements)
    return dataclasses.replace(made, mutations=(*made.mutations, *changes))


def _queue(name: str, parent: str, rng: random.Random, size: int) -> Queue:
    chosen = rng.sample(sorted(KINDS), rng.randint(1, 2))
    most = {kind: KINDS[kind] * size * rng.randint(1, 3) // 2 for kind in chosen}
    return Queue(uid=f"{name}-uid", name=name, parent=parent, max=tuple(sorted(most.items())))


def _with_guarantees(tree: list[Queue], rng: random.Random) -> list[Queue]:
    """Return the queues, most of them with a guarantee that the tree can give."""
    for place, queue in enumerate(tree):
        chosen = rng.sample(("cpu", "pods"), rng.randint(0, 2))
        least = {kind: KINDS[kind] * rng.randint(1, 4) // 6 for kind in chosen}
        changed = replace(queue, guaranteed=tuple(sorted(least.items())))
        if not tree_faults([*tree[:place], changed, *tree[place + 1 :]]):
            tree[place] = changed
    return tree


def _in_queues(arrival: Arrival, rng: random.Random) -> list[Arrival]:
    """Return an arrival in two parts with queues of their own."""
    pods = arrival.pods
    names, uids = split(pods.names), split(pods.uids)
    cut = rng.randint(1, len(names))
    parts = []
    for rows in (slice(0, cut), slice(cut, None)):
        if names[rows]:
            queue = rng.choice((*NAMES, *NAMES, "", "all", "gone"))
            labels = (*pods.labels, (QUEUE_LABEL, queue)) if queue else pods.labels
            seen = replace(pods, names=join(names[rows]), uids=join(uids[rows]))
            parts.append(replace(arrival, pods=replace(seen, labels=tuple(sorted(labels)))))
    return parts
