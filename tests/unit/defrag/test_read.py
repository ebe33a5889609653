"""Pods that cannot be read: a live cluster may have some, and the rest is planned without them."""

from muster.defrag.read import without_unreadable
from tests.unit.defrag.objects import cluster, gpu_node, gpu_pod

UNREADABLE = [{"key": "k", "operator": "Maybe"}]
RULE = "spec.tolerations[0].operator: 'Maybe' is not one of"


def test_nodes_with_a_pod_that_cannot_be_read_are_left_out_with_all_their_pods():
    nodes = [gpu_node("a"), gpu_node("b")]
    bad, beside, other = (
        gpu_pod("bad", "a", tolerations=UNREADABLE),
        gpu_pod("p", "a"),
        gpu_pod("q", "b"),
    )
    kept, reasons = without_unreadable([*nodes, bad, beside, other])
    assert kept == [nodes[1], other]
    assert list(reasons) == ["a"]
    assert f"Pod default/bad: {RULE}" in reasons["a"]
    assert [one.name for one in cluster(*kept).pods.values()] == ["default/q"]


def test_a_pending_pod_that_cannot_be_read_leaves_no_node_out():
    node, pod = gpu_node("a"), gpu_pod("bad", tolerations=UNREADABLE)
    kept, reasons = without_unreadable([node, pod])
    assert (kept, list(reasons)) == ([node], [""])


def test_pods_with_a_priority_class_are_kept():
    low = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "low"},
        "value": 5,
    }
    objects = [gpu_node("a"), low, gpu_pod("p", "a", priorityClassName="low", priority=5)]
    assert without_unreadable(objects) == (objects, {})
