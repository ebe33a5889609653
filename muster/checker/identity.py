"""Checks that ingest publishes every label and namespace that an inter-pod rule reads."""

from collections import defaultdict
from collections.abc import Iterator

from muster.checker.inputs.facts import Facts
from muster.checker.inputs.history import ClusterHistory
from muster.checker.inputs.journals import Problem
from shared.model.objects import PodSpec, PodTerm, Requirement

ANYWHERE = ""


def check(facts: Facts, history: ClusterHistory) -> Iterator[Problem]:
    """Yield live pods with missing labels. At rest only."""
    live = [pod for pod in history.pods.values() if not pod.deleted and pod.spec.namespace]
    keys: defaultdict[str, set[str]] = defaultdict(set)
    for pod in live:
        for place, selector in _rules(pod.spec):
            keys[place].update(one.key for one in selector)
    for pod in live:
        row = facts.id_of.get(pod.uid, 0)
        published = facts.spec(row)
        asked = keys.keys() & {pod.namespace, ANYWHERE}
        if published is None or not asked:
            continue
        truth = {
            key: value
            for key, value in pod.spec.labels
            if any(key in keys[place] for place in asked)
        }
        if (
            published.namespace != pod.namespace
            or not truth.items() <= dict(published.labels).items()
        ):
            yield (
                "identities-published",
                f"pod {row} ({pod.name}): {truth} matters, published {published.labels}",
            )


def _rules(spec: PodSpec) -> Iterator[tuple[str, tuple[Requirement, ...]]]:
    """Yield (namespace, selector) of each rule of the pod."""
    preferred = (one.term for one in spec.pods_preferred)
    for constraint in spec.spread:
        yield spec.namespace, constraint.selector or ()
    for term in (*spec.pod_anti_affinity, *preferred, *spec.pod_affinity):
        for place in _places(term, spec):
            yield place, term.selector or ()


def _places(term: PodTerm, owner: PodSpec) -> tuple[str, ...]:
    if term.namespace_selector is not None:
        return (ANYWHERE, *term.namespaces)
    return term.namespaces or (owner.namespace,)
