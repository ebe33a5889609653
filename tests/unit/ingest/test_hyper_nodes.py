"""HyperNodes of Volcano: the labels of nodes, and the topology of gangs, follow them."""

from collections.abc import Iterable

from shared.events.ingest import GangSet, NodesSet
from shared.events.observed import (
    GangsSeen,
    NodesDeletedSeen,
    NodesSeen,
    ObjectsDeletedSeen,
    ObjectsSeen,
)
from shared.model.cluster_objects import HyperNodeMember, LabelSelector
from shared.model.groups.topology import NetworkTopology, Topology
from shared.model.objects import Gang, Requirement
from tests.support.hyper_nodes import hyper_node
from tests.unit.ingest.inputs import ingest, names, node, nodes, one

RACK = NetworkTopology(highest_tier=1)


def seen(*hyper_nodes) -> ObjectsSeen:
    return ObjectsSeen(hyper_nodes)


def racks(decided: Iterable[object], tier: int = 1) -> dict[str, str | None]:
    """Return the HyperNode of a tier of each node that was published."""
    found = [event for event in decided if isinstance(event, NodesSet)]
    key = f"hypernode@{tier}"
    return {node.name: node.labels.get(key) for event in found for node in event.nodes}


def test_nodes_get_the_labels_of_their_hyper_nodes():
    steps = ingest()
    assert racks(steps.when(nodes("a", "b", "c"))) == {"a": None, "b": None, "c": None}
    assert racks(steps.when(seen(hyper_node("s0", 1, nodes="a b")))) == {"a": "s0", "b": "s0"}
    decided = steps.when(seen(hyper_node("s4", 2, inside="s0")))
    assert racks(decided, tier=2) == {"a": "s4", "b": "s4"}
    assert steps.when(seen(hyper_node("s4", 2, inside="s0"))) == []
    steps.reload()
    assert racks(steps.when(nodes("a", "d"))) == {"d": None}


def test_the_order_of_nodes_and_hyper_nodes_does_not_matter():
    steps = ingest()
    steps.when(seen(hyper_node("s0", 1, nodes="a")))
    assert racks(steps.when(nodes("a", "b"))) == {"a": "s0", "b": None}


def test_a_node_is_selected_by_its_name_or_its_labels():
    by_name = HyperNodeMember(pattern=r"-1\d*$")
    by_label = HyperNodeMember(selector=LabelSelector((("rack", "r"),)))
    by_rule = (Requirement("rack", "In", ("s", "t")),)
    steps = ingest()
    steps.when(
        seen(
            hyper_node("s0", 1, more=(by_name,)),
            hyper_node("s1", 1, more=(by_label,)),
            hyper_node("s2", 1, more=(HyperNodeMember(selector=LabelSelector((), by_rule)),)),
            hyper_node("s3", 1, more=(HyperNodeMember(selector=LabelSelector()),)),
        )
    )
    made = (node("x-1"), node("x-2"), node("r", labels={"rack": "r"}), node("t"))
    decided = steps.when(NodesSeen(made))
    assert racks(decided) == {"x-1": "s0", "x-2": None, "r": "s1", "t": None}
    moved = (node("r"), node("t", labels={"rack": "t"}))
    assert racks(steps.when(NodesSeen(moved))) == {"r": None, "t": "s2"}


def test_a_node_is_in_all_hyper_nodes_that_select_it_one_of_a_tier():
    whole = (HyperNodeMember(pattern="."),)
    steps = ingest()
    steps.when(nodes("a"))
    steps.when(seen(hyper_node("x", 2, more=whole)))
    steps.when(seen(hyper_node("z", 1, more=whole), hyper_node("y", 1, more=whole)))
    held = steps.state.hyper_nodes.labelled(node("a"))
    assert (held.labels["hypernode@1"], held.labels["hypernode@2"]) == ("y", "x")


