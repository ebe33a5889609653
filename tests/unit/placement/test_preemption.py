"""Preemption in one shard: kube-scheduler's victims and reprieve; nominations that Filter keeps."""

from typing import Any

import pytest
from msgspec import to_builtins

from services.placement.core.books.ledger import UNSTARTED_MS
from services.placement.core.placing import wakeups
from shared.events.base import Event
from shared.events.binding import Bound
from shared.events.ingest import (
    BudgetCovers,
    BudgetGone,
    MinimumRunTime,
    PodsGone,
    PodsStarted,
    UnitJoined,
)
from shared.events.placement import (
    CandidatesFound,
    Improved,
    Nominated,
    NominationLost,
    NominationReady,
    NominationStale,
    Refused,
    Reserved,
)
from shared.events.preemption import (
    BudgetLeft,
    BudgetNamed,
    DryRunAsked,
    NominateAsked,
    NominationCleared,
    SpareMembers,
)
from shared.model.columns import pack, unpack
from shared.model.objects import HostPort
from shared.model.profile import Profile
from tests.unit.placement.shard import Shard, node, placed, refused, spec

LOW, MID, HIGH, WHOLE = 1, 2, 3, 4


def full(nodes: int = 1, **config: Any) -> Shard:
    """Return a shard: nodes of 4 cpu; signatures of 1, 2 and 3 cpu at priorities 0, 5, 10; a whole
    node at 10.
    """
    shard = Shard(**config).sig(LOW, spec()).sig(MID, spec(cpu=2_000, priority=5))
    shard.sig(HIGH, spec(cpu=3_000, priority=10)).sig(WHOLE, spec(cpu=4_000, priority=10))
    for number in range(1, nodes + 1):
        shard.nodes(number, node(f"n{number}"))
    return shard


def dry_run(shard: Shard, sig: int, pod: int = 99, ask: int = 1, **more) -> CandidatesFound:
    (found,) = shard.given(DryRunAsked(ask, pod, sig, **more)).run()
    assert isinstance(found, CandidatesFound)
    return found


def victims(found: CandidatesFound) -> list[list[int]]:
    return [unpack(candidate.victims).tolist() for candidate in found.candidates]


def nominate(shard: Shard, found: CandidatesFound, sig: int):
    best = found.candidates[0]
    asked = NominateAsked(found.ask, found.pod, sig, 0, best.node, best.victims)
    return shard.given(asked).run()


def test_the_most_important_victims_are_reprieved_first():
    shard = full().assigned((1, LOW, 1), (2, LOW, 1), (3, MID, 1))
    shard.state.now_ms = 5
    found = dry_run(shard, MID)
    assert victims(found) == [[1, 2]]
    one = found.candidates[0]
    assert (one.violations, one.highest, one.priority_sum) == (0, 0, 2 << 31)


def test_no_eviction_where_a_victim_of_an_ended_nomination_leaves():
    shard = full(2).assigned((1, LOW, 1), (2, LOW, 1), (3, MID, 1), (4, MID, 2), (5, MID, 2))
    assert [one.node for one in dry_run(shard, HIGH).candidates] == [1, 2]
    found = dry_run(shard, HIGH, ask=2, taken=pack([1]))
    assert [one.node for one in found.candidates] == [2]
    nominate(shard, dry_run(shard, MID, pod=98, ask=3), MID)
    assert list(shard.state.victims_of) == [1, 2]
    found = dry_run(shard, WHOLE, ask=4, taken=pack([1, 2]))
    assert victims(found) == [[3], [4, 5]]


def test_victims_in_the_budgets_status_cost_nothing():
    shard = full().assigned((1, WHOLE, 1)).sig(5, spec(cpu=4_000, priority=20))
    shard.given(BudgetCovers(1, pack([1])))
    none_left = (BudgetLeft(1, 0),)
    assert dry_run(shard, 5, budgets=none_left).candidates[0].violations == 1
    named = (BudgetNamed(1, pack([1])),)
    assert dry_run(shard, 5, budgets=none_left, named=named).candidates[0].violations == 0


