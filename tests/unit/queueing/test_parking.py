"""Refusals, parking, wake-ups, backoff, and pods whose bind failed."""

import pytest

from shared.events.binding import BindFailed
from shared.events.ingest import PodsGone
from shared.events.queueing import Activated, Parked, Woken
from shared.model.columns import pack, unpack
from tests.unit.queueing.inputs import (
    bound,
    ids,
    improved,
    of_type,
    pending,
    queue,
    refused,
    reserved,
    tried,
    tries,
)

NOBODY = (
    "no new claims to deallocate, preemption: "
    "0/3 nodes are available: 3 No preemption victims found for incoming pod."
)


def parked(steps, sig=1, pod=1):
    """Let the only shard refuse a pod; return the decisions."""
    return steps.when(refused(tried(steps.when(pending(sig, pod)))[0]))


def test_refused_by_every_shard_parks_with_the_summed_message():
    steps = queue(shards=2, preemption=False)
    first = tried(steps.when(pending(1, 1, 2)))[0]
    second = tried(steps.when(refused(first, nodes=3)))[0]
    events = steps.when(refused(second, nodes=2))
    assert [(ids(event), event.message) for event in of_type(events, Parked)] == [
        ([1, 2], "0/5 nodes are available: 5 Insufficient cpu. no new claims to deallocate")
    ]


def test_equal_pods_park_without_another_evaluation():
    steps = queue()
    parked(steps)
    events = steps.when(pending(1, 2, 3))
    assert tries(events) == []
    message = f"0/3 nodes are available: 3 Insufficient cpu. {NOBODY}"
    assert [(ids(event), event.message) for event in of_type(events, Parked)] == [([2, 3], message)]


def test_part_of_a_batch_continues_while_the_rest_is_open():
    steps = queue(shards=2)
    first = tried(steps.when(pending(1, 1, 2, 3)))[0]
    second = tried(steps.when(refused(first, 2)))
    assert [(event.shard, ids(event), event.urgent) for event in second] == [(1, [2], True)]
    assert tries(steps.when(reserved(first, 1, 3), reserved(second[0]))) == []
    assert steps.state.attempts == {}


def test_an_improvement_wakes_after_the_backoff_while_others_are_active():
    steps = queue(priorities=(0, 0))
    parked(steps)
    steps.when(pending(2, 2), at_ms=1_200)
    events = steps.when(improved(0, 1), at_ms=1_300)
    assert tries(events) == []
    assert [unpack(event.until_ms).tolist() for event in of_type(events, Woken)] == [[3_000]]
    assert steps.core.due_ms(steps.state) == 3_000
    events = steps.when(at_ms=3_000)
    assert [ids(event) for event in of_type(events, Activated)] == [[1]]
    assert tries(events) == [(0, 1, [1])]


def test_backoff_is_cut_short_when_nothing_is_active():
    steps = queue()
    parked(steps)
    events = steps.when(improved(0, 1), at_ms=1_300)
    assert tries(events) == [(0, 1, [1])]


def test_pods_whose_backoffs_end_in_the_same_second_leave_by_priority():
    """kube-scheduler's alignToWindow: the second in which a backoff ends is waited for."""
    steps = queue(priorities=(0, 100, 0), preemption=False)
    steps.when(pending(3, 3))
    for sig, at_ms in ((1, 1_100), (2, 1_900)):
        steps.when(refused(tried(steps.when(pending(sig, sig), at_ms=at_ms))[0]))
    assert steps.when(improved(0, 1, 2), at_ms=1_950)
    assert steps.core.due_ms(steps.state) == 3_000
    assert tries(steps.when(at_ms=2_950)) == []
    assert tries(steps.when(at_ms=3_000)) == [(0, 2, [2]), (0, 1, [1])]


def test_backoff_is_not_cut_short_while_nothing_may_be_dispatched():
    steps = queue(priorities=(0, 0), unbound_max=1)
    parked(steps)
    steps.when(reserved(tried(steps.when(pending(2, 2)))[0]))
    assert of_type(steps.when(improved(0, 1)), Activated) == []


def test_a_pod_after_its_backoff_wakes_at_once():
    steps = queue(priorities=(0, 0))
    parked(steps)
    steps.when(pending(2, 2), at_ms=1_200)
    events = steps.when(improved(0, 1), at_ms=3_000)
    assert [event.until_ms for event in of_type(events, Woken)] == [b""]
    assert tries(events) == [(0, 1, [1])]


