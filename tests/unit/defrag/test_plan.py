"""Plans: the cheapest nodes are emptied, and every moved pod has another node."""

from typing import Any

import pytest

from muster.defrag.plan import Plan, plan, plan_in_domain
from tests.unit.defrag.objects import GPU, cluster, gpu_node, gpu_pod, started


def moves(found: Plan) -> list[tuple[str, str, str]]:
    return [
        (move.pod.removeprefix("default/"), move.from_node, move.to_node) for move in found.moves
    ]


def test_the_pod_of_the_emptiest_node_moves_to_the_fuller_one():
    nodes = [gpu_node("a"), gpu_node("b")]
    found = plan(cluster(*nodes, gpu_pod("p", "a"), gpu_pod("q", "b", gpus=2)))
    assert moves(found) == [("p", "a", "b")]
    assert [place.node for place in found.places] == ["a"]


def test_nothing_moves_where_all_fit_already():
    found = plan(cluster(gpu_node("a"), gpu_node("b"), gpu_pod("p", "a")))
    assert (found.free, found.places) == (("b",), ())


def test_a_free_node_receives_no_pod():
    nodes = [gpu_node(name) for name in "abc"]
    found = plan(cluster(*nodes, gpu_pod("p", "a", gpus=5), gpu_pod("q", "b", gpus=5)))
    assert (found.free, found.places) == (("c",), ())


def test_with_a_count_no_more_nodes_are_emptied_and_other_free_ones_receive_pods():
    nodes = [gpu_node(name) for name in "abcd"]
    pods = [gpu_pod("p", "a", gpus=5), gpu_pod("q", "b", gpus=5), gpu_pod("r", "c")]
    found = plan(cluster(*nodes, *pods), count=2)
    assert found.free == ("d",)
    assert moves(found) == [("r", "c", "a")]


def test_the_pod_that_has_run_shortest_loses_its_work():
    nodes = [gpu_node(name) for name in "ab"]
    old, young = started(0), started(1800)
    pods = [gpu_pod("old", "a", status=old), gpu_pod("young", "b", status=young)]
    found = plan(cluster(*nodes, *pods, now_ms=1_767_272_400_000))
    assert moves(found) == [("young", "b", "a")]
    assert [move.lost_ms for move in found.moves] == [1_800_000]


def test_a_node_that_received_pods_is_not_emptied():
    nodes = [gpu_node(name) for name in "abc"]
    found = plan(cluster(*nodes, *(gpu_pod(name * 2, name, gpus=3) for name in "abc")))
    receivers = {move.to_node for move in found.moves}
    assert receivers.isdisjoint(place.node for place in found.places)
    assert len({move.pod for move in found.moves}) == len(found.moves)


def test_pods_without_gpus_stay_where_the_wanted_pod_fits_beside_them():
    nodes = [gpu_node("a"), gpu_node("b")]
    pods = [gpu_pod("p", "a"), gpu_pod("cpu", "a", gpus=0), gpu_pod("q", "b", gpus=2)]
    assert moves(plan(cluster(*nodes, *pods))) == [("p", "a", "b")]
    tight = plan(cluster(*nodes, *pods, wanted=f"{GPU}=8,cpu=64"))
    assert sorted(moves(tight)) == [("cpu", "a", "b"), ("p", "a", "b")]


def test_a_place_is_made_only_if_all_its_pods_have_a_node():
    nodes = [gpu_node("a"), gpu_node("b", gpus=4)]
    pods = [gpu_pod("p", "a", gpus=4), gpu_pod("q", "a"), gpu_pod("r", "b", gpus=0, cpu="63")]
    assert plan(cluster(*nodes, *pods)).places == ()


@pytest.mark.parametrize("rule", ["taint", "cordon", "selector", "anti-affinity"])
def test_the_filters_of_the_scheduler_decide_where_a_pod_may_move(rule):
    b = gpu_node("b", gpus=4)
    spec: dict[str, Any] = {}
    if rule == "taint":
        b["spec"]["taints"] = [{"key": "k", "effect": "NoSchedule"}]
    elif rule == "cordon":
        b["spec"]["unschedulable"] = True
    elif rule == "selector":
        spec["nodeSelector"] = {"kubernetes.io/hostname": "a"}
    else:
        terms = [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"x": "y"}}}
        ]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        spec["affinity"] = {"podAntiAffinity": required}
    other = gpu_pod("q", "b", metadata={"labels": {"x": "y"}})
    free = plan(cluster(gpu_node("a"), gpu_node("b", gpus=4), gpu_pod("p", "a"), other))
    assert moves(free) == [("p", "a", "b")]
    assert plan(cluster(gpu_node("a"), b, gpu_pod("p", "a", **spec), other)).places == ()


def test_pods_in_the_way_that_stay_are_named():
    alone = gpu_pod("alone", "a", metadata={"ownerReferences": []})
    found = plan(cluster(gpu_node("a"), gpu_node("b", gpus=4), alone))
    (stays,) = found.stays
    assert (stays.pod, stays.node) == ("default/alone", "a")
    assert stays.reason == "has no controller that makes it again"


def test_two_may_fit_on_one_node():
    nodes = [gpu_node("a"), gpu_node("b", gpus=2)]
    pods = [gpu_pod("p", "a"), gpu_pod("q", "a", gpus=1)]
    found = plan(cluster(*nodes, *pods, wanted=f"{GPU}=4"))
    assert (found.free, [one.node for one in found.places]) == (("a",), ["a"])


def test_all_fit_in_the_domain_where_that_costs_least():
    nodes = [gpu_node(name) for name in ("a1", "a2", "b1", "b2", "c1", "c2")]
    pods = [gpu_pod(f"{name}-{at}", name) for name in ("a1", "a2") for at in range(2)]
    pods += [gpu_pod(name, name) for name in ("b1", "b2")]
    pods += [gpu_pod(name, name, gpus=4) for name in ("c1", "c2")]
    found = plan_in_domain(cluster(*nodes, *pods), 2, "rack")
    assert (found.domain, sorted(one.node for one in found.places)) == ("b", ["b1", "b2"])


def test_without_a_domain_for_all_the_one_with_most_is_planned():
    nodes = [gpu_node(name) for name in ("a1", "b1", "b2", "c1")]
    found = plan_in_domain(cluster(*nodes), 3, "rack")
    assert (found.domain, sorted(found.free)) == ("b", ["b1", "b2"])


def test_nodes_without_the_label_are_in_no_domain():
    assert plan_in_domain(cluster(gpu_node("a1")), 1, "row") == Plan((), (), ())


def test_a_node_of_the_plan_receives_no_pod_even_beside_the_one_that_should_fit():
    nodes = [gpu_node("a"), gpu_node("b"), gpu_node("c", gpus=2)]
    pods = [
        gpu_pod("x", "a", gpus=3, metadata={"ownerReferences": []}),
        gpu_pod("y", "a", gpus=2, status=started(3000)),
        gpu_pod("z", "b", gpus=4, status=started(0)),
        gpu_pod("w", "b", gpus=1, status=started(0)),
    ]
    assert moves(plan(cluster(*nodes, *pods, wanted=f"{GPU}=4"))) == [("y", "a", "c")]
