"""Nodes and their shards, budgets, gangs, lists and doubts about them, the cluster's identity."""

import pytest
from msgspec import structs
from msgspec.structs import replace

from services.ingest.core import core
from services.ingest.core.state import WrongCluster
from shared.events.base import Configured
from shared.events.ingest import (
    BudgetSet,
    GangSet,
    ListApplied,
    ListAsked,
    ListDoubted,
    MembersLost,
    MinimumRunTime,
    NodesSet,
    PodsGone,
    PodsPending,
    SourceAdvanced,
    UnitJoined,
    WorldListed,
)
from shared.events.observed import (
    BudgetsDeletedSeen,
    BudgetsSeen,
    GangsDeletedSeen,
    GangsSeen,
    LeadSeen,
    ListBegan,
    ListEnded,
    NodesDeletedSeen,
    NodesSeen,
    PodsDeletedSeen,
    WatchAdvanced,
    WorldOpened,
)
from shared.model.columns import join, pack, unpack
from shared.model.objects import Budget, Gang, PodSpec, Requirement
from tests.unit.ingest.inputs import gone, ids, ingest, listed, names, node, nodes, one, pods


def shards_of(steps) -> dict[str, int]:
    return {held.node.name: held.shard for held in steps.state.nodes.values()}


def test_a_node_is_routed_by_its_name_and_stays():
    steps = ingest(placements=3)
    steps.when(nodes(*"abcdefgh"))
    before = shards_of(steps)
    assert set(before.values()) == {0, 1, 2}
    other = ingest(placements=3)
    other.when(nodes(*"hgfedcba"))
    assert shards_of(other) == before
    steps.when(NodesSeen((node("a", "zone"),)))
    assert shards_of(steps) == before


def test_journals_with_other_facts_than_follow_now_are_refused():
    """Another version wrote them: its shards have other facts than this ingest."""
    steps = ingest(placements=3)
    steps.core.evolve(steps.state, nodes("a"))
    sent = steps.state.outbox[0]
    other = structs.replace(sent, shard=(sent.shard + 1) % 3)
    with pytest.raises(AssertionError, match="start again with 'muster reset'"):
        steps.core.evolve(steps.state, other)


def test_a_recreated_node_goes_to_the_shard_of_its_name():
    """Only that shard knows the binds to the old node that are under way."""
    steps = ingest(placements=3)
    steps.when(nodes("a", "b", "c"))
    before = shards_of(steps)
    steps.when(NodesDeletedSeen("uid-a\nuid-b\nuid-c"))
    steps.reload()
    steps.when(*(NodesSeen((node(name, uid=f"{name}-2"),)) for name in "abc"))
    assert shards_of(steps) == before


def test_unchanged_nodes_are_not_recorded_again():
    steps = ingest()
    steps.when(nodes("a", "b"))
    assert steps.when(nodes("a", "b")) == []
    decided = steps.when(NodesSeen((node("a", unschedulable=True), node("b"))))
    assert ids(one(decided, NodesSet)) == [1]


def test_a_node_under_an_old_name_is_another_node():
    steps = ingest()
    steps.when(nodes("n"), pods("a", on="n"))
    decided = steps.when(NodesSeen((node("n", uid="uid-2"),)))
    assert names(decided) == ["NodesGone", "NodesSet", "PodsAssigned"]
    assert (ids(decided[0]), ids(decided[1])) == ([1], [2])
    assert unpack(decided[2].nodes).tolist() == [2]
    assert steps.when(NodesDeletedSeen("uid-n")) == []


