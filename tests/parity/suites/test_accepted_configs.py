"""Which configurations are accepted: those that kube-scheduler accepts, with the exceptions listed
here.
"""

from typing import Any

import pytest

from shared.configuration.scheduler_config import config_of
from shared.kubernetes.objects.errors import WorldError
from shared.kubernetes.objects.fields import Fields
from shared.model.release import V1_35, VERSIONS, release
from tests.parity.generators.configs import SCORES
from tests.parity.oracle.client import Oracle, require_oracle

Object = dict[str, Any]

TAKEN, REFUSED = "taken", "refused"
NOT_SUPPORTED = "not supported"  # by us; kube-scheduler takes it
STRICTER = "stricter"  # it takes this as well, and every cycle fails or the words are lost
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
WIDE_OPEN = {"utilization": 0, "score": 0}
ELECT = {"leaderElect": True}


def top(**fields: Any) -> Object:
    """A configuration with these fields."""
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {**head, **fields}


def profile(**fields: Any) -> Object:
    """One with one profile."""
    return top(profiles=[fields])


def extender(**fields):
    return top(extenders=[{"urlPrefix": "http://h", "filterVerb": "f"} | fields])


def plugins(**points: Any) -> Object:
    """One with these plugins."""
    return profile(plugins=points)


def args(name: str, **arguments: Any) -> Object:
    """One with these arguments of a plugin."""
    return profile(pluginConfig=[{"name": name, "args": arguments}])


def strategy(kind: str, **fields: Any) -> Object:
    """One with this scoringStrategy."""
    return args("NodeResourcesFit", scoringStrategy={"type": kind, **fields})


def shape(*points: tuple[int, int]) -> Object:
    """One with this function of utilization."""
    written = [{"utilization": utilization, "score": score} for utilization, score in points]
    return strategy("RequestedToCapacityRatio", requestedToCapacityRatio={"shape": written})


def on(*names: str) -> Object:
    """Plugins that are enabled."""
    return {"enabled": [{"name": name} for name in names]}


def off(*names: str) -> Object:
    """Plugins that are disabled."""
    return {"disabled": [{"name": name} for name in names]}


def weighted(**weights: int) -> Object:
    """Plugins that are enabled with weights."""
    return {"enabled": [{"name": name, "weight": weight} for name, weight in weights.items()]}


def required(**term: Any) -> Object:
    """A profile with one required term of its own."""
    hard = {"nodeSelectorTerms": [term]}
    return args(
        "NodeAffinity", addedAffinity={"requiredDuringSchedulingIgnoredDuringExecution": hard}
    )


def _need(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator, "values": list(values)}


def preferred(key: str = "disk", **fields: Any) -> Object:
    """A profile with one preferred term of its own."""
    term = {"preference": {"matchExpressions": [_need(key, "In", "ssd")]}, **fields}
    soft = {"preferredDuringSchedulingIgnoredDuringExecution": [term]}
    return args("NodeAffinity", addedAffinity=soft)


def spread(*constraints: Object) -> Object:
    """A profile with these constraints for pods that have none."""
    return args("PodTopologySpread", defaultingType="List", defaultConstraints=list(constraints))


