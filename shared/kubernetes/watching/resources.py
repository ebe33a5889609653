"""The resources that are watched: where they are served, and how their objects become events.

A reader of a kind turns objects into observations. An object that it cannot use becomes
InputRejected and does not stop the others.
"""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from shared.events.base import Event
from shared.events.observed import (
    BudgetsDeletedSeen,
    BudgetsSeen,
    InputRejected,
    NodesDeletedSeen,
    NodesSeen,
    ObjectsDeletedSeen,
    ObjectsSeen,
)
from shared.kubernetes.client.kinds import Kind
from shared.kubernetes.objects.errors import WorldError
from shared.kubernetes.objects.structs import Meta, RawBudget, RawGroup, RawNode, RawPod
from shared.kubernetes.watching.nodes import Unchanged, budget_from, node_from, what_of
from shared.kubernetes.watching.pods import Pods
from shared.model.cluster_objects import ClusterObject
from shared.model.objects import Budget, Node

PODS_PATH = "/api/v1/pods"
NODES_PATH = "/api/v1/nodes"
BUDGETS_PATH = "/apis/policy/v1/poddisruptionbudgets"
NOT_SUCCEEDED = "fieldSelector=status.phase%21%3DSucceeded"
"""Of the pods that are watched. One that leaves a selector comes as deleted, in its last state
before: with this one that a pod failed still shows.
"""
UNFINISHED = f"{NOT_SUCCEEDED}%2Cstatus.phase%21%3DFailed"

Item = TypeVar("Item")
Value = Node | Budget | ClusterObject


class Reader(Protocol):
    """Turns objects of one kind into events."""

    kind: str
    item: Any

    def seen(self, item: Any) -> None:
        """Read an object that was added or changed."""
        ...

    def gone(self, item: Any) -> None:
        """Read the last state of a deleted object."""
        ...

    def reject(self, what: str, field: str, rule: str) -> None:
        """Reject an object that could not be decoded."""
        ...

    def is_urgent(self) -> bool:
        """Return whether anything read since the last `drain` may move a pod: all but the binds
        and starts of our schedulers' pods.
        """
        ...

    def drain(self) -> list[Event]:
        """Return the events of the objects read since the last call, in order."""
        ...

    def forget(self) -> None:
        """Forget what was reported: a list follows, and reports every object."""
        ...


class PodReader:
    """The reader of pods."""

    kind, item = "Pod", RawPod

    def __init__(self, pods: Pods) -> None:
        """Wrap the gathered pods."""
        self._pods = pods
        self.gone, self.reject = pods.gone, pods.reject
        self.is_urgent, self.drain, self.forget = pods.is_urgent, pods.drain, pods.forget

    def seen(self, item: RawPod) -> None:
        """Read a pod that was added or changed."""
        try:
            self._pods.seen(item)
        except (msgspec.ValidationError, ValueError) as error:
            meta = item.metadata
            self.reject(f"Pod {meta.namespace}/{meta.name}", "metadata", str(error))


