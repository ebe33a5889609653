"""Users' plugins: their base class, their view of pods and nodes, and the registry.

A plugin is asked about all nodes at once, with columns, or about one node after the other. Its
answer depends on its arguments only: the same question has the same answer on every machine, so
that a run can be replayed. Extension points are named as in kube-scheduler.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from msgspec import Struct

from shared.model.objects import CPU, MEMORY, NO_EXECUTE, NO_SCHEDULE, PodSpec, Taint
from shared.model.profile import CustomPlugin
from shared.scheduling.api.custom.args import ArgsWrong, parsed
from shared.scheduling.table.labels import integer
from shared.scheduling.table.layout import ALLOC, F64, I64, USED, Mask

if TYPE_CHECKING:
    from shared.scheduling.api.custom.post_filter import Evict, RefusedNodes, Stop
    from shared.scheduling.table.table import NodeTable

PRE_ENQUEUE, QUEUE_SORT = "preEnqueue", "queueSort"
PRE_FILTER, FILTER, PRE_SCORE, SCORE = "preFilter", "filter", "preScore", "score"
POST_FILTER, RESERVE = "postFilter", "reserve"
PERMIT, PRE_BIND, BIND, POST_BIND = "permit", "preBind", "bind", "postBind"
METHODS = {
    PRE_ENQUEUE: ("pre_enqueue",),
    QUEUE_SORT: ("queue_sort",),
    PRE_FILTER: ("pre_filter",),
    FILTER: ("filter", "filter_node"),
    PRE_SCORE: ("pre_score",),
    SCORE: ("score", "score_node"),
    POST_FILTER: ("post_filter",),
    RESERVE: ("reserve",),
    PERMIT: ("permit",),
    PRE_BIND: ("pre_bind",),
    BIND: ("bind",),
    POST_BIND: ("post_bind",),
}
"""The methods of each extension point; a plugin has at most one of two."""
HIGHER, LOWER = "higher is better", "lower is better"
PRIORITY, SCHEDULER_NAME, NODE_SELECTOR = "priority", "schedulerName", "nodeSelector"
KEYED_PARTS = ("requests.", "labels.", "annotations.")
NAMESPACE = "namespace"
PARTS = (NAMESPACE, PRIORITY, SCHEDULER_NAME, NODE_SELECTOR)
READABLE = f"one of {', '.join(PARTS)}, or a key after {', '.join(KEYED_PARTS)}"
_PAIR = {CPU: 0, MEMORY: 1}


class Pod:
    """A plugin's view of a pod: the parts in its `reads`, as `pod["labels.tier"]`.

    Labels, annotations and the namespace are text, None if absent; requests are integers in base
    units (cpu in milli, memory in bytes); nodeSelector is a mapping.
    """

    __slots__ = ("_parts",)

    def __init__(self, spec: PodSpec, reads: tuple[str, ...]) -> None:
        shown = dict(spec.shown)
        self._parts = {read: _part(spec, shown, read) for read in reads}

    def __getitem__(self, read: str) -> Any:
        """Return the part. Raises KeyError for one that is not in `reads`."""
        return self._parts[read]


def parts_of(spec: PodSpec, reads: tuple[str, ...]) -> tuple[Any, ...]:
    """Return these parts as values that can be compared and hashed."""
    known = dict(spec.shown)
    return tuple(
        spec.node_selector if read == NODE_SELECTOR else _part(spec, known, read) for read in reads
    )


def _part(spec: PodSpec, shown: Mapping[str, str], read: str) -> Any:
    if read.startswith("requests."):
        return spec.request(read.removeprefix("requests."))
    if read == NODE_SELECTOR:
        return dict(spec.node_selector)
    if read in (PRIORITY, SCHEDULER_NAME):
        return spec.priority if read == PRIORITY else spec.scheduler
    return shown.get(read)


class Node(Struct, frozen=True):
    """A plugin's view of one node, for plugins asked node by node."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool


class Nodes:
    """All n nodes of a shard, as columns of shape (n,)."""

    __slots__ = ("_table",)

    def __init__(self, table: "NodeTable") -> None:
        self._table = table

    def __len__(self) -> int:
        return self._table.size

    def named(self, *names: str) -> Mask:
        """Return the nodes with one of these names."""
        return np.array([node.name in names for node in self._table.nodes], np.bool_)

    def labelled(self, key: str, *values: str) -> Mask:
        """Return the nodes that have the label: any value, or one of these."""
        column = self._table.labels(key)
        return column.among(values) if values else column.present()

    def number(self, key: str, default: int = 0) -> I64:
        """Return the label's value as an integer, the default where it is absent or no number."""
        column = self._table.labels(key)
        known = [_integer(value, default) for value in column.values]
        return np.array([*known, default], np.int64)[column.codes]

    def tainted(self, key: str) -> Mask:
        """Return the nodes with a NoSchedule or NoExecute taint of this key."""
        kept = [
            any(one.key == key and one.effect in (NO_SCHEDULE, NO_EXECUTE) for one in taints)
            for taints, _ in self._table.taint_classes
        ]
        return np.array(kept, np.bool_)[self._table.taint_class]

    def each(self) -> list[Node]:
        """Return the nodes one by one, in the order of the columns."""
        return list(self._table.shown())


def _integer(text: str, default: int) -> int:
    value = integer(text) if not text.startswith("+") else None
    return default if value is None else value


class Amounts:
    """Resources of m nodes, shape (m,), in base units; GPUs in milli. Requested amounts include
    every pod on the node or being bound to it, but not the pod being placed. The arrays are copies:
    a plugin may change them.
    """

    __slots__ = ("_cols", "_scored")

    def __init__(self, cols: F64, scored: Mapping[str, tuple[int, int]]) -> None:
        self._cols, self._scored = cols, scored

    def allocatable(self, resource: str) -> F64:
        """Return the allocatable amount. Raises KeyError for a resource that is not in
        `amounts`.
        """
        column: F64 = self._cols[self._columns(resource)[0]].copy()
        return column

    def requested(self, resource: str) -> F64:
        """Return the requested amount. Raises KeyError for a resource that is not in `amounts`."""
        column: F64 = self._cols[self._columns(resource)[1]].copy()
        return column

    def _columns(self, resource: str) -> tuple[int, int]:
        at = _PAIR.get(resource)
        return self._scored[resource] if at is None else (ALLOC + at, USED + at)


class Plugin:
    """Extend it with the methods you need; see docs/reference/plugins.md.

    `reads`: the parts of a pod that decide ("labels.KEY", "annotations.KEY", "namespace",
    "requests.NAME", "priority", "schedulerName", "nodeSelector"); pods that differ in nothing else
    are placed together. `amounts`: resources whose use on the node the score depends on; without
    any, the score depends on the node's object only and is computed once for all equal pods.
    `message`: why `filter` refuses a node. `normalize`: how raw scores of any size become 0..100;
    without it a score is 0..100 and cut to that. A score by amounts is not normalised. `args`: the
    plugin's pluginConfig in the profile, a dict; or of the type that a class gives to `args`.
    """

    name: ClassVar[str] = ""
    reads: ClassVar[tuple[str, ...]] = ()
    amounts: ClassVar[tuple[str, ...]] = ()
    message: ClassVar[str] = ""
    normalize: ClassVar[str] = ""
    args: Any
    # Nothing is decided by these: calls for one node, and failures (see failures.py) as
    # (method, file, line, type) -> (text of the first one, count).
    scalar_calls = 0
    failures: Mapping[tuple[str, str, int, str], tuple[str, int]] = MappingProxyType({})

    def pre_enqueue(self, pod: Pod) -> str | None:
        """Return why the pod may not be queued yet; None: it may."""
        raise NotImplementedError

    def queue_sort(self, pod: Pod) -> int:
        """Return the pod's order in the queue in place of its priority: higher goes first."""
        raise NotImplementedError

    def pre_filter(self, pod: Pod) -> str | None:
        """Return why no node at all fits the pod; None: filter the nodes."""
        raise NotImplementedError

    def filter(self, pod: Pod, nodes: Nodes) -> Mask | None:
        """Return which nodes fit the pod, shape (n,); None: all."""
        raise NotImplementedError

    def filter_node(self, pod: Pod, node: Node) -> bool:
        """Do the same for one node at a time."""
        raise NotImplementedError

    def post_filter(self, pod: Pod, nodes: "RefusedNodes") -> "Evict | Stop | str | None":
        """No node fits the pod: return the pods to evict for it, or why none: a text, or None."""
        raise NotImplementedError

    def pre_score(self, pod: Pod) -> bool:
        """Return whether the plugin scores the pod at all."""
        raise NotImplementedError

    def score(self, pod: Pod, nodes: Any) -> Any:
        """Return scores, shape (n,), integers (or shape (m,) of `Amounts`); None: all are 0."""
        raise NotImplementedError

    def score_node(self, pod: Pod, node: Node) -> int:
        """Do the same for one node at a time."""
        raise NotImplementedError

    def reserve(self, pod: Pod) -> int:
        """Return how much the pod takes of what `room` says nodes have, while it is on its node."""
        raise NotImplementedError

    def room(self, node: Node) -> int:
        """Return how much a node has of it; asked when the node's object changes."""
        raise NotImplementedError

    @property
    def errors(self) -> int:
        """Return how often one of its methods failed."""
        return sum(count for _text, count in self.failures.values())

    @classmethod
    def has(cls, method: str) -> bool:
        """Return whether the plugin has this method."""
        return getattr(cls, method, None) is not getattr(Plugin, method, None)

    @classmethod
    def points(cls) -> tuple[str, ...]:
        """Return the extension points it has methods for."""
        return tuple(point for point, names in METHODS.items() if any(map(cls.has, names)))


