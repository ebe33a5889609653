"""Trees of CompositePodGroups: what is published as groups come, move and go."""

from typing import Any

from shared.events.base import Event
from shared.events.ingest import GangGone, GangSet, UnitJoined
from shared.events.observed import GangsDeletedSeen, GangsSeen
from shared.model.columns import join
from shared.model.groups.topology import Topology
from shared.model.groups.trees import GroupNode
from shared.model.objects import Gang
from tests.unit.ingest.inputs import ids, ingest, one, pods

ROOT, SUB = "default/root@composite", "default/sub@composite"
QUORUM = 'waiting for composite pod group "root" tree to meet quorum'


def composite(key: str, least: int = 1, parent: str = "", **more: Any) -> Gang:
    return Gang(key=key, min_count=1, min_groups=least, parent=parent, **more)


def group(name: str, least: int, parent: str = ROOT, **more: Any) -> Gang:
    more.setdefault("created", name)
    return Gang(key=f"default/{name}", min_count=least, parent=parent, **more)


def seen(*gangs: Gang) -> GangsSeen:
    return GangsSeen(gangs)


def gone(*keys: str) -> GangsDeletedSeen:
    return GangsDeletedSeen(join(keys))


def sets(events: list[Event]) -> dict[str, GangSet]:
    """Return the last word about each group."""
    return {event.key: event for event in events if isinstance(event, GangSet)}


def shape(event: GangSet) -> list[tuple[int, int, int]]:
    return [(node.gang, node.depth, node.least) for node in event.tree]


def test_a_root_is_published_after_its_groups_with_its_tree():
    steps = ingest()
    events = steps.when(seen(composite(ROOT, 2), group("b", 2), group("a", 3)))
    published = sets(events)
    assert [event.key for event in events if isinstance(event, GangSet)][-1] == ROOT
    root, a, b = published[ROOT], published["default/a"], published["default/b"]
    assert a.root == b.root == root.gang
    assert root.tree == (
        GroupNode(root.gang, 2, 0, is_composite=True),
        GroupNode(a.gang, 3, 1),
        GroupNode(b.gang, 2, 1),
    )
    assert (root.root, root.problem) == (0, "")


def test_a_group_that_changes_raises_the_version_of_its_root():
    steps = ingest()
    before = sets(steps.when(seen(composite(ROOT), group("a", 3))))[ROOT]
    after = sets(steps.when(seen(group("a", 2, version=2))))[ROOT]
    assert after.version > before.version
    assert shape(after)[1][2] == 2
    assert not sets(steps.when(seen(group("a", 2, version=2))))


def test_groups_wait_for_a_root_that_does_not_exist():
    steps = ingest()
    waits = sets(steps.when(seen(group("a", 1))))
    assert (waits[ROOT].problem, waits["default/a"].root) == (QUORUM, waits[ROOT].gang)
    steps.reload()
    comes = sets(steps.when(seen(composite(ROOT))))
    assert (comes[ROOT].gang, comes[ROOT].problem) == (waits[ROOT].gang, "")
    goes = sets(steps.when(gone(ROOT)))
    assert goes[ROOT].problem == QUORUM


def test_the_last_group_of_a_missing_root_ends_it():
    steps = ingest()
    waits = sets(steps.when(seen(group("a", 1))))
    events = steps.when(gone("default/a"))
    ended = [event.gang for event in events if isinstance(event, GangGone)]
    assert sorted(ended) == sorted((waits[ROOT].gang, waits["default/a"].gang))


def test_a_composite_that_gets_a_parent_is_no_root_any_more():
    steps = ingest()
    alone = sets(steps.when(seen(composite(SUB, 1), group("a", 1, SUB))))
    events = steps.when(seen(composite(SUB, 1, ROOT, version=2), composite(ROOT)))
    published = sets(events)
    assert published["default/a"].root == published[ROOT].gang
    assert one(events, GangGone).gang == alone[SUB].gang
    assert [depth for _gang, depth, _least in shape(published[ROOT])] == [0, 1, 2]


def test_groups_in_a_circle_and_trees_that_are_too_deep_end():
    steps = ingest()
    other = "default/other@composite"
    circle = sets(steps.when(seen(composite(SUB, 1, other), composite(other, 1, SUB))))
    assert [len(event.tree) for event in circle.values()] == [2]
    chain = [composite("default/c0@composite")]
    for level in range(1, 4):
        chain.append(composite(f"default/c{level}@composite", 1, chain[-1].key))
    deep = sets(steps.when(seen(*chain, group("leaf", 1, chain[-1].key))))
    assert "deeper than 3" in deep["default/c0@composite"].problem


def test_groups_are_published_with_the_labels_of_their_topologies():
    steps = ingest()
    root = composite(ROOT, topology=Topology(("block",)))
    made = sets(steps.when(seen(root, group("a", 1, topology=Topology(("rack",))), group("b", 1))))
    assert [node.key for node in made[ROOT].tree] == ["block", "rack", ""]
    assert made[ROOT].problem == ""


def test_the_highest_group_with_disruption_mode_all_is_the_unit():
    steps = ingest()
    mode = {"is_unit": True, "priority": 5}
    steps.when(pods("early", gang="default/a"))
    tree = (
        composite(ROOT, priority=5),
        composite(SUB, 1, ROOT, **mode),
        group("a", 1, SUB, **mode),
    )
    events = steps.when(seen(*tree))
    sub = sets(events)[ROOT].tree[1].gang
    joined = one(events, UnitJoined)
    assert (joined.gang, joined.priority, ids(joined)) == (sub, 5, [1])
    joined = one(steps.when(pods("late", at=2, gang="default/a")), UnitJoined)
    assert (joined.gang, ids(joined)) == (sub, [2])


def test_a_group_that_leaves_its_tree_is_published_by_itself():
    steps = ingest()
    before = sets(steps.when(seen(composite(ROOT), group("a", 1), group("b", 1))))
    after = sets(steps.when(seen(group("a", 1, parent="", version=2))))
    assert after["default/a"].root == 0
    assert [gang for gang, _depth, _least in shape(after[ROOT])] == [
        before[ROOT].gang,
        before["default/b"].gang,
    ]
