"""Users' PostFilter plugins: their view of the nodes and pods, and their possible answers. They
choose only among pods that may be evicted.
"""

from collections.abc import Callable, Sequence
from operator import index
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from shared.model.objects import PodSpec
from shared.scheduling.api.custom.failures import count_answer
from shared.scheduling.api.custom.plugin import Amounts, Nodes, Plugin, Pod
from shared.scheduling.api.custom.steps import asked
from shared.scheduling.table.layout import F64, Mask

if TYPE_CHECKING:
    from shared.scheduling.table.table import NodeTable


class RunningPod(Pod):
    """A pod that may be evicted: `pod[...]` has the parts that the plugin reads. `is_protected`: a
    disruption budget does not allow its eviction. `since_ms`: when it was started on its node, or
    first seen there.
    """

    __slots__ = ("is_protected", "number", "priority", "since_ms")

    def __init__(
        self,
        spec: PodSpec,
        reads: tuple[str, ...],
        number: int,
        since_ms: int,
        *,
        is_protected: bool,
    ) -> None:
        super().__init__(spec, reads)
        self.number, self.since_ms, self.priority = number, since_ms, spec.priority
        self.is_protected = is_protected


class Evict(NamedTuple):
    """Nominate this node (its place in the columns) for the pod, and evict these pods from it."""

    node: int
    pods: Sequence[RunningPod]


class Stop(NamedTuple):
    """Evict no pod, and ask no other plugin."""

    text: str


class RefusedNodes(Nodes):
    """All n nodes, none of which fits the pod, as columns of shape (n,)."""

    __slots__ = ("_may_help", "_pods", "_reasons")

    def __init__(
        self,
        table: "NodeTable",
        may_help: Mask,
        reasons: Callable[[], list[tuple[str, ...]]],
        pods: Callable[[int], list[RunningPod]],
    ) -> None:
        super().__init__(table)
        self._may_help, self._reasons, self._pods = may_help, reasons, pods

    def may_help(self) -> Mask:
        """Return the nodes whose refusal preemption may resolve."""
        return self._may_help.copy()

    def reasons(self) -> list[tuple[str, ...]]:
        """Return the reasons of each node's refusal."""
        return self._reasons()

    def because(self, reason: str) -> Mask:
        """Return the nodes that refuse the pod for this reason."""
        return np.array([reason in texts for texts in self._reasons()], np.bool_)

    def allocatable(self, resource: str) -> F64:
        """Return the allocatable amount. Raises KeyError for a resource that is not in
        `amounts`.
        """
        return Amounts(self._table.cols, self._table.scored).allocatable(resource)

    def requested(self, resource: str) -> F64:
        """Return the requested amount, with pods being bound. Raises KeyError for a resource that
        is not in `amounts`.
        """
        return Amounts(self._table.cols, self._table.scored).requested(resource)

    def pods(self, node: int) -> list[RunningPod]:
        """Return the pods on the node that may be evicted for this one, most important first: of
        lower priority, and no victims already.
        """
        return self._pods(index(node))


class Verdict(NamedTuple):
    """A plugin's answer: the pods to evict, or a text; `is_last`: no other plugin is asked."""

    evict: Evict | None
    text: str
    is_last: bool


def verdict(plugin: Plugin, spec: PodSpec, nodes: RefusedNodes) -> Verdict:
    """Ask the plugin and return its verdict. A plugin that fails ends PostFilter with an error."""
    answer, wrong = asked(
        plugin, "post_filter", lambda: plugin.post_filter(Pod(spec, plugin.reads), nodes)
    )
    if wrong:
        return Verdict(None, wrong, is_last=True)
    if isinstance(answer, Evict):
        wrong = _wrong(answer, nodes)
        if not wrong:
            return Verdict(answer, "", is_last=True)
    elif answer is None or isinstance(answer, str):
        return Verdict(None, answer or f"{plugin.name} evicts nobody", is_last=False)
    elif isinstance(answer, Stop) and isinstance(answer.text, str):
        return Verdict(None, answer.text or f"{plugin.name} evicts nobody", is_last=True)
    else:
        wrong = "gave neither Evict, Stop, a text nor None"
    return failed(plugin, wrong)


def failed(plugin: Plugin, what: str) -> Verdict:
    """Return the verdict for an unusable answer."""
    count_answer(plugin, "post_filter", what)
    return Verdict(None, f"plugin {plugin.name}: post_filter {what}", is_last=True)


def _wrong(answer: Evict, nodes: RefusedNodes) -> str:
    """Return what is wrong with an answer; empty: nothing."""
    try:
        at, pods = index(answer.node), list(answer.pods)
    except TypeError:
        return "gave an Evict that is not of a node's place and pods"
    if not 0 <= at < len(nodes):
        return f"gave node {at} of {len(nodes)}"
    if not pods:
        return "gave nobody to evict"
    if not all(isinstance(one, RunningPod) for one in pods):
        return "gave pods that are not from nodes.pods"
    numbers = [one.number for one in pods]
    if len(set(numbers)) < len(numbers):
        return "gave a pod twice"
    if not set(numbers) <= {one.number for one in nodes.pods(at)}:
        return "gave pods that it may not evict on that node"
    return ""
