"""Manifests: CompositePodGroups, with their feature gate and without it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.kubernetes.objects.errors import WorldError
from shared.model.release import COMPOSITE_POD_GROUP, V1_37, release
from shared.model.world import World
from shared.worlds.manifests import manifests_world
from tests.unit.worlds.manifests import NODE, pod

Read = Callable[..., World]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def reading(*objects: dict[str, Any], is_on: bool = True) -> World:
        path = tmp_path / "all.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        return manifests_world([path], release(V1_37, {COMPOSITE_POD_GROUP: is_on}))

    return reading


def composite(name: str, policy: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": COMPOSITE_POD_GROUP,
        "metadata": {"name": name, "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {"schedulingPolicy": policy, **spec},
    }


def group(name: str, policy: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "creationTimestamp": "2026-01-02T03:04:06Z"},
        "spec": {"schedulingPolicy": policy, "parentCompositePodGroupName": "root", **spec},
    }


BASIC: dict[str, Any] = {"basic": {}}
MEMBERS = [pod(name, schedulingGroup={"podGroupName": "g"}) for name in ("a", "b")]


def test_a_tree_has_composite_groups_and_the_groups_that_pods_name(read: Read):
    root = composite("root", {"gang": {"minGroupCount": 2}}, disruptionMode={"all": {}})
    world = read(root, group("g", BASIC), NODE, *MEMBERS)
    above, below = world.gangs
    assert (above.key, above.min_groups, above.is_unit) == ("default/root@composite", 2, True)
    assert (below.key, below.min_count, below.parent) == ("default/g", 1, above.key)
    assert (above.created, below.created) == ("2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z")
    assert world.rejected == ()


def test_a_basic_composite_needs_one_group(read: Read):
    world = read(composite("root", BASIC), group("g", {"gang": {"minCount": 2}}), NODE, *MEMBERS)
    assert [one.min_groups for one in world.gangs] == [1, 0]


def test_without_the_gate_groups_are_by_themselves(read: Read):
    objects = composite("root", BASIC), group("g", {"gang": {"minCount": 2}}), NODE, *MEMBERS
    world = read(*objects, is_on=False)
    (gang,) = world.gangs
    assert (gang.key, gang.min_count, gang.is_in_tree) == ("default/g", 2, False)
    (rejected,) = world.rejected
    assert rejected.rule == (
        "CompositePodGroup root is ignored: the feature gate CompositePodGroup is off"
    )


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ({}, "must be exactly one of basic, gang"),
        ({"gang": {}}, "minGroupCount"),
        ({"gang": {"minGroupCount": 0}}, "minGroupCount"),
        ({"gang": {"minCount": 1}}, "minCount"),
    ],
)
def test_a_wrong_policy_is_named(read: Read, policy: dict[str, Any], why: str):
    with pytest.raises(WorldError, match=why):
        read(composite("root", policy), NODE)