def test_the_pods_of_a_unit_are_put_back_together():
    shard = full().assigned(*((pod, LOW, 1) for pod in (1, 2, 3, 4)))
    assert victims(dry_run(shard, MID)) == [[3, 4]]
    shard.given(UnitJoined(7, 0, pack([2, 3, 4])))
    # The unit is the most important, and does not fit beside the preemptor; pod 1 does.
    assert victims(dry_run(shard.reload(), MID)) == [[2, 3, 4]]
    shard.given(PodsGone(pack([4])))
    assert victims(dry_run(shard, MID)) == [[1]]


def test_a_larger_unit_is_put_back_first_and_pods_elsewhere_count():
    shard = full(2).assigned(*((pod, LOW, 1) for pod in (1, 2, 3, 4)), (5, MID, 2), (6, LOW, 2))
    shard.given(UnitJoined(7, 0, pack([1, 2])), UnitJoined(8, 0, pack([3, 4, 6])))
    found = dry_run(shard, MID)
    assert (found.candidates[0].node, victims(found)[0]) == (1, [1, 2])


def test_members_above_the_minimum_leave_one_by_one_the_newest_first():
    shard = full().assigned(*((pod, LOW, 1) for pod in (1, 2, 3, 4)))
    shard.given(UnitJoined(7, 0, pack([1, 2, 3, 4]), least=2))
    assert victims(dry_run(shard, MID, spare=(SpareMembers(7, 2),))) == [[3, 4]]
    assert victims(dry_run(shard.reload(), MID, spare=(SpareMembers(7, 1),))) == [[1, 2, 3, 4]]
    shard.given(UnitJoined(7, 1, pack([4]), least=2))  # of another priority: none keep a minimum
    assert victims(dry_run(shard.reload(), MID, spare=())) == [[3, 4]]


def test_pods_are_no_victims_before_their_minimum_run_time():
    shard = full().assigned(*((pod, LOW, 1) for pod in (1, 2, 3, 4)))
    shard.given(MinimumRunTime(pack([2, 3, 4]), 60_000))
    found = dry_run(shard.reload(), HIGH)
    assert victims(found) == []
    assert found.protected_until_ms > 0
    shard.given(UnitJoined(7, 0, pack([1, 2])), MinimumRunTime(pack([3, 4]), 0))
    assert victims(dry_run(shard, MID)) == [[3, 4]], "pod 1 is of one unit with pod 2"


def test_a_node_costs_the_whole_group_if_more_than_it_can_spare_would_leave():
    shard = full(2).assigned(*((pod, LOW, 1) for pod in (1, 2, 3, 4)), (5, LOW, 2), (6, LOW, 2))
    shard.assigned((7, LOW, 2), (8, LOW, 2))
    shard.given(UnitJoined(7, 0, pack([1, 2, 3, 4, 5]), least=3))
    found = dry_run(shard, MID, spare=(SpareMembers(7, 1),)).candidates
    assert [(one.node, unpack(one.victims).tolist()) for one in found] == [
        (2, [7, 8]),
        (1, [1, 2, 3, 4]),
    ]


def test_units_that_leave_other_nodes_too_cost_more():
    shard = full(3).assigned((1, LOW, 1), (2, MID, 1), (3, LOW, 2), (4, MID, 2), (5, MID, 3))
    assert [one.node for one in dry_run(shard, HIGH).candidates][:2] == [3, 2]
    shard.given(UnitJoined(7, 5, pack([4, 5])))
    assert [one.node for one in dry_run(shard, HIGH).candidates] == [1, 3, 2]
    shard.given(BudgetCovers(1, pack([2])))
    assert [one.node for one in dry_run(shard, HIGH).candidates] == [3, 2, 1]
    shard.given(BudgetCovers(1, pack([5])))
    found = dry_run(shard, HIGH, budgets=(BudgetLeft(1, 0),)).candidates
    assert [(one.node, one.violations) for one in found] == [(1, 1), (3, 1), (2, 1)]


def test_the_younger_of_equal_pods_is_the_victim():
    shard = full()
    for moment, pod in enumerate((4, 3, 2, 1)):
        shard.state.now_ms = 100 + moment
        shard.assigned((pod, LOW, 1))
    found = dry_run(shard, MID)
    assert victims(found) == [[2, 1]]
    assert found.candidates[0].earliest_start_ms == UNSTARTED_MS + 102


