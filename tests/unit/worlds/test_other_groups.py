"""Manifests: gangs of other schedulers' pod groups."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.kubernetes.objects.errors import WorldError
from shared.model.cluster_objects import HyperNode
from shared.model.objects import PartMinimum
from shared.model.world import World
from shared.worlds.manifests import manifests_world
from tests.unit.worlds.manifests import NODE, pod

LABEL = "scheduling.x-k8s.io/pod-group"


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., World]:
    def reading(*objects: dict[str, Any]) -> World:
        path = tmp_path / "all.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        return manifests_world([path])

    return reading


def group(name: str = "g", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": spec,
    }


def member(name: str, label: str = LABEL, **spec: Any) -> dict[str, Any]:
    made = pod(name, **spec)
    made["metadata"]["labels"] = {label: "g"}
    return made


@pytest.mark.parametrize("label", [LABEL, "pod-group.scheduling.sigs.k8s.io"])
def test_a_gang_comes_from_a_group_of_coscheduling(read, label):
    made = group(minMember=2, scheduleTimeoutSeconds=40)
    world = read(made, NODE, member("a", label), member("b", label))
    (gang,) = world.gangs
    assert (gang.key, gang.min_count, gang.timeout_ms) == ("default/g@coscheduling", 2, 40_000)
    assert {arrival.pods.gang for arrival in world.arrivals} == {gang.key}


@pytest.mark.parametrize("least", [1, 2])
@pytest.mark.parametrize("version", ["x-k8s.io/v1alpha1", "volcano.sh/v1beta1"])
def test_groups_of_other_schedulers_keep_their_minimum(read, version, least):
    made = {**group(minMember=least), "apiVersion": f"scheduling.{version}"}
    one = pod("a")
    one["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
    pods = [one if "volcano" in version else member("a"), member("b")]
    annotations = {"muster.io/minimum-run-time": "30m", "muster.io/replacement-hold": "2m"}
    made["metadata"]["annotations"] = annotations
    (gang,) = read(made, NODE, *pods).gangs
    assert gang.keeps_minimum == (least > 1)
    assert (gang.minimum_run_ms, gang.replacement_hold_ms) == (1_800_000, 120_000)


def test_groups_of_two_kinds_may_have_one_name(read):
    kube = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
    }
    world = read(
        *(group(minMember=2), kube, NODE, member("a"), member("b")),
        member("c", schedulingGroup={"podGroupName": "g"}),
    )
    found = {gang.key: gang.min_count for gang in world.gangs}
    assert found == {"default/g@coscheduling": 2, "default/g": 1}


def test_a_group_larger_than_the_cluster_is_named_with_its_field(read):
    pods = [member(f"p{number}") for number in range(111)]
    with pytest.raises(WorldError, match=r"PodGroup default/g: spec\.minMember: 111 members"):
        read(group(minMember=111), NODE, *pods)


def test_an_unknown_field_of_a_group_is_named(read):
    with pytest.raises(WorldError, match=r"spec\.minMembers: is an unknown field"):
        read(group(minMembers=2))


def test_a_gang_comes_from_a_group_of_volcano(read):
    made = group(minMember=2, queue="q", networkTopology={"mode": "soft"}, minTaskMember={"w": 1})
    made["apiVersion"] = "scheduling.volcano.sh/v1beta1"
    pods = [pod(name) for name in "ab"]
    for one in pods:
        one["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
        one["metadata"]["labels"] = {"volcano.sh/task-spec": "w"}
    world = read(made, NODE, *pods)
    assert [(gang.key, gang.min_count) for gang in world.gangs] == [("default/g@volcano", 2)]
    assert world.gangs[0].minimums == (PartMinimum("w", 1),)
    found = {(arrival.pods.gang, arrival.pods.spec.part) for arrival in world.arrivals}
    assert found == {("default/g@volcano", "w")}


def test_pods_of_a_group_of_kueue_say_how_many_they_are(read):
    made = pod("a")
    made["metadata"]["labels"] = {"kueue.x-k8s.io/pod-group-name": "g"}
    made["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": "2"}
    world = read(NODE, made)
    (arrival,) = world.arrivals
    assert (arrival.pods.gang, arrival.pods.gang_count) == ("default/g@kueue", 2)
    assert world.gangs == ()


def test_pods_of_a_sub_group_of_volcano_are_a_part(read):
    policy = {"name": "rack", "matchLabelKeys": ["rack"], "subGroupSize": 2, "minSubGroups": 1}
    made = group(minMember=2, subGroupPolicy=[policy])
    made["apiVersion"] = "scheduling.volcano.sh/v1beta1"
    one = pod("a")
    one["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
    one["metadata"]["labels"] = {"rack": "r1"}
    world = read(made, NODE, one)
    assert world.gangs[0].minimums == (PartMinimum("rack", 2, parts=1),)
    assert world.arrivals[0].pods.spec.part == "rack/r1"


def hyper_node(name: str, tier: int, **members: str) -> dict[str, Any]:
    """Return a HyperNode; `members`: their names by type."""
    given = [
        {"type": kind, "selector": {"exactMatch": {"name": one}}}
        for kind, names in members.items()
        for one in names.split()
    ]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": given},
    }


def test_hyper_nodes_are_objects_of_the_world(read):
    world = read(NODE, hyper_node("s0", 1, Node="a"), hyper_node("s4", 2, HyperNode="s0"))
    found = [one for one in world.objects if isinstance(one, HyperNode)]
    assert [(one.name, one.uid, one.tier) for one in found] == [
        ("s0", "HyperNode..s0", 1),
        ("s4", "HyperNode..s4", 2),
    ]


def test_a_hyper_node_that_is_no_part_of_a_tree_is_named(read):
    world = read(NODE, hyper_node("s0", 1, Node="a"), hyper_node("s1", 1, Node="a"))
    (rejected,) = world.rejected
    assert rejected.what.endswith("HyperNode s1")
    assert rejected.field == "spec.members[0].selector.exactMatch.name"
    assert rejected.rule == "is left out: node a is a member of HyperNode s0 already"


def test_a_wrong_field_of_a_hyper_node_is_named(read):
    made = hyper_node("s0", 1, Rack="a")
    with pytest.raises(WorldError, match=r"HyperNode s0: spec\.members\[0\]\.type: 'Rack' is not"):
        read(NODE, made)
