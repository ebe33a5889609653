"""Inter-pod rules a second time: one pod against all assigned pods, written to be read.

Follows kube-scheduler's Filter plugins PodTopologySpread and InterPodAffinity; knows no scores.
Specs have a pod's identity (namespace, labels, terminating): all of it, or what some rule reads.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping

from msgspec.structs import replace

from muster.checker.filters.fits import Load, holds, selects, tolerates
from shared.model.objects import Node, PodSpec, PodTerm, Selector, SpreadConstraint
from shared.model.release import V1_37

NAME_LABEL, HOST_LABEL = "kubernetes.io/metadata.name", "kubernetes.io/hostname"

Pairs = tuple[tuple[str, str], ...]
Domain = tuple[str, str | None]


def named(spec: PodSpec, namespace: str, labels: Pairs, terminating: bool = False) -> PodSpec:
    """Return the spec with a pod's namespace and labels."""
    return replace(spec, namespace=namespace, labels=labels, terminating=terminating)


def keeps_to_hosts(spec: PodSpec) -> bool:
    """Return whether each node alone decides all required inter-pod rules of the spec."""
    by_host = all(term.topology_key == HOST_LABEL for term in spec.pod_anti_affinity)
    return by_host and not spec.pod_affinity and not any(one.hard for one in spec.spread)


def reads_widely(
    owner: PodSpec, pod: PodSpec, namespaces: Mapping[str, Pairs], version: str
) -> bool:
    """Return whether required rules of the owner count the pod on more than its node."""
    others = Neighbours((), namespaces, version)
    spread = any(
        one.hard
        and one.selector
        and pod.namespace == owner.namespace
        and _selected(one.selector, pod)
        for one in owner.spread
    )
    terms = owner.pod_affinity
    near = bool(terms) and all(others.means(one, owner, pod, is_sought=True) for one in terms)
    away = any(
        others.means(one, owner, pod, is_sought=True) or others.means(one, owner, pod)
        for one in owner.pod_anti_affinity
        if one.topology_key != HOST_LABEL
    )
    return spread or near or away


class Neighbours:
    """All nodes with their pods. `namespaces`: labels by name, for namespaces with an object.
    `version`: that of the kube-scheduler whose rules apply.
    `is_divided`: several shards place pods, so only rules within a node are applied. `within`: the
    only nodes that a spread counts, by name.
    """

    def __init__(
        self,
        loads: Iterable[tuple[Node, Load]],
        namespaces: Mapping[str, Pairs] | None,
        version: str,
        is_divided: bool = False,
        within: Container[str] | None = None,
    ) -> None:
        """Collect the pods of all nodes."""
        self.namespaces, self.is_divided = namespaces or {}, is_divided
        self.within = within
        self.is_sought_anywhere = version < V1_37
        self.nodes: list[Node] = []
        self.pods: list[tuple[PodSpec, Node]] = []
        for node, load in loads:
            self.nodes.append(node)
            self.pods.extend((spec, node) for spec in load.pods.values())
        self.keeping_away = [(pod, node) for pod, node in self.pods if pod.pod_anti_affinity]

    def means(
        self, term: PodTerm, owner: PodSpec, pod: PodSpec, *, is_sought: bool = False
    ) -> bool:
        """Return whether the owner's term selects the pod. `is_sought`: the owner looks for a node;
        then kube-scheduler until 1.36 selects any namespace if the selector matches one without
        labels.
        """
        if not _selected(term.selector, pod):
            return False
        if pod.namespace in term.namespaces:
            return True
        if term.namespace_selector is None:
            return not term.namespaces and pod.namespace == owner.namespace
        anywhere = is_sought and self.is_sought_anywhere
        if anywhere and all(holds(need, {}) for need in term.namespace_selector):
            return True
        by_name = ((NAME_LABEL, pod.namespace),)
        labels = dict(self.namespaces.get(pod.namespace, by_name))
        return all(holds(need, labels) for need in term.namespace_selector)


def _selected(selector: Selector | None, pod: PodSpec) -> bool:
    return selector is not None and all(holds(need, dict(pod.labels)) for need in selector)


class Around:
    """The inter-pod rules that apply to one pod on any node."""

    def __init__(self, spec: PodSpec, others: Neighbours) -> None:
        """`spec` is not on any node."""
        self.spec = spec
        self.forbidden = {
            (term.topology_key, node.labels[term.topology_key])
            for pod, node in others.keeping_away
            for term in pod.pod_anti_affinity
            if term.topology_key in node.labels and others.means(term, pod, spec)
            if not others.is_divided or term.topology_key == HOST_LABEL
        }
        self.unwanted = {
            (term.topology_key, node.labels[term.topology_key])
            for term in spec.pod_anti_affinity
            for pod, node in others.pods
            if term.topology_key in node.labels and others.means(term, spec, pod, is_sought=True)
        }
        self.wanted: set[Domain] = set()
        self.is_first = False  # the pod may be the first one that the others must be near to
        if spec.pod_affinity:
            self._look_for(others)
        hard = [one for one in spec.spread if one.hard]
        self.spread = [(one, self._counted(one, hard, others)) for one in hard]

    def _look_for(self, others: Neighbours) -> None:
        terms = self.spec.pod_affinity
        for pod, node in others.pods:
            if all(others.means(term, self.spec, pod, is_sought=True) for term in terms):
                keys = [term.topology_key for term in terms if term.topology_key in node.labels]
                self.wanted.update((key, node.labels[key]) for key in keys)
        selects_itself = all(
            others.means(term, self.spec, self.spec, is_sought=True) for term in terms
        )
        self.is_first = selects_itself and not self.wanted

    def _counted(
        self, one: SpreadConstraint, hard: list[SpreadConstraint], others: Neighbours
    ) -> Counter[str]:
        """Return the matching pods by domain, with 0 for domains without any. A constraint whose
        selector is empty counts no pod.
        """
        counts: Counter[str] = Counter()
        counted = [
            node.name
            for node in others.nodes
            if others.within is None or node.name in others.within
            if all(other.topology_key in node.labels for other in hard)
            and (not one.honor_affinity or selects(self.spec, node))
            and (not one.honor_taints or tolerates(self.spec, node.taints))
        ]
        for node in others.nodes:
            if node.name in counted:
                counts[node.labels[one.topology_key]] += 0
        if not one.selector:
            return counts
        for pod, node in others.pods:
            if node.name in counted and pod.namespace == self.spec.namespace:
                is_meant = not pod.terminating and _selected(one.selector, pod)
                counts[node.labels[one.topology_key]] += is_meant
        return counts

    def obstacle(self, node: Node) -> str | None:
        """Return the first rule that keeps the pod off the node, or None."""
        for one, counts in self.spread:
            if one.topology_key not in node.labels:
                return f"spread: no {one.topology_key}"
            least = min(counts.values()) if len(counts) >= one.min_domains else 0
            here = counts[node.labels[one.topology_key]] + _selected(one.selector, self.spec)
            if here - least > one.max_skew:
                return f"spread over {one.topology_key}"
        for term in self.spec.pod_affinity:
            domain = (term.topology_key, node.labels.get(term.topology_key))
            if domain not in self.wanted and not (self.is_first and domain[1] is not None):
                return f"affinity in {term.topology_key}"
        for refused, why in ((self.unwanted, "anti-affinity"), (self.forbidden, "kept away")):
            found = [key for key, value in refused if node.labels.get(key) == value]
            if found:
                return f"{why} in {min(found)}"
        return None