def test_gangs_are_known_from_their_first_member():
    steps = ingest()
    decided = steps.when(pods("a", "b", gang="default/g"))
    assert one(decided, PodsPending).gang == 1
    gang = Gang(key="default/g", min_count=2)
    assert steps.when(GangsSeen((gang,))) == [GangSet(1, "default/g", 2, 300_000, 1)]
    assert steps.when(GangsSeen((gang,))) == []
    smaller = Gang(key="default/g", min_count=1)
    assert one(steps.when(GangsSeen((smaller,))), GangSet).version == 2
    assert names(steps.when(GangsDeletedSeen("default/g"))) == ["GangGone"]
    assert one(steps.when(GangsSeen((gang,))), GangSet).version == 3
    steps.when(GangsDeletedSeen("default/g"))
    steps.when(gone("a", "b"))
    assert not steps.state.gangs
    assert one(steps.when(GangsSeen((gang,))), GangSet).gang == 2


def test_the_pods_of_a_unit_are_published_when_either_comes():
    steps = ingest()
    steps.when(nodes("n"), pods("a", on="n", gang="default/g"), pods("b", gang="default/h"))
    unit = Gang(key="default/g", min_count=1, is_unit=True, priority=7)
    assert one(steps.when(GangsSeen((unit,))), UnitJoined) == UnitJoined(1, 7, pack([1]))
    later = steps.when(pods("c", "d", gang="default/g"))
    assert one(later, UnitJoined) == UnitJoined(1, 7, pack([3, 4]))
    assert "UnitJoined" not in names(steps.when(pods("e", gang="default/h")))
    moved = steps.when(pods("b", gang="default/g", at=9))
    assert one(moved, UnitJoined) == UnitJoined(1, 7, pack([2]))


def test_the_pods_of_a_group_with_a_minimum_are_published_with_their_priorities():
    steps = ingest()
    steps.when(nodes("n"), pods("a", on="n", gang="default/g"))
    steps.when(pods("b", gang="default/g", spec=PodSpec(priority=5)))
    group = Gang(key="default/g", min_count=2, keeps_minimum=True)
    joined = [one for one in steps.when(GangsSeen((group,))) if isinstance(one, UnitJoined)]
    assert joined == [UnitJoined(1, 0, pack([1]), 2), UnitJoined(1, 5, pack([2]), 2)]
    later = steps.when(pods("c", gang="default/g"))
    assert one(later, UnitJoined) == UnitJoined(1, 0, pack([3]), 2)
    free = Gang(key="default/g", min_count=1)
    joined = [one for one in steps.when(GangsSeen((free,))) if isinstance(one, UnitJoined)]
    assert [one.least for one in joined] == [1, 1]
    assert "UnitJoined" not in names(steps.when(pods("d", gang="default/g")))


def test_the_minimum_run_time_of_a_groups_pods_is_published_when_either_comes():
    steps = ingest()
    steps.when(nodes("n"), pods("a", on="n", gang="default/g"))
    group = Gang(key="default/g", min_count=1, minimum_run_ms=5_000)
    assert one(steps.when(GangsSeen((group,))), MinimumRunTime) == MinimumRunTime(pack([1]), 5_000)
    later = steps.when(pods("b", gang="default/g"))
    assert one(later, MinimumRunTime) == MinimumRunTime(pack([2]), 5_000)
    ended = steps.when(GangsSeen((Gang(key="default/g", min_count=1),)))
    assert one(ended, MinimumRunTime) == MinimumRunTime(pack([1, 2]), 0)
    assert "MinimumRunTime" not in names(steps.when(pods("c", gang="default/g")))


def test_lost_members_are_published_before_they_are_gone():
    steps, key = ingest(), "default/g"
    holding = Gang(key=key, min_count=1, replacement_hold_ms=9_000)
    steps.when(nodes("n"), GangsSeen((holding,)), pods("a", "b", "c", on="n n n", gang=key))
    steps.when(pods("d", gang=key), pods("x", on="n"))
    lost = steps.when(PodsDeletedSeen(join(["uid-a", "uid-d", "uid-x"]), lost=True))
    assert names(lost)[:2] == ["MembersLost", "PodsGone"]
    assert one(lost, MembersLost) == MembersLost(1, pack([1]), 9_000)
    assert "MembersLost" not in names(steps.when(PodsDeletedSeen("uid-b", finished=True)))
    last = steps.when(PodsDeletedSeen("uid-c", finished=True))
    assert one(last, MembersLost) == MembersLost(1, b"", 0)


