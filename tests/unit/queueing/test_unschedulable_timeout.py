"""The unschedulable timeout: each pod has its own five minutes, checked every 30 s."""

from typing import Any

import pytest

from services.queueing.core.transitions import Pod
from shared.events.base import Configured
from shared.events.ingest import PodsGone
from shared.events.preemption import PreemptionOpened
from shared.events.queueing import Parked, PreemptAsked, Woken
from shared.model.columns import pack
from tests.unit.queueing.inputs import (
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


def parked(steps: Any, sig: int, *pods: int, at_ms: int) -> None:
    """Park pods that every shard refused at this time, or that were not tried."""
    events = steps.when(pending(sig, *pods), at_ms=at_ms)
    while not of_type(events, Parked):
        events = steps.when(refused(tried(events)[0]))


@pytest.mark.parametrize("shards", [1, 2])
def test_pods_of_one_signature_are_tried_again_each_after_its_own_time(shards):
    steps = queue(shards=shards)
    for pod, at_ms in ((1, 1_000), (2, 40_000), (3, 40_400), (4, 59_000)):
        parked(steps, 1, pod, at_ms=at_ms)
    assert steps.core.due_ms(steps.state) == 330_000
    assert tries(steps.when(at_ms=329_999)) == []
    events = steps.when(at_ms=330_000)
    assert [(ids(one), one.reason) for one in of_type(events, Woken)] == [
        ([1], "unschedulable timeout")
    ]
    assert [one[2] for one in tries(events)] == [[1]]
    steps.reload()
    events = steps.when(refused(tried(events)[0]))
    if shards == 2:
        events = steps.when(refused(tried(events)[0]))
    assert [ids(one) for one in of_type(events, Parked)] == [[1]]
    assert steps.core.due_ms(steps.state) == 360_000
    assert [one[2] for one in tries(steps.when(at_ms=360_000))] == [[2, 3], [4]]


def test_a_pod_waits_for_more_than_five_minutes():
    """kube-scheduler moves those that have been there for longer than that."""
    steps = queue()
    parked(steps, 1, 1, at_ms=30_000)
    assert steps.core.due_ms(steps.state) == 360_000


def test_other_pods_keep_waiting_when_one_finds_a_node():
    steps = queue()
    parked(steps, 1, 1, at_ms=1_000)
    parked(steps, 1, 2, at_ms=100_000)
    attempt = tried(steps.when(at_ms=330_000))[0]
    assert of_type(steps.when(reserved(attempt)), Woken) == []
    assert steps.state.pods.state_of(2) is Pod.PARKED
    assert tries(steps.when(improved(0, 1))) == [(0, 1, [2])]


def test_a_new_pod_of_a_signature_refused_again_is_parked_at_once():
    steps = queue()
    parked(steps, 1, 1, at_ms=1_000)
    steps.when(refused(tried(steps.when(at_ms=330_000))[0]))
    events = steps.when(pending(1, 3))
    assert tries(events) == []
    assert [ids(one) for one in of_type(events, Parked)] == [[3]]


def test_a_pod_that_failed_again_restarts_its_time():
    steps = queue()
    parked(steps, 1, 1, at_ms=1_000)
    again = tried(steps.when(improved(0, 1), at_ms=200_000))[0]
    steps.when(refused(again))
    assert tries(steps.when(at_ms=330_000)) == []
    assert steps.core.due_ms(steps.state) == 510_000


def test_a_deleted_pods_time_is_dropped():
    steps = queue()
    parked(steps, 1, 1, at_ms=1_000)
    parked(steps, 1, 2, at_ms=50_000)
    steps.when(PodsGone(pack([1])))
    assert steps.core.due_ms(steps.state) == 360_000
    steps.reload()
    assert steps.core.due_ms(steps.state) == 360_000


def test_a_pod_with_leaving_victims_has_its_time_too():
    steps = queue()
    attempt = tried(steps.when(pending(1, 1)))[0]
    events = steps.when(refused(attempt, preemptible=True))
    assert of_type(events, PreemptAsked)
    steps.when(PreemptionOpened(1, 1, 0, b""), at_ms=2_000)
    assert steps.state.pods.state_of(1) is Pod.PREEMPTING
    assert steps.core.due_ms(steps.state) == 330_000
    assert tries(steps.when(at_ms=330_000)) == [(0, 1, [1])]


def test_a_new_length_applies_to_waiting_pods():
    steps = queue()
    parked(steps, 1, 1, at_ms=1_000)
    steps.when(Configured({"queueing": {"unschedulable_max_ms": 60_000}}))
    assert steps.core.due_ms(steps.state) == 90_000
    assert tries(steps.when(at_ms=90_000)) == [(0, 1, [1])]


@pytest.mark.parametrize("shards", [1, 2])
def test_a_pod_that_is_tried_for_months_leaves_nothing_behind_in_the_index(shards):
    steps = queue(shards=shards)
    parked(steps, 1, 1, at_ms=1_000)
    for _ in range(100):
        events = steps.when(at_ms=steps.core.due_ms(steps.state))
        while not of_type(events, Parked):
            events = steps.when(refused(tried(events)[0]))
    assert sum(len(heap) for heap in steps.state.heaps.values()) <= 2 * shards
