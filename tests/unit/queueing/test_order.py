"""The order at equal priority: kube-scheduler's Timestamp, the time of a pod's arrival or last
failure.
"""

from shared.events.binding import BindFailed
from shared.model.columns import pack
from tests.unit.queueing.inputs import improved, pending, queue, refused, reserved, tried, tries

BUSY = 9


def busy(steps, at_ms):
    """Dispatch a pod that keeps the only shard busy; return its dispatch. Later pods wait for its
    answer.
    """
    return tried(steps.when(pending(3, BUSY), at_ms=at_ms))[0]


def parked(steps, sig, pod, at_ms):
    steps.when(refused(tried(steps.when(pending(sig, pod), at_ms=at_ms))[0]))


def test_a_woken_pod_precedes_one_that_came_after_it_failed():
    steps = queue(priorities=(0, 0, 0), credit_units=1)
    parked(steps, 1, 1, at_ms=1_000)
    first = busy(steps, at_ms=40_000)
    assert tries(steps.when(pending(2, 2))) == []
    assert tries(steps.when(improved(0, 1), at_ms=41_000)) == []
    steps.reload()
    assert tries(steps.when(reserved(first))) == [(0, 1, [1])]


def test_of_two_woken_pods_the_earlier_failure_comes_first():
    steps = queue(priorities=(0, 0, 0), credit_units=1)
    parked(steps, 2, 1, at_ms=1_000)
    parked(steps, 1, 2, at_ms=20_000)
    first = busy(steps, at_ms=40_000)
    assert tries(steps.when(improved(0, 1, 2))) == []
    assert tries(steps.when(reserved(first))) == [(0, 2, [1])]


def test_a_failed_pod_follows_pods_that_came_before_its_failure():
    steps = queue(priorities=(0, 0, 0), credit_units=1)
    first = busy(steps, at_ms=10_000)
    steps.when(pending(2, 2), at_ms=10_100)
    steps.when(pending(1, 7), at_ms=10_150)
    second = tried(steps.when(refused(first), at_ms=10_200))[0]
    assert tries(steps.when(pending(1, 8), improved(0, 3), at_ms=13_000)) == []
    third = tried(steps.when(reserved(second)))[0]
    assert third.ids == (7).to_bytes(8, "little")
    assert tries(steps.when(reserved(third))) == [(0, 3, [BUSY])]


def test_a_woken_pod_precedes_younger_pods_of_its_signature():
    steps = queue(priorities=(0, 0, 0), credit_units=1, max_batch=1)
    parked(steps, 1, 1, at_ms=1_000)
    first = busy(steps, at_ms=40_000)
    steps.when(improved(0, 1))
    steps.when(pending(1, 4, 5))
    second = tried(steps.when(reserved(first)))[0]
    assert second.ids == (1).to_bytes(8, "little")
    assert tries(steps.when(reserved(second))) == [(0, 1, [4])]


def test_gates_do_not_make_a_pod_younger():
    steps = queue(priorities=(0, 0, 0), credit_units=1)
    first = busy(steps, at_ms=1_000)
    steps.when(pending(1, 1, gated=True))
    steps.when(pending(2, 2), at_ms=2_000)
    steps.when(pending(1, 1), at_ms=3_000)
    assert tries(steps.when(reserved(first))) == [(0, 1, [1])]


def test_a_pod_that_changes_keeps_its_place():
    steps = queue(priorities=(0, 0, 0), credit_units=1)
    first = busy(steps, at_ms=1_000)
    steps.when(pending(1, 1, 4), at_ms=2_000)
    steps.when(pending(2, 2), at_ms=2_100)
    for sig in (2, 1, 2):
        steps.when(pending(sig, 1), at_ms=2_200)
        assert steps.state.sigs[sig].fifo.first(steps.state.pods) == 1
    assert tries(steps.when(reserved(first))) == [(0, 2, [1])]


def test_a_returned_pod_keeps_its_place_after_an_equal_pods_attempt():
    steps = queue(priorities=(0, 0))
    first, second = tried(steps.when(pending(1, 1), pending(2, 2)))
    steps.when(reserved(first), reserved(second), BindFailed(pack([1]), "abandoned"))
    steps.when(BindFailed(pack([2]), "abandoned"))
    assert tries(steps.when(pending(1, 3))) == [(0, 1, [3])]
    assert tries(steps.when(at_ms=3_000)) == [(0, 1, [1]), (0, 2, [2])]
