"""Features of a case that are inter-pod rules: topology spread, affinity and anti-affinity."""

from collections.abc import Iterator
from random import Random

from tests.parity.generators.case_builder import Draft, Object, Pod
from tests.parity.generators.rules import (
    DISK,
    HARD,
    HOSTNAME,
    NAMESPACES,
    NOWHERE,
    PREFERRED,
    REQUIRED,
    ZONE,
    some,
)

APP, TIER = "app", "tier"
APPS, TIERS = ("web", "db", "cache"), ("front", "back")
KEYS = (ZONE, ZONE, ZONE, HOSTNAME, HOSTNAME, HOSTNAME, DISK, DISK, NOWHERE)
TEAMS = {"default": "none", "team-a": "red", "team-b": "blue"}


def labelled(draw: Random, draft: Draft) -> None:
    """Labels that selectors ask for, on most pods."""
    for pod in draft.pods:
        if draw.random() < 0.85:
            pod.labels[APP] = draw.choice(APPS)
        if draw.random() < 0.5:
            pod.labels[TIER] = draw.choice(TIERS)


def _needs_labels(draw: Random, draft: Draft) -> None:
    if not any(pod.labels for pod in draft.pods):
        labelled(draw, draft)


def _selector(draw: Random) -> Object:
    """Selectors of every form; some match all pods, some none."""
    form = draw.randrange(12)
    if form == 0:
        return {}
    if form <= 7:
        return {"matchLabels": {APP: draw.choice(APPS)}}
    key, values = draw.choice(((APP, APPS), (TIER, TIERS)))
    operator = draw.choice(("In", "In", "NotIn", "Exists", "DoesNotExist"))
    rule: Object = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        rule["values"] = some(draw, values)
    found: Object = {"matchExpressions": [rule]}
    if form == 11:
        found["matchLabels"] = {APP: draw.choice(APPS)}
    return found


# ---------------------------------------------------------------------------------------- spread


def _spread(draw: Random, draft: Draft, unsatisfiable: str, pods: list[Pod]) -> None:
    _needs_labels(draw, draft)
    for pod in pods:
        rules: list[Object] = pod.spec.setdefault("topologySpreadConstraints", [])
        for key in draw.sample(sorted(set(KEYS)), draw.choice((1, 1, 2, 3))):
            if key == NOWHERE and draw.random() < 0.9:
                continue
            rule: Object = {"topologyKey": key, "whenUnsatisfiable": unsatisfiable}
            rule["maxSkew"] = draw.choice((1, 1, 2, 3, 5))
            if draw.random() < 0.95:
                rule["labelSelector"] = _selector(draw)
                if draw.random() < 0.15:
                    rule["matchLabelKeys"] = [draw.choice((TIER, "none"))]
            if unsatisfiable == "DoNotSchedule" and draw.random() < 0.25:
                rule["minDomains"] = draw.choice((1, 2, 3, 4))
            for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
                if draw.random() < 0.3:
                    rule[policy] = draw.choice(("Honor", "Ignore"))
            rules.append(rule)
        if not rules:
            del pod.spec["topologySpreadConstraints"]


def hard_spread(draw: Random, draft: Draft) -> None:
    """Constraints that refuse; with the policies, taints and selectors matter to the counts."""
    _spread(draw, draft, "DoNotSchedule", draft.pending)
    for node in some(draw, draft.nodes, 0):
        if draw.random() < 0.2:
            node.taints.append({"key": f"spread-{len(node.taints)}", "effect": HARD})


def soft_spread(draw: Random, draft: Draft) -> None:
    """Constraints that score."""
    _spread(draw, draft, "ScheduleAnyway", draft.pending)


# -------------------------------------------------------------------------------------- affinity


def _term(draw: Random) -> Object:
    key = draw.choice(KEYS) if draw.random() < 0.9 else ZONE
    term: Object = {"topologyKey": key}
    if draw.random() < 0.95:
        term["labelSelector"] = _selector(draw)
        if draw.random() < 0.15:
            keys = draw.choice(("matchLabelKeys", "mismatchLabelKeys"))
            term[keys] = [draw.choice((TIER, "none"))]
    if draw.random() < 0.25:
        term["namespaces"] = some(draw, NAMESPACES)
    if draw.random() < 0.2:
        team: Object = {"matchLabels": {"team": draw.choice(("red", "blue", "green"))}}
        term["namespaceSelector"] = draw.choice(({}, team))
    return term


def selected_namespaces(draw: Random, draft: Draft) -> None:
    """Selectors of namespaces get expressions, half of which namespaces without labels meet."""
    for term in _all_terms(draft):
        if "namespaceSelector" in term and draw.random() < 0.6:
            operator = draw.choice(("In", "NotIn", "Exists", "DoesNotExist"))
            rule: Object = {"key": "team", "operator": operator}
            if operator in ("In", "NotIn"):
                rule["values"] = some(draw, ("red", "blue", "green"))
            found: Object = {"matchExpressions": [rule]}
            if draw.random() < 0.15:
                found["matchLabels"] = {"kubernetes.io/metadata.name": draw.choice(NAMESPACES)}
            term["namespaceSelector"] = found