def test_lost_members_are_gone_in_the_same_record_however_full_that_is(monkeypatch):
    """In a later step their places would be lost: the members are still on them."""
    monkeypatch.setattr(core, "RECORD_FACTS_BYTES_MAX", 1)
    steps = ingest()
    steps.when(GangsSeen((Gang(key="default/g", min_count=1, replacement_hold_ms=9_000),)))
    steps.when(nodes("n"), pods("a", on="n", gang="default/g"))
    while steps.state.outbox:
        steps.when()
    lost = steps.when(PodsDeletedSeen("uid-a", lost=True), PodsDeletedSeen("uid-x"))
    assert names(lost)[:2] == ["MembersLost", "PodsGone"]


def test_a_group_that_changes_or_goes_keeps_no_places():
    steps = ingest()
    kept = Gang(key="default/g", min_count=1, replacement_hold_ms=9_000)
    free = Gang(key="default/g", min_count=1)
    assert "MembersLost" not in names(steps.when(GangsSeen((kept,))))
    for group in (free, kept, replace(kept, replacement_hold_ms=5)):
        found = steps.when(GangsSeen((group,)))
        assert (MembersLost(1, b"", 0) in found) == (group is not kept)
    assert one(steps.when(GangsDeletedSeen("default/g")), MembersLost) == MembersLost(1, b"", 0)


def test_budget_selectors():
    steps = ingest()
    steps.when(
        pods("a", at=1, labels=(("app", "x"), ("tier", "1"))),
        pods("b", at=2, labels=(("app", "y"),)),
        pods("c", at=3, labels=(("team", "t"),)),
        pods("d", at=4),  # kube-scheduler lets no budget keep a pod without labels
    )
    cases = {
        "in": (Requirement("app", "In", ("x", "z")), [1]),
        "notin": (Requirement("app", "NotIn", ("x",)), [2, 3]),
        "exists": (Requirement("tier", "Exists"), [1]),
        "absent": (Requirement("app", "DoesNotExist"), [3]),
    }
    for name, (requirement, covered) in cases.items():
        budget = Budget(uid=name, namespace="default", name=name, match_expressions=(requirement,))
        decided = steps.when(BudgetsSeen((budget,)))
        assert [ids(event) for event in decided[1:]] == [covered], name
    empty = Budget(uid="empty", namespace="default", name="empty")
    assert names(steps.when(BudgetsSeen((empty,)))) == ["BudgetSet"]


def test_evictions_counted_by_a_budget_are_recorded_once_the_pods_are_known():
    """Budgets are listed before them."""
    steps = ingest()
    budget = Budget(uid="b", namespace="default", name="b", disrupted=("uid-a",))
    (decided, _applied) = steps.when(*listed("budgets", BudgetsSeen((budget,)), count=1))
    assert decided.disrupted == b""
    steps.reload()
    decided = one(steps.when(*listed("pods", pods("a", at=5), revision=9, count=1)), BudgetSet)
    assert (decided.budget, unpack(decided.disrupted).tolist()) == (1, [1])


def test_a_budget_with_another_selector_is_another_budget():
    steps = ingest()
    steps.when(pods("a", labels=(("app", "x"),)))
    first = Budget(uid="b", namespace="default", name="b", match_labels=(("app", "x"),))
    steps.when(BudgetsSeen((first,)))
    status = Budget(
        uid="b",
        namespace="default",
        name="b",
        match_labels=(("app", "x"),),
        allowed=3,
        disrupted=("uid-a", "uid-x"),
    )
    (decided,) = steps.when(BudgetsSeen((status,)))
    assert (decided.budget, decided.allowed, unpack(decided.disrupted).tolist()) == (1, 3, [1])
    other = Budget(uid="b", namespace="default", name="b", match_labels=(("app", "z"),))
    decided = steps.when(BudgetsSeen((other,)))
    assert names(decided) == ["BudgetGone", "BudgetSet"]
    assert (decided[0].budget, decided[1].budget) == (1, 2)
    assert names(steps.when(BudgetsDeletedSeen("b"))) == ["BudgetGone"]


