"""The next pod's backoff is cut short when nothing else is to be tried (KEP-5142)."""

from typing import Any

import pytest

from services.queueing.core.transitions import Pod
from shared.events.ingest import PodsGone
from shared.events.queueing import Activated
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

BUSY = 9


def backing_off(*pods: tuple[int, int, int], priorities: Any = (0, 0, 0), **options: Any) -> Any:
    """(signature, pod, when it failed), in order: all in backoff when something improves, and one
    pod of a signature of its own in flight, which is given back with the steps.
    """
    steps = queue(priorities=(*priorities, 0), preemption=False, **options)
    busy = tried(steps.when(pending(len(priorities) + 1, BUSY)))[0]
    for sig, pod, at_ms in pods:
        events = steps.when(pending(sig, pod), at_ms=at_ms)
        if tried(events):
            steps.when(refused(tried(events)[0]))
    steps.when(improved(0, 1, 2, 3), at_ms=pods[-1][2] + 400)
    assert all(steps.state.pods.state_of(pod) is Pod.BACKOFF for _sig, pod, _ms in pods)
    return steps, busy


def test_one_pod_is_popped_and_the_next_after_its_answer():
    steps, busy = backing_off((1, 1, 1_100), (2, 2, 1_200), (3, 3, 1_300))
    for pod in (1, 2, 3):
        events = steps.when(reserved(busy))
        assert tries(events) == [(0, pod, [pod])]
        busy = tried(events)[0]
        steps.reload()
    assert steps.core.due_ms(steps.state) is None


def test_a_pod_that_arrives_in_between_is_popped_first():
    steps, busy = backing_off((1, 1, 1_100), (2, 2, 1_200))
    first = tried(steps.when(reserved(busy)))[0]
    second = tried(steps.when(pending(3, 5)))[0]
    assert ids(second) == [5]
    assert tries(steps.when(reserved(first))) == []
    assert tries(steps.when(reserved(second))) == [(0, 2, [2])]


def test_within_a_second_priority_comes_first_and_then_the_earliest_failure():
    steps, busy = backing_off((2, 2, 1_100), (1, 1, 1_200), (3, 3, 1_300), priorities=(0, 0, 7))
    order = []
    for _pod in range(3):
        busy = tried(steps.when(reserved(busy)))[0]
        order += ids(busy)
    assert order == [3, 2, 1]


def test_the_second_of_the_backoffs_end_comes_before_priority():
    steps, busy = backing_off((1, 1, 1_900), (2, 2, 2_100), priorities=(0, 7, 0))
    first = tried(steps.when(reserved(busy)))[0]
    assert ids(first) == [1]
    assert tries(steps.when(reserved(first))) == [(0, 2, [2])]


@pytest.mark.parametrize(
    ("options", "first"),
    [({}, [1, 3]), ({"max_batch": 1}, [1]), ({"strict_order": True}, [1])],
)
def test_equal_pods_that_failed_in_the_batch_are_popped_with_it(options, first):
    steps, busy = backing_off((1, 1, 1_100), (2, 2, 1_200), (1, 3, 1_600), (1, 4, 1_601), **options)
    events = steps.when(reserved(busy))
    assert [ids(one) for one in of_type(events, Activated)] == [first]
    assert [one[2] for one in tries(events)] == [first]


def test_a_pod_without_a_shard_does_not_block_others():
    steps, busy = backing_off((1, 1, 1_100), (2, 2, 1_200))
    late = tried(steps.when(pending(1, 5)))[0]
    steps.when(refused(late))
    events = steps.when(reserved(busy))
    assert [ids(one) for one in of_type(events, Activated)] == [[1], [2]]
    assert tries(events) == [(0, 2, [2])]


def test_a_pod_that_changes_in_its_backoff_is_popped_in_its_new_form():
    steps, busy = backing_off((1, 1, 1_100), (2, 2, 1_200), (3, 3, 1_300), priorities=(5, 3, 4))
    busy = tried(steps.when(reserved(busy)))[0]
    assert ids(busy) == [1]
    steps.when(pending(1, 2))
    assert tries(steps.when(reserved(busy))) == [(0, 1, [2])]


def test_a_deleted_pod_is_not_popped():
    steps, busy = backing_off((1, 1, 1_100), (2, 2, 1_200), (3, 3, 1_300))
    busy = tried(steps.when(reserved(busy)))[0]
    steps.when(PodsGone(pack([2])))
    assert tries(steps.when(reserved(busy))) == [(0, 3, [3])]
