"""Pods in queues: as many are tried at once as fit below the max, and the rest wait."""

from typing import Any

import pytest

from services.queueing.core.why import why
from shared.events.binding import BindFailed
from shared.events.ingest import (
    GangSet,
    PodsAssigned,
    PodsGone,
    PodsRelabelled,
    QueuesSet,
    SignatureDefined,
)
from shared.events.placement import NominationReady
from shared.events.preemption import PreemptionOpened
from shared.events.queueing import Dispatched, GangDispatched, PreemptAsked, QuotaReached
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


def promising(shards: int = 1, least: int = 1, **options: Any) -> Any:
    """Return steps with queues `a`, which is guaranteed `least` pods, and `b`: signatures 1 and 2
    of higher priority; 3 in none; 4 as 1.
    """
    a = Queue(uid="a", name="a", guaranteed=(("pods", least),))
    steps = queue(shards, priorities=(), **options)
    steps.given(QueuesSet((a, Queue(uid="b", name="b"))))
    return steps.given(in_queue(1), in_queue(2, "b", 10), in_queue(3, "", 5), in_queue(4))


def test_what_claims_a_guarantee_goes_before_what_borrows():
    steps = promising()
    decided = steps.when(pending(2, 1, 2), pending(1, 3, 4), pending(3, 5))
    assert dispatched(decided) == [[5], [3], [1, 2], [4]]
    assert dispatched(steps.when(pending(2, 6), pending(4, 7))) == [[6], [7]]
    steps.when(PodsGone(pack([3, 4, 7])))
    assert dispatched(steps.when(pending(2, 8), pending(4, 9))) == [[9], [8]]


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_borrower_whose_queue_uses_less_claims(is_loaded: bool):
    steps = promising(unbound_max=2)
    (first,) = tried(steps.when(pending(1, 1)))
    (other,) = tried(steps.when(pending(3, 2)))
    steps.given(reserved(first), reserved(other))
    assert dispatched(steps.when(pending(2, 3), pending(1, 4))) == []
    assert "reserved pods wait for binds" in why(steps.state, 3)
    steps.given(PodsGone(pack([1])))
    steps.given(PodsAssigned(0, pack([9]), pack([3]), pack([1])))
    if is_loaded:
        steps.reload()
    else:
        assert dispatched(steps.when()) == [[4], [3]]
        return
    assert why(steps.state, 3) == (
        "ready: queue b borrows; pods of queue a within its guarantee go first"
    )
    assert dispatched(steps.when()) == [[4], [3]]


def test_what_cannot_be_tried_holds_no_borrower_back():
    steps = promising(2, least=9)
    first, *_rest = tried(steps.when(pending(1, 1)))
    (second,) = tried(steps.when(refused(first)))
    assert dispatched(steps.when(refused(second), pending(1, 2), pending(2, 3))) == [[3]]


def gang_of(count: int, *sigs: int, number: int = 1) -> list[Any]:
    """Return a gang of `count` pods of each of these signatures."""
    made: list[Any] = [GangSet(number, f"default/g{number}", count * len(sigs), 300_000, 1)]
    for place, sig in enumerate(sigs):
        start = number * 100 + place * count
        made.append(pending(sig, *range(start, start + count), gang=number))
    return made


def order(decided: Any) -> list[Any]:
    """Return the gangs and the pods that are tried, in order."""
    wanted = [event for event in decided if isinstance(event, Dispatched | GangDispatched)]
    return [one.gang if isinstance(one, GangDispatched) else ids(one) for one in wanted]


def test_a_gang_claims_with_its_whole_minimum():
    steps = promising(least=2)
    decided = steps.when(pending(2, 1), *gang_of(2, 1, number=7), pending(2, 2))
    assert order(decided) == [7, [1, 2]]
    steps = promising(least=2)
    decided = steps.when(pending(2, 1), *gang_of(3, 1, number=7), pending(2, 2))
    assert order(decided) == [[1, 2], 7]
    steps = promising(least=2)
    assert order(steps.when(*gang_of(1, 2, 1, number=7), *gang_of(2, 1, number=8))) == [8, 7]


def test_two_gangs_that_claim_the_same_do_not_both_go_before_what_borrows():
    steps = promising(least=3)
    both = (*gang_of(2, 1, number=7), *gang_of(2, 1, number=8))
    assert order(steps.when(pending(2, 1), *both)) == [7, [1], 8]


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_borrowing_gang_claims_when_its_queue_uses_less(is_loaded: bool):
    steps = promising(least=2, unbound_max=2)
    (first, other) = tried(steps.when(pending(1, 1), pending(3, 2)))
    steps.given(reserved(first), reserved(other))
    assert order(steps.when(*gang_of(2, 1, number=7), *gang_of(1, 2, number=8))) == []
    assert why(steps.state, 700).endswith("waits for its turn by priority and age")
    steps.given(pending(4, 9))
    assert why(steps.state, 700).endswith("borrows; pods of queue a within its guarantee go first")
    steps.given(PodsGone(pack([1])))
    steps.given(PodsAssigned(0, pack([99]), pack([3]), pack([1])))
    if is_loaded:
        steps.reload()
    assert order(steps.when()) == [7, 8]


def test_a_borrower_of_higher_priority_does_not_overtake_a_gang_that_claims():
    steps = promising(least=2)
    assert order(steps.when(*gang_of(2, 1, number=7))) == [7]
    assert order(steps.when(pending(2, 2))) == []
    assert order(steps.when(at_ms=3_000)) == [[2]]
    steps = promising(least=1)
    assert order(steps.when(*gang_of(2, 1, number=7))) == [7]
    assert order(steps.when(pending(2, 2))) == [[2]]


def test_a_signature_whose_pods_all_have_a_message_is_not_looked_at_for_each_new_one():
    steps = steps_with(0)
    steps.when(pending(1, 1, 2))
    steps.when(tree(0))
    steps.when(pending(3, 4))
    assert 1 not in steps.state.quota.untold
    assert told(steps.when(pending(1, 5))) == [([5], "queue a is at its max for pods (0/0)")]


def test_a_gang_of_a_queue_without_a_guarantee_is_not_kept_for_one():
    guaranteed = Queue(uid="c", name="c", guaranteed=(("pods", 1),))
    steps = queue(priorities=()).given(
        QueuesSet((*tree(9).queues, guaranteed)),
        in_queue(1),
        GangSet(9, "default/g", 2, 300_000, 1),
    )
    steps.when(pending(1, 1, 2, gang=9))
    assert steps.state.quota.borrowing_gangs == {}