def _all_terms(draft: Draft) -> Iterator[Object]:
    for pod in (*draft.pods, *draft.waiting):
        affinity = pod.spec.get("affinity", {})
        for kind in ("podAffinity", "podAntiAffinity"):
            yield from affinity.get(kind, {}).get(REQUIRED, ())
            for one in affinity.get(kind, {}).get(PREFERRED, ()):
                yield one["podAffinityTerm"]


def _terms(pod: Pod, kind: str, strength: str) -> list[Object]:
    rules = pod.spec.setdefault("affinity", {}).setdefault(kind, {})
    found: list[Object] = rules.setdefault(strength, [])
    return found


def _give(draw: Random, draft: Draft, kind: str, strength: str, pods: list[Pod]) -> None:
    _needs_labels(draw, draft)
    for pod in pods:
        terms = _terms(pod, kind, strength)
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            term = _term(draw)
            if strength == PREFERRED:
                weight = draw.choice((1, 1, 2, 7, 50, 99, 100))
                term = {"weight": weight, "podAffinityTerm": term}
            terms.append(term)


def pod_affinity(draw: Random, draft: Draft) -> None:
    """Pods with required affinity, the first of their kind among them; few match."""
    _give(draw, draft, "podAffinity", REQUIRED, some(draw, draft.pending))
    _give(draw, draft, "podAffinity", REQUIRED, some(draw, draft.assigned, 0)[:8])
    for pod in draft.pending:
        terms = pod.spec.get("affinity", {}).get("podAffinity", {}).get(REQUIRED, ())
        if terms and draw.random() < 0.3:  # nobody like it is there, perhaps
            pod.labels["alone"] = "yes"
            terms[:] = [{"topologyKey": terms[0]["topologyKey"]}]
            terms[0]["labelSelector"] = {"matchLabels": {"alone": draw.choice(("yes", "no"))}}


def pod_anti_affinity(draw: Random, draft: Draft) -> None:
    """Pods with required anti-affinity."""
    _give(draw, draft, "podAntiAffinity", REQUIRED, some(draw, draft.pending))


def existing_anti_affinity(draw: Random, draft: Draft) -> None:
    """Assigned pods with anti-affinity."""
    _give(draw, draft, "podAntiAffinity", REQUIRED, some(draw, draft.assigned, 0)[:6])


def pods_preferred(draw: Random, draft: Draft) -> None:
    """Pods with preferred affinity or anti-affinity, on both sides."""
    for kind in some(draw, ("podAffinity", "podAntiAffinity")):
        _give(draw, draft, kind, PREFERRED, some(draw, draft.pending))
        _give(draw, draft, kind, PREFERRED, some(draw, draft.assigned, 0))


def teams(_draw: Random, draft: Draft) -> None:
    """The namespaces themselves, with labels: as an API server has them in every cluster."""
    for name, team in TEAMS.items():
        labels = {"kubernetes.io/metadata.name": name, "team": team}
        found = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        found["metadata"]["labels"] = labels  # type: ignore[index]
        draft.classes.append(found)


def services(draw: Random, draft: Draft) -> None:
    """Services and controllers that select pods, which are spread by default then."""
    _needs_labels(draw, draft)
    for number, pod in enumerate(some(draw, draft.pending)):
        pod.labels.setdefault(APP, draw.choice(APPS))
        selector = {APP: draw.choice((pod.labels[APP], pod.labels[APP], draw.choice(APPS)))}
        form = draw.randrange(5)
        if form < 3:
            if draw.random() < 0.2 and TIER in pod.labels:
                selector[TIER] = pod.labels[TIER]
            spec: Object = {"selector": selector} if draw.random() < 0.95 else {}
            _add(draft, "v1", "Service", f"service-{number}", pod.namespace, spec)
        if form >= 2:
            kind, version = draw.choice(
                (
                    *(("ReplicaSet", "apps/v1"), ("StatefulSet", "apps/v1")),
                    ("ReplicationController", "v1"),
                )
            )
            given = selector if version == "v1" else {"matchLabels": selector}
            _add(draft, version, kind, f"owner-{number}", pod.namespace, {"selector": given})
            owner = {"apiVersion": version, "kind": kind, "name": f"owner-{number}", "uid": "u"}
            pod.owners.append(owner | {"controller": draw.random() < 0.9})


def _add(draft: Draft, version: str, kind: str, name: str, namespace: str, spec: Object) -> None:
    metadata = {"name": name, "namespace": namespace}
    found = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
    draft.classes.append(found)