class Registered:
    """A plugin and the SHA-256 of its file: journals name it by both and by its arguments; there is
    one instance for each.
    """

    def __init__(self, kind: type[Plugin], sha256: str) -> None:
        self.kind, self.sha256 = kind, sha256
        self.made: dict[str, Plugin] = {}

    @property
    def points(self) -> tuple[str, ...]:
        """Return the extension points it has methods for."""
        return self.kind.points()

    def made_with(self, args: str) -> Plugin:
        """Return the instance with these arguments. Raises ArgsWrong."""
        found = self.made.get(args)
        if found is None:
            found = self.kind.__new__(self.kind)
            found.args = parsed(self.kind, args)
            try:
                found.__init__()  # type: ignore[misc]  # where it may look at them already
            except Exception as error:  # users' code raises anything
                raise ArgsWrong("args", f"{type(error).__name__}: {error}") from error
            self.made[args] = found
        return found


PLUGINS: dict[str, Registered] = {}
"""The plugins of this process by name: filled before any decision, like an import."""


class PluginMissing(Exception):
    """A decision needs a plugin that this process does not have."""


def registered(one: CustomPlugin) -> Plugin:
    """Return the plugin of that name and code, with these arguments. Raises PluginMissing."""
    found = PLUGINS.get(one.name)
    if found is None:
        raise PluginMissing(f"plugin {one.name} is needed: give its file with --plugin")
    if found.sha256 != one.sha256:
        raise PluginMissing(
            f"plugin {one.name} is not the one that was used: the file of --plugin has SHA-256 "
            f"{found.sha256[:12]}, the recorded one {one.sha256[:12]}"
        )
    return found.made_with(one.args)


def metadata_read() -> tuple[str, ...]:
    """Return the parts of pods' metadata that a plugin reads, sorted."""
    reads = {read for one in PLUGINS.values() for read in one.kind.reads}
    metadata = (read for read in reads if read.startswith(("labels.", "annotations.", NAMESPACE)))
    return tuple(sorted(metadata))


def shown(
    reads: tuple[str, ...],
    namespace: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
) -> tuple[tuple[str, str], ...]:
    """Return these parts of a pod, in the form of PodSpec.shown."""
    found = []
    for read in reads:
        group, _, key = read.partition(".")
        value: str | None = namespace
        if read != NAMESPACE:
            value = (labels if group == "labels" else annotations).get(key)
        if value is not None:
            found.append((read, value))
    return tuple(found)
