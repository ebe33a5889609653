"""A brute-force Filter over plain Kubernetes objects: one pod, one node, no caches.

It knows the fields that these tests use. For other fields it reports that it cannot say.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

Amounts = Counter[str]
"""Resource -> amount in thousandths, so that every sum is exact."""
_SMALL = {"": Decimal(1), "m": Decimal("1e-3"), "u": Decimal("1e-6"), "n": Decimal("1e-9")}
_LARGE = {letter: Decimal(1000 ** (power + 1)) for power, letter in enumerate("kMGTPE")}
_BINARY = {f"{letter}i": Decimal(1024 ** (power + 1)) for power, letter in enumerate("KMGTPE")}
_SUFFIXES = {**_SMALL, **_LARGE, **_BINARY}
FINISHED = ("Succeeded", "Failed")
HARD_EFFECTS = ("NoSchedule", "NoExecute")
_UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


class CannotJudge(Exception):
    """The pod asks for something that this Filter does not know."""


def thousandths(quantity: str) -> int:
    """A Kubernetes quantity; rounded up, as the API does."""
    number = quantity.rstrip("numkKMGTPEi")
    amount = Decimal(number) * _SUFFIXES[quantity[len(number) :]] * 1000
    return int(amount.to_integral_value("ROUND_CEILING"))


def _amounts(resources: Mapping[str, Any] | None) -> Amounts:
    asked = (resources or {}).get("requests") or {}
    return Counter({name: thousandths(str(amount)) for name, amount in asked.items()})


def requests(pod: Mapping[str, Any]) -> Amounts:
    """Return what a pod takes from its node, including one pod slot."""
    spec = pod["spec"]
    running: Amounts = Counter()
    peak: Amounts = Counter()
    for container in spec.get("initContainers") or ():
        asked = _amounts(container.get("resources"))
        if container.get("restartPolicy") == "Always":
            running += asked
            asked = Counter()
        peak |= running + asked
    for container in spec["containers"]:
        running += _amounts(container.get("resources"))
    total = running | peak
    for name, amount in _amounts(spec.get("resources")).items():
        total[name] = amount
    for name, amount in (spec.get("overhead") or {}).items():
        total[name] += thousandths(str(amount))
    total["pods"] = 1000
    return +total


def holds_its_node(pod: Mapping[str, Any]) -> bool:
    """Return whether the pod takes room: it has a node and has not finished."""
    if pod.get("status", {}).get("phase") in FINISHED:
        return False
    return bool(pod["spec"].get("nodeName"))


def allocatable(node: Mapping[str, Any]) -> Amounts:
    """Return the allocatable amounts of a node."""
    has = node.get("status", {}).get("allocatable") or {}
    return Counter({name: thousandths(str(amount)) for name, amount in has.items()})


def refuse_unknown(pod: Mapping[str, Any]) -> None:
    """Raise CannotJudge for a pod whose node depends on claims."""
    spec = pod["spec"]
    claims = [one for one in spec.get("volumes") or () if "persistentVolumeClaim" in one]
    for what, there in (("volumes", claims), ("resourceClaims", spec.get("resourceClaims"))):
        if there:
            raise CannotJudge(f"pod {pod['metadata']['name']} has {what}")


def why_not(
    pod: Mapping[str, Any],
    node: Mapping[str, Any],
    used: Mapping[str, int],
    beside: Iterable[Mapping[str, Any]],
) -> list[str]:
    """Return kube-scheduler's reasons of the first filter that rejects; empty if the pod fits.
    `used` is the sum of the requests on the node, `beside` are its pods.
    """
    spec = pod["spec"]
    if node["spec"].get("unschedulable") and not tolerates(spec, _UNSCHEDULABLE):
        return ["node(s) were unschedulable"]
    taints = node["spec"].get("taints") or ()
    hard = [taint for taint in taints if taint["effect"] in HARD_EFFECTS]
    if not all(tolerates(spec, taint) for taint in hard):
        return ["node(s) had untolerated taint(s)"]
    if not selected(spec, node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    taken = [port for other in beside for port in _ports(other)]
    if any(_clash(port, other) for port in _ports(pod) for other in taken):
        return ["node(s) didn't have free ports for the requested pod ports"]
    return _too_much(requests(pod), allocatable(node), used)


def _too_much(asked: Amounts, has: Amounts, used: Mapping[str, int]) -> list[str]:
    short = [name for name in asked if used.get(name, 0) + asked[name] > has[name]]
    return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in short]


def tolerates(spec: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    """Return whether a toleration of the pod covers the taint."""
    for one in spec.get("tolerations") or ():
        effect_fits = one.get("effect", "") in ("", taint["effect"])
        if one.get("operator", "Equal") == "Exists":
            value_fits = one.get("key", "") in ("", taint["key"])
        else:
            value_fits = one.get("key") == taint["key"] and one.get("value", "") == taint.get(
                "value", ""
            )
        if effect_fits and value_fits:
            return True
    return False


def selected(spec: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Return whether the pod's nodeSelector and required node affinity allow the node."""
    labels = node["metadata"].get("labels") or {}
    wanted = (spec.get("nodeSelector") or {}).items()
    if any(labels.get(key) != value for key, value in wanted):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    for term in required["nodeSelectorTerms"]:
        rules = [(one, labels) for one in term.get("matchExpressions") or ()]
        rules += [(one, fields) for one in term.get("matchFields") or ()]
        if rules and all(holds(rule, values) for rule, values in rules):
            return True
    return False


def holds(rule: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    """Return whether labels or fields meet one requirement of a selector."""
    found, named = values.get(rule["key"]), rule.get("values") or []
    match rule["operator"]:
        case "In":
            return found in named
        case "NotIn":
            return found not in named
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt":
            return found is not None and int(found) > int(named[0])
        case "Lt":
            return found is not None and int(found) < int(named[0])
    raise CannotJudge(f"operator {rule['operator']}")


def _ports(pod: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    return [
        (port.get("hostIP") or "0.0.0.0", port.get("protocol", "TCP"), port["hostPort"])
        for container in pod["spec"]["containers"]
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]


def _clash(one: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    same_ip = one[0] == other[0] or "0.0.0.0" in (one[0], other[0])
    return same_ip and one[1:] == other[1:]
