"""Manifests: gangs of other schedulers' pod groups."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.kubernetes.objects.errors import WorldError
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
