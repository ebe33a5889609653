"""Queue plugins: which pods they gate and release, and in which order pods are tried."""

from services.queueing.core.transitions import Pod
from services.queueing.core.why import why
from shared.events.ingest import GangSet, PodsGone, SignatureRetired, SignaturesQueued
from shared.events.permit import GangReleased
from shared.model.columns import pack
from tests.unit.queueing.inputs import (
    CPU,
    gang_tries,
    ids,
    improved,
    pending,
    queue,
    refused,
    reserved,
    tried,
    tries,
)

WHY = "HasTeam: the pod names no team"


def said(*facts: tuple[int, int, str], again: bool = False) -> SignaturesQueued:
    sigs, orders, gates = zip(*facts, strict=True)
    return SignaturesQueued(pack(sigs), pack(orders), gates, again)


def held(*sigs: int, again: bool = False) -> SignaturesQueued:
    return said(*((sig, 0, WHY) for sig in sigs), again=again)


def test_pods_that_a_plugin_holds_are_not_tried_and_name_it():
    steps = queue(priorities=(0, 0))
    many = range(20, 40)
    assert tries(steps.when(held(1), pending(1, 1), pending(1, *many), pending(2, 5))) == [
        (0, 2, [5])
    ]
    assert (steps.state.pods.state_of(1), steps.state.pods.state_of(30)) == (Pod.GATED, Pod.GATED)
    assert why(steps.state, 1) == f"gated: {WHY}"
    assert not steps.state.asks
    assert tries(steps.when(pending(2, 1))) == [(0, 2, [1])], "its label came"
    assert steps.state.pods.state_of(20) is Pod.GATED


def test_a_gate_of_its_own_holds_a_pod_as_well():
    steps = queue(priorities=(0, 0))
    steps.when(held(1), pending(1, 1, gated=True))
    assert tries(steps.when(pending(1, 1))) == [], "the plugin still says no"
    assert tries(steps.when(pending(2, 1, gated=True))) == []
    assert why(steps.state, 1) == "gated: waiting for scheduling gates"
    assert tries(steps.when(pending(2, 1))) == [(0, 2, [1])]


def test_a_pod_in_flight_is_held_once_it_comes_back():
    steps = queue(priorities=(0, 0))
    (first,) = tried(steps.when(pending(1, 1, 2)))
    steps.when(held(2), pending(2, 1, 2))
    assert steps.state.pods.state_of(1) is Pod.IN_FLIGHT
    steps.when(reserved(first, 2))
    steps.when(refused(first, 1))
    assert steps.state.pods.state_of(1) is Pod.GATED
    assert steps.state.pods.state_of(2) is Pod.RESERVED, "what has a node keeps it"


def test_parked_and_delayed_pods_are_held_as_well():
    steps = queue(priorities=(0, 0, 0))
    steps.when(refused(tried(steps.when(pending(1, 1, 2)))[0]))
    steps.when(held(2), pending(2, 1))
    assert steps.state.pods.state_of(1) is Pod.GATED
    steps.when(pending(3, 3))  # is being tried, so that no backoff is cut short
    steps.when(improved(0, 1), at_ms=1_100)
    steps.when(pending(2, 2))
    assert steps.state.pods.state_of(2) is Pod.BACKOFF
    assert tries(steps.when(at_ms=60_000)) == []
    assert steps.state.pods.state_of(2) is Pod.GATED


def test_a_member_that_is_held_does_not_count():
    steps = queue(priorities=(0, 0))
    group = GangSet(1, "default/g1", 2, 300_000, 1)
    assert (
        gang_tries(steps.when(group, held(2), pending(1, 1, gang=1), pending(2, 2, gang=1))) == []
    )
    (attempt,) = gang_tries(steps.when(pending(1, 2, gang=1)))
    # While the gang is tried one of them changes: the try goes on, the next one lacks it.
    steps.when(pending(2, 2, gang=1))
    released = GangReleased(1, attempt.attempt, ((CPU, 3),), 3, False)
    assert gang_tries(steps.when(released, at_ms=100_000)) == []
    assert steps.state.pods.state_of(2) is Pod.GATED
    assert steps.state.gangs[1].waiting == 1


def test_the_queue_follows_the_plugins_order():
    steps = queue(priorities=(5, 0, 9), credit_units=1)
    answers = said((1, -1, ""), (2, 7, ""), (3, 2, ""))
    events = steps.when(answers, pending(1, 1), pending(2, 2), pending(3, 3))
    order = []
    while attempts := tried(events):
        (attempt,) = attempts
        order += ids(attempt)
        events = steps.when(reserved(attempt))
    assert order == [2, 3, 1]


def test_a_new_configuration_applies_to_waiting_pods():
    steps = queue(priorities=(5, 0, 9), credit_units=1)
    (first,) = tried(steps.when(pending(3, 3)))
    steps.when(pending(1, 1), pending(2, 2), pending(3, 4))
    steps.when(said((1, 1, ""), (2, 8, ""), (3, 9, WHY), again=True), pending(3, 4))
    assert steps.state.pods.state_of(4) is Pod.GATED
    order = []
    events = steps.when(reserved(first))
    while attempts := tried(events):
        order += ids(attempts[0])
        events = steps.when(reserved(attempts[0]))
    assert order == [2, 1]
    assert tries(steps.when(said((3, 9, ""), again=True), pending(3, 4))) == [(0, 3, [4])]


def test_a_gang_follows_the_order_too():
    steps = queue(priorities=(5, 0))
    for gang in (1, 2):
        steps.when(GangSet(gang, f"default/g{gang}", 2, 300_000, 1), pending(gang, gang, gang=gang))
    answers = said((1, 1, ""), (2, 3, ""), again=True)
    complete = steps.when(answers, pending(1, 3, gang=1), pending(2, 4, gang=2))
    assert [one.gang for one in gang_tries(complete)] == [2, 1]


def test_a_loaded_state_holds_and_orders_the_same():
    steps = queue(priorities=(5, 0, 9), credit_units=1)
    steps.when(said((1, 6, ""), (2, 7, ""), (3, 9, WHY)), pending(1, 1), pending(2, 2))
    steps.when(pending(3, 3))
    dumped = steps.dumped()
    steps.reload()
    assert steps.dumped() == dumped
    assert steps.state.gates == {3: WHY}
    assert tries(steps.when(pending(3, 4))) == []
    steps.when(PodsGone(pack([3, 4])), SignatureRetired(3))
    assert b"gates" not in steps.dumped()
