"""Gangs that ask the cluster autoscaler for nodes, whose part the story plays."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from shared.model.cluster_objects import ProvisioningRequest
from shared.ports.cluster import NodesRequest
from shared.simulated.cluster import SimCluster
from tests.scenarios.scene import Scene, node, play

MESHES = [
    pytest.param({"placements": 1}, id="one-shard"),
    pytest.param({"placements": 3}, id="three-shards"),
]
anywhere = pytest.mark.parametrize("mesh", MESHES)
GANG = "default/train"
MEMBERS = ("a0", "a1", "a2")


def create(scene: Scene) -> None:
    """Create a gang of three; each member needs a node of its own."""
    scene.gang(GANG, 3, provisioning="check-capacity.autoscaling.x-k8s.io")
    scene.pods(*MEMBERS, cpu_milli=3_000, gang=GANG)


def requests(scene: Scene) -> list[ProvisioningRequest]:
    found = scene.cluster.objects.values()
    return [one for one in found if isinstance(one, ProvisioningRequest)]


def answer(scene: Scene, phase: str, message: str = "") -> None:
    (request,) = requests(scene)
    scene.cluster.set_object(replace(request, phase=phase, message=message))


@anywhere
def test_nodes_that_come_are_used_at_once_all_or_nothing(mesh):
    async def story(scene: Scene):
        create(scene)
        await scene.settle()
        (request,) = requests(scene)
        assert (request.namespace, request.name, request.gang) == ("default", "train", GANG)
        answer(scene, "Accepted")
        await scene.settle()
        assert (await scene.said("a0")).endswith("ProvisioningRequest default/train: Accepted")
        answer(scene, "Provisioned")
        for number in (1, 2):
            assert scene.running(*MEMBERS) == 0
            scene.cluster.set_node(node(f"node-{number}", 4_000))
            await scene.settle(3)
        assert sorted(scene.where(*MEMBERS)) == ["node-0", "node-1", "node-2"]
        await scene.settle(1)
        assert requests(scene) == []

    play(story, node("node-0", 4_000), **mesh)


@anywhere
def test_a_failed_request_is_followed_by_another(mesh):
    async def story(scene: Scene):
        create(scene)
        await scene.settle()
        (first,) = requests(scene)
        answer(scene, "Failed", "no quota")
        await scene.settle()
        text = "ProvisioningRequest default/train: Failed: no quota"
        assert (await scene.said("a0")).endswith(text)
        assert [one.uid for one in requests(scene)] == [first.uid]
        await scene.settle(60)
        (second,) = requests(scene)
        assert second.uid != first.uid

    play(story, node("node-0", 4_000), **mesh)


@anywhere
def test_a_request_that_is_lost_is_sent_once_more(mesh, monkeypatch):
    lost: list[str] = []
    write = SimCluster.request_nodes

    async def lose_first(cluster: SimCluster, asked: Sequence[NodesRequest]) -> list[str]:
        """Lose the first creation and the first deletion."""
        what = "deletion" if asked[0].uid else "creation"
        if what in lost:
            return await write(cluster, asked)
        lost.append(what)
        raise ConnectionError("lost")

    monkeypatch.setattr(SimCluster, "request_nodes", lose_first)

    async def story(scene: Scene):
        create(scene)
        await scene.settle(25)
        assert (lost, requests(scene)) == (["creation"], [])
        await scene.settle(20)
        assert len(requests(scene)) == 1
        for number in (1, 2):
            scene.cluster.set_node(node(f"node-{number}", 4_000))
        await scene.settle(25)
        assert scene.running(*MEMBERS) == 3
        assert (lost, len(requests(scene))) == (["creation", "deletion"], 1)
        await scene.settle(20)
        assert requests(scene) == []

    play(story, node("node-0", 4_000), **mesh)


@anywhere
def test_members_say_why_no_request_was_written(mesh, monkeypatch):
    async def refuse(_cluster: SimCluster, asked: Sequence[NodesRequest]) -> list[str]:
        return ["may not create"] * len(asked)

    monkeypatch.setattr(SimCluster, "request_nodes", refuse)

    async def story(scene: Scene):
        create(scene)
        await scene.settle()
        text = "ProvisioningRequest default/train was not written: may not create"
        assert (await scene.said("a0")).endswith(text)

    play(story, node("node-0", 4_000), **mesh)
