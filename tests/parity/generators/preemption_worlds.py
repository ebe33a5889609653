"""Worlds for whole runs with preemption: nodes that fill with pods of several priorities,
disruption budgets, and later pods that fit only after an eviction.
"""

from random import Random

from tests.parity.comparison.mesh_runs import World
from tests.parity.generators.case_builder import Object
from tests.parity.generators.preemption import APPS, CLASSES, priority_class

AMOUNTS = (("250m", 250), ("500m", 500), ("500m", 500), ("1", 1000))
WAVES = 4
WAVE_S = 20
"""Seconds for victims to leave, and for waiting pods to be retried."""
LASTS_S = (WAVES + 1) * WAVE_S

KINDS = ("usual", "high", "high", "urgent", "urgent", "patient")


def preempt_world(seed: int, between: bool = False, kinds: tuple[int, ...] = (1, 2)) -> World:
    """Full nodes, and then waves of so many `kinds` of pods, alone or several alike, from low
    priorities to high ones; with `between`, inter-pod rules of a node as well.
    """
    draw, made = Random(f"{seed}/preempt"), World()
    made.selecting = [*map(priority_class, CLASSES)]
    for number in range(draw.randint(6, 9)):
        _add_node(draw, made, f"node-{number}", between)
    for number in range(draw.choice((1, 2, 3))):
        made.selecting.append(_budget(draw, f"budget-{number}"))
    for number in range(draw.randint(2, 5)):
        spec = _spec(draw, "low", draw.choice(("250m", "500m")))
        _add(made, f"filler-{number}", spec, draw.choice(APPS), 0)
    for wave in range(1, WAVES + 1):
        for kind in range(draw.choice(kinds)):
            amount = draw.choice(("500m", "1", "1500m", "2"))
            spec = _spec(draw, draw.choice(KINDS), amount, between, draw.random() < 0.2)
            app = draw.choice(APPS)
            for number in range(draw.choice((1, 1, 3, 5))):
                _add(made, f"wave-{wave}-{kind}-{number}", spec, app, wave * WAVE_S)
    return made


def _add_node(draw: Random, made: World, name: str, between: bool) -> None:
    """A node, and pods that leave little room on it."""
    cores = draw.choice((2, 3, 4))
    amounts = {"cpu": str(cores), "memory": "8Gi", "pods": draw.choice(("110", "110", "6"))}
    labels = {"kubernetes.io/hostname": name, "zone": draw.choice("ab")}
    made.nodes[name] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"allocatable": amounts, "capacity": amounts},
    }
    left, port = cores * 1000, draw.random() < 0.3
    for number in range(6):
        amount, milli = draw.choice(AMOUNTS)
        if milli > left:
            break
        left -= milli
        classes = ("low", "low", "usual", "usual", "high", "urgent")
        holds = port and not number  # one pod of a node at most (docs/reference/differences.md)
        spec = _spec(draw, draw.choice(classes), amount, between, holds)
        _add(made, f"{name}-{number}", spec | {"nodeName": name}, draw.choice(APPS), 0)


def _add(made: World, name: str, spec: Object, app: str, after_s: int) -> None:
    made.pods[f"default/{name}"] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"app": app},
            "annotations": {"muster.io/arrives-after": f"{after_s}s"} if after_s else {},
        },
        "spec": spec,
    }


def _spec(
    draw: Random, name: str, amount: str, between: bool = False, port: bool = False
) -> Object:
    requests = {"cpu": amount, "memory": draw.choice(("256Mi", "1Gi"))}
    container: Object = {"name": "c", "image": "i", "resources": {"requests": requests}}
    if port:
        container["ports"] = [{"containerPort": 80, "hostPort": 80}]
    spec: Object = {"containers": [container], "priorityClassName": name}
    if draw.random() < 0.15:
        spec["nodeSelector"] = {"zone": draw.choice("ab")}
    if between and draw.random() < 0.4:
        selector = {"matchLabels": {"app": draw.choice(APPS)}}
        rule = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}
        spec["affinity"] = {"podAntiAffinity": required}
    return spec


def _budget(draw: Random, name: str) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": draw.choice(APPS)}}, "minAvailable": 1},
        "status": {"disruptionsAllowed": draw.choice((0, 1, 2, 3))},
    }