def test_a_parked_pod_that_changes_waits_for_the_end_of_its_backoff():
    steps = queue(priorities=(0, 0, 0))
    steps.when(pending(3, 3))
    parked(steps)
    assert tries(steps.when(pending(2, 1), at_ms=1_200)) == []
    assert steps.core.due_ms(steps.state) == 3_000
    assert tries(steps.when(at_ms=3_000)) == [(0, 2, [1])]
    steps.when(pending(1, 4))
    assert tries(steps.when(pending(2, 4), at_ms=5_000)) == [(0, 2, [4])]


def test_a_parked_pod_that_changes_is_tried_at_once_when_nothing_is_active():
    steps = queue(priorities=(0, 0))
    parked(steps)
    assert tries(steps.when(pending(2, 1), at_ms=1_200)) == [(0, 2, [1])]


def test_backoff_doubles_up_to_its_maximum():
    steps = queue(priorities=(0, 0), backoff_max_ms=5_000)
    parked(steps)
    ends = []
    for round_number in range(4):
        now_ms = 100_000 * (round_number + 1)
        again = tried(steps.when(improved(0, 1), at_ms=now_ms))[0]
        steps.when(refused(again))
        ends.append(int(steps.state.pods.until_ms[0]) - now_ms)
    assert ends == [3_000, 5_000, 6_000, 6_000]


def test_an_improvement_after_the_refusal_but_before_parking_is_not_lost():
    """The mirror of kube-scheduler's lost wake-ups: it came while the pod was still in flight."""
    steps = queue(shards=2)
    first = tried(steps.when(pending(1, 1)))[0]
    second = tried(steps.when(refused(first)))[0]
    steps.when(improved(0, 1))
    again = steps.when(refused(second))
    assert of_type(again, Parked) == []
    assert [(event.shard, event.urgent) for event in tried(again)] == [(0, True)]


def test_an_improvement_in_the_same_step_as_the_last_refusal_is_not_lost():
    steps = queue()
    first = tried(steps.when(pending(1, 1)))[0]
    assert tries(steps.when(refused(first), improved(0, 1))) == [(0, 1, [1])]


def test_rounds_of_leftovers_are_bounded():
    steps = queue()
    attempt = tried(steps.when(pending(1, 1)))[0]
    for _round in range(3):
        attempt = tried(steps.when(refused(attempt), improved(0, 1)))[0]
    events = steps.when(refused(attempt), improved(0, 1))
    assert [ids(event) for event in of_type(events, Parked)] == [[1]]
    assert steps.core.due_ms(steps.state) == steps.state.now_ms
    events = steps.when()
    assert [unpack(event.until_ms).tolist() for event in of_type(events, Woken)] == [[3_000]]


def test_pods_parked_for_five_minutes_are_tried_again():
    steps = queue()
    parked(steps)
    assert steps.core.due_ms(steps.state) == 330_000
    assert tries(steps.when(at_ms=329_999)) == []
    assert tries(steps.when(at_ms=330_000)) == [(0, 1, [1])]


def test_a_deleted_parked_pod_is_not_woken():
    steps = queue()
    parked(steps)
    steps.when(PodsGone(pack([1])))
    assert steps.when(improved(0, 1)) == []
    assert steps.core.due_ms(steps.state) is None


@pytest.mark.parametrize("late", ["reserved", "refused"])
def test_answers_for_deleted_pods_are_ignored(late):
    steps = queue()
    first = tried(steps.when(pending(1, 1)))[0]
    steps.when(PodsGone(pack([1])))
    assert steps.when(reserved(first) if late == "reserved" else refused(first)) == []


def test_a_bind_that_was_abandoned_is_tried_again_after_a_backoff():
    steps = queue(priorities=(0, 0))
    first = tried(steps.when(pending(1, 1), pending(2, 2)))
    steps.when(reserved(first[0]))
    assert tries(steps.when(BindFailed(pack([1]), "abandoned"), at_ms=1_100)) == []
    assert steps.core.due_ms(steps.state) == 3_000
    assert tries(steps.when(at_ms=3_000)) == [(0, 1, [1])]