def test_objects_missing_from_a_complete_list_are_deleted():
    steps = ingest()
    steps.when(*listed("pods", pods("a", "b", "c", at=1), revision=3, count=3))
    decided = steps.when(*listed("pods", pods("a", "b", at=1), revision=9, count=2))
    assert decided == [PodsGone(b"\3" + bytes(7)), ListApplied("pods", 1)]


def test_an_incomplete_list_derives_nothing_and_is_asked_for_again():
    steps = ingest()
    steps.when(pods("a", "b", "c", at=1))
    decided = steps.when(*listed("pods", pods("a", "b", at=1), revision=9, count=3))
    assert decided == [ListAsked(1, "pods")]
    assert dict(steps.core.effects(steps.state)) == {1: ListAsked(1, "pods")}
    decided = steps.when(*listed("pods", pods("a", "b", at=1), revision=9, count=2))
    assert decided[-1] == ListApplied("pods", 1)
    assert not steps.core.effects(steps.state)


@pytest.mark.parametrize("interruption", [Configured({}), ListBegan("pods", 8)])
def test_a_new_term_or_list_voids_an_open_one(interruption):
    steps = ingest()
    steps.when(pods("a", "b", "c", at=1))
    steps.when(ListBegan("pods", 8), pods("a", "b", at=1), interruption)
    assert PodsGone not in map(type, steps.when(ListEnded("pods", 2)))


def test_a_list_that_would_delete_more_than_half_must_be_confirmed():
    steps = ingest()
    steps.when(*listed("nodes", nodes("a", "b", "c"), count=3))
    short = listed("nodes", nodes("a"), revision=5, count=1)
    assert steps.when(*short) == [ListDoubted("nodes", 2), ListAsked(1, "nodes")]
    decided = steps.when(*listed("nodes", nodes("a"), revision=6, count=1))
    assert names(decided) == ["NodesGone", "ListApplied"]
    assert ids(decided[0]) == [2, 3]
    assert not steps.core.effects(steps.state)


def test_a_doubted_list_that_is_not_confirmed_deletes_nothing():
    steps = ingest()
    steps.when(pods("a", "b", "c", at=1))
    steps.when(*listed("pods", pods("a", at=1), revision=5, count=1))
    decided = steps.when(*listed("pods", pods("a", "b", "c", at=1), revision=6, count=3))
    assert decided == [ListApplied("pods", 0)]


def test_a_list_older_than_what_was_consumed_counts_for_nothing():
    steps = ingest()
    steps.when(pods("a", "b", "c", at=1), WatchAdvanced(10))
    decided = steps.when(*listed("pods", pods("a", "b", "old", at=1), revision=9, count=3))
    assert decided == [ListAsked(1, "pods")]
    assert len(steps.state.pods) == 3


def test_a_watch_cannot_bring_back_an_object_that_a_list_deleted():
    steps = ingest()
    steps.when(pods("a", "b", "c", "d", at=1))
    steps.when(*listed("pods", pods("a", "b", "c", at=1), revision=9, count=3))
    assert steps.when(pods("d", at=8)) == []
    assert ids(one(steps.when(pods("e", at=10)), PodsPending)) == [5]


def test_the_consumed_revision_is_recorded():
    steps = ingest()
    decided = steps.when(nodes("a"), WatchAdvanced(4), WatchAdvanced(7), WatchAdvanced(6))
    assert decided[-1] == SourceAdvanced(7)
    assert steps.when(WatchAdvanced(5)) == []


