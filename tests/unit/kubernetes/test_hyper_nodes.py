"""HyperNodes of Volcano on a live API: read where they are served, and named if they cannot be
used.
"""

import logging
from typing import Any

import pytest

from shared.events.observed import InputRejected, ObjectsDeletedSeen, ObjectsSeen
from shared.kubernetes.cluster import KubeCluster
from shared.model.cluster_objects import HyperNode, HyperNodeMember, LabelSelector
from shared.model.objects import Requirement
from shared.ports.cluster import OBJECTS, Watched
from tests.unit.kubernetes.fake_api import FakeApi
from tests.unit.kubernetes.watch import Watch

HYPER_NODES = ("hypernodes", "topology.volcano.sh/v1alpha1", "hypernodes")
EXACT = {"exactMatch": {"name": "a"}}


@pytest.fixture(autouse=True)
def _is_served(api: FakeApi):
    api.install(*HYPER_NODES)


def put(api: FakeApi, name: str, tier: Any, *members: dict[str, Any], **more: Any) -> None:
    spec = {"tier": tier, "members": list(members), **more}
    api.put("hypernodes", name, metadata={"namespace": ""}, spec=spec, status={"nodeCount": 1})


def node(**selector: Any) -> dict[str, Any]:
    return {"type": "Node", "selector": selector}


def inside(name: str) -> dict[str, Any]:
    return {"type": "HyperNode", "selector": {"exactMatch": {"name": name}}}


def hyper_nodes(watched: Watched) -> list[Any]:
    found = [event for event in watched.events if isinstance(event, ObjectsSeen)]
    return [one for event in found for one in event.objects]


async def test_every_field_is_read(cluster: KubeCluster, api: FakeApi):
    labels = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r"]}]}
    members = (
        *(node(exactMatch={"name": "a"}), node(regexMatch={"pattern": "^b-"})),
        *(node(labelMatch=labels), inside("s1")),
    )
    put(api, "s0", 2, *members, tierName="rack")
    listed = await cluster.list_all(OBJECTS)
    by_label = LabelSelector((), (Requirement("rack", "In", ("r",)),))
    assert hyper_nodes(listed) == [
        HyperNode(
            uid="uid-s0",
            name="s0",
            tier=2,
            tier_name="rack",
            members=(
                *(HyperNodeMember(node="a"), HyperNodeMember(pattern="^b-")),
                *(HyperNodeMember(selector=by_label), HyperNodeMember(hyper_node="s1")),
            ),
        )
    ]
    assert "hypernodes" in listed.marks


async def test_changes_are_watched(cluster: KubeCluster, api: FakeApi):
    put(api, "s0", 1, node(**EXACT))
    listed = await cluster.list_all(OBJECTS)
    watch = Watch(cluster, api.revision, listed.marks)
    put(api, "s0", 2, node(**EXACT))
    await watch.until(lambda: bool(watch.of(ObjectsSeen)))
    assert watch.of(ObjectsSeen)[0].objects[0].tier == 2
    api.delete("hypernodes", "s0")
    await watch.until(lambda: bool(watch.of(ObjectsDeletedSeen)))
    await watch.close()


async def test_those_from_before_they_were_read_are_reported(cluster: KubeCluster, api: FakeApi):
    """Another process, of an older version, has watched so far."""
    put(api, "s0", 1, node(**EXACT))
    watch = Watch(cluster, api.revision)
    await watch.until(lambda: bool(watch.of(ObjectsSeen)))
    await watch.close()


@pytest.mark.parametrize(
    ("members", "field", "rule"),
    [
        ([node()], "", "must be exactly one of exactMatch, regexMatch, labelMatch"),
        ([node(**EXACT, regexMatch={"pattern": "a"})], "", "must be exactly one of"),
        ([node(regexMatch={"pattern": "(a+)+"})], ".regexMatch.pattern", "repeats a group"),
        ([node(exactMatch={})], ".exactMatch.name", "is required"),
        (
            [{"type": "HyperNode", "selector": {"regexMatch": {"pattern": "a"}}}],
            "",
            "must be exactMatch for a member of type HyperNode",
        ),
    ],
)
async def test_a_wrong_member_is_named(
    cluster: KubeCluster, api: FakeApi, members: list[Any], field: str, rule: str
):
    put(api, "s0", 1, *members)
    *_, rejected = (await cluster.list_all(OBJECTS)).events
    assert isinstance(rejected, InputRejected)
    assert rejected.what == "HyperNode s0"
    assert rejected.field == f"spec.members[0].selector{field}"
    assert rejected.rule.startswith(rule)


async def test_a_wrong_tree_is_named_until_it_is_right(cluster: KubeCluster, api: FakeApi, caplog):
    put(api, "s0", 1, node(**EXACT))
    put(api, "s1", 1, node(**EXACT))
    with caplog.at_level(logging.WARNING):
        listed = await cluster.list_all(OBJECTS)
    field = "spec.members[0].selector.exactMatch.name"
    rule = "node a is a member of HyperNode s0 already"
    assert InputRejected("HyperNode s1", field, rule) in listed.events
    assert [record.getMessage() for record in caplog.records] == [
        f"HyperNode s1 is left out: {field}: {rule}"
    ]
    assert cluster.left_out.counts() == {"HyperNode": 1}
    watch = Watch(cluster, api.revision, listed.marks)
    api.delete("hypernodes", "s0")
    await watch.until(lambda: bool(watch.of(ObjectsDeletedSeen)))
    assert cluster.left_out.counts() == {}
    put(api, "s0", 1, node(**EXACT))
    await watch.until(lambda: bool(watch.of(InputRejected)))
    assert cluster.left_out.counts() == {"HyperNode": 1}
    await watch.close()


async def test_a_server_without_them_is_no_warning(cluster: KubeCluster, api: FakeApi, caplog):
    del api.custom["hypernodes"]
    with caplog.at_level(logging.WARNING):
        await cluster.list_all(OBJECTS)
    assert not caplog.records
