"""Which pods may move, and what is said of the others."""

import pytest

from muster.defrag.movable import TAINT, with_our_taint
from shared.kubernetes.objects.errors import WorldError
from tests.unit.defrag.objects import OWNER, cluster, gpu_node, gpu_pod

SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
EMPTY_DIR = [{"name": "scratch", "emptyDir": {}}]
LABELS = {"app": "web"}


def stays(*pods, more=(), **options) -> list[str]:
    found = cluster(gpu_node("a"), *pods, *more, **options)
    return [one.stays for one in found.pods.values()]


def owner(**fields):
    return {"ownerReferences": [{**OWNER, **fields}]}


def budget(name: str, allowed: int):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": LABELS}, "minAvailable": 1},
        "status": {"disruptionsAllowed": allowed},
    }


@pytest.mark.parametrize(
    ("reason", "pod"),
    [
        ("", {}),
        ("has no controller that makes it again", {"metadata": {"ownerReferences": []}}),
        ("has no controller that makes it again", {"metadata": owner(controller=False)}),
        ("is of a DaemonSet", {"metadata": owner(kind="DaemonSet")}),
        ("is a static pod", {"metadata": owner(kind="Node")}),
        ("is terminating", {"metadata": {"deletionTimestamp": "2026-01-01T12:00:00Z"}}),
        ("is critical to the system", {"priorityClassName": "system-node-critical"}),
        ("is a member of gang default/g", {"schedulingGroup": {"podGroupName": "g"}}),
        (f"has {SAFE}: false", {"metadata": {"annotations": {SAFE: "false"}}}),
        (
            "has karpenter.sh/do-not-disrupt: true",
            {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}},
        ),
        (f"has local storage, and not {SAFE}: true", {"volumes": EMPTY_DIR}),
        ("", {"volumes": EMPTY_DIR, "metadata": {"annotations": {SAFE: "true"}}}),
        ("tolerates all taints", {"tolerations": [{"operator": "Exists"}]}),
        ("tolerates all taints", {"tolerations": [{"key": TAINT, "operator": "Exists"}]}),
        ("", {"tolerations": [{"key": "other", "operator": "Exists"}]}),
        ("", {"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]}),
    ],
)
def test_pods_that_must_not_move_have_a_reason(reason, pod):
    assert stays(gpu_pod("p", "a", **pod)) == [reason]


@pytest.mark.parametrize(
    ("reason", "budgets"),
    [
        ("", [budget("one", 1)]),
        ("budget none allows no disruption", [budget("none", 0)]),
        ("has several budgets, which the Eviction API refuses", [budget("a", 1), budget("b", 1)]),
    ],
)
def test_budgets_say_whether_a_pod_may_move(reason, budgets):
    assert stays(gpu_pod("p", "a", metadata={"labels": LABELS}), more=budgets) == [reason]


def test_for_a_pending_pod_none_of_higher_priority_moves():
    classes = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in (("low", 5), ("high", 50))
    ]
    pods = [gpu_pod(name, "a", priorityClassName=name) for name in ("low", "high")]
    assert stays(*pods, more=classes, is_named=True) == ["has a higher priority"] * 2
    assert stays(*pods, more=classes) == ["", ""]


@pytest.mark.parametrize("words", ["gpu", "=8", "nvidia.com/gpu=", "nvidia.com/gpu=8,,", "cpu=x"])
def test_amounts_that_cannot_be_read_are_refused(words):
    with pytest.raises(WorldError, match="--for"):
        cluster(gpu_node("a"), wanted=words)


def test_nodes_with_our_taint_are_found():
    ours, other = ({"key": key, "effect": "NoSchedule"} for key in (TAINT, "other"))
    nodes = [gpu_node("a"), gpu_node("b", taints=[other, ours]), gpu_node("c", taints=[other])]
    assert with_our_taint([*nodes, gpu_pod("p", "b")]) == ["b"]
