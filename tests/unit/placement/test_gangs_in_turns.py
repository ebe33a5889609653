"""Members with wide rules in one shard of several: held in turns, and quietly until the commit."""

import pytest

from shared.events.permit import (
    CountsAsked,
    GangCommitted,
    GangReleased,
    GangTimedOut,
    HoldAsked,
    OfferAsked,
    RulesChanged,
)
from shared.events.placement import (
    CountsChanged,
    GangHeld,
    GangOffered,
    GangRefused,
    Improved,
    RulesCounted,
    TurnAsked,
)
from shared.events.queueing import Members
from shared.model.columns import pack, unpack
from shared.model.objects import PodTerm, Requirement, SpreadConstraint
from shared.model.pod_rules.rule_counts import (
    ANTI_AFFINITY,
    HARD_SPREAD,
    RuleCount,
    SignatureCounts,
)
from tests.unit.placement.shard import Shard, node, placed, refused, spec

WEB = (Requirement("app", "In", ("web",)),)
NAMED = {"namespace": "ns", "labels": (("app", "web"),)}
SPREAD = spec(spread=(SpreadConstraint("zone", 1, selector=WEB),), **NAMED)
APART = spec(pod_anti_affinity=(PodTerm("zone", WEB),), **NAMED)
PLAIN, COUNTED, LARGE = spec(), spec(**NAMED), spec(cpu=4_000)
SKEWED = "node(s) didn't match pod topology spread constraints"


def shard_with(*specs, placements=2):
    """Return shard 0 with node 1 in zone x, node 2 in zone y, and these signatures from 1 on."""
    shard = Shard(0, placements)
    for number, each in enumerate(specs, start=1):
        shard.sig(number, each)
    return shard.nodes(1, 2, node("a", labels={"zone": "x"}), node("b", labels={"zone": "y"}))


def members(sig, *pods):
    return (Members(sig, pack(pods)),)


def hold(sig, *pods, turn=1, counts=(), sigs=None):
    """Return what asks shard 0 to hold members of gang 7 in a turn."""
    granted = pack([sig]) if sigs is None else sigs
    one = (SignatureCounts(sig, counts),)
    return HoldAsked(7, 1, 0, members(sig, *pods), turn, granted, one)


def zones(**values):
    return RuleCount(HARD_SPREAD, 0, "zone", tuple(sorted(values.items())))


def only(events, kind):
    (found,) = [event for event in events if isinstance(event, kind)]
    return found


@pytest.mark.parametrize("wide", [SPREAD, APART])
def test_an_offer_says_which_members_need_a_turn(wide):
    shard = shard_with(wide, PLAIN, COUNTED)
    both = (*members(1, 5), *members(2, 6), *members(3, 7))
    assert only(shard.given(OfferAsked(7, 1, both)).run(), GangOffered).wide == pack([1, 3])
    alone = shard_with(wide, placements=1).given(OfferAsked(7, 1, members(1, 5)))
    assert only(alone.run(), GangOffered).wide == b""


def test_such_an_offer_is_no_refusal():
    shard = shard_with(APART).given(OfferAsked(7, 1, members(1, 5, 6, 7)))
    assert only(shard.run(), GangOffered).counts == (2,)
    assert not shard.state.refused


def test_a_hold_in_a_turn_takes_as_many_as_fit_beside_the_others():
    shard = shard_with(SPREAD).given(hold(1, 5, 6, 7, 8, counts=(zones(x=1, y=0, z=0),)))
    held = only(shard.reload().run(), GangHeld)
    assert unpack(held.ids).tolist() == [5]
    assert unpack(held.nodes).tolist() == [2], "zone z has no pod, so each zone may have one"
    shard.given(hold(1, 6, 7, 8, turn=2, counts=(zones(x=1, y=0, z=1),)))
    assert unpack(only(shard.run(), GangHeld).nodes).tolist() in ([1, 2], [2, 1])
    assert shard.state.holds[7, 1].tolist() == [5, 6, 7]


def test_it_refuses_if_none_fits():
    shard = shard_with(SPREAD).given(hold(1, 5, 6, counts=(zones(x=1, y=1, z=0),)))
    assert only(shard.run(), GangRefused) == GangRefused(0, 7, 1, ((SKEWED, 2),), 2, 0)
    assert shard.state.refused == {1}


