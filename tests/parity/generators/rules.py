"""Features of a case that are rules: taints, selectors, affinity, ports, priorities, namespaces."""

import copy
from collections.abc import Sequence
from random import Random
from typing import TypeVar

from tests.parity.generators.case_builder import Container, Draft, Node, Object, Pod

T = TypeVar("T")

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
DISK, GENERATION, NOWHERE = "disk", "example.com/generation", "example.com/nowhere"
LABELS = (ZONE, DISK, GENERATION, HOSTNAME, NOWHERE)
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
HARD, SOFT, PREFER = "NoSchedule", "NoExecute", "PreferNoSchedule"
TAINT_KEYS = ("dedicated", "example.com/spot", "maintenance")
TAINT_VALUES = ("", "a", "b")
PORTS = (80, 443, 8080)
HOST_IPS = ("", "", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::1")
PROTOCOLS = ("", "TCP", "UDP", "SCTP")
NAMESPACES = ("default", "team-a", "team-b")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def some(draw: Random, items: Sequence[T], least: int = 1) -> list[T]:
    """A few of the items, each at most once."""
    return draw.sample(items, draw.randint(min(least, len(items)), len(items)))


# ------------------------------------------------------------------------------------------ taints


def _taint(draw: Random, effects: Sequence[str]) -> Object:
    taint = {"key": draw.choice(TAINT_KEYS), "effect": draw.choice(effects)}
    value = draw.choice(TAINT_VALUES)
    return taint | ({"value": value} if value else {})


def _put(node: Node, taint: Object) -> None:
    """An API server takes each key and effect once."""
    if all((taint["key"], taint["effect"]) != (old["key"], old["effect"]) for old in node.taints):
        node.taints.append(taint)


def hard_taints(draw: Random, draft: Draft) -> None:
    """Taints that keep pods away, on some nodes."""
    for node in some(draw, draft.nodes):
        for _ in range(draw.randint(1, 2)):
            _put(node, _taint(draw, (HARD, SOFT)))


def soft_taints(draw: Random, draft: Draft) -> None:
    """Up to four taints that cost score, so that the worst node has another number each time."""
    for node in draft.nodes:
        for _ in range(draw.choice((0, 0, 1, 2, 3, 4))):
            _put(node, _taint(draw, (PREFER,)))


def tolerations(draw: Random, draft: Draft) -> None:
    """Tolerations of what is there and of what is not, in every form."""
    if not any(node.taints for node in draft.nodes):
        hard_taints(draw, draft)
        soft_taints(draw, draft)
    taints = [taint for node in draft.nodes for taint in node.taints]
    for pod in draft.pending:
        rules: list[Object] = pod.spec.setdefault("tolerations", [])
        for _ in range(draw.randint(1, 4)):
            there = bool(taints) and draw.random() < 0.7
            taint = draw.choice(taints) if there else _taint(draw, (HARD, SOFT, PREFER))
            rules.append(_toleration(draw, taint))


def _toleration(draw: Random, taint: Object) -> Object:
    effect = draw.choice((taint["effect"], taint["effect"], "", HARD, SOFT, PREFER))
    rule: Object = {"effect": effect} if effect or draw.random() < 0.5 else {}
    form = draw.randrange(9)
    if form == 0:
        rule["operator"] = "Exists"
    elif form <= 2:
        rule |= {"operator": "Exists", "key": taint["key"]}
    else:
        value = draw.choice((taint.get("value", ""), *TAINT_VALUES))
        rule |= {"key": taint["key"], "value": value}
        rule |= {"operator": "Equal"} if draw.random() < 0.5 else {}
    if effect == SOFT and draw.random() < 0.5:
        rule["tolerationSeconds"] = draw.choice((-1, 0, 300))
    return rule


def unschedulable(draw: Random, draft: Draft) -> None:
    """Cordoned nodes, mostly with the taint that a controller adds, and pods that do not mind."""
    for node in some(draw, draft.nodes):
        node.unschedulable = True
        if draw.random() < 0.7:
            node.taints.append({"key": UNSCHEDULABLE, "effect": HARD})
    rules = (
        {"key": UNSCHEDULABLE, "operator": "Exists", "effect": HARD},
        {"key": UNSCHEDULABLE, "operator": "Exists"},
        {"key": UNSCHEDULABLE, "operator": "Equal", "effect": HARD},
        {"key": UNSCHEDULABLE, "operator": "Exists", "effect": SOFT},
        {"operator": "Exists"},
    )
    for pod in draft.pending:
        if draw.random() < 0.6:
            pod.spec.setdefault("tolerations", []).append(draw.choice(rules))


# ---------------------------------------------------------------------------------------- affinity


def _value(draw: Random, draft: Draft, key: str) -> str:
    known = [node.labels[key] for node in draft.nodes if key in node.labels]
    return draw.choice(known) if known and draw.random() < 0.9 else "elsewhere"


def _requirement(draw: Random, draft: Draft) -> Object:
    key = draw.choice(LABELS)
    operator = draw.choice(("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    found: Object = {"key": key, "operator": operator}
    if operator in ("Gt", "Lt"):
        found["key"] = draw.choice((GENERATION, GENERATION, GENERATION, DISK))
        found["values"] = [str(draw.randint(0, 9))]
    elif operator in ("In", "NotIn"):
        found["values"] = [_value(draw, draft, key) for _ in range(draw.randint(1, 3))]
    return found


def _field(draw: Random, draft: Draft, operator: str) -> Object:
    name = draw.choice(draft.nodes).name if draw.random() < 0.9 else "no-such-node"
    return {"key": "metadata.name", "operator": operator, "values": [name]}


def _term(draw: Random, draft: Draft) -> Object:
    if draw.random() < 0.05:
        return {}  # matches nothing
    rules = [_requirement(draw, draft) for _ in range(draw.choice((1, 1, 1, 2, 3)))]
    term: Object = {"matchExpressions": rules}
    if draw.random() < 0.15:
        term["matchFields"] = [_field(draw, draft, draw.choice(("In", "NotIn")))]
    return term


def _affinity(pod: Pod) -> Object:
    affinity: Object = pod.spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    return affinity


def node_selector(draw: Random, draft: Draft) -> None:
    """One or two labels that a node must have."""
    for pod in some(draw, draft.pending):
        keys = draw.sample(LABELS[:3], draw.choice((1, 1, 2)))
        pod.spec["nodeSelector"] = {key: _value(draw, draft, key) for key in keys}


def required_affinity(draw: Random, draft: Draft) -> None:
    """Terms that are ORed, of requirements that are ANDed."""
    for pod in some(draw, draft.pending):
        terms = [_term(draw, draft) for _ in range(draw.choice((1, 1, 2, 3)))]
        _affinity(pod)[REQUIRED] = {"nodeSelectorTerms": terms}


def match_fields(draw: Random, draft: Draft) -> None:
    """Terms that name nodes: one, several, none, all but one, or one that cannot be."""
    for pod in some(draw, draft.pending):
        terms: list[Object] = []
        for _ in range(draw.choice((1, 1, 2, 3))):
            operators = draw.choice((("In",), ("In", "In"), ("NotIn",), ("In", "NotIn")))
            term: Object = {"matchFields": [_field(draw, draft, one) for one in operators]}
            if draw.random() < 0.2:
                term["matchExpressions"] = [_requirement(draw, draft)]
            terms.append(term)
        if draw.random() < 0.1:
            terms.append(_term(draw, draft))
        _affinity(pod)[REQUIRED] = {"nodeSelectorTerms": terms}


def preferred_affinity(draw: Random, draft: Draft) -> None:
    """Weighted terms; equal and extreme weights are frequent."""
    for pod in draft.pending:
        _affinity(pod)[PREFERRED] = [
            {"weight": draw.choice((1, 1, 2, 3, 7, 50, 99, 100)), "preference": _term(draw, draft)}
            for _ in range(draw.choice((1, 3, 4, 5, 6)))
        ]


# ------------------------------------------------------------------------------------------- ports


def _port(draw: Random) -> Object:
    port: Object = {"containerPort": draw.choice(PORTS), "hostPort": draw.choice(PORTS)}
    protocol, address = draw.choice(PROTOCOLS), draw.choice(HOST_IPS)
    port |= {"protocol": protocol} if protocol else {}
    return port | ({"hostIP": address} if address else {})


def _same(one: Object, other: Object) -> bool:
    """Whether an API server would call the two ports of one pod duplicates."""
    defaults = {"protocol": "TCP", "hostIP": ""}
    keys = ("hostPort", "protocol", "hostIP")
    return all(one.get(key, defaults.get(key)) == other.get(key, defaults.get(key)) for key in keys)


def _give(draw: Random, pod: Pod, container: Container) -> None:
    port = _port(draw)
    taken = [old for one in pod.containers for old in one.ports]
    if not any(_same(port, old) for old in taken):
        container.ports.append(port)


def host_ports(draw: Random, draft: Draft) -> None:
    """Few ports and many protocols and addresses, on containers of every kind."""
    for pod in [*some(draw, draft.assigned, 0), *some(draw, draft.pending)]:
        for _ in range(draw.choice((1, 2, 3))):
            _give(draw, pod, draw.choice(pod.containers))


def host_network(draw: Random, draft: Draft) -> None:
    """Pods on the node's own network: each port of a container is a host port by default."""
    for pod in [*some(draw, draft.assigned, 0), *some(draw, draft.pending)]:
        pod.spec["hostNetwork"] = True
        if not any(container.ports for container in pod.containers):
            _give(draw, pod, draw.choice(pod.containers))
        for port in (port for container in pod.containers for port in container.ports):
            port["containerPort"] = port["hostPort"]
            if draw.random() < 0.5:
                del port["hostPort"]


# ------------------------------------------------------------------------ priorities and namespaces


def priorities(draw: Random, draft: Draft) -> None:
    """Classes, one of them perhaps the default; neither filters nor scores may look at them."""
    values = {"low": -10, "high": 1000, "urgent": 1_000_000_000}
    default = draw.choice((*values, None))
    for name, value in values.items():
        found: Object = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        found |= {"metadata": {"name": name}, "value": value}
        found |= {"globalDefault": True} if name == default else {}
        found |= {"preemptionPolicy": "Never"} if draw.random() < 0.2 else {}
        draft.classes.append(found)
    names = (*values, "system-node-critical")
    for pod in draft.pods:
        if draw.random() < 0.6:
            pod.spec["priorityClassName"] = draw.choice(names)


def bystanders(draw: Random, draft: Draft) -> None:
    """Pods that have ended, that are about to end, of another scheduler, on a node that there is
    not, and without a node.
    """
    for pod in some(draw, draft.assigned, 0):
        kind = draw.randrange(5)
        if kind < 2:
            pod.phase = draw.choice(("Succeeded", "Failed"))
        elif kind == 2:
            pod.ends = True
        elif kind == 3:
            pod.node = "node-gone"
        else:
            pod.spec["schedulerName"] = "other-scheduler"
    for pod in some(draw, draft.pending):
        waiting = copy.deepcopy(pod)
        waiting.name = pod.name.replace("pending", "waiting")
        draft.waiting.append(waiting)


def namespaces(draw: Random, draft: Draft) -> None:
    """Pods of several namespaces."""
    for pod in draft.pods:
        pod.namespace = draw.choice(NAMESPACES)
