"""With several shards, ingest's events about images match the cluster at every moment."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from services.ingest.core.core import IngestCore
from shared.events import observed as seen
from shared.events.base import Configured, Event
from shared.events.ingest import ImagesCounted
from shared.model.columns import pack, unpack
from shared.model.images import number, packed
from shared.model.objects import Node, PodSpec
from tests.support.steps import Steps

NAMES = ("a:1", "b:1", "c:1", "d:1")


class World:
    """Nodes with images, pods that name some, and a shard's knowledge from the events."""

    def __init__(self, random: Random, placements: int) -> None:
        self.random = random
        self.steps = Steps(IngestCore(placements))
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, tuple[str, ...]] = {}
        self.born = self.told_nodes = 0
        self.published: dict[int, int] = {}
        self.give(Configured({}), seen.WorldOpened("c"))

    def give(self, *events: Event) -> None:
        for event in self.steps.when(*events):
            if isinstance(event, ImagesCounted):
                self.told_nodes = event.nodes
                columns = unpack(event.images).tolist(), unpack(event.holders).tolist()
                self.published.update(zip(*columns, strict=True))

    def images(self) -> bytes:
        return packed((name, 5) for name in NAMES if self.random.random() < 0.5)

    def step(self) -> None:
        draw = self.random
        kind = draw.choice(("node", "node", "pull", "gone", "again", "list", "pod", "pod", "end"))
        self.born += 1
        known = draw.choice([*self.nodes, ""])
        if kind == "node":
            self._node(Node(uid=f"u{self.born}", name=f"n{self.born}", images=self.images()))
        elif kind == "pull" and known:
            self._node(Node(uid=known, name=self.nodes[known].name, images=self.images()))
        elif kind == "again" and known:
            name = self.nodes.pop(known).name
            self._node(Node(uid=f"u{self.born}", name=name, images=self.images()))
        elif kind == "gone" and known:
            del self.nodes[known]
            self.give(seen.NodesDeletedSeen(known))
        elif kind == "list":
            nodes = tuple(self.nodes.values())
            bracket = seen.ListBegan("nodes", 1), seen.ListEnded("nodes", len(nodes))
            self.give(bracket[0], seen.NodesSeen(nodes), bracket[1])
        elif kind == "pod":
            images = tuple(sorted(draw.choices(NAMES, k=draw.randint(0, 2))))
            uid = f"p{self.born}"
            self.pods[uid] = images
            self.give(seen.PodsSeen(PodSpec(images=images), uid, uid, pack([self.born])))
        elif kind == "end" and self.pods:
            uid = draw.choice(sorted(self.pods))
            del self.pods[uid]
            self.give(seen.PodsDeletedSeen(uid))

    def _node(self, node: Node) -> None:
        self.nodes[node.uid] = node
        self.give(seen.NodesSeen((node,)))

    def expected(self) -> dict[int, int]:
        named = {number(name) for images in self.pods.values() for name in images}
        have = [unpack(node.images).tolist() for node in self.nodes.values()]
        held = [set(column[: len(column) // 2]) for column in have]
        return {one: sum(one in column for column in held) for one in named}


@given(st.integers(0, 1 << 40))
@settings(max_examples=150)
def test_safety_image_events_match_the_cluster(seed):
    world = World(Random(seed), 3)
    for _ in range(20):
        world.step()
        expected = world.expected()
        assert {one: nodes for one, nodes in world.published.items() if nodes} == {
            one: nodes for one, nodes in expected.items() if nodes
        }
        assert not expected or world.told_nodes == len(world.nodes)
        core, state = world.steps.core, world.steps.state
        core.check(state)
        assert core.load(core.dump(state)).images == state.images


def test_one_shard_gets_no_image_events():
    world = World(Random(1), 1)
    for _ in range(200):
        world.step()
    assert not world.published
    assert not world.steps.state.images
