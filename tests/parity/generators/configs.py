"""Configurations for the comparison with kube-scheduler: `configured(seed)` is a case with one.

The case is that of the seed, apart from the schedulerNames of its pending pods. A configuration has
one to three profiles; each changes one or several things.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from tests.parity.generators import preemption
from tests.parity.generators.case_builder import (
    CPU,
    GADGET,
    GPU,
    HUGE_PAGES,
    MEMORY,
    PODS,
    STORAGE,
    WIDGET,
    Object,
)
from tests.parity.generators.cases import case
from tests.parity.generators.inter_pod_rules import APP, APPS
from tests.parity.generators.rules import DISK, GENERATION, HOSTNAME, ZONE

FILTERS = (
    *("NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "PodTopologySpread"),
    *("InterPodAffinity", "NodeResourcesFit"),
)
SCORES = (
    *("TaintToleration", "NodeAffinity", "NodeResourcesFit", "NodeResourcesBalancedAllocation"),
    *("PodTopologySpread", "InterPodAffinity"),
)
RESOURCES = (CPU, MEMORY, STORAGE, WIDGET, GADGET, GPU, HUGE_PAGES, PODS)
NAMES = ("default-scheduler", "gpu-scheduler", "batch-scheduler")
WEIGHTS = (0, 1, 2, 3, 5, 10, 40)
HUGE = (300, 1_000, 1 << 24, 1 << 30, (1 << 31) - 1)
HARD = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"

Change = Callable[[Random, Object], None]


def configured(seed: int) -> Object:
    """A case with a configuration; a pod may name a profile that is the only one or one of many."""
    draw = Random(f"config {seed}")
    found = case(seed)
    names = draw.sample(NAMES, draw.choice((1, 1, 2, 3)))
    for pod in found["pods"]:
        pod["spec"]["schedulerName"] = draw.choice(names)
    found["config"] = _config(draw, names)
    _seldom(Random(f"seldom {seed}"), found)
    _weightless(Random(f"weightless {seed}"), found)
    return found


def _seldom(draw: Random, found: Object) -> None:
    """Settings of a few cases, each drawn separately, so that the other cases do not change."""
    match draw.randrange(10):
        case 0:
            no_pre_scores(draw, draw.choice(found["config"]["profiles"]))
        case 1:
            for profile in found["config"]["profiles"]:
                listed_spread(draw, profile)
            found["objects"] += [_service(app) for app in APPS]
            for pod in found["pods"]:
                pod["metadata"]["labels"].setdefault(APP, draw.choice(APPS))
                if draw.random() < 0.7:
                    pod["spec"].pop("topologySpreadConstraints", None)
        case 2:
            for one in found["objects"]:
                if one["kind"] == "Node" and draw.random() < 0.4:
                    one["metadata"]["labels"] = {}
        case 3:
            huge_weights(draw, draw.choice(found["config"]["profiles"]))


def _weightless(draw: Random, found: Object) -> None:
    """Preferred terms of profiles that weigh nothing."""
    for profile in found["config"]["profiles"]:
        for one in profile["pluginConfig"]:
            for term in one["args"].get("addedAffinity", {}).get(SOFT, ()):
                if draw.random() < 0.4:
                    term["weight"] = 0


def _service(app: str) -> Object:
    metadata = {"name": f"of-{app}", "namespace": "default"}
    spec = {"selector": {APP: app}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def preempting_configured(seed: int) -> Object:
    """A case of preemption with a configuration of one profile."""
    config = _config(Random(f"config {seed}"), NAMES[:1])
    draw = Random(f"post-filter {seed}")
    if draw.random() < 0.5:
        draw.choice(POST_FILTERS)(config["profiles"][0])
    return preemption.case(seed) | {"config": config}


def _config(draw: Random, names: Sequence[str]) -> Object:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [_profile(draw, name) for name in names],
    }


def _profile(draw: Random, name: str) -> Object:
    found: Object = {"schedulerName": name, "plugins": {}, "pluginConfig": []}
    for change in draw.sample(CHANGES, draw.choice((1, 1, 2, 4))):
        change(draw, found)
    _complete(found)
    return found


def _complete(profile: Object) -> None:
    """Some plugins cannot run without the point before, and fail every cycle."""
    off = [one["name"] for one in _point(profile, "multiPoint")["disabled"]]
    filters = ("NodePorts", "PodTopologySpread", "InterPodAffinity")
    scores = ("TaintToleration", "PodTopologySpread", "InterPodAffinity")
    needs = [("filter", "preFilter", name) for name in filters]
    needs += [("score", "preScore", name) for name in scores]
    for point, before, plugin in needs:
        named = [one["name"] for one in _point(profile, point)["enabled"]]
        is_there = any(one["name"] == plugin for one in _point(profile, before)["enabled"])
        if plugin in off and plugin in named and not is_there:
            _point(profile, before)["enabled"].append({"name": plugin})


def _point(profile: Object, point: str) -> Object:
    found: Object = profile["plugins"].setdefault(point, {"enabled": [], "disabled": []})
    return found


def _enable(draw: Random, profile: Object, point: str, names: list[str]) -> None:
    there = {one["name"] for one in _point(profile, point)["enabled"]}
    for name in names:
        if name not in there:
            weight: Any = {"weight": draw.choice(WEIGHTS)} if draw.random() < 0.8 else {}
            _point(profile, point)["enabled"].append({"name": name} | weight)


def _some(draw: Random, names: tuple[str, ...], most: int = 3) -> list[str]:
    return draw.sample(names, draw.randint(1, most))


def weights(draw: Random, profile: Object) -> None:
    """Weights of score plugins, at `multiPoint` or at `score`."""
    _enable(draw, profile, draw.choice(("multiPoint", "score")), _some(draw, SCORES))


def huge_weights(draw: Random, profile: Object) -> None:
    """Weights of score plugins, up to the maximum, for those that are not named already as well."""
    point = draw.choice(("multiPoint", "score"))
    _enable(draw, profile, point, _some(draw, SCORES))
    for one in _point(profile, point)["enabled"]:
        if one["name"] in SCORES:
            one["weight"] = draw.choice(HUGE)
    _complete(profile)


def fewer_scores(draw: Random, profile: Object) -> None:
    """Some score plugins less, or none but a few."""
    names = ["*"] if draw.random() < 0.4 else _some(draw, SCORES)
    _point(profile, "score")["disabled"] += [{"name": name} for name in names]
    if "*" in names and draw.random() < 0.7:
        _enable(draw, profile, "score", _some(draw, SCORES))


def fewer_plugins(draw: Random, profile: Object) -> None:
    """Plugins that are off at every point."""
    names = _some(draw, (*FILTERS[:-1], "NodeResourcesBalancedAllocation", "ImageLocality"), 2)
    _point(profile, "multiPoint")["disabled"] += [{"name": name} for name in names]


def other_order(draw: Random, profile: Object) -> None:
    """Filters that are named come first, or last when they are off otherwise."""
    _enable(draw, profile, "filter", _some(draw, FILTERS))
    if draw.random() < 0.5:
        names = _some(draw, FILTERS[:-1], 2)
        _point(profile, "filter")["disabled"] += [{"name": name} for name in names]


def no_names(draw: Random, profile: Object) -> None:
    """NodeAffinity without its preFilter."""
    _point(profile, "preFilter")["disabled"].append({"name": "NodeAffinity"})


def _configure(profile: Object, plugin: str, **arguments: Any) -> None:
    for one in profile["pluginConfig"]:
        if one["name"] == plugin:
            one["args"].update(arguments)
            return
    profile["pluginConfig"].append({"name": plugin, "args": arguments})


def _resources(draw: Random, weight_max: int) -> list[Object]:
    names = draw.sample(RESOURCES, draw.randint(1, 4))
    if draw.random() < 0.6:
        names = list(dict.fromkeys([CPU, MEMORY, *names]))
    return [{"name": name, "weight": draw.randint(0, weight_max)} for name in names]


def strategy(draw: Random, profile: Object) -> None:
    """How free nodes should be."""
    kind = draw.choice(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
    found: Object = {"type": kind}
    if draw.random() < 0.8:
        found["resources"] = _resources(draw, draw.choice((1, 5, 100)))
    if kind == "RequestedToCapacityRatio":
        at = sorted(draw.sample(range(101), draw.randint(1, 4)))
        shape = [{"utilization": one, "score": draw.randint(0, 10)} for one in at]
        found["requestedToCapacityRatio"] = {"shape": shape}
    _configure(profile, "NodeResourcesFit", scoringStrategy=found)


def ignored(draw: Random, profile: Object) -> None:
    """Resources that are not looked at."""
    names, groups = [WIDGET, GADGET, HUGE_PAGES], ["example.com", "other.example"]
    if draw.random() < 0.7:
        _configure(profile, "NodeResourcesFit", ignoredResources=draw.sample(names, 1))
    else:
        _configure(profile, "NodeResourcesFit", ignoredResourceGroups=draw.sample(groups, 1))


def balanced(draw: Random, profile: Object) -> None:
    """Resources that should be used equally."""
    _configure(profile, "NodeResourcesBalancedAllocation", resources=_resources(draw, 1))


def _term(draw: Random) -> Object:
    if draw.random() < 0.2:
        name = f"node-{draw.randint(0, 5)}"
        operator = draw.choice(("In", "NotIn"))
        field = {"key": "metadata.name", "operator": operator, "values": [name]}
        if draw.random() < 0.2:  # a field that nodes do not have
            field |= {"key": draw.choice(("spec.x", "")), "values": [draw.choice((name, ""))]}
        return {"matchFields": [field]}
    choices = (
        {"key": DISK, "operator": draw.choice(("In", "NotIn")), "values": ["ssd"]},
        {"key": ZONE, "operator": "In", "values": ["zone-a", "zone-b"]},
        {"key": HOSTNAME, "operator": draw.choice(("Exists", "DoesNotExist"))},
        {"key": GENERATION, "operator": draw.choice(("Gt", "Lt")), "values": ["4"]},
    )
    return {"matchExpressions": draw.sample(choices, draw.choice((0, 1, 1, 2)))}


def added_affinity(draw: Random, profile: Object) -> None:
    """Terms of the profile, required and preferred."""
    found: Object = {}
    if draw.random() < 0.6:
        found[HARD] = {"nodeSelectorTerms": [_term(draw) for _ in range(draw.choice((0, 1, 1, 2)))]}
    if draw.random() < 0.7:
        found[SOFT] = [
            {"weight": draw.choice((1, 5, 100)), "preference": _term(draw)} for _ in range(2)
        ]
    _configure(profile, "NodeAffinity", addedAffinity=found)


def pod_affinity(draw: Random, profile: Object) -> None:
    """Arguments of InterPodAffinity."""
    _configure(
        profile,
        "InterPodAffinity",
        hardPodAffinityWeight=draw.choice((0, 1, 7, 100)),
        ignorePreferredTermsOfExistingPods=draw.random() < 0.5,
    )


def no_pre_scores(draw: Random, profile: Object) -> None:
    """Plugins that score without having looked at the pod before."""
    names = ("NodeAffinity", "NodeResourcesFit", "NodeResourcesBalancedAllocation")
    off = draw.sample(names, draw.randint(1, 3))
    _point(profile, "preScore")["disabled"] += [{"name": name} for name in off]


def listed_spread(draw: Random, profile: Object) -> None:
    """Constraints of the profile for pods that have none."""
    found = [
        {
            "topologyKey": key,
            "maxSkew": draw.choice((1, 2, 5)),
            "whenUnsatisfiable": draw.choice(("DoNotSchedule", "ScheduleAnyway")),
        }
        for key in draw.sample((ZONE, HOSTNAME, DISK), draw.randint(0, 3))
    ]
    _configure(profile, "PodTopologySpread", defaultingType="List", defaultConstraints=found)


def _last(profile: Object) -> None:
    """DefaultPreemption before DynamicResources."""
    _point(profile, "postFilter")["enabled"].append({"name": "DefaultPreemption"})


def _without(name: str, point: str) -> Callable[[Object], None]:
    def change(profile: Object) -> None:
        _point(profile, point)["disabled"].append({"name": name})

    return change


POST_FILTERS = (
    _last,
    *(_without(name, "postFilter") for name in ("DynamicResources", "DefaultPreemption", "*")),
    _without("DynamicResources", "multiPoint"),
)
"""What a profile may have at postFilter."""
CHANGES: tuple[Change, ...] = (
    *(weights, fewer_scores, fewer_plugins, other_order, no_names, strategy, strategy, ignored),
    *(balanced, added_affinity, pod_affinity),
)
