"""How much of the nodes is used, over time: sums that each bind and each end changes, and their
integrals.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from shared.model.objects import CPU, MEMORY, Node, PodSpec

Amounts = tuple[int, int, int]
"""Thousandths of a CPU, bytes of memory, thousandths of a GPU."""
RESOURCES = ("cpu", "memory", "gpu")
GPU = RESOURCES.index("gpu")


def requested(spec: PodSpec) -> Amounts:
    """Return what a pod requests."""
    gpu = spec.gpu
    gpu_milli = gpu.milli * gpu.count if gpu else 0
    return spec.request(CPU), spec.request(MEMORY), gpu_milli


@dataclass
class _NodeUse:
    has: Amounts
    used: list[int] = field(default_factory=lambda: [0, 0, 0])
    is_up: bool = True

    def free_gpu(self) -> tuple[int, int]:
        """Return the free GPU of a node that is there: all of it, and if the node is partly
        used.
        """
        free = self.has[GPU] - self.used[GPU] if self.is_up else 0
        return free, free if self.used[GPU] else 0


@dataclass
class Sums:
    """Amounts at one time, or their integrals over ms: used and present of each resource; free GPU,
    and the part of it on nodes that are partly used.
    """

    used: list[int] = field(default_factory=lambda: [0, 0, 0])
    present: list[int] = field(default_factory=lambda: [0, 0, 0])
    free_gpu: int = 0
    broken_gpu: int = 0

    def add(self, other: "Sums", times: int = 1) -> None:
        """Add another one, so many times."""
        for place in range(len(RESOURCES)):
            self.used[place] += times * other.used[place]
            self.present[place] += times * other.present[place]
        self.free_gpu += times * other.free_gpu
        self.broken_gpu += times * other.broken_gpu

    def shares(self) -> list[float]:
        """Return the used share of each resource; 0 where there is none of it."""
        pairs = zip(self.used, self.present, strict=True)
        return [used / present if present else 0.0 for used, present in pairs]

    def fragmentation(self) -> float:
        """Return the share of free GPUs on nodes that are partly used: whole nodes are not free."""
        return self.broken_gpu / self.free_gpu if self.free_gpu else 0.0


class Usage:
    """The sums now and since the start; `samples` are integrals, one for each interval."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        """All nodes are there and empty."""
        self._nodes = {node.name: _NodeUse(_allocatable(node)) for node in nodes}
        self._now, self._now_ms = Sums(), 0.0
        self.total, self._interval = Sums(), Sums()
        self.samples: list[Sums] = []
        for node in self._nodes.values():
            self._has(node, 1)

    def charge(self, node: str, amounts: Sequence[int], at_ms: float) -> None:
        """A pod runs on a node from now on."""
        self._change(node, amounts, 1, at_ms)

    def release(self, node: str, amounts: Sequence[int], at_ms: float) -> None:
        """A pod no longer runs on a node."""
        self._change(node, amounts, -1, at_ms)

    def _change(self, node: str, amounts: Sequence[int], sign: int, at_ms: float) -> None:
        self._advance(at_ms)
        one = self._nodes[node]
        self._free(one, -1)
        for place, amount in enumerate(amounts):
            one.used[place] += sign * amount
            self._now.used[place] += sign * amount
        self._free(one, 1)

    def is_up(self, node: str) -> bool:
        """Return whether the node is there."""
        return self._nodes[node].is_up

    def set_up(self, node: str, is_up: bool, at_ms: float) -> None:
        """Note that a node failed or is back."""
        self._advance(at_ms)
        one = self._nodes[node]
        self._has(one, -1)
        one.is_up = is_up
        self._has(one, 1)

    def _has(self, node: _NodeUse, sign: int) -> None:
        for place in range(len(RESOURCES)):
            self._now.present[place] += sign * node.has[place] * node.is_up
        self._free(node, sign)

    def _free(self, node: _NodeUse, sign: int) -> None:
        free, broken = node.free_gpu()
        self._now.free_gpu += sign * free
        self._now.broken_gpu += sign * broken

    def _advance(self, at_ms: float) -> None:
        """Integrate up to a time; what was seen late counts from now on."""
        whole_ms = int(at_ms - self._now_ms)
        if whole_ms > 0:
            self._interval.add(self._now, whole_ms)
            self._now_ms += whole_ms

    def sample(self, at_ms: float) -> Sums:
        """End an interval; return the sums now."""
        self._advance(at_ms)
        self.samples.append(self._interval)
        self.total.add(self._interval)
        self._interval = Sums()
        return self._now


def _allocatable(node: Node) -> Amounts:
    amounts = dict(node.allocatable)
    return amounts.get(CPU, 0), amounts.get(MEMORY, 0), 1000 * node.gpu_count
