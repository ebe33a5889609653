"""By what a pod is spread where it has no constraints of its own: the selectors of the Services
that select it and of its controller, together (kube-scheduler's DefaultSelector).
"""

from collections.abc import Iterable, Mapping

from shared.adapters.worlds.fields import Fields
from shared.adapters.worlds.pod_rules import selector_of
from shared.model.objects import Requirement, Selector

CONTROLLERS = {
    "ReplicationController": "v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
}
SERVICE = "Service"
SPREADING = (SERVICE, *CONTROLLERS)

Labels = Mapping[str, str]


class Spreaders:
    """Services and controllers by namespace."""

    def __init__(self) -> None:
        """None."""
        self._services: dict[str, list[dict[str, str]]] = {}
        self._controllers: dict[tuple[str, str, str], Selector] = {}

    def add(self, document: Fields) -> None:
        """Take in an object of one of the kinds."""
        kind, spec = document.text("kind"), document.child("spec")
        metadata = document.child("metadata")
        namespace = metadata.text("namespace") or "default"
        if kind == SERVICE:
            selector = spec.mapping("selector")
            if selector:
                self._services.setdefault(namespace, []).append(selector)
            return
        name = metadata.required_text("name")
        if kind == "ReplicationController":
            found: Selector | None = _equal(spec.mapping("selector"))
        else:
            found = selector_of(spec, "selector")
        self._controllers[kind, namespace, name] = found or ()

    def selector(self, metadata: Fields, namespace: str, labels: Labels) -> Selector:
        """What selects the pod; empty = nothing does."""
        wanted: dict[str, str] = {}
        for selector in self._services.get(namespace, ()):
            if selector.items() <= labels.items():
                wanted |= selector
        owner = _controller_of(metadata.children("ownerReferences"))
        found = self._controllers.get((owner[0], namespace, owner[1])) if owner else None
        if owner and owner[0] == "ReplicationController" and found:
            wanted |= {one.key: one.values[0] for one in found}
            found = ()
        every = {*_equal(wanted), *(found or ())}
        return tuple(sorted(every, key=lambda one: (one.key, one.operator, one.values)))


def _equal(labels: Labels) -> Selector:
    return tuple(Requirement(key, "In", (value,)) for key, value in sorted(labels.items()))


def _controller_of(owners: Iterable[Fields]) -> tuple[str, str] | None:
    """(kind, name) of the owner that controls the pod, if it is of a kind that spreads."""
    for owner in owners:
        if owner.flag("controller"):
            kind = owner.text("kind")
            known = CONTROLLERS.get(kind) == owner.text("apiVersion")
            return (kind, owner.required_text("name")) if known else None
    return None
