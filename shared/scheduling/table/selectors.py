"""Selectors of inter-pod rules over labels and namespaces of signatures."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from shared.model.objects import PodSpec, PodTerm, Selector
from shared.model.pod_rules.selectors import holds

NamespaceLabels = Mapping[str, tuple[tuple[str, str], ...]]
T = TypeVar("T", bound=Hashable)
NAME_LABEL = "kubernetes.io/metadata.name"


class Matcher(NamedTuple):
    """Pods of some namespaces: those named, and those whose labels `namespace_selector` matches
    (None: only those named). `selector` None matches no pod.
    """

    selector: Selector | None
    namespaces: tuple[str, ...]
    namespace_selector: Selector | None = None

    def matches(self, spec: PodSpec, labels_of: NamespaceLabels) -> bool:
        """Return whether the rule selects pods of this signature."""
        if self.selector is None or not spec.namespace:
            return False
        if spec.namespace not in self.namespaces:
            if self.namespace_selector is None:
                return False
            labels = dict(labels_of.get(spec.namespace, ((NAME_LABEL, spec.namespace),)))
            if not holds(self.namespace_selector, labels):
                return False
        return holds(self.selector, dict(spec.labels))


Place = tuple[str, ...]
"""The index keys of rules and pods: everywhere, a namespace, or one label in a namespace."""
EVERYWHERE: Place = ()


def places_of_matcher(matcher: Matcher) -> list[Place]:
    """Return the places that contain all pods a matcher can select."""
    if matcher.selector is None:
        return []
    if matcher.namespace_selector is not None:
        return [EVERYWHERE]
    label = next((one for one in matcher.selector if one.operator == "In"), None)
    if label is None:
        return [(namespace,) for namespace in matcher.namespaces]
    return [
        (namespace, label.key, value) for namespace in matcher.namespaces for value in label.values
    ]


def places_of(spec: PodSpec) -> list[Place]:
    """Return the places of pods of a signature; none if no rule reads them."""
    namespace = spec.namespace
    if not namespace:
        return []
    return [EVERYWHERE, (namespace,), *((namespace, *label) for label in spec.labels)]


class Places(Generic[T]):
    """Things by place, each at several places, found in order of insertion."""

    def __init__(self) -> None:
        self._there: dict[Place, dict[T, None]] = {}

    def add(self, thing: T, places: Iterable[Place]) -> None:
        """Add a thing at these places."""
        for place in places:
            self._there.setdefault(place, {})[thing] = None

    def drop(self, thing: T, places: Iterable[Place]) -> None:
        """Remove a thing from these places."""
        for place in dict.fromkeys(places):
            there = self._there[place]
            del there[thing]
            if not there:
                del self._there[place]

    def at(self, places: Iterable[Place]) -> dict[T, None]:
        """Return the things at any of these places, each once."""
        found: dict[T, None] = {}
        for place in places:
            found |= self._there.get(place, {})
        return found


def matcher_of(term: PodTerm, owner: PodSpec) -> Matcher:
    """Return the matcher of a pod's term; without namespaces it selects the pod's own."""
    namespaces = term.namespaces
    if not namespaces and term.namespace_selector is None:
        namespaces = (owner.namespace,)
    return Matcher(term.selector, namespaces, term.namespace_selector)


def sought(term: PodTerm, owner: PodSpec) -> Matcher:
    """Return the matcher of a term of the pod to be placed, as up to 1.36: kube-scheduler also
    matches its namespace selector with no labels, so one that requires none selects pods of every
    namespace.
    """
    if term.namespace_selector is not None and holds(term.namespace_selector, {}):
        return Matcher(term.selector, (), ())
    return matcher_of(term, owner)