def test_age_counts_from_the_start_and_unstarted_pods_are_youngest():
    shard = full().assigned(*((pod, LOW, 1) for pod in (1, 2, 3, 4)))
    shard.given(PodsStarted(0, pack([4, 1, 3]), pack([7_000, 9_000, 8_000])))
    assert victims(dry_run(shard, MID)) == [[1, 2]]
    found = dry_run(shard.reload(), HIGH)
    assert victims(found) == [[3, 1, 2]]
    assert found.candidates[0].earliest_start_ms == 8_000
    shard.given(PodsStarted(0, pack([2]), pack([1_000])))
    assert victims(dry_run(shard, MID)) == [[3, 1]]


def test_of_equal_nodes_the_one_with_the_latest_start_is_taken():
    shard = full(3).sig(5, spec(cpu=4_000))
    shard.assigned((1, 5, 1), (2, 5, 2), (3, 5, 3))
    shard.given(PodsStarted(0, pack([1, 2, 3]), pack([5_000, 9_000, 7_000])))
    assert [one.node for one in dry_run(shard, HIGH).candidates] == [2, 3, 1]


def test_a_start_time_belongs_to_the_pods_node():
    shard = full(2).given(PodsStarted(0, pack([1]), pack([5_000])))
    shard.assigned((1, WHOLE, 1)).sig(5, spec(cpu=4_000, priority=20))
    assert dry_run(shard, 5).candidates[0].earliest_start_ms > UNSTARTED_MS - 1
    shard.given(PodsStarted(1, pack([1]), pack([5_000])))
    assert dry_run(shard, 5).candidates[0].earliest_start_ms > UNSTARTED_MS - 1, "another shard's"
    shard.given(PodsStarted(0, pack([1]), pack([5_000])))
    assert dry_run(shard, 5).candidates[0].earliest_start_ms == 5_000


def test_budget_violations_are_reprieved_first():
    shard = full().assigned(*[(pod, LOW, 1) for pod in (1, 2, 3, 4)])
    shard.given(BudgetCovers(8, pack([3, 4])))
    found = dry_run(shard, MID, budgets=(BudgetLeft(8, 0),))
    assert victims(found) == [[1, 2]]
    assert found.candidates[0].violations == 0
    found = dry_run(shard.reload(), HIGH, budgets=(BudgetLeft(8, 0),))
    assert (victims(found), found.candidates[0].violations) == ([[1, 2, 4]], 1)
    shard.given(BudgetGone(8))
    assert dry_run(shard, HIGH).candidates[0].violations == 0


@pytest.mark.parametrize(("version", "violations"), [("1.35", 1), ("1.36", 1), ("1.37", 0)])
def test_since_1_37_a_pod_beyond_one_budget_uses_no_later_one(version, violations):
    """Pod 1 is beyond budget 8. Pod 2 is beyond budget 9 only if pod 1 counts there too."""
    shard = full(compatibility=version).sig(5, spec(priority=5)).assigned((3, MID, 1))
    shard.assigned((1, LOW, 1), (2, LOW, 1))
    shard.given(BudgetCovers(9, pack([1, 2])), BudgetCovers(8, pack([1])))
    found = dry_run(shard, 5, budgets=(BudgetLeft(8, 0), BudgetLeft(9, 1)))
    assert (victims(found), found.candidates[0].violations) == ([[2]], violations)


@pytest.mark.parametrize(("version", "name"), [("1.35", ""), ("1.36", ""), ("1.37", "n1")])
def test_since_1_37_a_nomination_names_the_node_for_the_message(version, name):
    shard = full(compatibility=version).assigned(*[(pod, LOW, 1) for pod in (1, 2, 3)])
    (nominated,) = nominate(shard, dry_run(shard, MID), MID)
    assert nominated.name == name


def test_the_best_three_nodes_in_kube_schedulers_order():
    shard = full(5)
    shard.assigned((1, MID, 1), (2, MID, 1))  # highest victim priority 5
    shard.assigned((3, LOW, 2), (4, LOW, 2), (5, LOW, 2), (6, LOW, 2))  # two victims at 0
    shard.sig(5, spec(cpu=3_000)).assigned((7, 5, 3))  # one victim at 0
    shard.assigned((8, HIGH, 4))  # no pod of lower priority
    shard.assigned((9, 5, 5)).given(BudgetCovers(8, pack([9])))  # one victim, beyond its budget
    found = dry_run(shard, MID + 1)
    assert [one.node for one in found.candidates] == [3, 2, 1]
    assert found.nodes == 5


