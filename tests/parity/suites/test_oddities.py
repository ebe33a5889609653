"""Behaviour of kube-scheduler that differs from its API's documentation; Muster does the same."""

from typing import Any

import pytest

from tests.parity.comparison.muster_answer import our_answer
from tests.parity.generators.case_builder import Object
from tests.parity.generators.kinds import PLAIN, differences
from tests.parity.generators.rules import HOSTNAME, PREFERRED, REQUIRED
from tests.parity.oracle.client import Oracle
from tests.parity.suites.builders import UNRESOLVABLE, node, pod

NODES = [node(name, labels={HOSTNAME: name}) for name in "ab"]
RED, BLUE = {"team": "red"}, {"team": "blue"}


def asked_of(oracle: Oracle, *objects: Object, asked: Object, **more: Any) -> Object:
    """Return kube-scheduler's answer about the pod, which must be ours as well."""
    case = {"objects": list(objects), "pods": [asked], **more}
    theirs = oracle.ask(case)
    assert differences(PLAIN, case, our_answer(case), theirs) == []
    answer: Object
    [answer] = theirs["pods"]
    return answer


def feasible(answer: Object) -> str:
    return "".join(name for name, said in sorted(answer["nodes"].items()) if said["feasible"])


def pulled(answer: Object) -> list[int]:
    """Return InterPodAffinity's scores of the nodes a and b."""
    return [answer["nodes"][name]["scores"].get("InterPodAffinity", 0) for name in "ab"]


def namespace(name: str, labels: Object) -> Object:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def placed(name: str, on: str, **more: Any) -> Object:
    one: Object = pod(name, nodeName=on, status={"phase": "Running"}, **more)
    one["metadata"]["namespace"] = name
    return one


def term(operator: str, kind: str, *, is_required: bool) -> Object:
    """Return a term about all pods of namespaces with some team."""
    rule: Object = {"key": "team", "operator": operator}
    if operator in ("In", "NotIn"):
        rule["values"] = ["red"]
    about: Object = {"topologyKey": HOSTNAME, "labelSelector": {}}
    about["namespaceSelector"] = {"matchExpressions": [rule]}
    if is_required:
        return {"affinity": {kind: {REQUIRED: [about]}}}
    return {"affinity": {kind: {PREFERRED: [{"weight": 1, "podAffinityTerm": about}]}}}


TEAMS = [namespace("red", RED), namespace("blue", BLUE)]
AWAY, NEAR = "podAntiAffinity", "podAffinity"


@pytest.mark.parametrize(
    "operator",
    ["In", "Exists", "NotIn", "DoesNotExist"],
)
def test_a_pending_pods_negative_namespace_selector_selects_all_namespaces(operator, oracle):
    """The pod of team red is on node a: NotIn and DoesNotExist mean it nevertheless."""
    there = placed("red", "a")
    for kind, found in ((AWAY, "b"), (NEAR, "a")):
        rules = term(operator, kind, is_required=True)
        answer = asked_of(oracle, *NODES, *TEAMS, there, asked=pod(**rules))
        assert feasible(answer) == found
        rules = term(operator, kind, is_required=False)
        answer = asked_of(oracle, *NODES, *TEAMS, there, asked=pod(**rules))
        assert pulled(answer) == ([200, 0] if found == "a" else [0, 200])


@pytest.mark.parametrize(
    ("operator", "found"), [("In", "b"), ("Exists", "b"), ("NotIn", "ab"), ("DoesNotExist", "ab")]
)
def test_terms_of_assigned_pods_are_taken_literally(operator, found, oracle):
    asked = pod()
    asked["metadata"]["namespace"] = "red"
    there = placed("blue", "a", **term(operator, AWAY, is_required=True))
    assert feasible(asked_of(oracle, *NODES, *TEAMS, there, asked=asked)) == found
    for kind, is_near in ((NEAR, True), (AWAY, False)):
        wanted = [200, 0] if is_near else [0, 200]
        there = placed("blue", "a", **term(operator, kind, is_required=False))
        answer = asked_of(oracle, *NODES, *TEAMS, there, asked=asked)
        assert pulled(answer) == (wanted if found == "b" else [0, 0])


