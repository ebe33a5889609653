"""Plugins of users after no node was found for a pod: what they see of the nodes and of the pods on
them, and what they may answer. Who may be evicted is not theirs to say: they choose among those.
"""

from collections.abc import Callable, Sequence
from operator import index
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from shared.model.objects import PodSpec
from shared.scheduling.api.custom import Amounts, Nodes, Plugin, Pod
from shared.scheduling.api.custom_steps import asked
from shared.scheduling.table.layout import F64, Mask

if TYPE_CHECKING:
    from shared.scheduling.table.table import NodeTable


class RunningPod(Pod):
    """A pod that may be evicted: `pod[...]` has what the plugin reads. `is_protected`: a disruption
    budget allows no eviction of it. `since_ms`: when it was started on its node, or first known to
    be there.
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
    """The pod shall have this node (its place in the columns) once these pods have left it."""

    node: int
    pods: Sequence[RunningPod]


class Stop(NamedTuple):
    """Nobody goes for the pod, and no other plugin is asked."""

    text: str


class RefusedNodes(Nodes):
    """All n nodes, none of which takes the pod, as columns of shape (n,)."""

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
        """Nodes that refuse the pod for something that the end of pods may mend."""
        return self._may_help.copy()

    def reasons(self) -> list[tuple[str, ...]]:
        """Why each node refuses the pod, in words."""
        return self._reasons()

    def because(self, reason: str) -> Mask:
        """Nodes that refuse the pod for this reason."""
        return np.array([reason in said for said in self._reasons()], np.bool_)

    def allocatable(self, resource: str) -> F64:
        """What pods may have of it. Raises KeyError for one that is not among the `amounts`."""
        return Amounts(self._table.cols, self._table.scored).allocatable(resource)

    def requested(self, resource: str) -> F64:
        """What pods have of it, those on their way counted. Raises KeyError likewise."""
        return Amounts(self._table.cols, self._table.scored).requested(resource)

    def pods(self, node: int) -> list[RunningPod]:
        """Pods on the node that may be evicted for this one, most important first: of a lower
        priority, and not told to go for another pod already.
        """
        return self._pods(index(node))


class Verdict(NamedTuple):
    """What a plugin came to: whom to evict, or a text; `is_last` = no other plugin is asked."""

    evict: Evict | None
    text: str
    is_last: bool


def verdict(plugin: Plugin, spec: PodSpec, nodes: RefusedNodes) -> Verdict:
    """Ask the plugin. One that fails ends the round, as an error of a plugin does."""
    said, wrong = asked(plugin, lambda: plugin.post_filter(Pod(spec, plugin.reads), nodes))
    if wrong:
        return Verdict(None, wrong, is_last=True)
    if isinstance(said, Evict):
        wrong = _wrong(said, nodes)
        if not wrong:
            return Verdict(said, "", is_last=True)
    elif said is None or isinstance(said, str):
        return Verdict(None, said or f"{plugin.name} evicts nobody", is_last=False)
    elif isinstance(said, Stop) and isinstance(said.text, str):
        return Verdict(None, said.text or f"{plugin.name} evicts nobody", is_last=True)
    else:
        wrong = "gave neither Evict, Stop, a text nor None"
    return failed(plugin, wrong)


def failed(plugin: Plugin, what: str) -> Verdict:
    """The plugin's answer is of no use."""
    plugin.errors += 1
    return Verdict(None, f"plugin {plugin.name}: post_filter {what}", is_last=True)


def _wrong(said: Evict, nodes: RefusedNodes) -> str:
    """What is wrong with an answer, "" = nothing."""
    try:
        at, pods = index(said.node), list(said.pods)
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