HOST = {"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway"}
ZONE = HOST | {"topologyKey": "zone"}
NAMES = ("default-scheduler", "other")
CASES: dict[str, tuple[Object, str]] = {
    "empty": (top(), TAKEN),
    "no kind": ({"apiVersion": "kubescheduler.config.k8s.io/v1"}, REFUSED),
    "other kind": (top(kind="Scheduler"), REFUSED),
    "old version": (top(apiVersion="kubescheduler.config.k8s.io/v1beta3"), REFUSED),
    "unknown field": (top(profile=[]), REFUSED),
    "unknown field of a profile": (profile(plugin={}), REFUSED),
    "unknown point": (plugins(prefilter=on("NodePorts")), REFUSED),
    "unknown field of a set": (plugins(filter={"enable": []}), REFUSED),
    "unknown field of a plugin": (plugins(score={"enabled": [{"nam": "x"}]}), REFUSED),
    "process": (
        top(
            parallelism=4,
            enableProfiling=False,
            enableContentionProfiling=False,
            delayCacheUntilActive=True,
            clientConnection={
                "kubeconfig": "/k",
                "qps": 12.5,
                "burst": 20,
                "contentType": "a/b",
                "acceptContentTypes": "a/b",
            },
            leaderElection={
                "leaderElect": True,
                "leaseDuration": "1m30s",
                "renewDeadline": "10s",
                "retryPeriod": "1500ms",
                "resourceLock": "leases",
                "resourceName": "n",
                "resourceNamespace": "ns",
            },
        ),
        TAKEN,
    ),
    "parallelism 0": (top(parallelism=0), REFUSED),
    "burst": (top(clientConnection={"burst": -1}), REFUSED),
    "unknown of the client": (top(clientConnection={"url": "x"}), REFUSED),
    "lease too short": (top(leaderElection={**ELECT, "leaseDuration": "10s"}), REFUSED),
    "lease too short, no election": (
        top(leaderElection={"leaderElect": False, "leaseDuration": "10s"}),
        TAKEN,
    ),
    "lease is negative": (top(leaderElection={**ELECT, "retryPeriod": "-1s"}), REFUSED),
    "lease is renewed too late": (  # The process refuses it, which the oracle does not start.
        top(leaderElection={**ELECT, "renewDeadline": "2400ms", "retryPeriod": "2s"}),
        STRICTER,
    ),
    "lease is 0": (top(leaderElection={**ELECT, "leaseDuration": "0"}), TAKEN),
    "lease is no duration": (top(leaderElection={**ELECT, "leaseDuration": "10"}), REFUSED),
    "lock": (top(leaderElection={**ELECT, "resourceLock": "endpoints"}), REFUSED),
    "backoff": (top(podInitialBackoffSeconds=3, podMaxBackoffSeconds=3), TAKEN),
    "backoff for ever": (
        top(podInitialBackoffSeconds=1 << 41, podMaxBackoffSeconds=(1 << 63) - 1),
        TAKEN,
    ),
    "backoff 0": (top(podInitialBackoffSeconds=0), REFUSED),
    "backoff falls": (top(podInitialBackoffSeconds=3, podMaxBackoffSeconds=2), REFUSED),
    "backoff as text": (top(podInitialBackoffSeconds="3"), REFUSED),
    "all nodes": (top(percentageOfNodesToScore=100), TAKEN),
    "all nodes of a profile": (profile(percentageOfNodesToScore=100), TAKEN),
    "some nodes": (top(percentageOfNodesToScore=50), TAKEN),
    "some nodes of a profile": (profile(percentageOfNodesToScore=1), TAKEN),
    "nodes by their number": (top(percentageOfNodesToScore=0), TAKEN),
    "fewer than none": (top(percentageOfNodesToScore=-1), REFUSED),
    "fewer than none of a profile": (profile(percentageOfNodesToScore=-1), REFUSED),
    "a text": (top(percentageOfNodesToScore="50"), REFUSED),
    "too many nodes": (top(percentageOfNodesToScore=101), REFUSED),
    "no profiles": (top(profiles=[]), TAKEN),
    "two profiles": (top(profiles=[{"schedulerName": name} for name in NAMES]), TAKEN),
    "the same profile twice": (
        top(profiles=[{"schedulerName": "x"}, {"schedulerName": "x"}]),
        REFUSED,
    ),
    "two profiles, one without a name": (top(profiles=[{"schedulerName": "x"}, {}]), REFUSED),
    "an empty name": (profile(schedulerName=""), REFUSED),
    "extender that does nothing": (top(extenders=[{"urlPrefix": "http://h"}]), NOT_SUPPORTED),
    "extender": (extender(), TAKEN),
    "extender with everything": (
        extender(
            prioritizeVerb="p",
            weight=3,
            enableHTTPS=True,
            httpTimeout="1m",
            nodeCacheCapable=True,
            ignorable=True,
            managedResources=[{"name": "example.com/x", "ignoredByScheduler": True}],
            tlsConfig={"insecure": True, "serverName": "h"},
        ),
        TAKEN,
    ),
    "insecure extender whose enableHTTPS is text": (
        extender(enableHTTPS="yes", tlsConfig={"insecure": True}),
        REFUSED,
    ),
    "extender without weight": (extender(prioritizeVerb="p"), REFUSED),
    "extender with a negative weight": (extender(prioritizeVerb="p", weight=-1), REFUSED),
    "extender with a weight for nothing": (extender(weight=-1), TAKEN),
    "extender with a timeout of 0": (extender(httpTimeout="0s"), TAKEN),
    "extender that is quick": (extender(httpTimeout="500us"), TAKEN),
    "extender without an end": (extender(httpTimeout="-1s"), TAKEN),
    "extender nowhere": (extender(urlPrefix=""), STRICTER),
    "extender without scheme": (extender(urlPrefix="h:80/x"), STRICTER),
    "extender with a root that is not there": (extender(tlsConfig={"caFile": "/none"}), REFUSED),
    "extender with a root that is none": (extender(tlsConfig={"caData": "bm8gcGVt"}), REFUSED),
    "extender with a certificate that is not there": (
        extender(tlsConfig={"certFile": "/none", "keyFile": "/none"}),
        REFUSED,
    ),
    "extender with an unknown field": (extender(nodes=True), REFUSED),
    "extender with a timeout of no unit": (extender(httpTimeout="5"), REFUSED),
    "extender that binds": (extender(bindVerb="b"), TAKEN),
    "extender that only binds": (extender(filterVerb="", bindVerb="b"), TAKEN),
    "extenders that bind": (
        top(extenders=[{"urlPrefix": "http://h", "bindVerb": "b"}] * 2),
        REFUSED,
    ),
    "extender that preempts": (extender(preemptVerb="p"), TAKEN),
    "extender for cpu": (extender(managedResources=[{"name": "cpu"}]), REFUSED),
    "extender for kubernetes": (extender(managedResources=[{"name": "kubernetes.io/x"}]), REFUSED),
    "extender for requests": (extender(managedResources=[{"name": "requests.a/x"}]), REFUSED),
    "extender for no name": (extender(managedResources=[{"name": "a/b/c"}]), REFUSED),
    "extender for one thing twice": (
        extender(managedResources=[{"name": "example.com/x"}, {"name": "example.com/x"}]),
        REFUSED,
    ),
    "extender insecure with a root": (
        extender(tlsConfig={"insecure": True, "caData": "bm8gcGVt"}),
        REFUSED,
    ),
    "extender with half a certificate": (extender(tlsConfig={"certFile": "/c"}), NOT_SUPPORTED),
    "extender with a root in no base64": (extender(tlsConfig={"caData": "!"}), REFUSED),
    "unknown plugin": (plugins(filter=on("Foo")), REFUSED),
    "unknown plugin everywhere": (plugins(multiPoint=on("Foo")), REFUSED),
    "unknown plugin disabled": (plugins(multiPoint=off("Foo")), TAKEN),
    "removed plugin": (plugins(filter=on("EBSLimits")), REFUSED),
    "wrong point": (plugins(score=on("NodePorts")), REFUSED),
    "twice": (plugins(filter=on("NodePorts", "NodePorts")), REFUSED),
    "twice everywhere": (plugins(multiPoint=on("NodePorts", "NodePorts")), REFUSED),
    "behind a gate": (plugins(multiPoint=on("GangScheduling")), TAKEN),
    "behind gates": (
        plugins(permit=on("GangScheduling"), preFilter=on("NodeDeclaredFeatures")),
        TAKEN,
    ),
    "behind a gate, wrong point": (plugins(score=on("GangScheduling")), REFUSED),
    "again": (plugins(filter=on("NodePorts", "NodeAffinity")), TAKEN),
    "sorting twice": (plugins(queueSort=on("PrioritySort", "PrioritySort")), REFUSED),
    "sorting named": (plugins(queueSort={**on("PrioritySort"), **off("*")}), TAKEN),
    "no sorting": (plugins(queueSort=off("*")), REFUSED),
    "sorted differently": (
        top(
            profiles=[
                {"schedulerName": "x", "plugins": {"queueSort": on("PrioritySort")}},
                {"schedulerName": "y"},
            ]
        ),
        REFUSED,
    ),
    "sorted alike": (
        top(
            profiles=[
                {"schedulerName": name, "plugins": {"queueSort": on("PrioritySort")}}
                for name in NAMES
            ]
        ),
        TAKEN,
    ),
    "no binder": (plugins(bind=off("DefaultBinder")), REFUSED),
    "nothing": (plugins(multiPoint=off("*")), REFUSED),
    "nearly nothing": (
        plugins(
            multiPoint={
                **off("*"),
                **on("PrioritySort", "DefaultBinder", "NodeResourcesFit", "SchedulingGates"),
            }
        ),
        TAKEN,
    ),
    "no fit": (plugins(filter=off("NodeResourcesFit")), NOT_SUPPORTED),
    "no gates": (plugins(preEnqueue=off("SchedulingGates")), NOT_SUPPORTED),
    "no scores": (plugins(score=off("*")), TAKEN),
    "no preemption": (plugins(postFilter=off("*")), TAKEN),
    "no volumes": (plugins(multiPoint=off("VolumeBinding", "VolumeZone")), TAKEN),
    "weights": (plugins(score=weighted(NodeAffinity=20, TaintToleration=0)), TAKEN),
    "weights everywhere": (plugins(multiPoint=weighted(NodeAffinity=20)), TAKEN),
    "weight of a filter": (plugins(filter=weighted(NodeAffinity=20)), TAKEN),
    "many weights": (plugins(score=weighted(NodeAffinity=1000)), TAKEN),
    "the largest weights": (
        plugins(score=weighted(**dict.fromkeys(SCORES, (1 << 31) - 1))),
        TAKEN,
    ),
    "a weight too large": (plugins(score=weighted(NodeAffinity=1 << 31)), REFUSED),
    "a weight too large, everywhere": (
        plugins(multiPoint=weighted(NodeAffinity=1 << 31)),
        REFUSED,
    ),
    "the largest weight of an extender": (
        extender(prioritizeVerb="p", weight=(1 << 63) - 1),
        TAKEN,
    ),
    "an extender's weight too large": (extender(prioritizeVerb="p", weight=1 << 63), REFUSED),
    "negative weight": (plugins(score=weighted(NodeAffinity=-1)), REFUSED),
    "weight as text": (
        plugins(score={"enabled": [{"name": "NodeAffinity", "weight": "2"}]}),
        REFUSED,
    ),
    "weight of images": (plugins(score=weighted(ImageLocality=5)), TAKEN),
    "weight of claims": (plugins(score=weighted(DynamicResources=500)), TAKEN),
    "negative weight of a filter": (plugins(filter=weighted(NodePorts=-1)), TAKEN),
    "negative weight behind another": (
        plugins(score=weighted(TaintToleration=5, NodeAffinity=-1)),
        STRICTER,
    ),
    "no images": (plugins(multiPoint=off("ImageLocality")), TAKEN),
    "fit without preFilter": (plugins(preFilter=off("NodeResourcesFit")), STRICTER),
    "binding without preFilter": (plugins(preFilter=off("VolumeBinding")), STRICTER),
    "volumes without reserve": (plugins(reserve=off("VolumeBinding")), NOT_SUPPORTED),
    "volumes without preBind": (plugins(preBind=off("*")), NOT_SUPPORTED),
    "zones without preFilter": (plugins(preFilter=off("VolumeZone")), NOT_SUPPORTED),
    "binding before nodes alone": (plugins(filter=off("VolumeBinding")), NOT_SUPPORTED),
    "limits without preFilter": (plugins(preFilter=off("NodeVolumeLimits")), TAKEN),
    "taints without preScore": (plugins(preScore=off("TaintToleration")), STRICTER),
    "arguments twice": (
        profile(pluginConfig=[{"name": "NodeAffinity", "args": {}}] * 2),
        REFUSED,
    ),
    "arguments of another kind": (args("NodeAffinity", kind="NodeResourcesFitArgs"), REFUSED),
    "arguments of its kind": (
        args("NodeAffinity", kind="NodeAffinityArgs", apiVersion="kubescheduler.config.k8s.io/v1"),
        TAKEN,
    ),
    "unknown argument": (args("NodeAffinity", added={}), REFUSED),
    "arguments of a stranger": (args("Foo", x=1), STRICTER),
    "arguments of one that has none": (args("NodePorts", x=1), STRICTER),
    "candidates": (
        args("DefaultPreemption", minCandidateNodesPercentage=5, minCandidateNodesAbsolute=0),
        TAKEN,
    ),
    "no candidates": (
        args("DefaultPreemption", minCandidateNodesPercentage=0, minCandidateNodesAbsolute=0),
        REFUSED,
    ),
    "too many candidates": (args("DefaultPreemption", minCandidateNodesPercentage=101), REFUSED),
    "negative candidates": (args("DefaultPreemption", minCandidateNodesAbsolute=-1), REFUSED),
    "hard weight": (args("InterPodAffinity", hardPodAffinityWeight=1), TAKEN),
    "hard weight too high": (args("InterPodAffinity", hardPodAffinityWeight=101), REFUSED),
    "other hard weight": (args("InterPodAffinity", hardPodAffinityWeight=5), TAKEN),
    "ignored preferences": (
        args("InterPodAffinity", ignorePreferredTermsOfExistingPods=True),
        TAKEN,
    ),
    "system spread": (args("PodTopologySpread", defaultingType="System"), TAKEN),
    "unknown spread": (args("PodTopologySpread", defaultingType="Other"), REFUSED),
    "system spread with a list": (
        args("PodTopologySpread", defaultConstraints=[{"maxSkew": 1}]),
        REFUSED,
    ),
    "a spread": (spread(HOST, ZONE | {"whenUnsatisfiable": "DoNotSchedule"}), TAKEN),
    "the same spread twice": (spread(HOST, HOST | {"maxSkew": 2}), REFUSED),
    "a spread with a selector": (spread(HOST | {"labelSelector": {}}), REFUSED),
    "a spread without skew": (spread(HOST | {"maxSkew": 0}), REFUSED),
    "a spread by a key that is none": (spread(HOST | {"topologyKey": "a b"}), REFUSED),
    "a spread over some domains": (
        spread(HOST | {"whenUnsatisfiable": "DoNotSchedule", "minDomains": 0}),
        TAKEN,
    ),
    "a spread over some domains that nobody counts": (spread(HOST | {"minDomains": 2}), TAKEN),
    "a spread with keys": (spread(HOST | {"matchLabelKeys": ["x"]}), TAKEN),
    "a spread with a policy": (spread(HOST | {"nodeTaintsPolicy": "Foo"}), TAKEN),
    "no spread": (args("PodTopologySpread", defaultingType="List"), TAKEN),
    "binding time": (args("VolumeBinding", bindTimeoutSeconds=60), TAKEN),
    "negative binding time": (args("VolumeBinding", bindTimeoutSeconds=-1), REFUSED),
    "shape of volumes": (args("VolumeBinding", shape=[WIDE_OPEN]), REFUSED),
    "filter time": (args("DynamicResources", filterTimeout="5s"), TAKEN),
    "negative filter time": (args("DynamicResources", filterTimeout="-5s"), REFUSED),
    "binding time of devices": (args("DynamicResources", bindingTimeout="60s"), REFUSED),
    "most": (strategy("MostAllocated"), TAKEN),
    "no type": (args("NodeResourcesFit", scoringStrategy={}), REFUSED),
    "other type": (strategy("Random"), REFUSED),
    "resources": (
        strategy(
            "LeastAllocated",
            resources=[{"name": "cpu", "weight": 100}, {"name": "x.y/z"}, {"name": "pods"}],
        ),
        TAKEN,
    ),
    "a resource twice": (
        strategy("LeastAllocated", resources=[{"name": "cpu"}, {"name": "cpu"}]),
        TAKEN,
    ),
    "resource weight": (
        strategy("LeastAllocated", resources=[{"name": "cpu", "weight": 101}]),
        REFUSED,
    ),
    "negative resource weight": (
        strategy("LeastAllocated", resources=[{"name": "cpu", "weight": -1}]),
        REFUSED,
    ),
    "shape": (shape((0, 0), (50, 10), (100, 3)), TAKEN),
    "no shape": (shape(), REFUSED),
    "shape absent": (strategy("RequestedToCapacityRatio"), REFUSED),
    "shape of another type": (
        strategy("LeastAllocated", requestedToCapacityRatio={"shape": [WIDE_OPEN]}),
        TAKEN,
    ),
    "no shape of another type": (
        strategy("LeastAllocated", requestedToCapacityRatio={"shape": []}),
        REFUSED,
    ),
    "shape falls back": (shape((50, 0), (50, 10)), REFUSED),
    "shape too high": (shape((0, 11)), REFUSED),
    "shape too full": (shape((0, 0), (101, 1)), REFUSED),
    "ignored": (
        args(
            "NodeResourcesFit",
            ignoredResources=["example.com/widget", "plain"],
            ignoredResourceGroups=["example.com"],
        ),
        TAKEN,
    ),
    "ignored name": (args("NodeResourcesFit", ignoredResources=["a b"]), REFUSED),
    "ignored prefix": (args("NodeResourcesFit", ignoredResources=["A_/b"]), REFUSED),
    "ignored group": (args("NodeResourcesFit", ignoredResourceGroups=["a/b"]), REFUSED),
    "ignored devices": (
        args("NodeResourcesFit", ignoredResources=["nvidia.com/gpu"]),
        NOT_SUPPORTED,
    ),
    "balanced": (
        args("NodeResourcesBalancedAllocation", resources=[{"name": "cpu"}, {"name": "x.y/z"}]),
        TAKEN,
    ),
    "balanced twice": (
        args("NodeResourcesBalancedAllocation", resources=[{"name": "cpu"}, {"name": "cpu"}]),
        REFUSED,
    ),
    "balanced weight": (
        args("NodeResourcesBalancedAllocation", resources=[{"name": "cpu", "weight": 2}]),
        REFUSED,
    ),
    "added": (required(matchExpressions=[_need("disk", "In", "ssd")]), TAKEN),
    "added, empty": (required(), TAKEN),
    "added, no values": (required(matchExpressions=[_need("disk", "In")]), REFUSED),
    "added, no operator": (required(matchExpressions=[{"key": "disk"}]), REFUSED),
    "added, two names": (required(matchFields=[_need("metadata.name", "In", "a", "b")]), REFUSED),
    "added, Gt": (required(matchExpressions=[_need("disk", "Gt", "12")]), TAKEN),
    "added, Gt a text": (required(matchExpressions=[_need("disk", "Gt", "x")]), REFUSED),
    "added, Lt too many": (required(matchExpressions=[_need("disk", "Lt", "9" * 19)]), REFUSED),
    "added, key": (required(matchExpressions=[_need("a b", "In", "ssd")]), REFUSED),
    "added, value": (required(matchExpressions=[_need("disk", "In", "a b")]), REFUSED),
    "added, no value": (required(matchExpressions=[_need("disk", "In", "")]), TAKEN),
    "preferred": (preferred(weight=7), TAKEN),
    "preferred, key": (preferred("a b", weight=7), REFUSED),
    "preferred, heavy": (preferred(weight=200), TAKEN),
    "preferred, not at all": (preferred("a b", weight=0), TAKEN),
    "preferred, no weight": (preferred(), TAKEN),
    "preferred, less than not": (preferred(weight=-1), NOT_SUPPORTED),
    "added, unknown": (args("NodeAffinity", addedAffinity={"required": {}}), REFUSED),
}