def spread(**more: Any) -> Object:
    rule = {"topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}
    return {"topologySpreadConstraints": [rule | {"labelSelector": {}} | more]}


def test_an_empty_selector_spreads_from_nominated_pods_only(oracle):
    there = placed("default", "a")
    assert feasible(asked_of(oracle, *NODES, there, asked=pod(**spread()))) == "ab"
    promised = pod("promised", status={"nominatedNodeName": "a"})
    answer = asked_of(oracle, *NODES, promised, asked=pod(**spread()))
    assert feasible(answer) == "b"
    answer = asked_of(oracle, NODES[0], promised, asked=pod(**spread(minDomains=4)))
    assert feasible(answer) == ""


@pytest.mark.parametrize("promised", range(4))
def test_an_empty_selector_spreads_from_victims_too(promised, oracle):
    """They make room for as many promised pods, by kube-scheduler's own count."""
    high: Object = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 100}
    high["metadata"] = {"name": "high"}
    pods = [pod("large", {"cpu": "3"}, nodeName="a"), pod("small", {"cpu": "1"}, nodeName="a")]
    for number, one in enumerate(pods):
        one["status"] = {"phase": "Running", "startTime": f"2026-01-02T03:04:0{number}Z"}
    for number in range(promised):
        status = {"nominatedNodeName": "a"}
        pods.append(pod(f"promised-{number}", priorityClassName="high", status=status))
    asked = pod(requests={"cpu": "2"}, priorityClassName="high", **spread())
    full = pod("full", {"cpu": "4"}, nodeName="b", priorityClassName="system-node-critical")
    full["metadata"]["namespace"] = "other"
    answer = asked_of(oracle, *NODES, high, full, *pods, asked=asked, preempt=True)
    found = answer["preemption"]["candidates"]
    one, both = [["default/large"]], [["default/large", "default/small"]]
    assert [said["victims"] for said in found.values()] == [one, one, both, []][promised]


def claim(**notes: str) -> list[Object]:
    """A claim that waits for its consumer, and its class."""
    made = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "disk"}
    late = made | {"metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"}
    metadata = {"name": "c", "namespace": "default", "uid": "u", "annotations": notes}
    wanted = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "late", "resources": wanted}
    of_claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
    return [late, of_claim | {"spec": spec, "status": {"phase": "Pending"}}]


USER = pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])


@pytest.mark.parametrize(("selected", "found"), [(None, "ab"), ("a", "a"), ("", "")])
def test_an_empty_selected_node_names_no_node(selected, found, oracle):
    notes = {} if selected is None else {"volume.kubernetes.io/selected-node": selected}
    answer = asked_of(oracle, *NODES, *claim(**notes), asked=USER)
    assert feasible(answer) == found
    if selected == "":
        said = answer["nodes"]["a"]
        assert (said["code"], said["plugin"]) == (UNRESOLVABLE, "VolumeBinding")


def test_without_nodes_no_pod_is_rejected_early(oracle):
    answer = asked_of(oracle, asked=USER)
    assert answer["preFilterStatus"]["code"] == "Success"
    assert answer["fitError"] == "no nodes available to schedule pods"


def configured(plugin: str, **arguments: Any) -> Object:
    version = "kubescheduler.config.k8s.io/v1"
    profile = {"pluginConfig": [{"name": plugin, "args": arguments}]}
    return {"apiVersion": version, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}


@pytest.mark.parametrize("weights", [(0,), (0, 0), (0, 3)])
def test_preferred_terms_of_weight_0_in_a_profile_are_scored(weights, oracle):
    about = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["a"]}]}
    added = {PREFERRED: [{"weight": weight, "preference": about} for weight in weights]}
    config = configured("NodeAffinity", addedAffinity=added)
    answer = asked_of(oracle, *NODES, asked=pod(), config=config)
    scores = [answer["nodes"][name]["scores"]["NodeAffinity"] for name in "ab"]
    assert scores == ([200, 0] if any(weights) else [0, 0])


PAGES = "hugepages-2Mi"


@pytest.mark.parametrize(
    ("kind", "alone", "with_container"),
    [("LeastAllocated", 0, 75), ("MostAllocated", 0, 25), ("RequestedToCapacityRatio", 0, 25)],
)
def test_huge_pages_of_the_pod_as_a_whole_are_not_scored(kind, alone, with_container, oracle):
    """A container's are: 16 of 64 MiB."""
    large = node(labels={HOSTNAME: "a"})
    large["status"]["allocatable"][PAGES] = "64Mi"
    strategy: Object = {"type": kind, "resources": [{"name": PAGES, "weight": 1}]}
    if kind == "RequestedToCapacityRatio":
        ends = ((0, 0), (100, 10))
        shape = [{"utilization": at, "score": score} for at, score in ends]
        strategy["requestedToCapacityRatio"] = {"shape": shape}
    config = configured("NodeResourcesFit", scoringStrategy=strategy)
    whole = {"requests": {PAGES: "32Mi", "cpu": "1"}, "limits": {PAGES: "32Mi"}}
    for held, score in (("0", alone), ("16Mi", with_container)):
        asked = pod(requests={PAGES: held, "memory": "1Mi"}, resources=whole)
        asked["spec"]["containers"][0]["resources"]["limits"] = {PAGES: held}
        answer = asked_of(oracle, large, asked=asked, config=config)
        assert answer["nodes"]["a"]["scores"]["NodeResourcesFit"] == score
