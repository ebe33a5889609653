"""Turns: one shard at a time, granted once all others have counted."""

from services.permit.core.core import PermitCore
from shared.events.ingest import GangGone, PodsGone
from shared.events.permit import (
    CountsAsked,
    GangCommitted,
    GangReleased,
    GangTimedOut,
    HoldAsked,
    RulesChanged,
    TurnGranted,
)
from shared.events.placement import (
    CountsChanged,
    GangHeld,
    GangOffered,
    GangRefused,
    RulesCounted,
    TurnAsked,
    TurnEnded,
)
from shared.events.queueing import GangDispatched, Members
from shared.model.columns import pack
from shared.model.pod_rules.rule_counts import (
    ANTI_AFFINITY,
    HARD_SPREAD,
    RuleCount,
    SignatureCounts,
)
from tests.support.steps import Steps

SKEWED = "node(s) didn't match pod topology spread constraints"


def permit(placements=3):
    return Steps(PermitCore(placements))


def counted(shard, turn, *counts, sig=1):
    return RulesCounted(shard, turn, (SignatureCounts(sig, counts),))


def zones(**values):
    pods = tuple(sorted(values.items()))
    return RuleCount(ANTI_AFFINITY, 0, "zone", pods, sum(values.values()))


def test_a_turn_is_granted_with_the_sums_of_the_other_shards():
    steps = permit()
    assert steps.when(TurnAsked(1, pack([1]))) == [CountsAsked(1, 1, pack([1]))]
    assert steps.when(counted(0, 1, zones(x=1, y=2))) == []
    (grant,) = steps.reload().when(counted(2, 1, zones(y=3, z=1)))
    sums = SignatureCounts(1, (zones(x=1, y=5, z=1),))
    assert grant == TurnGranted(1, 1, pack([1]), (sums,))


def test_the_least_count_of_a_node_and_the_number_of_nodes_are_summed():
    def hosts(lowest, domains):
        return RuleCount(HARD_SPREAD, 0, "kubernetes.io/hostname", (), 0, lowest, domains)

    steps = permit()
    steps.when(TurnAsked(1, pack([1])))
    steps.when(counted(0, 1, hosts(2, 3)))
    (grant,) = steps.when(counted(2, 1, hosts(-1, 0)))
    assert grant.counts == (SignatureCounts(1, (hosts(2, 3),)),)


def test_shards_have_turns_in_the_order_of_asking():
    steps = permit(2)
    steps.when(TurnAsked(1, pack([1])))
    assert steps.when(TurnAsked(0, pack([3])), TurnAsked(1, pack([2]))) == []
    assert steps.reload().when(TurnAsked(0, pack([1, 3]))) == [], "one turn at a time"
    steps.when(counted(0, 1))
    assert steps.when(TurnEnded(1, 1, moved=False)) == [CountsAsked(2, 0, pack([1, 3]))]
    steps.when(counted(1, 2))
    assert steps.when(TurnEnded(0, 2, moved=False)) == [CountsAsked(3, 1, pack([2]))]


def test_other_shards_learn_that_counts_have_changed():
    steps = permit(2)
    steps.when(TurnAsked(1, pack([1])))
    steps.when(counted(0, 1))
    assert steps.when(TurnEnded(1, 1, moved=True)) == [RulesChanged(1)]
    assert steps.when(CountsChanged(0), CountsChanged(0)) == [RulesChanged(0)]


SIX = (Members(1, pack([11, 12, 13, 14, 15, 16])),)


def dispatched(gang=7, attempt=1, need=3, timeout_ms=300_000):
    return GangDispatched(attempt, gang, 1, need, SIX, timeout_ms)


def offered(shard, count, gang=7, attempt=1):
    return GangOffered(shard, gang, attempt, (count,), (), 2, wide=pack([1]))


def held(shard, *pods, gang=7, attempt=1):
    return GangHeld(shard, gang, attempt, pack(pods), b"", pack([100 + shard] * len(pods)), b"", 0)


def refused(shard, gang=7, attempt=1, **more):
    why = () if more else ((SKEWED, 2),)
    return GangRefused(shard, gang, attempt, why, 2, 0, **more)


def hold(turn, shard, *pods, counts=()):
    return HoldAsked(7, 1, shard, (Members(1, pack(pods)),), turn, pack([1]), counts)


def in_line(*offers, **options):
    """Return permit with an attempt of gang 7 that has begun its first turn."""
    steps = permit(len(offers))
    steps.when(dispatched(**options))
    asked = steps.when(*(offered(shard, count) for shard, count in enumerate(offers)))
    return steps, asked


