"""Each release of kube-scheduler answers a case with its own filters, scores and texts."""

import pytest

from muster.explain.scoring import score_case
from shared.model.release import ReleaseOptions
from tests.parity.suites.builders import named, node, pod
from tests.unit.worlds.manifests import priority_class

RESTART = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [7]}}]
RESTARTS = "RestartAllContainersOnContainerExits"
CORDONED = "node(s) were unschedulable"
LACKING = "node(s) didn't match Pod's required features"
V1_35, V1_36, V1_37 = "1.35", "1.36", "1.37"


def answer(version, *objects, asked, **more):
    case = {"objects": list(objects), "pods": [asked], **more}
    return score_case(case, release=ReleaseOptions(compatibility=version))["pods"][0]


def declaring(name, *features):
    found = node(name)
    found["status"]["declaredFeatures"] = list(features)
    return found


def restarting():
    found = pod()
    found["spec"]["containers"][0]["restartPolicyRules"] = RESTART
    return found


@pytest.mark.parametrize(
    ("version", "reason"),
    [(V1_36, CORDONED), (V1_37, "node(s) didn't satisfy plugin(s) [NodeName]")],
)
def test_other_nodes_than_the_named_one_are_left_out_since_1_37(version, reason):
    nodes = [node(name, unschedulable=True) for name in "ab"]
    found = answer(version, *nodes, asked=pod(nodeName="b"))
    assert [found["nodes"][name]["reasons"] for name in "ab"] == [[reason], [CORDONED]]


@pytest.mark.parametrize(
    ("version", "narrowed"), [(V1_36, "[NodeAffinity]"), (V1_37, "[NodeAffinity NodeName]")]
)
def test_nodes_are_narrowed_by_both_plugins_since_1_37(version, narrowed):
    asked = pod(nodeName="a", **named("a", "b"))
    found = answer(version, node("a"), node("c"), asked=asked)
    assert found["nodes"]["c"]["reasons"] == [f"node(s) didn't satisfy plugin(s) {narrowed}"]
    assert found["best"] == ["a"]


def test_a_pod_that_names_no_common_node_is_rejected_by_no_plugin():
    asked = pod(nodeName="a", **named("b"))
    found = answer(V1_37, node("a"), node("b"), asked=asked)
    text = "node(s) didn't satisfy plugin(s) [NodeAffinity NodeName] simultaneously"
    assert found["preFilterStatus"] == {
        "code": "UnschedulableAndUnresolvable",
        "plugin": "",
        "reasons": [text],
    }
    assert found["fitError"] == f"0/2 nodes are available: {text}."


@pytest.mark.parametrize("version", [V1_36, V1_37])
def test_a_pod_fits_where_the_kubelet_declares_what_it_needs_since_1_36(version):
    nodes = declaring("a", "Other", RESTARTS), declaring("b", "Other"), node("c")
    found = answer(version, *nodes, asked=restarting())
    assert found["best"] == ["a"]
    lacking = {name: found["nodes"][name] for name in "bc"}
    assert {one["plugin"] for one in lacking.values()} == {"NodeDeclaredFeatures"}
    assert all(one["reasons"] == [LACKING] for one in lacking.values())
    before = answer(V1_35, *nodes, asked=restarting())
    assert all(one["feasible"] for one in before["nodes"].values())


def test_with_its_gate_1_35_asks_for_declared_features_too():
    gates = {"NodeDeclaredFeatures": True}
    case = {"objects": [declaring("a", RESTARTS), node("b")], "pods": [restarting()]}
    (found,) = score_case(case, release=ReleaseOptions(feature_gates=gates))["pods"]
    assert found["best"] == ["a"]
    assert found["nodes"]["b"]["reasons"] == [
        f"node declared features check failed - unsatisfied requirements: {RESTARTS}"
    ]


@pytest.mark.parametrize(
    ("version", "before"), [(V1_36, "no new claims to deallocate, "), (V1_37, "")]
)
def test_claims_are_not_mentioned_since_1_37(version, before):
    found = answer(version, node(), asked=pod(requests={"cpu": "99"}), preempt=True)
    assert found["preemption"]["message"].startswith(f"{before}preemption: 0/1 nodes")


@pytest.mark.parametrize("version", [V1_36, V1_37])
def test_preemption_says_what_it_found_since_1_37(version):
    there = [pod(name, requests={"cpu": "2"}, nodeName="a") for name in ("x", "y")]
    asked = pod(requests={"cpu": "4"}, priorityClassName="high")
    high = priority_class("high", 1000)
    found = answer(version, node(), high, *there, asked=asked, preempt=True)
    text = "preemption: found a potential placement for pod on node a, preempting 2 victims"
    assert found["preemption"]["best"] == "a"
    assert found["preemption"]["message"] == (text if version == V1_37 else "")


@pytest.mark.parametrize(("version", "score"), [(V1_36, 48), (V1_37, 24)])
def test_mounted_images_raise_the_maximum_since_1_37(version, score):
    there = node(images=[{"names": ["v:1"], "sizeBytes": 500 << 20}])
    asked = pod(volumes=[{"name": "v", "image": {"reference": "v:1"}}])
    asked["spec"]["containers"][0]["image"] = "other"
    found = answer(version, there, asked=asked)
    assert found["nodes"]["a"]["scores"]["ImageLocality"] == score


def in_namespace(name, **labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


@pytest.mark.parametrize(("version", "feasible"), [(V1_36, False), (V1_37, True)])
def test_a_namespace_selector_selects_by_labels_alone_since_1_37(version, feasible):
    """Before, one that needs no label selected the pods of every namespace."""
    there = pod("there", nodeName="a")
    there["metadata"] |= {"namespace": "old", "labels": {"app": "x"}}
    without = [{"key": "old", "operator": "DoesNotExist"}]
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "x"}},
        "namespaceSelector": {"matchExpressions": without},
    }
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    namespaces = in_namespace("old", old="yes"), in_namespace("default")
    host = node("a", labels={"kubernetes.io/hostname": "a"})
    found = answer(version, host, *namespaces, there, asked=pod(affinity=rule))
    assert found["nodes"]["a"]["feasible"] == feasible
