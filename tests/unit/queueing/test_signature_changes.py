"""Pods change their signature: place, age and attempts stay, and no wake-up is lost."""

from typing import Any

from services.queueing.core.transitions import Pod
from shared.events.ingest import GangSet, PodsRelabelled, SignatureDefined, SignatureRetired
from shared.events.permit import GangReleased
from shared.events.placement import Refused
from shared.events.preemption import PreemptionClosed
from shared.events.queueing import Parked, PreemptAsked, Woken
from shared.model.columns import pack
from shared.model.ids import INGEST
from shared.model.objects import PodSpec
from tests.unit.queueing.inputs import (
    CPU,
    gang_tries,
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


def rename(steps: Any, sig: int, *pods: int, retire: int = 0, at: int = 10) -> Any:
    """Give pods a new signature at this position of the world journal."""
    steps.state.cursors[INGEST].next = at
    spec = PodSpec(requests=(("cpu", 1),), namespace="ns", labels=(("app", str(sig)),))
    steps.given(SignatureDefined(sig, spec), PodsRelabelled(pack(pods), pack([sig] * len(pods))))
    if retire:
        steps.given(SignatureRetired(retire))
    steps.core.check(steps.state)
    return steps


def state_of(steps: Any, pod: int) -> Pod:
    found: Pod = steps.state.pods.state_of(pod)
    return found


def answered(steps: Any, event: Refused, world: int) -> Any:
    columns = (event.shard, event.attempt, event.sig, event.ids, event.reasons, event.nodes)
    return steps.when(Refused(*columns, world, event.resolvable, event.preemptible))


def test_ready_pods_keep_their_places_in_line():
    steps = queue(max_batch=1, credit_units=1)
    steps.given(pending(1, 1, 2, 3, 4))
    (first,) = tried(steps.when())
    rename(steps, 7, 2, 4)
    order = [ids(first)[0]]
    attempt = first
    while (events := steps.when(reserved(attempt))) and tried(events):
        (attempt,) = tried(events)
        order.append(ids(attempt)[0])
    assert order == [1, 2, 3, 4]
    assert len(steps.state.sigs[7].fifo.ids) == 0


def test_parked_pods_stay_parked_and_follow_improvements_of_both_signatures():
    for name, world in ((1, 9), (7, 10)):
        steps = queue()
        (attempt,) = tried(steps.when(pending(1, 1, 2)))
        assert len(of_type(steps.when(refused(attempt)), Parked)) == 1
        rename(steps, 7, 1, 2, retire=1)
        assert steps.when() == []
        event = improved(0, name)
        (woken,) = of_type(steps.when(type(event)(0, event.sigs, world)), Woken)
        assert (woken.sig, ids(woken)) == (7, [1, 2])


def test_late_answers_about_the_old_signature_do_not_concern_the_new_one():
    steps = queue()
    (attempt,) = tried(steps.when(pending(1, 1, 2)))
    steps.when(refused(attempt))
    rename(steps, 7, 1)
    event = improved(0, 1)
    (woken,) = of_type(steps.when(type(event)(0, event.sigs, 10)), Woken)
    assert (woken.sig, ids(woken)) == (1, [2])
    assert steps.state.relabelled == []
    assert state_of(steps, 1) is Pod.PARKED


def test_a_refusal_of_the_old_signature_counts_for_the_new_one():
    """The shard did not know better; by the time it does it remembers the new name as refused."""
    steps = queue()
    (attempt,) = tried(steps.when(pending(1, 1, 2)))
    rename(steps, 7, 1, 2, retire=1)
    (parked,) = of_type(answered(steps, refused(attempt), 9), Parked)
    assert (parked.sig, ids(parked)) == (7, [1, 2])
    assert steps.state.pods.refusals[:2].tolist() == [1, 1]


def test_refusals_of_an_unknown_signature_count_for_it():
    """Pods are not tried as new ones for as long as ingest's journal is behind."""
    steps = queue()
    events = steps.when(pending(1, 1, 2))
    for attempt in range(1, 5):
        (sent,) = tried(events)
        assert sent.attempt == attempt
        events = steps.when(Refused(0, attempt, 7, sent.ids, ((CPU, 3),), 3, 10, 3))
    assert len(of_type(events, Parked)) == 1
    assert steps.state.pods.refusals[:2].tolist() == [1, 1]
    rename(steps, 7, 1, 2, retire=1)
    assert not steps.state.sigs[7].mask, "asked again, in vain at worst"


def test_a_twice_changed_signature_follows_improvements_of_the_first():
    steps = queue()
    (attempt,) = tried(steps.when(pending(1, 1)))
    steps.when(refused(attempt))
    rename(steps, 7, 1, retire=1)
    rename(steps, 8, 1, retire=7, at=12)
    event = improved(0, 1)
    (woken,) = of_type(steps.when(type(event)(0, event.sigs, 9)), Woken)
    assert woken.sig == 8


def test_leftovers_continue_in_their_round():
    steps = queue()
    (attempt,) = tried(steps.when(pending(1, 1, 2)))
    steps.given(refused(attempt, 1, 2), improved(0, 1))
    rename(steps, 7, 1, retire=0)
    assert sorted(tries(steps.when())) == [(0, 1, [2]), (0, 7, [1])]


def test_backoff_and_gates_are_kept():
    steps = queue()
    (attempt,) = tried(steps.when(pending(1, 1)))
    steps.when(refused(attempt))
    until_ms = int(steps.state.pods.until_ms[0])
    steps.given(pending(1, 2, gated=True))
    steps.when(improved(0, 1))
    rename(steps, 7, 1, 2, retire=1)
    assert int(steps.state.pods.until_ms[0]) == until_ms
    assert state_of(steps, 2) is Pod.GATED
    steps.given(pending(7, 2))
    assert {sig for _shard, sig, _ids in tries(steps.when(at_ms=until_ms))} == {7}


def test_an_ask_of_preemption_continues():
    steps = queue()
    (attempt,) = tried(steps.when(pending(1, 1)))
    (ask,) = of_type(steps.when(refused(attempt, preemptible=True)), PreemptAsked)
    rename(steps, 7, 1, retire=1)
    assert (ask.sig, list(steps.state.askers[7])) == (1, [1])
    (parked,) = of_type(steps.when(PreemptionClosed(1, 1, "nobody")), Parked)
    assert (parked.sig, state_of(steps, 1)) == (7, Pod.PARKED)


def test_a_gang_follows_improvements_of_its_new_signatures():
    steps = queue()
    steps.given(GangSet(5, "default/g", 2, 0, 1), pending(1, 1, 2, gang=5))
    (attempt,) = gang_tries(steps.when())
    rename(steps, 7, 1, 2, retire=1)
    steps.when(GangReleased(5, attempt.attempt, (("full", 3),), 3))
    steps.when(improved(0, 7))
    gang = steps.state.gangs[5]
    assert (gang.sigs, gang.improved) == ((7,), True)
    (again,) = gang_tries(steps.when(at_ms=gang.until_ms))
    assert [group.sig for group in again.members] == [7]


def test_ended_and_unknown_pods_are_left_alone():
    steps = queue()
    (attempt,) = tried(steps.when(pending(1, 1, 2)))
    steps.when(reserved(attempt, 1))
    rename(steps, 7, 1, 2, 99)
    assert steps.state.pods.sig[:2].tolist() == [7, 7]
    before = steps.dumped()
    rename(steps, 8, 50)
    steps.given(SignatureRetired(8))
    assert steps.dumped() == before


def test_a_loaded_state_matches_answers_to_pods():
    steps = queue()
    (attempt,) = tried(steps.when(pending(1, 1)))
    steps.when(refused(attempt))
    rename(steps, 7, 1, retire=1)
    dumped = steps.dumped()
    steps.reload()
    assert steps.dumped() == dumped
    event = improved(0, 1)
    assert len(of_type(steps.when(type(event)(0, event.sigs, 9)), Woken)) == 1