def test_reasons_say_why_a_node_is_no_candidate():
    shard = full(2).nodes(3, node("small", cpu=1_000)).nodes(4, node("off", unschedulable=True))
    shard.assigned((1, HIGH, 1), (2, HIGH, 2), (3, LOW, 2), (4, LOW, 3))
    found = dry_run(shard, MID)
    assert not found.candidates
    assert dict(found.reasons) == {
        "No preemption victims found for incoming pod": 1,
        "Insufficient cpu": 1,
        "Preemption is not helpful for scheduling": 2,
    }


def test_reserved_pods_and_victims_of_others_are_not_chosen():
    shard = full(2).dispatch(LOW, *range(1, 9))
    where = dict(placed(shard.run()))
    assert not dry_run(shard, MID).candidates
    ours = [pod for pod in where if where[pod] == 1]
    shard.given(Bound(pack(ours), pack([1] * 4)))
    first = dry_run(shard, MID, pod=98, ask=2)
    assert isinstance(nominate(shard, first, MID)[0], Nominated)
    found = dry_run(shard, MID, taken=first.candidates[0].victims)
    (chosen,), (taken,) = victims(found), victims(first)
    assert sorted(chosen + taken) == sorted(ours)


def test_a_refusal_says_whether_preemption_may_help():
    shard = full().assigned((1, MID, 1), (2, MID, 1))
    low, high = shard.dispatch(LOW, 3).run(), shard.dispatch(HIGH, 4).run()
    assert isinstance(low[0], Refused)
    assert isinstance(high[0], Refused)
    assert (low[0].resolvable, low[0].preemptible) == (1, False)
    assert (high[0].resolvable, high[0].preemptible) == (1, True)


def nominated_shard(**config: Any) -> tuple[Shard, list[int]]:
    shard = full(**config).assigned(*[(pod, LOW, 1) for pod in (1, 2, 3, 4)])
    found = dry_run(shard, MID)
    (nominated,) = nominate(shard, found, MID)
    assert isinstance(nominated, Nominated)
    return shard, unpack(nominated.victims).tolist()


@pytest.mark.parametrize("batch", [True, False])
def test_a_nomination_keeps_its_space_from_lower_pods_until_it_is_used(batch):
    shard, chosen = nominated_shard(batch=batch)
    assert shard.gone(chosen[0]).run() == []
    assert refused(shard.reload().dispatch(LOW, 50).run()) == [50]
    events = shard.gone(chosen[1]).run()
    assert NominationReady(0, 1, 99, 1) in events
    assert refused(shard.reload().dispatch(LOW, 50).run()) == [50]
    assert placed(shard.dispatch(MID, 99, urgent=True).run()) == [(99, 1)]
    assert not shard.state.nominations


def test_room_that_nominations_hold_is_not_checked_exactly_for_those_kept_out(monkeypatch):
    shard, chosen = nominated_shard()
    assert refused(shard.dispatch(LOW, 50).run()) == [50]
    shard.sig(5, spec(cpu=2_000, priority=20))
    assert refused(shard.dispatch(5, 60).run()) == [60]
    monkeypatch.setattr(
        wakeups, "CHECKS_MAX", 0
    )  # a signature that passes the quick check is reported
    events = shard.gone(*chosen).run()
    assert [unpack(one.sigs).tolist() for one in events if isinstance(one, Improved)] == [[5]]


def test_a_higher_pod_may_take_the_space_and_then_the_nomination_is_lost():
    shard, _chosen = nominated_shard()
    shard.gone(1, 2, 3, 4).run()
    events = shard.dispatch(WHOLE, 60).run()
    assert placed(events) == [(60, 1)]
    assert events[-1] == NominationLost(0, 1, 99, "the nominated space is taken")


def test_space_lost_to_a_fact_ends_the_nomination():
    shard, chosen = nominated_shard()
    shard.gone(*chosen)
    shard.run()
    events = shard.assigned((70, LOW, 1)).run()
    assert events[0] == NominationLost(0, 1, 99, "the nominated space is taken")


