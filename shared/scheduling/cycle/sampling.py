"""Sampling: a search that ends when enough nodes fit the pod, as in kube-scheduler with
percentageOfNodesToScore: its order, its number of nodes, and its end.

Only on demand: otherwise every node of a shard is examined.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from shared.model.columns import pack, unpack
from shared.model.ids import NodeId
from shared.model.objects import Node
from shared.model.profile import Profile
from shared.scheduling.table.layout import I64, Mask

NODES_MIN = 100  # at least this many are searched for
PERCENT_MIN = 5  # of the nodes, if the share depends on their number
ZONE = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
REGION = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


class NodeTree:
    """Nodes by zone, in kube-scheduler's order: zones as they first appeared, nodes of a zone as
    they were added. A node that changes its zone is added again.
    """

    def __init__(self) -> None:
        self._zones: dict[str, dict[NodeId, None]] = {}
        self._zone_of: dict[NodeId, str] = {}
        self._listed: I64 | None = None

    def set(self, ids: Iterable[NodeId], nodes: Iterable[Node]) -> None:
        """Add nodes with their labels."""
        for one, node in zip(ids, nodes, strict=True):
            zone = zone_key(node)
            if self._zone_of.get(one) != zone:
                self.remove((one,))
                self._put(zone, one)

    def _put(self, zone: str, one: NodeId) -> None:
        self._zones.setdefault(zone, {})[one] = None
        self._zone_of[one] = zone
        self._listed = None

    def remove(self, ids: Iterable[NodeId]) -> None:
        """Remove nodes; unknown ones are ignored."""
        for one in ids:
            zone = self._zone_of.pop(one, None)
            if zone is not None:
                del self._zones[zone][one]
                if not self._zones[zone]:
                    del self._zones[zone]
                self._listed = None

    def listed(self) -> I64:
        """Return the ids in search order: the first of each zone, the second of each, and so on."""
        if self._listed is None:
            places = [
                (place, number, one)
                for number, zone in enumerate(self._zones.values())
                for place, one in enumerate(zone)
            ]
            self._listed = np.array([one for _, _, one in sorted(places)], np.int64)
        return self._listed

    def dump(self) -> list[tuple[str, bytes]]:
        """Return plain values by zone."""
        return [(zone, pack(nodes)) for zone, nodes in self._zones.items()]

    @classmethod
    def load(cls, saved: Iterable[tuple[str, bytes]]) -> "NodeTree":
        """Restore what `dump` returned."""
        tree = cls()
        for zone, ids in saved:
            for one in unpack(ids).tolist():
                tree._put(zone, one)
        return tree


def zone_key(node: Node) -> str:
    """Return region and zone, empty without either; the old names of the labels have precedence."""
    region, zone = (_first(node, names) for names in (REGION, ZONE))
    return f"{region}:\0:{zone}" if region or zone else ""


def _first(node: Node, names: tuple[str, ...]) -> str:
    found = (node.labels[name] for name in names if name in node.labels)
    return next(found, "")


def samples(profile: Profile) -> bool:
    """Return whether searches for its pods may end before every node was examined."""
    percent = profile.percentage_of_nodes_to_score
    return percent is not None and percent < 100


def wanted(profile: Profile, nodes: int) -> int:
    """Return how many feasible nodes a search among `nodes` nodes looks for."""
    percent = profile.percentage_of_nodes_to_score
    if percent is None:
        return nodes
    if not profile.scores and not profile.extended:
        return 1  # they are all the same
    if nodes < NODES_MIN:
        return nodes
    share = percent or max(50 - nodes // 125, PERCENT_MIN)
    return max(nodes * share // 100, NODES_MIN)


class Search(NamedTuple):
    """The rows on which the pod fits, and all examined rows, both in search order."""

    found: I64
    looked_at: I64


def search(rows: I64, start: int, takes: Mask, most: int) -> Search:
    """Search `rows` of a table, in order from `start` on and round; `takes` has an entry for every
    row of the table. As kube-scheduler with one worker, it continues until one node too many is
    found, so nodes that refuse in between are examined as well.
    """
    if not len(rows):
        return Search(rows, rows)
    turned = np.roll(rows, -(start % len(rows)))
    fits = takes[turned]
    hits = np.flatnonzero(fits)
    end = len(turned) if len(hits) <= most else int(hits[most])
    looked_at = turned[:end]
    return Search(looked_at[fits[:end]], looked_at)
