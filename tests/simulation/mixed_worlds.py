"""Worlds with all rules at once, in which equal pods come together and among others: taints,
affinity, rules between pods, default spreading, host ports, GPUs, volumes, gangs and preemption.
"""

import random
from collections.abc import Iterator

from msgspec.structs import replace

from muster.simulation.worlds import BALLAST, make_node
from shared.model.cluster_objects import ClusterObject
from shared.model.columns import join, split
from shared.model.objects import PREFER_NO_SCHEDULE, Node, Taint
from shared.model.world import Arrival, World
from shared.simulated.cluster import SimCluster
from tests.simulation.ruled_worlds import make_ruled_world, make_spread_scenario
from tests.simulation.volume_worlds import storage_classes, volume, with_claim

NODES = 12
WITH_CLAIMS = 0.15  # of the arrivals
TAINTED = 0.4  # of the nodes
WAVE_MS = 3_000
"""Arrivals of so many milliseconds come at once."""
PIECE_MAX = 4
"""Pods of one arrival that follow each other."""
CHANGES = 10
CHANGED_UNTIL_S = 18.0
DELETED_MAX = 6


def make_mixed_world(seed: int) -> World:
    """Return a world. In each second one all pods spread by default, so that several shards hold
    no gang.
    """
    rng = random.Random(f"{seed}/mixed")
    world = make_spread_scenario(seed).world if seed % 2 else make_ruled_world(seed)
    objects: list[ClusterObject] = [*world.objects, *storage_classes()]
    objects += [volume(number, rng) for number in range(8)]
    arrivals: list[Arrival] = []
    for number, arrival in enumerate(world.arrivals):
        if arrival.pods.names.startswith(BALLAST):
            continue
        at_once = replace(arrival, at_ms=arrival.at_ms // WAVE_MS * WAVE_MS)
        has_claim = rng.random() < WITH_CLAIMS
        arrivals.append(with_claim(at_once, number, rng, objects) if has_claim else at_once)
    pieces = [piece for arrival in arrivals for piece in _cut(arrival, rng)]
    pieces.sort(key=lambda piece: (piece.at_ms, rng.random()))
    return replace(
        world,
        name=f"mixed-{seed}",
        nodes=tuple(_tainted(node, rng) for node in world.nodes[:NODES]),
        arrivals=tuple(pieces),
        objects=tuple(objects),
    )


def _tainted(node: Node, rng: random.Random) -> Node:
    more = (Taint("old", "", PREFER_NO_SCHEDULE),) if rng.random() < TAINTED else ()
    return replace(node, taints=(*node.taints, *more))


def _cut(arrival: Arrival, rng: random.Random) -> Iterator[Arrival]:
    uids, names = split(arrival.pods.uids), split(arrival.pods.names)
    while uids:
        at = rng.randint(1, PIECE_MAX)
        yield replace(
            arrival, pods=replace(arrival.pods, uids=join(uids[:at]), names=join(names[:at]))
        )
        uids, names = uids[at:], names[at:]


class Changes:
    """Changes of a cluster, drawn from the seed: pods are deleted and ungated, nodes come, are
    cordoned and uncordoned.
    """

    def __init__(self, seed: int, cluster: SimCluster) -> None:
        """Plan them."""
        self._cluster, self._rng = cluster, random.Random(f"{seed}/changes")
        kinds = (self._delete, self._delete, self._ungate, self._add_node, self._cordon)
        times_s = sorted(self._rng.uniform(1, CHANGED_UNTIL_S) for _ in range(CHANGES))
        self.planned = [(at_s, self._rng.choice(kinds)) for at_s in times_s]

    def _delete(self) -> None:
        pods = sorted(self._cluster.pods)
        self._cluster.delete(self._rng.sample(pods, min(len(pods), DELETED_MAX)))

    def _ungate(self) -> None:
        gated = sorted(uid for uid, pod in self._cluster.pods.items() if pod.gated)
        self._cluster.ungate(gated[:DELETED_MAX])

    def _add_node(self) -> None:
        self._cluster.set_node(make_node(100 + len(self._cluster.nodes), self._rng))

    def _cordon(self) -> None:
        node = self._cluster.nodes[self._rng.choice(sorted(self._cluster.nodes))]
        self._cluster.set_node(replace(node, unschedulable=not node.unschedulable))