def test_the_mark_of_each_watched_part_is_kept():
    steps = ingest()
    steps.when(nodes("a"), WatchAdvanced(4, (("nodes", 6), ("pods", 9))))
    steps.when(WatchAdvanced(5, (("nodes", 7),)))
    began = ListBegan("budgets", 8, (("budgets", 8),))
    steps.when(began)
    steps.reload()
    assert steps.state.marks == {"nodes": 7, "pods": 9}
    steps.when(ListEnded("budgets", 0))
    assert steps.state.marks == {"budgets": 8, "nodes": 7, "pods": 9}


def test_a_list_older_than_what_was_seen_of_a_part_counts_for_nothing():
    steps = ingest()
    steps.when(nodes("a"), WatchAdvanced(4, (("nodes", 7),)))
    began = ListBegan("nodes", 6, (("nodes", 6),))
    assert steps.when(began, ListEnded("nodes", 0)) == [ListAsked(1, "nodes")]
    assert (list(steps.state.nodes), steps.state.marks) == (["uid-a"], {"nodes": 7})


def test_a_list_of_a_part_that_broke_off_is_remembered_until_the_next():
    steps = ingest()
    began = ListBegan("budgets", 8, (("budgets", 8),))
    steps.when(began, ListBegan("gangs", 8), Configured({}))
    steps.reload()
    assert list(steps.state.broken_off) == ["budgets"]
    steps.when(began, ListEnded("budgets", 0))
    assert not steps.state.broken_off


def test_another_cluster_halts_loudly():
    steps = ingest()
    steps.when(WorldOpened("c1"))
    with pytest.raises(WrongCluster, match="of cluster c1, but the cluster watched now is c2"):
        steps.when(WorldOpened("c2"))


def test_a_large_world_is_recorded_over_several_steps():
    steps = ingest()
    names_ = [f"a-rather-long-pod-name-{i:040d}" for i in range(40_000)]
    half = len(names_) // 2
    first = steps.when(pods(*names_[:half], at=1), pods(*names_[half:], at=half + 1))
    assert steps.core.due_ms(steps.state) == steps.state.now_ms
    second = steps.when()
    assert names(first + second) == [
        *("SignatureDefined", "PodsNamed", "PodsPending", "PodsNamed", "PodsPending")
    ]
    assert second
    assert steps.core.due_ms(steps.state) is None


def test_the_world_is_known_when_each_kind_was_listed_once():
    steps = ingest()
    decided = [
        event for kind in ("nodes", "budgets", "gangs") for event in steps.when(*listed(kind))
    ]
    assert WorldListed(complete=True) not in decided
    steps.reload()
    assert steps.when(*listed("pods"))[-1] == WorldListed(complete=True)
    assert steps.when(*listed("pods")) == [ListApplied("pods", 0)]
    assert steps.when(WorldOpened("c1")) == []


KINDS = ("nodes", "budgets", "gangs", "pods")


def test_the_world_of_a_process_that_stands_by_is_known_when_it_leads():
    steps = ingest()
    decided = steps.when(LeadSeen(leads=False))
    decided += [event for kind in KINDS for event in steps.when(*listed(kind))]
    decided += steps.when(pods("later", at=9))
    steps.reload()
    decided += steps.when(LeadSeen(leads=False))
    assert not [event for event in decided if isinstance(event, WorldListed)]
    assert steps.when(LeadSeen(leads=True)) == [WorldListed(complete=True)]
    assert steps.when(LeadSeen(leads=True)) == []


def test_a_process_that_leads_during_the_first_lists_waits_for_them():
    steps = ingest()
    steps.when(LeadSeen(leads=False), *listed("nodes"))
    assert steps.when(LeadSeen(leads=True)) == []
    decided = [event for kind in KINDS[1:] for event in steps.when(*listed(kind))]
    assert decided[-1] == WorldListed(complete=True)


def test_a_known_world_stays_known_whoever_leads():
    steps = ingest()
    for kind in KINDS:
        steps.when(*listed(kind))
    assert steps.when(LeadSeen(leads=False)) == steps.when(LeadSeen(leads=True)) == []