class ObjectReader(Generic[Item]):
    """The reader of all kinds but pods and groups: reports an object when its value changes."""

    def __init__(
        self,
        kind: str,
        item: type[Item],
        read: Callable[[Item], Value],
        make_seen: Callable[[list[Any]], Event],
        make_gone: Callable[[str], Event],
    ) -> None:
        """`read` makes an object's value and raises WorldError or msgspec.DecodeError. `make_seen`
        makes the event of values, `make_gone` that of a deleted object's uid.
        """
        self.kind, self.item = kind, item
        self._read, self._make_seen, self._make_gone = read, make_seen, make_gone
        self._unchanged = Unchanged()
        self._events: list[Event] = []
        self._values: list[Value] = []

    def seen(self, item: Any) -> None:
        """Read an object that was added or changed. One that cannot be used is rejected, and counts
        as deleted: it may have been usable before.
        """
        try:
            value = self._read(item)
        except WorldError as error:
            rejection = error.rejection
            self.gone(item)
            self.reject(rejection.what, rejection.field, rejection.rule)
            return
        except msgspec.DecodeError as error:
            self.gone(item)
            self.reject(name_of(self.kind, item.metadata), "", str(error))
            return
        if self._unchanged.is_new(value):
            self._values.append(value)

    def gone(self, item: Any) -> None:
        """Read the last state of a deleted object."""
        self._flush()
        self._unchanged.forget(item.metadata.uid)
        self._events.append(self._make_gone(item.metadata.uid))

    def reject(self, what: str, field: str, rule: str) -> None:
        """Reject an object that cannot be used, in the order of arrival."""
        self._events.append(InputRejected(what, field, rule))

    def is_urgent(self) -> bool:
        """Return whether anything was read since the last `drain`."""
        return bool(self._events or self._values)

    def drain(self) -> list[Event]:
        """Return the events of the objects read since the last call, in order."""
        self._flush()
        events, self._events = self._events, []
        return events

    def forget(self) -> None:
        """Forget what was reported: every object is reported again."""
        self._unchanged.forget()
        self._events.clear()
        self._values.clear()

    def _flush(self) -> None:
        if self._values:
            self._events.append(self._make_seen(self._values))
            self._values = []


class GroupReader:
    """The reader of pod groups as gangs, from whichever objects the server has."""

    def __init__(
        self,
        kind: str,
        make_seen: Callable[[Any], list[Event]],
        make_gone: Callable[[RawGroup], list[Event]],
        item: type[RawGroup] = RawGroup,
    ) -> None:
        """`make_seen` makes the events of an object (it raises WorldError), `make_gone` those of a
        deleted one.
        """
        self.kind, self.item = kind, item
        self._make_seen, self._make_gone = make_seen, make_gone
        self._events: list[Event] = []

    def seen(self, item: RawGroup) -> None:
        """Read an object that was added or changed; reject it if it cannot be used."""
        try:
            self._events.extend(self._make_seen(item))
        except WorldError as error:
            rejection = error.rejection
            self.reject(rejection.what, rejection.field, rejection.rule)

    def gone(self, item: RawGroup) -> None:
        """Read the last state of a deleted object."""
        self._events.extend(self._make_gone(item))

    def reject(self, what: str, field: str, rule: str) -> None:
        """Reject an object."""
        self._events.append(InputRejected(what, field, rule))

    def is_urgent(self) -> bool:
        """Return whether anything was read since the last `drain`."""
        return bool(self._events)

    def drain(self) -> list[Event]:
        """Return the events of the objects read since the last call, in order."""
        events, self._events = self._events, []
        return events

    def forget(self) -> None:
        """Drop the waiting events. Nothing else is remembered: groups are always reported whole."""
        self._events.clear()


def node_reader() -> ObjectReader[RawNode]:
    """Return the reader of nodes."""
    return ObjectReader(
        "Node", RawNode, node_from, lambda nodes: NodesSeen(tuple(nodes)), NodesDeletedSeen
    )


def budget_reader() -> ObjectReader[RawBudget]:
    """Return the reader of disruption budgets."""
    return ObjectReader(
        "PodDisruptionBudget",
        RawBudget,
        budget_from,
        lambda budgets: BudgetsSeen(tuple(budgets)),
        BudgetsDeletedSeen,
    )


def object_reader(kind: Kind) -> ObjectReader[Any]:
    """Return the reader of another kind."""
    return ObjectReader(
        kind.name,
        kind.item,
        kind.value,
        lambda objects: ObjectsSeen(tuple(objects)),
        ObjectsDeletedSeen,
    )


def name_of(kind: str, meta: Meta) -> str:
    """Return an object's name for a rejection."""
    return f"{kind} {meta.namespace}/{meta.name}".replace(" /", " ")


def read_item(reader: Reader, decode: Callable[[bytes], Any], raw: bytes) -> Any:
    """Decode one object. Reject it and return None when it cannot be decoded."""
    try:
        return decode(raw)
    except msgspec.ValidationError as error:
        rule, _, path = str(error).partition(" - at `$.")
        reader.reject(what_of(reader.kind, msgspec.Raw(raw)), path.rstrip("`"), rule)
        return None
