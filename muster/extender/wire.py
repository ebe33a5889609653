"""The JSON of k8s.io/kube-scheduler/extender/v1. Its fields have Go's names."""

from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from shared.kubernetes.objects.structs import Meta, RawPod

SCORE_MAX = 10  # MaxExtenderPriority

Wanted = TypeVar("Wanted")


class Malformed(Exception):
    """A request is not what kube-scheduler sends; the text says where."""


class UnreadablePod(Exception):
    """Muster cannot judge a pod; the text names the field and the rule."""


class _Named(Struct):
    metadata: Meta


class NodeList(Struct):
    """Nodes, undecoded."""

    items: list[Raw] | None = None


class ExtenderArgs(Struct):
    """The question of filter and prioritize. `NodeNames` if the extender is nodeCacheCapable, else
    `Nodes`.
    """

    Pod: Raw
    Nodes: NodeList | None = None
    NodeNames: list[str] | None = None


class MetaPod(Struct):
    """A victim."""

    UID: str


class MetaVictims(Struct):
    """The victims on a node, and how many of them violate budgets."""

    Pods: list[MetaPod] | None = None
    NumPDBViolations: int = 0


class Victims(Struct):
    """The same with the pods themselves."""

    Pods: list[_Named] | None = None
    NumPDBViolations: int = 0

    def meta(self) -> MetaVictims:
        """Return them by uid."""
        uids = [MetaPod(pod.metadata.uid) for pod in self.Pods or ()]
        return MetaVictims(uids, self.NumPDBViolations)


class ExtenderPreemptionArgs(Struct):
    """The question of preempt: the victims by node. `NodeNameToMetaVictims` if the extender is
    nodeCacheCapable, else `NodeNameToVictims`.
    """

    Pod: Raw
    NodeNameToVictims: dict[str, Victims] | None = None
    NodeNameToMetaVictims: dict[str, MetaVictims] | None = None

    def victims(self) -> dict[str, MetaVictims]:
        """Return the victims by node and uid."""
        if self.NodeNameToMetaVictims is not None:
            return self.NodeNameToMetaVictims
        return {node: one.meta() for node, one in (self.NodeNameToVictims or {}).items()}


class ExtenderBindingArgs(Struct):
    """The request to bind."""

    PodName: str
    PodNamespace: str
    PodUID: str
    Node: str


class ExtenderFilterResult(Struct):
    """The answer of filter, in the form of the question."""

    Nodes: dict[str, list[Raw]] | None = None
    NodeNames: list[str] | None = None
    FailedNodes: dict[str, str] = {}
    FailedAndUnresolvableNodes: dict[str, str] = {}
    Error: str = ""

    def may_be_late(self) -> bool:
        """Return whether no node is left, and the end of a pod could change that."""
        kept = self.Nodes["items"] if self.Nodes is not None else self.NodeNames
        return not kept and bool(self.FailedNodes)


class HostPriority(Struct):
    """The score of a node, 0..SCORE_MAX."""

    Host: str
    Score: int


class ExtenderPreemptionResult(Struct):
    """The answer of preempt."""

    NodeNameToMetaVictims: dict[str, MetaVictims]

    def may_be_late(self) -> bool:
        """Return whether no node is left."""
        return not self.NodeNameToMetaVictims


class ExtenderBindingResult(Struct):
    """The answer of bind: why the pod is not bound, or nothing."""

    Error: str = ""


def decoded(body: bytes | Raw, kind: type[Wanted]) -> Wanted:
    """Return a request. Raises Malformed."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise Malformed(f"not the JSON of {kind.__name__}: {error}") from error


def named_nodes(args: ExtenderArgs) -> dict[str, Raw | None]:
    """Return the nodes in question by name, with their objects if these came. Raises Malformed."""
    if args.NodeNames is not None:
        return dict.fromkeys(args.NodeNames)
    if args.Nodes is None:
        raise Malformed("ExtenderArgs has neither NodeNames nor Nodes")
    return {decoded(one, _Named).metadata.name: one for one in args.Nodes.items or ()}


def pod_in(raw: Raw) -> RawPod:
    """Return a request's pod. Raises Malformed, UnreadablePod."""
    if bytes(raw) == b"null":
        raise Malformed("Pod is null")
    try:
        return msgspec.json.decode(raw, type=RawPod)
    except (ValueError, RecursionError) as error:
        raise UnreadablePod(f"muster cannot read the pod: {error}") from error