OF_RELEASES: dict[str, Object] = {
    "shape of volumes": args("VolumeBinding", shape=[WIDE_OPEN]),
    "no shape of volumes": args("VolumeBinding", shape=[]),
    "binding timeout": args("DynamicResources", bindingTimeout="2s"),
    "short binding timeout": args("DynamicResources", bindingTimeout="500ms"),
    **{
        f"{name} at {point}": plugins(**{point: on(name)})
        for point, name in (
            *(("preFilter", "NodeName"), ("preFilter", "TaintToleration")),
            *(("filter", "NodeDeclaredFeatures"), ("multiPoint", "NodeDeclaredFeatures")),
            *(("filter", "DeferredPodScheduling"), ("multiPoint", "DeferredPodScheduling")),
            *(("multiPoint", "PodGroupPodsCount"), ("placementScore", "PodGroupPodsCount")),
            *(("reserve", "GangScheduling"), ("permit", "GangScheduling")),
            *(("placementScore", "NodeResourcesFit"), ("placementScore", "ImageLocality")),
            ("placementGenerate", "TopologyPlacementGenerator"),
            *(("podGroupPostFilter", "DefaultPreemption"), ("podGroupPostFilter", "NodeName")),
        )
    },
}
"""What releases differ about."""


def _our_error(config: Object, version: str = V1_35) -> str:
    try:
        config_of(Fields.root("file", config), release(version, {}))
    except WorldError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", CASES)
