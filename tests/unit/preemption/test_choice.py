"""pickOneNodeForPreemption, one criterion per case, and the message without a candidate."""

import numpy as np
import pytest
from msgspec.structs import replace

from services.preemption.core.budgets import Budgets
from services.preemption.core.candidate_choice import choices, message
from services.preemption.core.state import PreemptionState, Victim
from shared.events.ingest import BudgetSet
from shared.events.placement import PREEMPTION, Candidate, CandidatesFound
from shared.model.columns import pack

BASE = 1 << 31
WHY = "No preemption victims found for incoming pod"


def candidate(node, victims=(1,), violations=0, highest=0, priority_sum=BASE, started_ms=1_000):
    return Candidate(node, pack(list(victims)), violations, highest, priority_sum, started_ms, 1)


def state_of(budgets=None, taken=(), unit=(), placed=()):
    """Return preemption's state; `unit` are pods that leave together, `placed` have nodes."""
    state = PreemptionState(())
    state.budgets = budgets or Budgets()
    state.victims = {pod: Victim(7) for pod in taken}
    state.placed.add(np.array(placed, np.int64))
    if unit:
        state.units.join(3, 0, unit)
    return state


def chosen(*candidates, shards=1, **given):
    """Return the nodes of the candidates in order of choice; the candidates are dealt to the shards
    in turn.
    """
    answers = [
        CandidatesFound(shard, 1, 50, tuple(candidates[shard::shards])) for shard in range(shards)
    ]
    return [choice.candidate.node for choice in choices(answers, state_of(**given))]


def budgets(allowed, *covered, disrupted=()):
    found = Budgets()
    found.set(BudgetSet(1, allowed, "b", pack(list(disrupted)), pack(list(covered))), {})
    return found


# Each better candidate is worse by every criterion after the one it wins by.
CASES = {
    "fewest violations": (
        candidate(2, (1,), highest=1, priority_sum=BASE),
        candidate(1, (2, 3), highest=9, priority_sum=9 * BASE, started_ms=1),
        budgets(0, 1),
    ),
    "lowest highest victim": (
        candidate(2, (1,), highest=5, priority_sum=BASE),
        candidate(1, (2, 3), highest=4, priority_sum=9 * BASE, started_ms=1),
        None,
    ),
    "smallest priority sum": (
        candidate(2, (1,), priority_sum=2 * BASE),
        candidate(1, (2, 3), priority_sum=2 * BASE - 1, started_ms=1),
        None,
    ),
    "fewest victims": (
        candidate(2, (1, 2)),
        candidate(1, (3,), started_ms=1),
        None,
    ),
    "latest start": (candidate(2, started_ms=1_000), candidate(1, started_ms=1_001), None),
}


@pytest.mark.parametrize(("worse", "better", "left"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("shards", [1, 2])
def test_candidates_are_picked_in_kube_schedulers_order(worse, better, left, shards):
    assert chosen(worse, better, budgets=left, shards=shards) == [1, 2]
    assert chosen(better, worse, budgets=left, shards=shards) == [1, 2]


def test_equals_are_taken_in_the_order_found():
    assert chosen(candidate(5), candidate(3), candidate(4)) == [5, 3, 4]
    assert chosen(candidate(5), candidate(3), candidate(4), shards=2) == [5, 4, 3]


def test_candidates_with_victims_of_others_are_left_out():
    assert chosen(candidate(1, (1, 2)), candidate(2, (3,)), taken=(2,)) == [2]


def test_pods_that_leave_with_the_victims_count():
    unit = {"unit": (1, 8, 9), "placed": (8, 9)}
    assert chosen(candidate(1, (1,)), candidate(2, (2, 3), priority_sum=2 * BASE)) == [1, 2]
    assert chosen(candidate(1, (1,)), candidate(2, (2, 3), priority_sum=2 * BASE), **unit) == [2, 1]
    far = {"unit": (1, 8, 9), "placed": ()}  # without a node there is no pod to evict
    assert chosen(candidate(1, (1,)), candidate(2, (2, 3), priority_sum=2 * BASE), **far) == [1, 2]


def test_budgets_of_pods_that_leave_with_the_victims_count():
    worse, better = candidate(1, (1,)), candidate(2, (2, 3, 4), priority_sum=3 * BASE)
    unit = {"unit": (1, 8), "placed": (8,), "budgets": budgets(0, 8)}
    assert chosen(worse, better, **unit) == [2, 1]


def test_candidates_are_left_out_if_a_pod_leaves_with_them_that_is_anothers_victim():
    unit = {"unit": (1, 8), "placed": (8,), "taken": (8,)}
    assert chosen(candidate(1, (1,)), candidate(2, (3,)), **unit) == [2]


@pytest.mark.parametrize(
    ("victims", "allowed", "disrupted", "violations"),
    [
        ((1, 2), 2, (), 0),
        ((1, 2), 1, (), 1),
        ((1, 2), 0, (), 2),
        ((1, 9), 1, (), 0),
        ((1, 2), 1, (2,), 0),
        ((9,), 0, (), 0),
    ],
)
def test_violations_are_counted_as_kube_scheduler_does(victims, allowed, disrupted, violations):
    assert budgets(allowed, 1, 2, 3, disrupted=disrupted).violations(victims) == violations


def test_a_pod_of_two_budgets_is_one_violation():
    both = budgets(0, 1)
    both.set(BudgetSet(2, 0, "c", b"", pack([1])), {})
    assert both.violations([1]) == 1


@pytest.mark.parametrize(
    ("reasons", "nodes", "text"),
    [
        ((("b", 2), ("a", 11)), 13, "preemption: 0/13 nodes are available: 11 a, 2 b."),
        ((), 4, "preemption: 0/4 nodes are available:"),
    ],
)
def test_the_message_is_fit_errors(reasons, nodes, text):
    found = CandidatesFound(0, 1, 50, (), reasons, nodes)
    assert message([found]) == f"no new claims to deallocate, {text}"
    assert message([replace(found, said=(PREEMPTION,))]) == text


def test_the_first_plugins_candidate_wins_whatever_it_costs():
    dear, cheap = candidate(1, violations=5), candidate(2)
    answers = [
        CandidatesFound(0, 1, 9, (cheap,), rank=1),
        CandidatesFound(1, 1, 9, (dear,), rank=0),
    ]
    assert [one.candidate.node for one in choices(answers, state_of())] == [1, 2]


def test_texts_of_plugins_appear_once_in_plugin_order():
    answers = [
        CandidatesFound(0, 1, 9, (), ((WHY, 1),), 1, said=("one", PREEMPTION, "two")),
        CandidatesFound(1, 1, 9, (), (), 2, said=("one", "three")),
    ]
    told = f"one, preemption: 0/3 nodes are available: 1 {WHY}., two, three"
    assert message(answers) == told
    assert message([CandidatesFound(0, 1, 9, (), said=("one",))]) == "one"
