"""Which pods a rule between pods means: selectors over labels and namespaces of signatures."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from shared.model.objects import PodSpec, PodTerm, Selector
from shared.model.selectors import holds

NamespaceLabels = Mapping[str, tuple[tuple[str, str], ...]]
T = TypeVar("T", bound=Hashable)
NAME_LABEL = "kubernetes.io/metadata.name"


class Matcher(NamedTuple):
    """Pods of some namespaces: those named and those whose labels `namespace_selector` matches
    (None = no more than those named). `selector` None matches no pod.
    """

    selector: Selector | None
    namespaces: tuple[str, ...]
    namespace_selector: Selector | None = None

    def matches(self, spec: PodSpec, labels_of: NamespaceLabels) -> bool:
        """Whether the rule means pods of this signature."""
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
"""Where rules and pods are looked up: everywhere, a namespace, or one label in a namespace."""
EVERYWHERE: Place = ()


def looks_at(matcher: Matcher) -> list[Place]:
    """The places where all pods are that a matcher can mean."""
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
    """The places where pods of a signature are; nowhere when nobody looks at them."""
    namespace = spec.namespace
    if not namespace:
        return []
    return [EVERYWHERE, (namespace,), *((namespace, *label) for label in spec.labels)]


class Places(Generic[T]):
    """Things by place, each at several, found in the order in which they came."""

    def __init__(self) -> None:
        self._there: dict[Place, dict[T, None]] = {}

    def add(self, thing: T, places: Iterable[Place]) -> None:
        """It is at these places."""
        for place in places:
            self._there.setdefault(place, {})[thing] = None

    def drop(self, thing: T, places: Iterable[Place]) -> None:
        """It is there no longer."""
        for place in dict.fromkeys(places):
            there = self._there[place]
            del there[thing]
            if not there:
                del self._there[place]

    def at(self, places: Iterable[Place]) -> dict[T, None]:
        """What is at any of these places, each once."""
        found: dict[T, None] = {}
        for place in places:
            found |= self._there.get(place, {})
        return found


def matcher_of(term: PodTerm, owner: PodSpec) -> Matcher:
    """The pods a term of this pod means; without any namespaces they are the pod's own."""
    namespaces = term.namespaces
    if not namespaces and term.namespace_selector is None:
        namespaces = (owner.namespace,)
    return Matcher(term.selector, namespaces, term.namespace_selector)


def sought(term: PodTerm, owner: PodSpec) -> Matcher:
    """The pods a term of the pod that is to be placed means. kube-scheduler holds its selector of
    namespaces against no labels as well: one that asks for none means pods of every namespace.
    """
    if term.namespace_selector is not None and holds(term.namespace_selector, {}):
        return Matcher(term.selector, (), ())
    return matcher_of(term, owner)
