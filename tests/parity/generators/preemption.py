"""Cases for preemption: full nodes with pods of several priorities and start times, disruption
budgets, nominated nodes, and pods that fit only after an eviction. Also compares two answers to
them.
"""

from random import Random
from typing import Any

from tests.parity.comparison import compare

Object = dict[str, Any]

CLASSES = {"low": -5, "usual": 10, "high": 100, "urgent": 1000, "patient": 500}
APPS = ("a", "b", "c")
NAMESPACES = ("default", "default", "team")


def case(seed: int) -> Object:
    """One case, with "preempt" set."""
    draw = Random(seed)
    nodes = [_node(draw, f"node-{number}") for number in range(draw.randint(1, 9))]
    starts = list(range(400))
    draw.shuffle(starts)
    objects: list[Object] = [*map(priority_class, CLASSES), *nodes]
    for node in nodes:
        ports = [80]  # held by one pod of a node at most (docs/reference/differences.md)
        for _ in range(draw.choice((1, 2, 4, 6))):
            name = f"placed-{len(objects)}"
            objects.append(_pod(draw, name, ports, node["metadata"]["name"], starts.pop()))
    for _ in range(draw.choice((0, 0, 1, 3))):
        waiting = _pod(draw, f"nominated-{len(objects)}", [])
        limits = waiting["spec"]["containers"][0]["resources"]["limits"]
        limits.pop("nvidia.com/gpu", None)  # without its victims nobody can tell which devices
        waiting["status"] = {"nominatedNodeName": draw.choice(nodes)["metadata"]["name"]}
        objects.append(waiting)
    objects += [_budget(draw, f"budget-{number}") for number in range(draw.choice((0, 1, 2, 4)))]
    asked = [_pod(draw, f"asked-{number}", [80]) for number in range(3)]
    return {"objects": objects, "pods": asked, "preempt": True}


def priority_class(name: str) -> Object:
    """One of the classes."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": CLASSES[name],
        "preemptionPolicy": "Never" if name == "patient" else "PreemptLowerPriority",
    }


def _node(draw: Random, name: str) -> Object:
    amounts = {
        "cpu": draw.choice(("2", "3", "4")),
        "memory": draw.choice(("4Gi", "8Gi")),
        "pods": draw.choice(("3", "110", "110", "110")),
        "nvidia.com/gpu": draw.choice(("0", "0", "2")),
    }
    labels = {"kubernetes.io/hostname": name, "zone": draw.choice("ab")}
    spec: Object = {}
    if draw.random() < 0.1:
        spec["taints"] = [{"key": "dedicated", "effect": "NoSchedule"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _pod(draw: Random, name: str, ports: list[int], node: str = "", start: int = 0) -> Object:
    """Return a pod, which may use one of the ports."""
    amounts = {
        "cpu": draw.choice(("250m", "500m", "1", "2")),
        "memory": draw.choice(("1Gi", "2Gi")),
    }
    if draw.random() < 0.2:
        amounts["nvidia.com/gpu"] = "1"
    taken = [ports.pop()] if ports and draw.random() < 0.15 else []
    resources = {"requests": amounts, "limits": amounts}
    spec: Object = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
    spec["containers"][0]["ports"] = [{"containerPort": one, "hostPort": one} for one in taken]
    labels = {"app": draw.choice(APPS)} if draw.random() < 0.8 else {}
    spec |= _rules(draw)
    classes = [*CLASSES] if node else ["usual", "high", "urgent", "urgent", "urgent", "patient"]
    spec["priorityClassName"] = draw.choice(classes)
    status: Object = {}
    if node:
        spec["nodeName"] = node
        minutes, seconds = divmod(start, 60)
        status = {"phase": "Running", "startTime": f"2026-01-02T03:{minutes:02d}:{seconds:02d}Z"}
    metadata = {"name": name, "namespace": draw.choice(NAMESPACES), "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _rules(draw: Random) -> Object:
    """Inter-pod rules that an eviction can satisfy, or break."""
    kind = draw.choice((*[""] * 8, "podAffinity", "podAntiAffinity", "podAntiAffinity", "spread"))
    key = draw.choice(("kubernetes.io/hostname", "zone"))
    rule: Object = {"topologyKey": key}
    rule["labelSelector"] = {"matchLabels": {"app": draw.choice(APPS)}}
    if kind == "spread":
        rule |= {"maxSkew": draw.choice((1, 2)), "whenUnsatisfiable": "DoNotSchedule"}
        return {"topologySpreadConstraints": [rule]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {kind: {required: [rule]}}} if kind else {}


def _budget(draw: Random, name: str) -> Object:
    selector: Object = {"matchLabels": {"app": draw.choice(APPS)}}
    if draw.random() < 0.3:
        need = {"key": "app", "operator": "In", "values": draw.sample(APPS, 2)}
        selector = {"matchExpressions": [need]}
    if draw.random() < 0.1:
        selector = {}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": draw.choice(NAMESPACES)},
        "spec": {"selector": selector, "minAvailable": 1},
        "status": {"disruptionsAllowed": draw.choice((0, 0, 1, 2))},
    }


def _without(answer: compare.Answer) -> Object:
    pods = answer["pods"]
    return {"pods": [{key: pod[key] for key in pod if key != "preemption"} for pod in pods]}


def rank(case: Object, candidate: Object) -> tuple[int, ...]:
    """Return a candidate's values for pickOneNodeForPreemption's rules, in order; equal values are
    a tie.
    """
    pods = {f"{o['metadata'].get('namespace')}/{o['metadata']['name']}": o for o in case["objects"]}
    victims = [pods[name] for name in candidate["victims"]]
    values = [CLASSES[victim["spec"]["priorityClassName"]] for victim in victims]
    highest = max(values)
    starts = [
        victim["status"].get("startTime", "9999-12-31T23:59:59Z")
        for victim, value in zip(victims, values, strict=True)
        if value == highest
    ]
    earliest = int("".join(filter(str.isdigit, min(starts))))
    total = sum(value + (1 << 31) for value in values)
    return (candidate["violations"], highest, total, len(victims), -earliest)


def differences(case: Object, ours: compare.Answer, theirs: compare.Answer) -> list[str]:
    """Return the differences, those of preemption included."""
    found = compare.differences(_without(ours), _without(theirs))
    for mine, other in zip(ours["pods"], theirs["pods"], strict=True):
        one, two = mine.get("preemption"), dict(other.get("preemption") or ())
        if one is None or not two:
            if one is not None or two:
                found.append(f"{mine['name']}: ours {one}, theirs {two}")
            continue
        assert one.keys() == two.keys() - {"patches"}, f"{[*one]} {[*two]}"
        # Since 1.37 the message names the chosen node, which of equal ones may be another.
        told = two["message"].replace(f"node {two['best']}, ", f"node {one['best']}, ")
        for key, other_value in (("candidates", two["candidates"]), ("message", told)):
            if one[key] != other_value:
                found.append(f"{mine['name']} {key}: ours {one[key]}, theirs {two[key]}")
        if one["best"] == two["best"]:
            if one["evicted"] != two["evicted"]:
                found.append(f"{mine['name']}: {one['evicted']} go, {two['evicted']} do")
        elif one["candidates"] == two["candidates"]:
            ranks = [rank(case, one["candidates"][chosen]) for chosen in (one["best"], two["best"])]
            if ranks[0] != ranks[1]:
                found.append(f"{mine['name']}: {one['best']} {ranks[0]}, {two['best']} {ranks[1]}")
    return found
