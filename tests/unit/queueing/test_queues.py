"""Pods in queues: as many are tried at once as fit below the max, and the rest wait."""

from typing import Any

from shared.events.binding import BindFailed
from shared.events.ingest import (
    PodsAssigned,
    PodsGone,
    PodsRelabelled,
    QueuesSet,
    SignatureDefined,
)
from shared.events.placement import NominationReady
from shared.events.preemption import PreemptionOpened
from shared.events.queueing import PreemptAsked, QuotaReached
from shared.model.cluster_objects import Queue
from shared.model.columns import pack
from shared.model.objects import PodSpec
from tests.unit.queueing.inputs import ids, of_type, pending, queue, refused, reserved, tried

FULL = "queue a is at its max for pods (2/2)"


def tree(most: int, **parents: str) -> QueuesSet:
    """Return queue `a` with a max of pods, and others below or above it."""
    made = [Queue(uid="a", name="a", parent=parents.pop("a", ""), max=(("pods", most),))]
    made += [Queue(uid=name, name=name, parent=above) for name, above in parents.items()]
    return QueuesSet(tuple(made))


def in_queue(sig: int, name: str = "a", priority: int = 0) -> SignatureDefined:
    return SignatureDefined(sig, PodSpec(priority=priority, queue=name))


def steps_with(most: int, **options: Any) -> Any:
    return queue(priorities=(), **options).given(
        tree(most), in_queue(1), in_queue(2, "b"), in_queue(3)
    )


def assigned(*pods: int, sig: int = 1) -> PodsAssigned:
    columns = (pack(pods), pack([sig] * len(pods)), pack([1] * len(pods)))
    return PodsAssigned(0, *columns)


def dispatched(decided: Any) -> list[list[int]]:
    return [ids(event) for event in tried(decided)]


def told(decided: Any) -> list[tuple[list[int], str]]:
    return [(ids(event), event.message) for event in of_type(decided, QuotaReached)]


def test_a_batch_is_as_large_as_the_room_and_the_others_are_told_once():
    steps = steps_with(2)
    decided = steps.when(pending(1, 1, 2, 3, 4))
    assert dispatched(decided) == [[1, 2]]
    assert told(decided) == [([3, 4], FULL)]
    (first,) = tried(decided)
    assert told(steps.when(reserved(first))) == []
    assert told(steps.when(pending(1, 5))) == [([5], FULL)]
    steps.reload()
    assert steps.when(PodsGone(pack([9]))) == []
    assert dispatched(steps.when(PodsGone(pack([1])))) == [[3]]


def test_the_room_comes_back_when_pods_are_refused_or_fail_or_are_gone():
    steps = steps_with(2)
    (first,) = tried(steps.when(pending(1, 1, 2, 3, 4, 5)))
    decided = steps.when(reserved(first, 1), refused(first, 2))
    assert dispatched(decided) == []
    assert dispatched(steps.when(PodsGone(pack([2])))) == []
    steps = steps_with(2, wakes={})
    (first,) = tried(steps.when(pending(1, 1, 2, 3, 4)))
    steps.when(reserved(first))
    assert dispatched(steps.when(BindFailed(pack([1]), "failed"))) == [[3]]
    assert dispatched(steps.when(PodsGone(pack([2])))) == [[4]]


def test_pods_of_other_schedulers_count():
    steps = steps_with(2)
    steps.given(assigned(7))
    assert dispatched(steps.when(pending(1, 8, 9))) == [[8]]
    steps.reload()
    assert dispatched(steps.when(PodsGone(pack([7])))) == [[9]]


def test_a_pod_moves_to_its_new_queue_with_its_charge():
    steps = queue(priorities=()).given(tree(1, b=""), in_queue(1), in_queue(2, "b"))
    steps.given(assigned(7))
    assert dispatched(steps.when(pending(1, 8), pending(2, 9))) == [[9]]
    assert dispatched(steps.when(PodsRelabelled(pack([7]), pack([2])))) == [[8]]


def test_pods_that_ran_before_the_first_queue_count():
    steps = queue(priorities=(0,)).given(assigned(3))
    steps.given(tree(1), in_queue(2), PodsRelabelled(pack([3]), pack([2])))
    assert dispatched(steps.when(pending(2, 5))) == []
    assert dispatched(steps.when(QueuesSet(()))) == [[5]]


def test_a_queue_that_does_not_exist_holds_its_pods_back():
    steps = steps_with(1)
    decided = steps.when(pending(2, 1))
    assert (dispatched(decided), told(decided)) == ([], [([1], "queue b does not exist")])
    assert dispatched(steps.when(tree(1, b="a"))) == [[1]]
    assert told(steps.when(pending(1, 2))) == [([2], "queue a is at its max for pods (1/1)")]


def test_a_pod_that_may_not_use_room_asks_for_none():
    steps = steps_with(1)
    (first,) = tried(steps.when(pending(1, 1)))
    (event,) = of_type(steps.when(refused(first, preemptible=True)), PreemptAsked)
    assert event.pod == 1
    assert told(steps.when(pending(3, 2)))[0][0] == [2]
    steps.when(PreemptionOpened(1, 1, 7, pack([99])))
    assert dispatched(steps.when(NominationReady(0, 1, 1, 7))) == [[1]]
