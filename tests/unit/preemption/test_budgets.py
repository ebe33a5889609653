"""The allowance of a budget while its status lags behind our evictions."""

import numpy as np
import pytest

from services.preemption.core.core import PreemptionCore
from shared.events.base import Configured
from shared.events.binding import Evicted, EvictionFailed
from shared.events.ingest import BudgetCovers, BudgetGone, BudgetSet, PodsAssigned, PodsGone
from shared.events.placement import Candidate, CandidatesFound, Nominated, NominationStale
from shared.events.preemption import BudgetLeft, DryRunAsked, EvictAsked, NominateAsked
from shared.events.queueing import PreemptAsked
from shared.model.columns import pack
from shared.model.podset import PAGE
from tests.support.steps import Steps

FIRST, SECOND = 50, 51


def status(allowed, *disrupted, budget=1, covered=()):
    return BudgetSet(budget, allowed, "a/b", pack(list(disrupted)), pack(list(covered)))


def chose(*victims):
    """Return steps in which budget 1 allows 3 of pods 1..5, and one ask nominated these victims."""
    mesh = Steps(PreemptionCore(1))
    mesh.when(status(3), BudgetCovers(1, pack([1, 2, 3, 4, 5])), PreemptAsked(FIRST, 7, 1))
    found = Candidate(30, pack(list(victims)), 0, 0, 0, 0, 1)
    mesh.when(CandidatesFound(0, 1, FIRST, (found,)))
    return mesh


def evicted(*victims):
    mesh = chose(*victims)
    mesh.when(Nominated(0, 1, FIRST, 7, 30, pack(list(victims))))
    mesh.when(Evicted(1, pack(list(victims))))
    return mesh


def left(mesh, budget=1):
    """Return what the next dry run says about a budget."""
    mesh.reload()
    (event,) = mesh.when(PreemptAsked(SECOND, 8, 1))
    return {one.budget: one.left for one in event.budgets}.get(budget)


def test_a_chosen_victim_counts_at_once():
    assert left(chose(1, 2)) == 1


def test_pods_without_a_budget_do_not_count():
    assert left(chose(1, 9)) == 2


def test_more_victims_than_allowed_leave_nothing():
    assert left(chose(1, 2, 3, 4)) == 0


def test_evictions_name_the_victims_beyond_their_budgets():
    mesh = chose(1, 2, 3, 4, 9)
    mesh.reload()
    decided = mesh.when(Nominated(0, 1, FIRST, 7, 30, pack([1, 2, 3, 4, 9])))
    assert decided[-1] == EvictAsked(1, FIRST, 30, pack([1, 2, 3, 4, 9]), pack([4]))
    (event,) = chose(4, 3).when(Nominated(0, 1, FIRST, 7, 30, pack([4])))[1:]
    assert event == EvictAsked(1, FIRST, 30, pack([4]))


def test_a_victim_that_left_before_its_eviction_is_not_named():
    mesh = chose(1, 2, 3, 4)
    decided = mesh.when(Nominated(0, 1, FIRST, 7, 30, pack([1, 2, 3])))
    assert decided[-1] == EvictAsked(1, FIRST, 30, pack([1, 2, 3]))


def test_a_stale_nomination_gives_the_budget_back():
    mesh = chose(1, 2)
    mesh.given(NominationStale(0, 1, FIRST))
    assert mesh.when()[0].budgets == (BudgetLeft(1, 3),)


def test_a_failed_eviction_gives_the_budget_back():
    mesh = chose(1, 2)
    mesh.when(Nominated(0, 1, FIRST, 7, 30, pack([1, 2])))
    mesh.when(Evicted(1, pack([1])), EvictionFailed(1, pack([2]), "refused"))
    assert left(mesh) == 2


def test_a_status_that_names_the_victim_counts_it_itself():
    mesh = evicted(1, 2)
    mesh.when(status(2, 1))
    assert left(mesh) == 1


def test_a_status_before_the_victims_end_does_not_count_it():
    mesh = evicted(1)
    mesh.when(status(3))
    assert left(mesh) == 2