def test_held_members_are_counted_for_the_next_turn():
    shard = shard_with(SPREAD).given(hold(1, 5, counts=(zones(z=0),)))
    shard.run()
    shard.given(CountsAsked(2, 1, pack([1]), 7, 1))
    (counts,) = only(shard.reload().run(), RulesCounted).counts
    (spread,) = [one for one in counts.counts if one.rule == HARD_SPREAD]
    assert sorted(spread.values) in ([("x", 0), ("y", 1)], [("x", 1), ("y", 0)])


def test_members_that_need_a_turn_are_not_held_without_one():
    """A selector of another pod may have come since the offer."""
    shard = shard_with(COUNTED, APART)
    shard.given(HoldAsked(7, 1, 0, members(1, 5)))
    refusal = only(shard.run(), GangRefused)
    assert refusal == GangRefused(0, 7, 1, (), 2, 0, uncounted=True)
    assert not shard.state.refused
    shard.given(hold(1, 5, sigs=pack([2])))
    assert only(shard.run(), GangRefused).uncounted, "a turn for others"


def test_counts_that_overtake_the_signature_are_kept():
    shard = shard_with().given(hold(1, 5, 6, counts=(zones(x=1, y=1, z=0),)))
    assert shard.reload().run() == []
    assert only(shard.sig(1, SPREAD).run(), GangRefused).reasons == ((SKEWED, 2),)


@pytest.mark.parametrize("end", [GangReleased(7, 1, (), 0), GangTimedOut(7, 1)])
def test_a_released_hold_wakes_only_what_was_refused_during_it(end):
    """Otherwise each try of a gang that does not fit would wake all that waits."""
    shard = shard_with(SPREAD, PLAIN, LARGE, SPREAD.anonymous())
    shard.dispatch(3, 1, 2, 3)
    assert refused(shard.run()) == [3], "before the hold"
    shard.gone(1, 2)
    shard.run()
    shard.given(hold(1, *range(11, 19), counts=(zones(z=5),)))
    events = shard.run()
    assert len(unpack(only(events, GangHeld).ids)) == 8
    assert not [one for one in events if isinstance(one, Improved | CountsChanged)]
    shard.given(hold(1, 19, turn=2))
    assert only(shard.run(), GangRefused).reasons
    assert refused(shard.dispatch(2, 9).run()) == [9]
    assert unpack(only(shard.reload().given(end).run(), Improved).sigs).tolist() == [2]
    assert not shard.state.holds
    assert not shard.state.refused_during_hold
    assert len(placed(shard.dispatch(2, 9).run())) == 1


def test_a_committed_hold_is_told_to_all():
    shard = shard_with(SPREAD).given(hold(1, 5, counts=(zones(z=0),)))
    held = only(shard.run(), GangHeld)
    events = shard.given(GangCommitted(7, 1, held.ids, held.nodes)).run()
    assert only(events, CountsChanged) == CountsChanged(0)
    assert not shard.state.refused_during_hold


def test_a_time_out_before_the_hold_voids_it():
    shard = shard_with(SPREAD).given(hold(1, 5, counts=(zones(z=0),)), GangTimedOut(7, 1))
    assert only(shard.reload().run(), GangRefused).reasons == ()
    assert not shard.state.refused


def test_single_pods_with_wide_rules_wait_for_the_turn_of_their_shard():
    shard = shard_with(SPREAD).given(hold(1, 5, counts=(zones(z=0),))).dispatch(1, 6)
    events = shard.run()
    assert unpack(only(events, GangHeld).ids).tolist() == [5]
    assert only(events, TurnAsked).sigs == pack([1])
    assert placed(events) == []


def test_what_was_refused_before_a_move_is_checked_though_another_is_refused_after_it():
    """Both in one step: the later refusal knows the move, the earlier one does not."""
    taken = RuleCount(ANTI_AFFINITY, 0, "zone", (("x", 1), ("y", 1)), 2)
    shard = shard_with(APART, SPREAD)
    shard.given(hold(1, 5, counts=(taken,))).run()
    assert shard.state.refused == {1}
    shard.given(RulesChanged(1), hold(2, 6, turn=2, counts=(zones(x=1, y=1, z=0),)))
    assert unpack(only(shard.run(), Improved).sigs).tolist() == [1]
