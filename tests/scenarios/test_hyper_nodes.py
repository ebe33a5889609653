"""Gangs with the networkTopology of Volcano: in which HyperNodes they run."""

import pytest

from shared.model.cluster_objects import HyperNodeMember
from shared.model.groups.topology import NetworkTopology
from tests.scenarios.scene import Scene, node, play
from tests.scenarios.test_topology import MESHES
from tests.support.hyper_nodes import hyper_node

GANG, NAMES = "default/g@volcano", ("p", "q", "r")
SOFT = NetworkTopology(is_hard=False)
anywhere = pytest.mark.parametrize("mesh", MESHES)
NODES = [node(name, 1_000) for name in ("a", "b", "c", "d", "outside")]
RACKS = (hyper_node("s0", 1, nodes="a b"), hyper_node("s1", 1, nodes="c d"))
TREE = (*RACKS, hyper_node("s4", 2, inside="s0 s1"))


def hard(tier: int) -> NetworkTopology:
    return NetworkTopology(highest_tier=tier)


async def start(scene: Scene, count: int, network: NetworkTopology, cpu_milli: int = 1_000):
    """Create a gang of so many pods, of which one fits on each node."""
    scene.gang(GANG, count, network=network)
    scene.pods(*NAMES[:count], cpu_milli=cpu_milli, gang=GANG)
    await scene.settle()


@anywhere
def test_a_hard_gang_gets_one_hyper_node_of_the_tier(mesh):
    async def story(scene: Scene):
        await start(scene, 2, hard(1))
        assert set(scene.where("p", "q")) in ({"a", "b"}, {"c", "d"})

    play(story, *NODES, objects=TREE, **mesh)


@anywhere
def test_a_hard_gang_may_need_a_higher_tier(mesh):
    async def story(scene: Scene):
        await start(scene, 3, hard(1))
        assert scene.running(*NAMES) == 0
        said = await scene.said("p")
        assert "2 of 3 members have a node in hypernode@1=s" in said, said
        scene.gang(GANG, 3, network=hard(2))
        await scene.settle()
        assert set(scene.where(*NAMES)) < {"a", "b", "c", "d"}

    play(story, *NODES, objects=TREE, **mesh)


@anywhere
def test_a_hard_gang_takes_no_node_outside(mesh):
    async def story(scene: Scene):
        await start(scene, 1, hard(1))
        assert scene.running("p") == 0

    play(story, node("outside", 1_000), node("a", 500), objects=TREE, **mesh)


@anywhere
def test_a_soft_gang_prefers_a_hyper_node_and_takes_any_nodes_at_last(mesh):
    async def story(scene: Scene):
        await start(scene, 2, SOFT)
        assert set(scene.where("p", "q")) in ({"a", "b"}, {"c", "d"})
        scene.delete("p", "q")
        scene.pods("big", cpu_milli=1_000, node_selector=(("n", "a"),))
        scene.pods("big2", cpu_milli=1_000, node_selector=(("n", "c"),))
        await scene.settle()
        scene.gang("default/h@volcano", 3, network=SOFT)
        scene.pods("x", "y", "z", cpu_milli=1_000, gang="default/h@volcano")
        await scene.settle()
        assert set(scene.where("x", "y", "z")) == {"b", "d", "outside"}

    named = [node(name, 1_000, labels={"n": name}) for name in ("a", "b", "c", "d", "outside")]
    play(story, *named, objects=TREE, **mesh)


@anywhere
def test_a_waiting_gang_starts_when_hyper_nodes_come(mesh):
    async def story(scene: Scene):
        await start(scene, 2, hard(1))
        assert scene.running("p", "q") == 0
        scene.cluster.set_object(hyper_node("s0", 1, nodes="a b"))
        await scene.settle(5)
        assert set(scene.where("p", "q")) == {"a", "b"}

    play(story, *NODES, objects=(hyper_node("s9", 9, nodes="outside"),), **mesh)


@anywhere
def test_a_waiting_gang_starts_when_a_node_joins_its_hyper_node(mesh):
    async def story(scene: Scene):
        await start(scene, 3, hard(1))
        assert scene.running(*NAMES) == 0
        scene.cluster.set_object(hyper_node("s0", 1, nodes="a b outside"))
        await scene.settle(15)
        assert set(scene.where(*NAMES)) == {"a", "b", "outside"}

    play(story, *NODES, objects=RACKS, **mesh)


@anywhere
def test_a_waiting_gang_starts_when_a_new_node_matches(mesh):
    async def story(scene: Scene):
        await start(scene, 3, hard(1))
        assert scene.running(*NAMES) == 0
        scene.cluster.set_node(node("a3", 1_000))
        await scene.settle(15)
        assert set(scene.where(*NAMES)) == {"a1", "a2", "a3"}

    members = (HyperNodeMember(pattern=r"^a\d$"),)
    nodes = [node(name, 1_000) for name in ("a1", "a2", "b1", "b2")]
    play(story, *nodes, objects=(hyper_node("s0", 1, more=members),), **mesh)
