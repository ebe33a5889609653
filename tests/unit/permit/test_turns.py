"""Turns: one shard at a time, granted once all others have counted."""

from services.permit.core.core import PermitCore
from shared.events.permit import CountsAsked, RulesChanged, TurnGranted
from shared.events.placement import CountsChanged, RulesCounted, TurnAsked, TurnEnded
from shared.model.columns import pack
from shared.model.pod_rules.rule_counts import (
    ANTI_AFFINITY,
    HARD_SPREAD,
    RuleCount,
    SignatureCounts,
)
from tests.support.steps import Steps


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
