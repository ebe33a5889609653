"""Which pods a rule between pods means: selectors over labels and namespaces of signatures."""

from collections.abc import Mapping
from typing import NamedTuple

from shared.model.objects import PodSpec, PodTerm, Requirement, Selector

NamespaceLabels = Mapping[str, tuple[tuple[str, str], ...]]
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


def matcher_of(term: PodTerm, owner: PodSpec) -> Matcher:
    """The pods a term of this pod means; without any namespaces they are the pod's own."""
    namespaces = term.namespaces
    if not namespaces and term.namespace_selector is None:
        namespaces = (owner.namespace,)
    return Matcher(term.selector, namespaces, term.namespace_selector)


def holds(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether labels fulfil every requirement."""
    return all(_holds(one, labels.get(one.key)) for one in selector)


def _holds(requirement: Requirement, value: str | None) -> bool:
    if requirement.operator == "In":
        return value in requirement.values
    if requirement.operator == "NotIn":
        return value not in requirement.values
    return (value is not None) == (requirement.operator == "Exists")
