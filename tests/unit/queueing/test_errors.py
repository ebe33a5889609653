"""An attempt that ends with an error is no refusal: the pod is retried after its backoff."""

import pytest

from services.queueing.core.transitions import Pod
from shared.events.ingest import PodsGone
from shared.events.placement import NominationReady, Refused
from shared.events.preemption import PreemptionOpened
from shared.events.queueing import Dispatched, Parked, TryFailed
from shared.model.columns import pack
from tests.unit.queueing.inputs import (
    ids,
    improved,
    of_type,
    pending,
    queue,
    refused,
    tried,
    tries,
)

WHY = "failed filter with extender at URL http://h/x/filter, code 500"


def failed(attempt: Dispatched, *pods: int) -> Refused:
    """Return the shard's answer that trying these pods ended in an error."""
    column = pack(pods) if pods else attempt.ids
    return Refused(attempt.shard, attempt.attempt, attempt.sig, column, (), 3, 0, error=WHY)


def test_an_error_starts_a_backoff_and_sets_the_message():
    steps = queue()
    events = steps.when(failed(tried(steps.when(pending(1, 1)))[0]))
    assert [(ids(one), one.message) for one in of_type(events, TryFailed)] == [([1], WHY)]
    assert of_type(events, Parked) == []
    assert steps.state.pods.state_of(1) is Pod.BACKOFF
    steps.reload()
    assert steps.core.due_ms(steps.state) == 3_000
    assert tries(steps.when(at_ms=2_999)) == [], "it is not cut short"
    assert tries(steps.when(at_ms=3_000)) == [(0, 1, [1])]


def test_errors_in_a_row_double_the_backoff_and_a_refusal_ends_the_row():
    steps = queue()
    attempt, waits = tried(steps.when(pending(1, 1)))[0], []
    for at_ms in (10_000, 20_000, 30_000):
        steps.when(failed(attempt), at_ms=at_ms)
        waits.append(steps.core.due_ms(steps.state) - at_ms)
        attempt = tried(steps.when(at_ms=at_ms + waits[-1]))[0]
    assert waits == [2_000, 3_000, 5_000]
    steps.when(refused(attempt), at_ms=40_000)
    attempt = tried(steps.when(improved(0, 1), at_ms=50_000))[0]
    steps.when(failed(attempt))
    assert steps.core.due_ms(steps.state) == 52_000


@pytest.mark.parametrize("shards", [1, 2])
def test_an_error_is_no_answer_about_the_signature(shards):
    steps = queue(shards=shards)
    steps.when(failed(tried(steps.when(pending(1, 1)))[0]))
    assert steps.state.sigs[1].mask == 0
    assert [one[2] for one in tries(steps.when(pending(1, 2)))] == [[2]]
    assert sum(shard.open for shard in steps.state.shards) == 1


def test_after_an_error_on_its_nominated_node_the_pod_is_retried_there():
    """The refusal from before the room was made says nothing of it any more."""
    steps = queue()
    steps.when(refused(tried(steps.when(pending(1, 1)))[0], preemptible=True))
    steps.when(PreemptionOpened(1, 1, 7, pack([99])))
    urgent = tried(steps.when(NominationReady(0, 1, 1, 7)))[0]
    steps.when(failed(urgent))
    steps.reload()
    assert tries(steps.when(at_ms=3_000)) == [(0, 1, [1])]


def test_other_pods_of_the_attempt_have_separate_answers():
    steps = queue()
    attempt = tried(steps.when(pending(1, 1, 2)))[0]
    events = steps.when(failed(attempt, 1), refused(attempt, 2))
    assert [ids(one) for one in of_type(events, Parked)] == [[2]]
    assert [ids(one) for one in of_type(events, TryFailed)] == [[1]]
    assert steps.state.attempts == {}


def test_pending_events_survive_a_snapshot():
    steps = queue()
    steps.given(failed(tried(steps.when(pending(1, 1)))[0]))
    steps.reload()
    assert [one.message for one in of_type(steps.when(), TryFailed)] == [WHY]
    assert of_type(steps.when(), TryFailed) == []


def test_deleted_pods_get_no_message():
    steps = queue()
    attempt = tried(steps.when(pending(1, 1)))[0]
    steps.when(PodsGone(pack([1])))
    assert steps.when(failed(attempt)) == []


def test_a_row_of_errors_is_kept_by_a_snapshot():
    steps = queue()
    steps.when(failed(tried(steps.when(pending(1, 1)))[0]), at_ms=10_000)
    steps.reload()
    attempt = tried(steps.when(at_ms=12_000))[0]
    steps.when(failed(attempt), at_ms=20_000)
    assert steps.core.due_ms(steps.state) == 23_000
