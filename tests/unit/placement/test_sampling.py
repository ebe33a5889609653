"""Searches that end early in a shard: where they begin, and what is exempt."""

import msgspec

from shared.events.base import Configured
from shared.events.placement import Refused, Reserved
from shared.model.columns import unpack
from shared.scheduling.cycle.sampling import NodeTree
from tests.unit.placement.shard import Shard, node, spec

PROFILES = [{"scores": [], "percentage_of_nodes_to_score": 50}]
"""Of nodes that are all the same the first one is taken."""
NAMES = ("a", "b", "c", "d")


def shard(batch: bool = True) -> Shard:
    made = Shard(profiles=PROFILES, batch=batch)
    for number, name in enumerate(NAMES, start=1):
        labels = {"topology.kubernetes.io/zone": "x" if number < 3 else "y"}
        made.nodes(number, node(name, labels=labels))
    return made.sig(1, spec()).sig(2, spec(cpu=9_000))


def listed(tree: NodeTree | None) -> list[int]:
    assert tree is not None
    return [int(one) for one in tree.listed()]


def nodes_of(events: list) -> list[int]:
    return [unpack(one.nodes).tolist()[0] for one in events if isinstance(one, Reserved)]


def test_pods_go_round_the_zones_one_by_one():
    made = shard().dispatch(1, 11, 12, 13, 14, 15)
    events = made.run()
    assert nodes_of(events) == [1, 3, 2, 4, 1]
    assert [one.examined for one in events if isinstance(one, Reserved)] == [1] * 5
    assert made.state.start_index == 1


def test_batching_or_not_is_the_same():
    assert nodes_of(shard(batch=False).dispatch(1, 11, 12, 13).run()) == [1, 3, 2]


def test_nodes_that_refuse_are_passed():
    made = shard().sig(3, spec(cpu=3_500)).dispatch(3, 11, 12).run()
    assert nodes_of(made) == [1, 3]
    again = shard().sig(3, spec(cpu=3_500)).assigned((10, 3, 3)).dispatch(3, 11, 12)
    events = again.run()
    assert nodes_of(events) == [1, 2]
    assert [one.examined for one in events if isinstance(one, Reserved)] == [2, 1]


def test_a_pod_that_is_refused_moves_the_start_once_round():
    made = shard().dispatch(1, 11).dispatch(2, 12, 13)
    events = made.run()
    assert [one.examined for one in events if isinstance(one, Refused)] == [4, 4]
    assert made.state.start_index == 1


def test_the_start_and_the_order_survive_a_snapshot():
    made = shard().dispatch(1, 11, 12, 13)
    made.nodes_gone(1).nodes(5, node("e", labels={"topology.kubernetes.io/zone": "x"})).run()
    body = msgspec.msgpack.decode(msgspec.msgpack.encode(made.core.dump(made.state)))
    twin = made.core.load(body)
    assert twin.start_index == made.state.start_index == 3
    assert listed(twin.tree) == listed(made.state.tree) == [2, 3, 5, 4]
    assert made.core.dump(twin) == made.core.dump(made.state)


def test_sampling_may_come_and_go():
    made = Shard().nodes(2, node("b")).nodes(1, node("a"))
    assert made.state.tree is None
    made.given(Configured({"placement": {"profiles": PROFILES}}))
    assert listed(made.state.tree) == [1, 2]
    made.sig(1, spec()).dispatch(1, 11).run()
    assert made.state.start_index == 1
    made.given(Configured({"placement": {}}))
    assert made.state.tree is None
    assert made.state.start_index == 0
