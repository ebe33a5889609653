"""The default spread of a pod without constraints: the selectors of the Services that select it and
of its controller, together (kube-scheduler's DefaultSelector).
"""

from msgspec import Struct

from shared.model.cluster_objects import (
    LabelSelector,
    Pairs,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from shared.model.objects import Requirement, Selector

CONTROLLERS = {
    "ReplicationController": "v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
}
Spreader = Service | ReplicationController | ReplicaSet | StatefulSet


def owner_of(kind: str, api_version: str, name: str) -> str:
    """Return a pod's controller as KIND/NAME; empty if its kind is not used for default spread."""
    return f"{kind}/{name}" if CONTROLLERS.get(kind) == api_version else ""


def name_of(one: Spreader) -> str:
    """Return the name by which controlled pods refer to it; a Service controls none."""
    return "" if isinstance(one, Service) else f"{type(one).__name__}/{one.name}"


def selects(selector: Pairs, labels: Pairs) -> bool:
    """Return whether a Service selects pods with these labels; without a selector it
    selects none.
    """
    return bool(selector) and all(pair in labels for pair in selector)


class _Selectors(Struct):
    """The selectors of the controllers of one name, by uid: the later object counts."""

    found: dict[str, tuple[Pairs, Selector]]


class Spreaders:
    """Services and controllers. Services are found by one of their labels, so that thousands of
    them cost a pod no more than the few that share a label with it.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._services: dict[tuple[str, str, str], dict[str, Pairs]] = {}
        self._place: dict[str, tuple[str, str, str]] = {}  # index key of a Service, by uid
        self._controllers: dict[tuple[str, str], _Selectors] = {}

    def __bool__(self) -> bool:
        return bool(self._services or self._controllers)

    def put(self, one: Spreader) -> None:
        """Add an object, which must be new."""
        if isinstance(one, Service):
            places = [(one.namespace, *pair) for pair in one.selector]
            if places:  # without a selector it selects no pod
                place = min(places, key=lambda place: len(self._services.get(place, ())))
                self._services.setdefault(place, {})[one.uid] = one.selector
                self._place[one.uid] = place
            return
        key = one.namespace, name_of(one)
        known = self._controllers.setdefault(key, _Selectors({}))
        known.found[one.uid] = _selectors(one)

    def drop(self, one: Spreader) -> None:
        """Remove an object."""
        if isinstance(one, Service):
            place = self._place.pop(one.uid, None)
            if place is not None:
                del self._services[place][one.uid]
                if not self._services[place]:
                    del self._services[place]
            return
        key = one.namespace, name_of(one)
        found = self._controllers[key].found
        del found[one.uid]
        if not found:
            del self._controllers[key]

    def selector(self, namespace: str, labels: Pairs, owner: str) -> Selector:
        """Return what selects a pod with these labels and this owner; empty: nothing does."""
        wanted: dict[str, str] = {}
        for selector in self._selecting(namespace, labels):
            wanted.update(selector)
        known = self._controllers.get((namespace, owner))
        every: set[Requirement] = set()
        if known is not None:
            controller, requirements = known.found[max(known.found)]
            wanted.update(controller)
            every.update(requirements)
        every.update(Requirement(key, "In", (value,)) for key, value in wanted.items())
        return tuple(sorted(every, key=lambda one: (one.key, one.operator, one.values)))

    def _selecting(self, namespace: str, labels: Pairs) -> list[Pairs]:
        if not self._services:
            return []
        return [
            selector
            for pair in labels
            for selector in self._services.get((namespace, *pair), {}).values()
            if selects(selector, labels)
        ]


def _selectors(one: Spreader) -> tuple[Pairs, Selector]:
    """Return the labels that are merged over those of Services, and the further requirements."""
    if not isinstance(one.selector, LabelSelector):
        return one.selector, ()
    labels = (Requirement(key, "In", (value,)) for key, value in one.selector.match_labels)
    return (), (*labels, *one.selector.match_expressions)
