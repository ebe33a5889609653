"""Custom plugins for tests: one rule with columns, and the same rule node by node."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from shared.model.profile import CustomPlugin
from shared.scheduling.api.custom.plugin import (
    HIGHER,
    LOWER,
    PLUGINS,
    Amounts,
    Node,
    Nodes,
    Plugin,
    Pod,
    Registered,
)

SHA256 = "0" * 64


class ByZone(Plugin):
    """Refuses zone x for pods with few cores; scores zones by the length of their names."""

    reads = ("requests.cpu",)
    message = "node(s) were in zone x"
    normalize = HIGHER

    def filter(self, pod: Pod, nodes: Nodes) -> Any:
        return None if pod["requests.cpu"] > 1 else ~nodes.labelled("zone", "x")

    def score(self, pod: Pod, nodes: Nodes) -> Any:
        return nodes.number("size", -1) + 2


class ByZoneEach(Plugin):
    """The same rule, node by node."""

    reads = ("requests.cpu",)
    message = "node(s) were in zone x"
    normalize = HIGHER

    def filter_node(self, pod: Pod, node: Node) -> Any:
        return pod["requests.cpu"] > 1 or node.labels.get("zone") != "x"

    def score_node(self, pod: Pod, node: Node) -> Any:
        text = node.labels.get("size", "")
        digits = text.removeprefix("-")
        return (int(text) if digits.isascii() and digits.isdigit() else -1) + 2


class Tainted(Plugin):
    """A score that is not normalised and skips some pods: whether a node has taints."""

    reads = ("priority", "nodeSelector")

    def pre_filter(self, pod: Pod) -> Any:
        return "pod(s) were of priority 13" if pod["priority"] == 13 else None

    def pre_score(self, pod: Pod) -> Any:
        return not pod["nodeSelector"]

    def score(self, pod: Pod, nodes: Nodes) -> Any:
        return np.where(nodes.tainted("k"), 7, 90)


class FewRacks(Plugin):
    """A score of which lower values are better."""

    normalize = LOWER

    def score(self, pod: Pod, nodes: Nodes) -> Any:
        return nodes.number("size", 5)


class Packs(Plugin):
    """A score by amounts: higher for fuller nodes."""

    reads = ("requests.cpu",)
    amounts = ("cpu", "ephemeral-storage")

    def score(self, pod: Pod, nodes: Amounts) -> Any:
        used = nodes.requested("cpu") + pod["requests.cpu"] + nodes.requested("ephemeral-storage")
        return 100 * used // np.maximum(nodes.allocatable("cpu"), 1)


class Breaks(Plugin):
    """Raises."""

    def filter(self, pod: Pod, nodes: Nodes) -> Any:
        return pod["labels.never"]

    def score(self, pod: Pod, nodes: Nodes) -> Any:
        return np.zeros(len(nodes) + 1, np.int64)


class Seats(Plugin):
    """Reserve: a pod takes the number of seats in its label, a node has the number in its label."""

    reads = ("labels.seats",)
    message = "node(s) had no seats left"

    def reserve(self, pod: Pod) -> Any:
        return int(pod["labels.seats"] or 0)

    def room(self, node: Node) -> Any:
        return int(node.labels.get("seats", "0"))


class HasTeam(Plugin):
    """PreEnqueue: pods wait until they have a team label."""

    reads = ("labels.team",)

    def pre_enqueue(self, pod: Pod) -> Any:
        return None if pod["labels.team"] else "the pod names no team"


class ByRank(Plugin):
    """QueueSort: orders pods by an annotation instead of their priority."""

    reads = ("annotations.rank",)

    def queue_sort(self, pod: Pod) -> Any:
        return int(pod["annotations.rank"] or 0)


class Unsure(Plugin):
    """Raises, or returns an invalid answer, as the label says."""

    reads = ("labels.how",)

    def pre_enqueue(self, pod: Pod) -> Any:
        return {"number": 7, "open": None}[pod["labels.how"]]

    def queue_sort(self, pod: Pod) -> Any:
        return {"float": 1.5, "large": 1 << 62, "open": 3}[pod["labels.how"]]


KINDS = (ByZone, ByZoneEach, Tainted, FewRacks, Packs, Breaks)


@contextmanager
def known(*kinds: type[Plugin]) -> Iterator[tuple[CustomPlugin, ...]]:
    """Register these plugins in this process until the end of the block; yield their entries for a
    profile.
    """
    before = dict(PLUGINS)
    for kind in kinds:
        kind.name = kind.__name__
        PLUGINS[kind.name] = Registered(kind, SHA256)
    try:
        yield tuple(CustomPlugin(kind.name, SHA256, rejects=kind is Tainted) for kind in kinds)
    finally:
        PLUGINS.clear()
        PLUGINS.update(before)