def test_configurations_are_accepted_or_refused_as_by_kube_scheduler(name: str, oracle: Oracle):
    config, expected = CASES[name]
    theirs = oracle.ask({"objects": [NODE], "pods": [], "config": config}).get("error", "")
    ours = _our_error(config)
    assert bool(theirs) == (expected == REFUSED), f"kube-scheduler says {theirs!r}"
    assert bool(ours) == (expected != TAKEN), f"we say {ours!r}"
    if expected != REFUSED:
        assert ("not supported" in ours) == (expected == NOT_SUPPORTED), f"we say {ours!r}"


@pytest.mark.parametrize("version", VERSIONS)
def test_each_release_accepts_what_its_own_kube_scheduler_accepts(version: str):
    usual = {name: one for name, (one, told) in CASES.items() if told in (TAKEN, REFUSED)}
    asked, wrong, refused = usual | OF_RELEASES, [], 0
    require_oracle(version)
    with Oracle(version) as oracle:
        cases = [{"objects": [NODE], "pods": [], "config": one} for one in asked.values()]
        for name, answer in zip(asked, oracle.ask_all(cases), strict=True):
            theirs, ours = answer.get("error", ""), _our_error(asked[name], version)
            refused += bool(theirs)
            if bool(theirs) != bool(ours):
                wrong.append(f"{name}: kube-scheduler says {theirs!r}, we say {ours!r}")
    assert wrong == []
    assert 0 < refused < len(asked)
