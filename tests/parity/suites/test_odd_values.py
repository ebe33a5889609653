"""Rare values that the API accepts: they mean the same to Muster as to kube-scheduler."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.parity.generators.case_builder import Object
from tests.parity.generators.rules import HOSTNAME
from tests.parity.oracle.client import Oracle
from tests.parity.oracle.extender_server import NOBODY, NULL, ExtenderServer
from tests.parity.suites.builders import named as named_nodes
from tests.parity.suites.builders import node, pod
from tests.parity.suites.test_oddities import asked_of, feasible

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with closing(ExtenderServer()) as server:
        yield server.url


@pytest.mark.parametrize(
    ("name", "amount", "room", "found"),
    [
        ("cpu", "500u", "1m", ""),
        ("cpu", "0.5m", "2m", "a"),
        ("cpu", "1n", "1m", ""),
        ("memory", "500u", "1", "a"),
        ("memory", "0.5001", "1", ""),
        ("memory", "500m", "1", "a"),
    ],
)
def test_each_amount_is_rounded_up_to_a_thousandth_before_the_sum(
    name, amount, room, found, oracle
):
    """As the API server keeps it (SetDefaults_ResourceList)."""
    asked = pod()
    first = asked["spec"]["containers"][0] | {"resources": {"requests": {name: amount}}}
    asked["spec"]["containers"] = [first, first | {"name": "d"}]
    answer = asked_of(oracle, node("a", **{name: room}), asked=asked)
    assert feasible(answer) == found


@pytest.mark.parametrize("labels", [None, {"app": "web"}])
@pytest.mark.parametrize("operator", ["DoesNotExist", "NotIn", "Exists"])
def test_no_budget_keeps_a_pod_without_labels(operator, labels, oracle):
    rule: Object = {"key": "team", "operator": operator}
    if operator == "NotIn":
        rule["values"] = ["red"]
    budget: Object = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    budget["metadata"] = {"name": "b", "namespace": "default"}
    budget["spec"] = {"maxUnavailable": 0, "selector": {"matchExpressions": [rule]}}
    budget["status"] = {"disruptionsAllowed": 0, "currentHealthy": 1, "expectedPods": 1}
    high: Object = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 100}
    high["metadata"] = {"name": "high"}
    there = pod("there", {"cpu": "4"}, nodeName="a", status={"phase": "Running"})
    if labels is not None:
        there["metadata"]["labels"] = labels
    asked = pod("asked", {"cpu": "4"}, priorityClassName="high")
    answer = asked_of(oracle, high, node("a"), budget, there, asked=asked, preempt=True)
    kept = labels is not None and operator != "Exists"
    assert answer["preemption"]["candidates"]["a"]["violations"] == int(kept)


@pytest.mark.parametrize("on", "abc")
def test_nodes_without_a_zone_are_in_the_zone_without_a_name(on, oracle):
    """For default spreading, which wants no node to have all keys."""
    labels = [{}, {ZONE: ""}, {ZONE: "z"}]
    nodes = [node(n, labels={HOSTNAME: n, **more}) for n, more in zip("abc", labels, strict=True)]
    service: Object = {"apiVersion": "v1", "kind": "Service", "spec": {"selector": {"app": "web"}}}
    service["metadata"] = {"name": "s", "namespace": "default"}
    there, asked = pod("there", nodeName=on, status={"phase": "Running"}), pod("asked")
    for one in (there, asked):
        one["metadata"]["labels"] = {"app": "web"}
    answer = asked_of(oracle, service, *nodes, there, asked=asked)
    scores = {n: said["scores"]["PodTopologySpread"] for n, said in answer["nodes"].items()}
    assert (scores["c"] > scores["b"]) == (on != "c")


@pytest.mark.parametrize(
    ("key", "label", "need", "found"),
    [
        (BETA_REGION, {REGION: "r"}, {"operator": "DoesNotExist"}, "a"),
        (BETA_REGION, {REGION: "r"}, {"operator": "Exists"}, ""),
        (BETA_REGION, {REGION: "r"}, {"operator": "In", "values": ["r"]}, "a"),
        (ZONE, {ZONE: ""}, {"operator": "In", "values": [""]}, ""),
        (ZONE, {ZONE: "z"}, {"operator": "In", "values": ["z"]}, ""),
    ],
)
def test_the_rules_of_a_migrated_disk_are_renamed_where_they_name_a_value(
    key, label, need, found, oracle
):
    needs: list[Object] = [{"key": key, **need}]
    if key == BETA_REGION:
        needs.append({"key": BETA_ZONE, "operator": "NotIn", "values": ["x"]})
    answer = asked_of(oracle, node("a", labels=label), *_disk(needs), asked=_claiming())
    assert feasible(answer) == found


def _disk(needs: list[Object]) -> list[Object]:
    """A bound claim, its volume (a disk on AWS) and the node's CSINode."""
    nodes: Object = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "spec": {"drivers": []}}
    plugins = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}
    nodes["metadata"] = {"name": "a", "annotations": plugins}
    spec: Object = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    spec["awsElasticBlockStore"] = {"volumeID": "vol-1"}
    spec["claimRef"] = {"namespace": "default", "name": "c", "uid": "c"}
    spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": needs}]}}
    volume: Object = {"apiVersion": "v1", "kind": "PersistentVolume", "spec": spec}
    volume |= {"metadata": {"name": "pv"}, "status": {"phase": "Bound"}}
    claim: Object = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    done = {"pv.kubernetes.io/bind-completed": "yes"}
    claim["metadata"] = {"name": "c", "namespace": "default", "uid": "c", "annotations": done}
    wanted: Object = {"accessModes": ["ReadWriteOnce"], "volumeName": "pv"}
    claim["spec"] = wanted | {"resources": {"requests": {"storage": "1Gi"}}}
    return [nodes, volume, claim | {"status": {"phase": "Bound"}}]


def _claiming() -> Object:
    claimed = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    asked: Object = pod(volumes=[claimed])
    return asked


@pytest.mark.parametrize("manner", [NULL, NOBODY])
@pytest.mark.parametrize("wanted", ["a", "ab"])
def test_nodes_that_an_extender_drops_silently_count_as_rejected_by_name(
    wanted, manner, url, oracle: Oracle
):
    """Where the pod names its nodes, be it all of them."""
    extender = {"urlPrefix": f"{url}/e1-{manner}", "filterVerb": "filter", "nodeCacheCapable": True}
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "extenders": [extender]}
    config["kind"] = "KubeSchedulerConfiguration"
    nodes, asked = [node(name) for name in "ab"], pod(**named_nodes(*wanted))
    answer = asked_of(oracle, *nodes, asked=asked, config=config)
    assert answer["fitError"].endswith("2 node(s) didn't satisfy plugin(s) [NodeAffinity].")


def test_a_toleration_may_last_for_ever(oracle):
    ever = {"key": "k", "operator": "Exists", "effect": "NoExecute"}
    asked = pod(tolerations=[ever | {"tolerationSeconds": (1 << 63) - 1}])
    taints = [{"key": "k", "value": "v", "effect": "NoExecute"}]
    assert feasible(asked_of(oracle, node("a", taints=taints), asked=asked)) == "a"
