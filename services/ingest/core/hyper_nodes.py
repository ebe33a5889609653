"""HyperNodes of Volcano: which nodes they have, as labels.

A node is published with these labels (shared/model/groups/hyper_nodes.py); the state keeps the node
as it was observed. A changed HyperNode is matched with all nodes, a changed node with all
HyperNodes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from shared.model.cluster_objects import ClusterObject, HyperNode
from shared.model.groups.hyper_nodes import Trees
from shared.model.objects import Node
from shared.model.pod_rules.selectors import holds

Change = tuple[ClusterObject | None, ClusterObject | None]


class _Selector:
    """Which nodes a HyperNode selects by itself."""

    def __init__(self, one: HyperNode) -> None:
        self._names = frozenset(member.node for member in one.members)
        found = (member.pattern for member in one.members)
        self._patterns = [re.compile(pattern, re.ASCII) for pattern in found if pattern]
        selectors = (member.selector for member in one.members)
        # As in Volcano an empty one selects no node.
        self._selectors = [
            (dict(one.match_labels).items(), one.match_expressions)
            for one in selectors
            if one is not None and (one.match_labels or one.match_expressions)
        ]

    def among(self, nodes: Mapping[str, Node]) -> Iterator[str]:
        """Yield the names of the nodes that are selected, some twice."""
        if self._names:
            yield from filter(self._names.__contains__, nodes)
        for pattern in self._patterns:
            yield from filter(pattern.search, nodes)
        for labels, expressions in self._selectors:
            for name, node in nodes.items():
                if labels <= node.labels.items() and holds(expressions, node.labels):
                    yield name


def with_labels(node: Node, labels: Mapping[str, str]) -> Node:
    """Return a node with these labels, sorted by key as those of a loaded state are."""
    return structs.replace(node, labels=dict(sorted(labels.items())))


class HyperNodes:
    """The HyperNodes, and what follows from them for the nodes that are known."""

    def __init__(self) -> None:
        """Start without HyperNodes."""
        self.trees = Trees(())
        self._by_uid: dict[str, HyperNode] = {}
        self._selectors: dict[str, _Selector] = {}  # by uid
        self._selected: dict[str, dict[str, None]] = {}  # by name of a node: uids
        self._labels: dict[str, dict[str, str]] = {}  # by name of a node

    def put(self, node: Node) -> None:
        """Add or change a node."""
        if not self._selectors:
            return
        alone = {node.name: node}
        found = [uid for uid, one in self._selectors.items() if any(one.among(alone))]
        self._selected[node.name] = dict.fromkeys(found)
        self._label(node.name)

    def drop(self, node: str) -> None:
        """Delete a node."""
        self._selected.pop(node, None)
        self._labels.pop(node, None)

    def change(self, changes: Sequence[Change], nodes: Iterable[Node]) -> list[str]:
        """Change HyperNodes; return the names of those of all `nodes` whose labels are others."""
        by_name = {node.name: node for node in nodes}
        for name in by_name:
            self._selected.setdefault(name, {})
        for before, after in changes:
            if isinstance(before, HyperNode):
                del self._by_uid[before.uid], self._selectors[before.uid]
                for selected in self._selected.values():
                    selected.pop(before.uid, None)
            if isinstance(after, HyperNode):
                self._by_uid[after.uid] = after
                selector = self._selectors[after.uid] = _Selector(after)
                for name in selector.among(by_name):
                    self._selected[name][after.uid] = None
        self.trees = Trees(self._by_uid.values())
        return [name for name in by_name if self._label(name)]

    def labelled(self, node: Node) -> Node:
        """Return a node with the labels of its HyperNodes."""
        labels = self._labels.get(node.name)
        return with_labels(node, node.labels | labels) if labels else node

    def _label(self, node: str) -> bool:
        """Compute a node's labels; return whether they are others than before."""
        found = [self._by_uid[uid] for uid in self._selected[node]]
        usable = sorted({one.name for one in found if one.name not in self.trees.faults})
        before = self._labels.pop(node, {})
        if not usable:
            return bool(before)
        labels = self._labels[node] = self.trees.labels(tuple(usable), node)
        return labels != before
