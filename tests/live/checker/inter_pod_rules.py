"""Inter-pod rules, written a second time over plain Kubernetes objects: one pod against all others.

They follow kube-scheduler's PodTopologySpread and InterPodAffinity, and only where these reject a
node.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tests.live.checker.fits import HARD_EFFECTS, CannotJudge, holds, selected, tolerates

Object = Mapping[str, Any]
Pairs = Mapping[str, str]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NO_KEY = "node(s) didn't match pod topology spread constraints (missing required label)"
UNEVEN = "node(s) didn't match pod topology spread constraints"
NOT_NEAR = "node(s) didn't match pod affinity rules"
TOO_NEAR = "node(s) didn't match pod anti-affinity rules"
NOT_WANTED = "node(s) didn't satisfy existing pods anti-affinity rules"


def terms_of(pod: Object, kind: str) -> list[Object]:
    """Return the pod's required terms of `podAffinity` or `podAntiAffinity`."""
    found = (pod["spec"].get("affinity") or {}).get(kind) or {}
    return [_known(term) for term in found.get(REQUIRED) or ()]


def spread_of(pod: Object) -> list[Object]:
    """Return the pod's hard spread constraints."""
    found = pod["spec"].get("topologySpreadConstraints") or ()
    return [_known(one) for one in found if one["whenUnsatisfiable"] == "DoNotSchedule"]


def has_rules(pod: Object) -> bool:
    """Return whether a hard rule of the pod depends on other pods."""
    return bool(spread_of(pod) or terms_of(pod, "podAffinity") or terms_of(pod, "podAntiAffinity"))


def _known(rule: Object) -> Object:
    for name in ("matchLabelKeys", "mismatchLabelKeys"):
        if rule.get(name):
            raise CannotJudge(f"an inter-pod rule has {name}")
    return rule


def _labels(one: Object) -> Pairs:
    return one["metadata"].get("labels") or {}


def matches(selector: Object | None, labels: Pairs) -> bool:
    """Return whether a LabelSelector selects the labels; None selects nothing."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(holds(one, labels) for one in selector.get("matchExpressions") or ())


class Around:
    """What a pod must heed, whichever node it looks at. `stand` are all other pods with their
    nodes, `namespaces` the labels of each.
    """

    def __init__(
        self,
        pod: Object,
        nodes: Iterable[Object],
        stand: Iterable[tuple[Object, Object]],
        namespaces: Mapping[str, Pairs],
    ) -> None:
        """Raises CannotJudge."""
        self._pod, self._namespaces = pod, namespaces
        others = [(other, node["metadata"]["name"], _labels(node)) for other, node in stand]
        self._kept_off = {
            (key, labels[key])
            for other, _, labels in others
            for term in terms_of(other, "podAntiAffinity")
            if (key := term["topologyKey"]) in labels and self._means(term, other, pod)
        }
        self._avoided = {
            (key, labels[key])
            for term in terms_of(pod, "podAntiAffinity")
            for other, _, labels in others
            if (key := term["topologyKey"]) in labels and self._means(term, pod, other, seeks=True)
        }
        self._near = terms_of(pod, "podAffinity")
        self._wanted = {
            (key, labels[key])
            for other, _, labels in others
            if self._near and all(self._means(term, pod, other, seeks=True) for term in self._near)
            for term in self._near
            if (key := term["topologyKey"]) in labels
        }
        own = all(self._means(term, pod, pod, seeks=True) for term in self._near)
        self._is_first = own and not self._wanted
        spread = spread_of(pod)
        keys = [one["topologyKey"] for one in spread]
        counted = [node for node in nodes if all(key in _labels(node) for key in keys)]
        self._spread = [(one, self._counts(one, counted, others)) for one in spread]

    def _means(self, term: Object, owner: Object, other: Object, *, seeks: bool = False) -> bool:
        """Whether a term of the owner is about the other pod. `seeks`: the owner has no node
        yet; then a selector that takes a namespace without labels takes any.
        """
        space = other["metadata"]["namespace"]
        named, chosen = term.get("namespaces") or (), term.get("namespaceSelector")
        if not named and chosen is None:
            is_there = space == owner["metadata"]["namespace"]
        else:
            labels = self._namespaces.get(space, {})
            is_any = seeks and matches(chosen, {})
            is_there = is_any or space in named or matches(chosen, labels)
        return is_there and matches(term.get("labelSelector"), _labels(other))

    def _counts(
        self, one: Object, nodes: list[Object], others: list[tuple[Object, str, Pairs]]
    ) -> Counter[str]:
        """Return the number of matching pods by domain, with 0 for domains without any."""
        key, spec = one["topologyKey"], self._pod["spec"]
        counts: Counter[str] = Counter()
        within = set()
        for node in nodes:
            taints = [t for t in node["spec"].get("taints") or () if t["effect"] in HARD_EFFECTS]
            left_out = (
                one.get("nodeAffinityPolicy", "Honor") == "Honor" and not selected(spec, node)
            ) or (
                one.get("nodeTaintsPolicy", "Ignore") == "Honor"
                and not all(tolerates(spec, taint) for taint in taints)
            )
            if not left_out:
                counts[_labels(node)[key]] += 0
                within.add(node["metadata"]["name"])
        for other, name, labels in others:
            if name in within and self._is_counted(one, other):
                counts[labels[key]] += 1
        return counts

    def _is_counted(self, one: Object, other: Object) -> bool:
        mine, theirs = self._pod["metadata"], other["metadata"]
        if theirs["namespace"] != mine["namespace"] or theirs.get("deletionTimestamp"):
            return False
        selector = one.get("labelSelector")
        # A selector of all pods counts no pod.
        is_empty = not any((selector or {}).get(key) for key in ("matchLabels", "matchExpressions"))
        return not is_empty and matches(selector, _labels(other))

    def why_not(self, node: Object) -> str:
        """Return kube-scheduler's reason of the first rule that rejects; empty if none does."""
        labels = _labels(node)
        for one, counts in self._spread:
            if one["topologyKey"] not in labels:
                return NO_KEY
            is_few = len(counts) < one.get("minDomains", 1)
            least = 0 if is_few else min(counts.values(), default=0)
            own = matches(one.get("labelSelector"), _labels(self._pod))
            if counts[labels[one["topologyKey"]]] + own - least > one["maxSkew"]:
                return UNEVEN
        for term in self._near:
            domain = labels.get(term["topologyKey"])
            if domain is None or not (
                self._is_first or (term["topologyKey"], domain) in self._wanted
            ):
                return NOT_NEAR
        return self.apart(node)

    def apart(self, node: Object) -> str:
        """Return the reason of anti-affinity alone. It does not depend on the order of pods, while
        binds that are sent at once arrive in any order.
        """
        labels = _labels(node)
        if any(labels.get(key) == value for key, value in self._avoided):
            return TOO_NEAR
        if any(labels.get(key) == value for key, value in self._kept_off):
            return NOT_WANTED
        return ""
