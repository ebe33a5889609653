"""Cases in which the search for nodes may end early: `case(seed)` is the case of the seed with more
nodes, in zones, with a configuration that samples and the index at which the search begins.

The generator draws separately, so that the other cases do not change.
"""

import json
from copy import deepcopy
from random import Random

from tests.parity.generators import cases
from tests.parity.generators.case_builder import Object
from tests.parity.generators.rules import HOSTNAME

NODES = (0, 0, 99, 100, 101, 110, 150)
"""The least number of nodes; of fewer than 100 nodes all are examined."""
SHARES = (0, 1, 5, 30, 55, 70, 90, 99)
ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
REGIONS = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
NAMES = ("default-scheduler", "other-scheduler")


def case(seed: int) -> Object:
    """One case, the same on every machine."""
    draw = Random(f"sampling {seed}")
    found = cases.case(seed)
    nodes = [one for one in found["objects"] if one["kind"] == "Node"]
    others = [one for one in found["objects"] if one["kind"] != "Node"]
    given, wanted = list(nodes), draw.choice(NODES)
    while given and len(nodes) < wanted:
        nodes.append(_like(draw, draw.choice(given), len(nodes), others))
    _zones(draw, nodes)
    draw.shuffle(nodes)
    found["objects"] = [*nodes, *others]
    names = draw.choice((NAMES[:1], NAMES[:1], NAMES))
    # kube-scheduler takes named nodes in the order of a map, so the first pod's node is random.
    has_named = "matchFields" in json.dumps(found)
    for pod in found["pods"]:
        pod["spec"]["schedulerName"] = draw.choice(names)
        if nodes and not has_named and draw.random() < 0.15:
            pod["status"] = {"nominatedNodeName": draw.choice(nodes)["metadata"]["name"]}
    found["config"] = _config(draw, names, may_take_first=not has_named)
    return found | {"startIndex": draw.choice((0, draw.randint(0, 250)))}


def _like(draw: Random, node: Object, number: int, others: list[Object]) -> Object:
    """Add a copy of the node, with some of its pods."""
    made, name = deepcopy(node), node["metadata"]["name"]
    more = made["metadata"]["name"] = f"{name}-{number}"
    labels = made["metadata"].get("labels") or {}
    if labels.get(HOSTNAME) == name:
        labels[HOSTNAME] = more
    mine = [one for one in others if one.get("spec", {}).get("nodeName") == name]
    for pod in mine:
        if draw.random() < 0.4:
            twin = deepcopy(pod)
            twin["metadata"]["name"] += f"-{number}"
            twin["metadata"].pop("uid", None)
            twin["spec"]["nodeName"] = more
            others.append(twin)
    return made


def _zones(draw: Random, nodes: list[Object]) -> None:
    """Label nodes with zones: by new names, old names, both, or not at all."""
    share = draw.choice((0.0, 0.5, 0.9, 1.0))
    for node in nodes:
        labels = node["metadata"].setdefault("labels", {})
        for names, values in ((ZONES, "abc"), (REGIONS, "xy")):
            for name in names if draw.random() < share else ():
                if draw.random() < 0.5:
                    labels[name] = draw.choice(values)


def _config(draw: Random, names: tuple[str, ...], may_take_first: bool) -> Object:
    profiles = []
    for name in names:
        profile: Object = {"schedulerName": name}
        if draw.random() < 0.3:
            profile["percentageOfNodesToScore"] = draw.choice(SHARES)
        if may_take_first and draw.random() < 0.15:
            profile["plugins"] = {"score": {"disabled": [{"name": "*"}]}}
        profiles.append(profile)
    if len(names) > 1 and draw.random() < 0.3:
        profiles[0]["percentageOfNodesToScore"] = 100
        profiles[1].pop("percentageOfNodesToScore", None)
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": draw.choice(SHARES),
        "profiles": profiles,
    }