def test_a_gang_with_wide_rules_is_held_in_turns_until_min_count_is_held():
    steps, asked = in_line(1, 0, 2, need=5)
    assert asked == [CountsAsked(1, 2, pack([1]), 7, 1)], "the shard that offered most is first"
    assert steps.reload().when(counted(0, 1, zones(x=1))) == []
    sums = (SignatureCounts(1, (zones(x=1, y=2),)),)
    everyone = (11, 12, 13, 14, 15, 16)
    assert steps.when(counted(1, 1, zones(y=2))) == [hold(1, 2, *everyone, counts=sums)]
    assert steps.when(held(2, 11, 12)) == [CountsAsked(2, 0, pack([1]), 7, 1)]
    steps.reload().when(counted(1, 2))
    rest = hold(2, 0, 13, 14, 15, 16, counts=(SignatureCounts(1, (zones(z=2),)),))
    assert steps.when(counted(2, 2, zones(z=2))) == [rest]
    assert steps.when(refused(0)) == [CountsAsked(3, 1, pack([1]), 7, 1)]
    steps.when(counted(0, 3), counted(2, 3))
    assert steps.reload().when(held(1, 13, 14, 15)) == [
        GangCommitted(7, 1, pack([11, 12, 13, 14, 15]), pack([102, 102, 101, 101, 101]), 2)
    ]
    assert steps.core.due_ms(steps.state) is None


def test_a_shard_that_held_some_is_asked_again():
    steps, _asked = in_line(1, 1, need=3)
    steps.when(counted(0, 1))
    steps.when(held(1, 11))
    steps.when(counted(1, 2))
    assert steps.when(held(0, 12)) == [CountsAsked(3, 1, pack([1]), 7, 1)]


def test_it_is_released_when_all_shards_in_a_row_refuse():
    steps, _asked = in_line(1, 1, need=3)
    steps.when(counted(0, 1))
    steps.when(held(1, 11, 12))
    steps.when(counted(1, 2))
    steps.when(refused(0))
    steps.when(counted(0, 3))
    (released,) = steps.reload().when(refused(1))
    assert released == GangReleased(7, 1, ((SKEWED, 4),), 4, placed=2, needed=3)
    assert steps.when(TurnAsked(0, pack([1]))) == [CountsAsked(4, 0, pack([1]))], "the turn is over"


def test_others_wait_until_the_attempt_ends():
    steps, _asked = in_line(1, 1, need=2)
    assert steps.when(TurnAsked(0, pack([1]))) == []
    steps.when(counted(0, 1))
    assert steps.when(held(1, 11)) == [CountsAsked(2, 0, pack([1]), 7, 1)]
    steps.when(counted(1, 2))
    committed, begun = steps.when(held(0, 12)) + steps.when()
    assert isinstance(committed, GangCommitted)
    assert begun == CountsAsked(3, 0, pack([1]))


def test_an_attempt_that_ends_while_the_shards_count_leaves_the_line():
    steps, _asked = in_line(1, 1)
    (released,) = steps.when(GangGone(7))
    assert released == GangReleased(7, 1, (), 0, stale=True)
    assert steps.when(TurnAsked(0, pack([1]))) == [], "the other shards are counting"
    assert steps.reload().when(counted(0, 1)) == [CountsAsked(2, 0, pack([1]))]


def test_an_attempt_that_ends_as_the_last_shard_has_counted_asks_for_no_hold():
    steps, _asked = in_line(1, 1)
    (released,) = steps.when(TurnAsked(0, pack([1])), GangGone(7), counted(0, 1))
    assert isinstance(released, GangReleased)
    assert steps.reload().when() == [CountsAsked(2, 0, pack([1]))]


def test_a_time_out_in_a_turn_ends_it_with_the_answer_of_the_shard():
    steps, _asked = in_line(1, 1, timeout_ms=1_000)
    steps.when(counted(0, 1), TurnAsked(0, pack([1])))
    assert steps.when(at_ms=1_000) == [GangTimedOut(7, 1)], "the shard may hold members now"
    assert steps.reload().when() == []
    assert steps.when(held(1, 11, 12, 13)) == [CountsAsked(2, 0, pack([1]))]


def test_a_shard_that_needs_other_counts_lets_the_gang_be_tried_again():
    steps, _asked = in_line(1, 1)
    steps.when(counted(0, 1))
    assert steps.when(refused(1, uncounted=True)) == [GangReleased(7, 1, (), 0, stale=True)]
    plain = permit(2)
    plain.when(dispatched())
    (asked,) = plain.when(*(GangOffered(shard, 7, 1, (3 * shard,), (), 2) for shard in (0, 1)))
    assert isinstance(asked, HoldAsked)
    assert plain.when(refused(1, uncounted=True)) == [GangReleased(7, 1, (), 0, stale=True)]


def test_members_that_leave_in_the_turn_are_neither_asked_for_nor_committed():
    steps, _asked = in_line(1, 1, need=2)
    steps.when(counted(0, 1))
    steps.when(held(1, 11))
    steps.when(PodsGone(pack([11, 12])))
    (asked,) = steps.when(counted(1, 2))
    assert asked.members == (Members(1, pack([13, 14, 15, 16])),)
    (committed,) = steps.when(held(0, 13, 14))
    assert committed.ids == pack([13, 14])


def test_an_older_decision_about_a_member_is_no_failure():
    steps, _asked = in_line(1, 1)
    steps.when(counted(0, 1))
    steps.when(refused(1))
    steps.when(counted(1, 2))
    (released,) = steps.when(GangRefused(0, 7, 1, (), 2, 0))
    assert released.stale
