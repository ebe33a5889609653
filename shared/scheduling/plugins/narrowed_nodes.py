"""PreFilter of the plugins that try a pod only on the nodes that it names: NodeAffinity where every
required term names nodes (pods of a DaemonSet), and since 1.37 NodeName.
"""

from itertools import compress

import numpy as np

from shared.model.objects import PodSpec, SelectorTerm
from shared.scheduling.plugins.node_affinity import NodeAffinity, is_named, term_matches
from shared.scheduling.plugins.node_name import NodeName
from shared.scheduling.table.layout import Mask
from shared.scheduling.table.table import NodeTable

CONFLICT = "pod affinity terms conflict"
SIMULTANEOUSLY = " simultaneously"
LEFT_OUT = "node(s) didn't satisfy plugin(s) ["


def narrows_to_names(spec: PodSpec) -> bool:
    """Return whether every required term names its nodes."""
    return bool(spec.affinity_required) and all(
        any(map(is_named, term.fields)) for term in spec.affinity_required
    )


def _names_of(term: SelectorTerm) -> frozenset[str]:
    """Return the nodes that every In over the name allows, for a term that has one."""
    named = [need.values for need in term.fields if is_named(need)]
    return frozenset(named[0]).intersection(*named[1:])


class NarrowedNodes:
    """Static filter: the nodes that PreFilter of these plugins, and of no other, leaves out."""

    name = NodeAffinity.name
    reads: tuple[str, ...] = ("affinity_required", "node_name")

    def __init__(self, by: tuple[str, ...], running: tuple[str, ...]) -> None:
        """`by`: these plugins; `running`: those that run at PreFilter."""
        self._by, self._running = by, running
        self._by_affinity, self._by_name = NodeAffinity.name in by, NodeName.name in by
        self.name = by[0]
        self.message = f"{LEFT_OUT}{' '.join(by)}]"

    def narrows(self, spec: PodSpec) -> bool:
        """Return whether exactly these plugins narrow the nodes of the pod."""
        does = {NodeAffinity.name: narrows_to_names(spec), NodeName.name: bool(spec.node_name)}
        return tuple(one for one in self._running if does[one]) == self._by

    def rejects(self, spec: PodSpec) -> str | None:
        """Return what is wrong with the pod on any node: it names none, or no common one."""
        if not self._by_affinity or not self.narrows(spec):
            return None
        names = frozenset[str]().union(*map(_names_of, spec.affinity_required))
        if not names:
            return CONFLICT
        if self._by_name and spec.node_name not in names:
            return f"{self.message}{SIMULTANEOUSLY}"
        return None

    def refuses(self, table: NodeTable, spec: PodSpec) -> Mask | None:
        """Return the nodes that the pod does not name."""
        if not self.narrows(spec):
            return None
        named: Mask = np.full(table.size, not self._by_affinity)
        for term in spec.affinity_required if self._by_affinity else ():
            fields = [need for need in term.fields if need.operator == "In"]
            named |= term_matches(table, SelectorTerm(fields=tuple(fields)))
        others = NodeName().refuses(table, spec) if self._by_name else None
        return np.logical_not(named) if others is None else others | ~named


def narrowings(by_affinity: bool, by_name: bool) -> tuple[NarrowedNodes, ...]:
    """Return a filter for each way in which the plugins that run at PreFilter narrow the nodes."""
    names = NodeAffinity.name, NodeName.name
    running = tuple(compress(names, (by_affinity, by_name)))
    ways = ((one,) for one in running)
    found = [*ways, running] if len(running) > 1 else [*ways]
    return tuple(NarrowedNodes(way, running) for way in found)
