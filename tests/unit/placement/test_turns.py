"""Turns of one shard of several: what waits for one, what is counted, and what follows."""

import pytest

from shared.events.permit import CountsAsked, RulesChanged, TurnGranted
from shared.events.placement import (
    CountsChanged,
    Improved,
    Refused,
    RulesCounted,
    TurnAsked,
    TurnEnded,
)
from shared.model.columns import pack, unpack
from shared.model.objects import HOSTNAME, PodTerm, PreferredPodTerm, Requirement, SpreadConstraint
from shared.model.pod_rules.rule_counts import (
    AFFINITY,
    ANTI_AFFINITY,
    HARD_SPREAD,
    RuleCount,
    SignatureCounts,
)
from tests.unit.placement.shard import Shard, node, placed, spec

WEB = (Requirement("app", "In", ("web",)),)
NAMED = {"namespace": "ns", "labels": (("app", "web"),)}
BY_ZONE = PodTerm("zone", WEB)
APART = spec(pod_anti_affinity=(BY_ZONE,), **NAMED)
NEAR = spec(pod_affinity=(BY_ZONE,), **NAMED)
SPREAD = spec(spread=(SpreadConstraint("zone", 1, selector=WEB),), **NAMED)
PLAIN, COUNTED = spec(), spec(**NAMED)


def shard_with(*specs, placements=2):
    """Return shard 0 with node 1 in zone x, node 2 in zone y, and these signatures from 1 on."""
    shard = Shard(0, placements)
    for number, each in enumerate(specs, start=1):
        shard.sig(number, each)
    return shard.nodes(1, 2, node("a", labels={"zone": "x"}), node("b", labels={"zone": "y"}))


def granted(*counts, sig=1, turn=1):
    """Return the grant of a turn, with what the other shards count for its signature."""
    return TurnGranted(turn, 0, pack([sig]), (SignatureCounts(sig, counts),))


def in_turn(rule, *counts):
    """Return what a shard decides about a pod with this rule in its turn."""
    shard = shard_with(rule).dispatch(1, 5)
    shard.run()
    return shard.given(granted(*counts)).run()


def only(events, kind):
    (found,) = [event for event in events if isinstance(event, kind)]
    return found


@pytest.mark.parametrize("rule", [APART, NEAR, SPREAD])
def test_pods_with_wide_rules_wait_for_a_turn(rule):
    shard = shard_with(rule, PLAIN).dispatch(1, 5).dispatch(2, 6)
    events = shard.run()
    assert only(events, TurnAsked) == TurnAsked(0, pack([1]))
    assert [pod for pod, _node in placed(events)] == [6], "others do not wait"
    assert shard.reload().run() == []
    ended = only(shard.given(granted()).run(), TurnEnded)
    assert ended == TurnEnded(0, 1, moved=True)


def test_pods_that_wide_rules_count_wait_too():
    shard = shard_with(APART, COUNTED).dispatch(2, 5)
    assert only(shard.run(), TurnAsked).sigs == pack([2])


@pytest.mark.parametrize(
    "soft",
    [
        spec(pods_preferred=(PreferredPodTerm(5, BY_ZONE),), **NAMED),
        spec(spread=(SpreadConstraint("zone", 1, hard=False, selector=WEB),), **NAMED),
    ],
)
def test_wide_preferences_need_a_turn_and_those_by_host_none(soft):
    assert only(shard_with(soft).dispatch(1, 5).run(), TurnAsked)
    away = spec(pod_anti_affinity=(PodTerm(HOSTNAME, WEB),), **NAMED)
    assert len(placed(shard_with(away).dispatch(1, 5).run())) == 1


def test_with_one_shard_there_are_no_turns():
    assert len(placed(shard_with(APART, placements=1).dispatch(1, 5).run())) == 1


def test_counts_of_other_shards_decide():
    apart = RuleCount(ANTI_AFFINITY, 0, "zone", (("x", 1),), 1)
    assert placed(in_turn(APART, apart)) == [(5, 2)]
    near = RuleCount(AFFINITY, 0, "zone", (("y", 3),), 3)
    assert placed(in_turn(NEAR, near)) == [(5, 2)]
    elsewhere = RuleCount(AFFINITY, 0, "zone", (("z", 3),), 3)
    refused = only(in_turn(NEAR, elsewhere), Refused)
    assert refused.reasons == (("node(s) didn't match pod affinity rules", 2),)
    spread = RuleCount(HARD_SPREAD, 0, "zone", (("x", 1), ("z", 0)))
    assert placed(in_turn(SPREAD, spread)) == [(5, 2)]


def test_a_shard_counts_for_the_turns_of_others():
    shard = shard_with(APART).assigned((4, 1, 2))
    shard.run()
    shard.given(CountsAsked(7, 1, pack([1])), CountsAsked(8, 0, pack([1])))
    counted = only(shard.reload().run(), RulesCounted)
    assert (counted.shard, counted.turn) == (0, 7)
    (counts,) = counted.counts
    assert RuleCount(ANTI_AFFINITY, 0, "zone", (("y", 1),), 1) in counts.counts


def test_it_counts_only_once_it_knows_the_signatures():
    shard = shard_with(APART).given(CountsAsked(7, 1, pack([2])))
    assert shard.run() == []
    assert only(shard.sig(2, NEAR).run(), RulesCounted).turn == 7


def test_refused_pods_are_tried_again_when_counts_change_elsewhere():
    taken = RuleCount(ANTI_AFFINITY, 0, "zone", (("x", 1), ("y", 1)), 2)
    shard = shard_with(APART).dispatch(1, 5)
    shard.run()
    events = shard.given(granted(taken)).run()
    assert only(events, Refused).sig == 1
    assert only(events, TurnEnded).moved is False
    assert shard.given(RulesChanged(0)).run() == [], "its own change"
    woken = only(shard.reload().given(RulesChanged(1)).run(), Improved)
    assert unpack(woken.sigs).tolist() == [1]


def test_facts_about_counted_pods_are_told():
    shard = shard_with(APART, PLAIN).assigned((4, 1, 2))
    assert only(shard.run(), CountsChanged) == CountsChanged(0)
    assert shard.assigned((5, 2, 2)).run() == [], "no rule counts this pod"
    assert only(shard.gone(4).run(), CountsChanged)


def test_pods_that_leave_while_they_wait_end_the_turn():
    shard = shard_with(APART).dispatch(1, 5)
    shard.run()
    assert only(shard.gone(5).given(granted()).run(), TurnEnded) == TurnEnded(0, 1, moved=False)


def test_later_dispatches_wait_for_the_next_turn():
    shard = shard_with(APART, NEAR).dispatch(1, 5)
    shard.run()
    asked = only(shard.dispatch(2, 6).run(), TurnAsked)
    assert asked.sigs == pack([2])
    events = shard.reload().given(granted()).run()
    assert [pod for pod, _node in placed(events)] == [5]