def test_a_nomination_ends_with_its_node_or_pod():
    shard, _chosen = nominated_shard()
    events = shard.nodes_gone(1).run()
    assert events == [NominationLost(0, 1, 99, "the nominated node is gone")]
    shard, _chosen = nominated_shard()
    events = shard.gone(99).run()
    assert events == [NominationLost(0, 1, 99, "the nominated pod is gone")]


@pytest.mark.parametrize("batch", [True, False])
def test_a_pod_placed_on_another_node_first_loses_its_nomination(batch):
    shard, chosen = nominated_shard(batch=batch)
    shard.gone(chosen[0]).nodes(2, node("n2")).run()
    events = shard.dispatch(MID, 99).run()
    assert placed(events) == [(99, 2)]
    assert events[-1] == NominationLost(0, 1, 99, "the nominated pod has a place already")
    assert not shard.reload().state.nominations
    assert placed(shard.dispatch(LOW, 50, 51, 52).run()) == [(50, 2), (51, 2), (52, 1)]


def test_a_cleared_nomination_gives_the_space_back():
    shard, chosen = nominated_shard()
    shard.gone(*chosen)
    shard.run()
    assert refused(shard.dispatch(LOW, 50).run()) == [50]
    shard.given(NominationCleared(1, 99, 0))
    shard.run()
    assert placed(shard.dispatch(LOW, 50).run()) == [(50, 1)]


def test_a_victim_that_left_or_is_taken_makes_the_choice_stale():
    shard = full().assigned(*[(pod, LOW, 1) for pod in (1, 2, 3, 4)])
    found = dry_run(shard, MID)
    shard.gone(int(unpack(found.candidates[0].victims)[0]))
    assert nominate(shard, found, MID) == [NominationStale(0, 1, 99, freed=True)]
    shard, _chosen = nominated_shard()
    again = NominateAsked(2, 98, MID, 0, 1, pack(_chosen))
    assert shard.given(again).run() == [NominationStale(0, 2, 98)]


def test_two_nominations_share_a_node_but_no_victims():
    shard, chosen = nominated_shard()
    found = dry_run(shard, MID, pod=98, ask=2)
    (others,) = victims(found)
    assert set(others).isdisjoint(chosen)
    (event,) = nominate(shard, found, MID)
    assert isinstance(event, Nominated)
    assert not dry_run(shard, MID, pod=97, ask=3).candidates


def test_a_nomination_moves_to_another_device_when_a_higher_pod_takes_its_own():
    whole, share, more = 10, 11, 12
    shard = Shard().nodes(1, node("n1", cpu=64_000, gpu_model="T4", gpu_count=2))
    shard.sig(LOW, spec(gpu=(1000, 1))).sig(whole, spec(gpu=(1000, 1), priority=10))
    shard.sig(share, spec(gpu=(230, 1), priority=20)).sig(more, spec(gpu=(650, 1), priority=10))
    shard.assigned((1, LOW, 1), (2, share, 1))
    nominate(shard, dry_run(shard, whole), whole)
    shard.gone(1, 2).run()
    assert placed(shard.dispatch(share, 50).run()) == [(50, 1)]  # on the nominated device
    (moved,) = shard.reload().state.nominations.values()
    assert moved.mask == 0b10
    (kept,) = shard.dispatch(more, 51).run()
    assert isinstance(kept, Reserved)
    assert unpack(kept.devices).tolist() == [0b01]
    assert placed(shard.dispatch(whole, 99, urgent=True).run()) == [(99, 1)]


def test_a_nomination_that_had_no_device_left_takes_those_of_one_that_is_lost():
    whole, share, part, high = 10, 11, 12, 13
    shard = Shard().nodes(1, node("n1", cpu=10_000, gpu_model="T4", gpu_count=2))
    shard.sig(LOW, spec(cpu=4_000, gpu=(1000, 1))).sig(MID, spec(cpu=4_000, gpu=(650, 1)))
    shard.sig(whole, spec(cpu=4_000, gpu=(1000, 1), priority=10))
    shard.sig(share, spec(gpu=(230, 1), priority=20))
    shard.sig(part, spec(cpu=4_000, gpu=(650, 1), priority=10))
    shard.sig(high, spec(cpu=4_000, gpu=(650, 1), priority=20))
    shard.assigned((1, LOW, 1), (3, share, 1), (2, MID, 1))
    nominate(shard, dry_run(shard, whole), whole)
    nominate(shard, dry_run(shard, part, pod=98, ask=2), part)
    shard.gone(1, 2).run()
    assert [one.mask for one in shard.state.nominations.values()] == [0b01, 0b10]
    # It takes the second one's device, and cpu that they cannot both do without.
    events = shard.dispatch(high, 50).run()
    assert events[-1] == NominationLost(0, 1, 99, "the nominated space is taken")
    (kept,) = shard.reload().state.nominations.values()
    assert (kept.pod, kept.mask) == (98, 0b01)