def test_an_ended_victim_counts_until_the_next_status():
    mesh = evicted(1)
    mesh.when(PodsGone(pack([1])))
    assert left(mesh) == 2


def test_a_status_after_the_victims_end_counts_it():
    mesh = evicted(1)
    mesh.when(PodsGone(pack([1])), status(3))
    assert left(mesh) == 3


def test_a_status_between_eviction_and_end_counts_it_after_the_end():
    mesh = evicted(1)
    mesh.when(status(3))
    mesh.reload()
    mesh.when(PodsGone(pack([1])))
    assert left(mesh) == 3


def test_late_coverage_counts_leaving_victims():
    mesh = evicted(9)
    mesh.when(BudgetCovers(1, pack([9])))
    assert left(mesh) == 2


def test_a_deleted_budget_is_not_sent():
    mesh = evicted(1)
    mesh.when(BudgetGone(1))
    assert left(mesh) is None
    assert mesh.state.budgets.coverage.of(2) == ()


def test_a_pod_may_have_several_budgets():
    mesh = evicted(1)
    mesh.when(status(5, budget=2, covered=[1, 2]), status(9, budget=3, covered=[2]))
    mesh.reload()
    assert mesh.state.budgets.coverage.of(2) == (1, 2, 3)
    mesh.when(BudgetGone(1))
    assert mesh.state.budgets.coverage.of(2) == (2, 3)
    assert mesh.state.budgets.coverage.of(3) == ()
    mesh.when(PodsGone(pack([2])))
    assert mesh.state.budgets.coverage.of(2) == ()


def test_deleted_pods_leave_nothing_behind():
    """200 pods a second are half a billion ids a month."""
    mesh = Steps(PreemptionCore(1))
    last = 3 * PAGE - 1
    everyone = np.arange(1, last + 1, dtype=np.int64)
    mesh.when(status(1, covered=everyone), PodsAssigned(0, pack([1]), pack([7]), pack([30])))
    mesh.when(PodsGone(pack(everyone[:-1])))
    state = mesh.state
    assert state.budgets.coverage.dump() == [pack([last]), pack([1]), []]
    assert [len(ids.partial) for ids in (state.gone, state.placed)] == [2, 2], "0 is no pod's id"


def test_budgets_used_up_in_the_meantime_need_another_round():
    mesh = Steps(PreemptionCore(1))
    mesh.when(status(1, covered=[1, 2]), PreemptAsked(FIRST, 7, 1), PreemptAsked(SECOND, 8, 1))
    answers = (
        CandidatesFound(0, ask, pod, (Candidate(30, pack([ask]), 0, 0, 0, 0, 1),))
        for ask, pod in ((1, FIRST), (2, SECOND))
    )
    assert mesh.when(*answers) == [
        NominateAsked(1, FIRST, 7, 0, 30, pack([1])),
        DryRunAsked(2, SECOND, 8, (BudgetLeft(1, 0),), pack([1])),
    ]
    violating = Candidate(30, pack([2]), 1, 0, 0, 0, 1)
    decided = mesh.when(CandidatesFound(0, 2, SECOND, (violating,)))
    assert decided == [NominateAsked(2, SECOND, 8, 0, 30, pack([2]))], "only minimised"


@pytest.mark.parametrize(("version", "beyond"), [("1.35", [1, 2]), ("1.36", [1, 2]), ("1.37", [1])])
def test_since_1_37_a_victim_beyond_one_budget_uses_no_later_one(version, beyond):
    mesh = Steps(PreemptionCore(1)).given(Configured({"preemption": {"compatibility": version}}))
    mesh.when(status(1, budget=2, covered=[1, 2]), status(0, budget=1, covered=[1]))
    mesh.when(PreemptAsked(FIRST, 7, 1))
    found = Candidate(30, pack([1, 2]), 2, 0, 0, 0, 1)
    mesh.reload().when(CandidatesFound(0, 1, FIRST, (found,)))
    decided = mesh.when(Nominated(0, 1, FIRST, 7, 30, pack([1, 2])))
    assert decided[-1] == EvictAsked(1, FIRST, 30, pack([1, 2]), pack(beyond))
    assert left(mesh, budget=2) == 0, "both leave"