def test_relabelled_nodes_are_recorded_alike_by_a_loaded_state():
    """Its labels are sorted."""
    made = NodesSeen((node("a", labels={"z": "1", "b": "2"}),))
    plain, loaded = ingest(), ingest()
    for steps in (plain, loaded):
        steps.when(made, seen(hyper_node("s0", 1, nodes="a")))
    loaded.reload()
    for change in (seen(hyper_node("s0", 2, nodes="a")), ObjectsDeletedSeen("uid-s0")):
        (one_set,), (other,) = (
            [list(held.labels) for held in one(steps.when(change), NodesSet).nodes]
            for steps in (plain, loaded)
        )
        assert one_set == other


def test_changed_and_deleted_hyper_nodes_relabel_their_nodes_only():
    steps = ingest()
    steps.when(
        nodes("a", "b", "c"), seen(hyper_node("s0", 1, nodes="a b"), hyper_node("s1", 1, nodes="c"))
    )
    assert racks(steps.when(seen(hyper_node("s0", 1, nodes="a")))) == {"b": None}
    assert racks(steps.when(seen(hyper_node("s1", 1, nodes="b c")))) == {"b": "s1"}
    assert racks(steps.when(ObjectsDeletedSeen("uid-s1"))) == {"b": None, "c": None}
    assert names(steps.when(ObjectsDeletedSeen("uid-s1"))) == []


def test_a_hyper_node_that_is_left_out_has_no_nodes_until_it_may_count():
    steps = ingest()
    steps.when(nodes("a", "b"), seen(hyper_node("s0", 1, nodes="a")))
    wrong = hyper_node("s1", 1, nodes="a b")
    assert racks(steps.when(seen(wrong))) == {}
    steps.reload()
    decided = steps.when(ObjectsDeletedSeen("uid-s0"))
    assert racks(decided) == {"a": "s1", "b": "s1"}


def test_a_node_made_again_is_matched_again():
    steps = ingest()
    by_label = HyperNodeMember(selector=LabelSelector((("rack", "r"),)))
    steps.when(seen(hyper_node("s0", 1, more=(by_label,))))
    steps.when(NodesSeen((node("a", labels={"rack": "r"}),)))
    steps.when(NodesDeletedSeen("uid-a"))
    assert racks(steps.when(NodesSeen((node("a", uid="uid-2"),)))) == {"a": None}
    steps.when(NodesSeen((node("b", labels={"rack": "r"}),)))
    steps.when(NodesDeletedSeen("uid-b"), ObjectsDeletedSeen("uid-s0"))
    assert racks(steps.when(nodes("b"))) == {"b": None}


def test_the_topology_of_a_gang_follows_the_tiers():
    steps = ingest()
    gangs = (
        Gang(key="default/hard", min_count=2, network=NetworkTopology(highest_tier=2)),
        Gang(key="default/soft", min_count=2, network=NetworkTopology(is_hard=False)),
        Gang(key="default/plain", min_count=2),
    )
    decided = steps.when(GangsSeen(gangs))
    waiting = Topology(("hypernode@2",))
    assert [event.topology for event in decided] == [waiting, None, None]
    changed = steps.when(nodes("a"), seen(hyper_node("s0", 1, nodes="a")))
    assert [(event.key, event.version, event.topology) for event in changed[-2:]] == [
        ("default/hard", 2, Topology(("hypernode@1",))),
        ("default/soft", 2, Topology(("hypernode-or-node@1",), 0, -1)),
    ]
    steps.reload()
    # Another tier above those allowed changes the soft one only.
    (soft,) = (
        event
        for event in steps.when(seen(hyper_node("s9", 9, inside="s0")))
        if isinstance(event, GangSet)
    )
    assert (soft.key, soft.version) == ("default/soft", 3)
    assert names(steps.when(seen(hyper_node("s1", 1, nodes="b")))) == ["ObjectsSet"]
    late = GangsSeen((Gang(key="default/late", min_count=1, network=RACK),))
    assert one(steps.when(late), GangSet).topology == Topology(("hypernode@1",))