@pytest.mark.parametrize("reason", ["refused", "failed", "abandoned"])
def test_a_backoff_after_an_error_is_not_cut_short(reason):
    """kube-scheduler does not cut the backoff after errors short either."""
    steps = queue(priorities=(0, 0))
    first = tried(steps.when(pending(1, 1), pending(2, 2)))
    steps.when(reserved(first[0]))
    assert tries(steps.when(BindFailed(pack([1]), reason), at_ms=1_000)) == []
    assert steps.core.due_ms(steps.state) == 3_000
    steps.reload()
    assert steps.core.due_ms(steps.state) == 3_000
    # That of a refusal, which ends at the same time, may be.
    steps.when(refused(first[1]))
    assert tries(steps.when(improved(0, 2))) == [(0, 2, [2])]
    assert steps.core.due_ms(steps.state) == 3_000
    assert tries(steps.when(at_ms=3_000)) == [(0, 1, [1])]


def test_errors_are_counted_apart_from_refusals():
    """UnschedulableCount and ConsecutiveErrorsCount: a refusal ends a row of errors."""
    steps = queue()
    attempt = tried(steps.when(pending(1, 1)))[0]
    for at_ms in (10_000, 20_000, 30_000):
        steps.when(refused(attempt), at_ms=at_ms)
        attempt = tried(steps.when(improved(0, 1), at_ms=at_ms + 9_000))[0]
    waits = []
    for at_ms in (40_000, 50_000):
        steps.when(reserved(attempt), BindFailed(pack([1]), "abandoned"), at_ms=at_ms)
        waits.append(steps.core.due_ms(steps.state) - at_ms)
        steps.reload()
        attempt = tried(steps.when(at_ms=at_ms + 9_000))[0]
    assert waits == [2_000, 3_000]
    steps.when(refused(attempt), at_ms=60_000)
    assert steps.state.pods.until_ms[0] - 60_000 == 9_000
    attempt = tried(steps.when(improved(0, 1), at_ms=69_000))[0]
    steps.when(reserved(attempt), BindFailed(pack([1]), "abandoned"), at_ms=70_000)
    assert steps.core.due_ms(steps.state) == 72_000


def test_a_snapshot_knows_which_backoffs_are_not_cut_short():
    steps = queue()
    first = tried(steps.when(pending(1, 1)))[0]
    steps.when(reserved(first), BindFailed(pack([1]), "failed"))
    until_ms = int(steps.state.pods.until_ms[0])
    steps.reload()
    assert steps.core.due_ms(steps.state) == until_ms


def test_an_abandoned_bind_may_overtake_its_reservation():
    steps = queue(priorities=(0, 0))
    first = tried(steps.when(pending(1, 1), pending(2, 2)))
    steps.when(BindFailed(pack([1]), "abandoned"))
    again = tried(steps.when(at_ms=3_000))[0]
    assert ids(again) == [1]
    steps.when(reserved(first[0]))
    assert again.attempt in steps.state.attempts
    steps.when(reserved(again), bound(1))
    assert again.attempt not in steps.state.attempts


@pytest.mark.parametrize("count", [2, 20])
def test_an_answer_of_an_older_attempt_does_not_answer_the_newer_one(count):
    steps = queue()
    first = tried(steps.when(pending(1, *range(1, count + 1))))[0]
    steps.when(BindFailed(pack([1]), "abandoned"))
    again = tried(steps.when(at_ms=3_000))[0]
    assert ids(again) == [1]
    steps.when(reserved(first))
    assert list(steps.state.attempts) == [again.attempt]
    steps.when(reserved(again))
    assert steps.state.attempts == {}


@pytest.mark.parametrize("reason", ["gone", "foreign"])
def test_a_pod_that_failed_for_good_is_dropped(reason):
    steps = queue()
    first = tried(steps.when(pending(1, 1)))[0]
    steps.when(reserved(first), BindFailed(pack([1]), reason))
    assert steps.core.due_ms(steps.state) is None
    assert tries(steps.when(pending(1, 1))) == []


def test_a_bind_may_overtake_its_reservation():
    steps = queue()
    first = tried(steps.when(pending(1, 1)))[0]
    steps.when(bound(1))
    assert steps.when(reserved(first)) == []
    assert steps.state.shards[0].units == 0