def refusals(events: list[Event]) -> list[Refused]:
    return [event for event in events if isinstance(event, Refused)]


def hopeless(shard: Shard | None = None, **more: Any) -> Shard:
    """Return a shard: 3 cpu of priority 20 and 1 of priority 0 on one node; a pod of 3.5 cpu and
    priority 10 was refused, and no eviction could help it.
    """
    shard = shard or full()
    shard.sig(5, spec(cpu=3_000, priority=20)).sig(6, spec(cpu=3_500, priority=10, **more))
    shard.assigned((1, 5, 1), (2, LOW, 1)).dispatch(6, 9)
    assert refused(shard.run()) == [9]
    assert not dry_run(shard, 6, pod=9).candidates
    return shard


def test_a_preemptor_with_a_new_candidate_is_woken_once():
    """kube-scheduler wakes for every pod that leaves."""
    shard = hopeless().reload()
    assert shard.gone(1).run() == [Improved(0, pack([6]), 0)]
    shard.dispatch(6, 9)
    assert [answer.preemptible for answer in refusals(shard.run())] == [True]
    assert victims(dry_run(shard, 6, pod=9, ask=2)) == [[2]]
    # Preemption works for it now: what else gets better is no news.
    shard.nodes(1, node("n1", cpu=4_100))
    assert shard.run() == [Improved(0, b"", 0)]


def test_a_preemptor_without_victims_is_woken_by_a_node_with_victims():
    shard = full().sig(5, spec(cpu=4_000, priority=20)).sig(6, spec(cpu=3_500, priority=10))
    shard.assigned((1, 5, 1)).dispatch(6, 9)
    assert [answer.preemptible for answer in refusals(shard.run())] == [False]
    shard.assigned((2, LOW, 2)).nodes(2, node("n2"))
    assert shard.run() == [Improved(0, pack([6]), 0)]


def test_preemptors_that_no_eviction_helps_are_not_woken():
    shard = hopeless()
    assert shard.gone(2).run() == [Improved(0, b"", 0)]
    shard.assigned((3, 5, 1)).gone(1)
    assert shard.run() == [Improved(0, b"", 0)]


def test_pods_that_never_preempt_are_not_woken():
    gentle = full(profiles=to_builtins([Profile(preempts=False)]))
    for shard in (hopeless(never_preempts=True), hopeless(gentle)):
        assert shard.gone(1).run() == [Improved(0, b"", 0)]


@pytest.mark.parametrize("port", [0, 80])
def test_many_changed_nodes_share_one_dry_run(port):
    shard = full(nodes=40).sig(5, spec(cpu=3_000, priority=20))
    shard.sig(6, spec(cpu=3_500, priority=10, host_ports=(HostPort(port),) if port else ()))
    for number in range(1, 41):
        shard.assigned((number, 5, number), (100 + number, LOW, number))
    shard.dispatch(6, 999)
    shard.run()
    assert not dry_run(shard, 6, pod=999).candidates
    assert shard.gone(*range(1, 41)).run() == [Improved(0, pack([6]), 0)]


def test_a_signature_with_many_preemptors_improves_once():
    shard = full().sig(5, spec(cpu=3_000, priority=20)).assigned((1, 5, 1), (2, LOW, 1))
    shard.sig(6, spec(cpu=3_500, priority=10)).sig(7, spec(cpu=3_600, priority=10))
    shard.dispatch(6, *range(100, 600)).dispatch(7, *range(600, 1_100))
    shard.run()
    dry_run(shard, 6, pod=100)
    assert shard.gone(1).run() == [Improved(0, pack([6]), 0)]  # 7 was not found hopeless
