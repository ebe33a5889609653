"""Before each step of `--apply`: can the moves of a place still be carried out?"""

from muster.defrag.check import why_not
from muster.defrag.movable import TAINT
from muster.defrag.plan import plan
from tests.unit.defrag.objects import cluster, gpu_node, gpu_pod

A, B = gpu_node("a"), gpu_node("b", gpus=4)
TAINTED = gpu_node("a", taints=[{"key": TAINT, "effect": "NoSchedule"}])
P, Q = gpu_pod("p", "a", gpus=2), gpu_pod("q", "a", gpus=2)
MOVES = plan(cluster(A, B, P, Q)).moves


def why(*objects) -> str:
    return why_not(cluster(*objects), MOVES)


def test_pods_move_while_all_of_them_have_another_node():
    assert len(MOVES) == 2
    assert why(TAINTED, B, P, Q) == ""


def test_a_pod_without_the_taint_would_come_back():
    assert "would come back to a" in why(A, B, P, Q)


def test_none_moves_once_one_of_them_has_no_node():
    assert why(TAINTED, B, P, Q, gpu_pod("new", "b")) == "no other node has room for default/q"


def test_a_pod_that_has_gone_or_moved_or_must_stay_now_is_named():
    assert why(TAINTED, B, P) == "default/q is gone"
    assert why(TAINTED, B, P, gpu_pod("q", "b")) == "default/q is not on a any more"
    other = gpu_pod("q", "a", metadata={"uid": "another"})
    assert why(TAINTED, B, P, other) == "default/q is gone"
    leaving = gpu_pod("q", "a", gpus=2, metadata={"deletionTimestamp": "2026-01-01T12:00:00Z"})
    assert why(TAINTED, B, P, leaving) == "default/q is terminating"
