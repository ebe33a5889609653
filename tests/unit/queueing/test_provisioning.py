"""Gangs that ask the cluster autoscaler for nodes: when, for what, and what follows its answers."""

from typing import Any

import pytest
from msgspec.structs import replace

from services.queueing.core.config import (
    PROVISIONING_RETRY_MS,
    PROVISIONING_RETRY_MS_MAX,
    PROVISIONING_UNSEEN_MS,
)
from shared.events.binding import ProvisioningRefused
from shared.events.ingest import GangGone, GangSet, ProvisioningGone, ProvisioningSet
from shared.events.permit import GangCommitted, GangReleased
from shared.events.preemption import GangPreemptionClosed
from shared.events.queueing import (
    GangDispatched,
    GangPreemptAsked,
    Parked,
    ProvisioningAsked,
    ProvisioningWithdrawn,
)
from shared.model.cluster_objects import ProvisioningRequest
from shared.model.columns import pack
from shared.model.groups.provisioning import ProvisioningWrite
from tests.unit.queueing.inputs import CPU, gang_tries, improved, of_type, pending, queue

KEY, CLASS, NAME = "default/train", "check-capacity.autoscaling.x-k8s.io", "default/train"
SEEN = ProvisioningRequest(uid="u-1", name="train", namespace="default", gang=KEY, class_name=CLASS)
WANTED = ProvisioningWrite(NAME, KEY, CLASS, samples=(1,), counts=(2,))
FULL = "0/3 nodes are available: 3 Insufficient cpu."


def group(version: int = 1, provisioning: str = CLASS, **more: Any) -> GangSet:
    return GangSet(1, KEY, 2, 300_000, version, provisioning=provisioning, **more)


def released(event: GangDispatched, **more: Any) -> GangReleased:
    return GangReleased(event.gang, event.attempt, ((CPU, 3),), 3, **more)


def seen(phase: str = "", message: str = "", uid: str = "u-1") -> ProvisioningSet:
    return ProvisioningSet((replace(SEEN, phase=phase, message=message, uid=uid),))


def asked(events: Any) -> list[ProvisioningWrite]:
    return [event.request for event in of_type(events, ProvisioningAsked)]


def withdrawn(events: Any) -> list[str]:
    return [event.request.uid for event in of_type(events, ProvisioningWithdrawn)]


def messages(events: Any) -> list[str]:
    return [event.message for event in of_type(events, Parked)]


def without_room(**options: Any) -> Any:
    """Return steps in which a gang of two has just asked for nodes, at 1 s."""
    steps = queue(**options)
    (event,) = gang_tries(steps.when(group(), pending(1, 1, 2, gang=1)))
    assert asked(steps.when(released(event))) == [WANTED]
    return steps


def test_a_gang_without_room_asks_for_nodes_and_waits_for_the_answer():
    steps = without_room()
    events = steps.when(seen(), at_ms=2_000)
    assert asked(events) == []
    assert messages(events) == [f"{FULL} ProvisioningRequest {NAME}: not accepted yet"]
    events = steps.when(seen("Accepted"), at_ms=3_000)
    assert messages(events) == [f"{FULL} ProvisioningRequest {NAME}: Accepted"]
    assert asked(steps.when(at_ms=9_000_000)) == []


@pytest.mark.parametrize("change", [{"provisioning": ""}])
def test_no_group_asks_that_names_no_class(change: Any):
    steps = queue()
    (event,) = gang_tries(steps.when(group(**change), pending(1, 1, 2, gang=1)))
    assert asked(steps.when(released(event))) == []
    assert steps.state.provisioning == {}


def test_each_kind_of_member_is_counted_as_far_as_the_gang_needs_it():
    steps = queue(priorities=(5, 0))
    gang = replace(group(), min_count=4)
    several = (pending(2, 1, 2, 3, 4, 5, gang=1), pending(1, 6, gang=1))
    (event,) = gang_tries(steps.when(gang, *several))
    (request,) = asked(steps.when(released(event)))
    assert (request.samples, request.counts) == ((6, 1), (1, 3))


def test_what_the_watch_does_not_show_is_asked_for_once_more():
    steps = without_room()
    (event,) = gang_tries(steps.when(at_ms=PROVISIONING_UNSEEN_MS))
    assert asked(steps.when(at_ms=PROVISIONING_UNSEEN_MS + 1_000)) == []  # it is being tried
    steps.reload()
    assert asked(steps.when(released(event))) == [WANTED]


def test_the_gang_is_tried_at_once_when_its_nodes_are_provisioned():
    steps = without_room()
    assert gang_tries(steps.when(seen("Accepted"), at_ms=1_100)) == []
    (event,) = gang_tries(steps.when(seen("Provisioned"), at_ms=1_200))
    # The nodes come later, one by one, and each is noticed after a second.
    assert gang_tries(steps.when(released(event), at_ms=1_300)) == []
    for at_ms in (2_300, 3_300, 4_300):
        assert gang_tries(steps.when(improved(0, 1), at_ms=at_ms - 1)) == []
        (event,) = gang_tries(steps.when(at_ms=at_ms))
        steps.when(released(event))
    events = steps.when(improved(0, 1), at_ms=5_300)
    (event,) = gang_tries(events)
    events = steps.when(GangCommitted(1, event.attempt, pack([1, 2]), pack([1, 2])))
    assert withdrawn(events) == ["u-1"]
    steps.when(ProvisioningGone("u-1"))
    assert steps.state.provisioning == {}


@pytest.mark.parametrize("phase", ["Failed", "CapacityRevoked", "BookingExpired"])
def test_a_request_that_ended_is_shown_and_made_anew_after_a_while(phase: str):
    steps = without_room()
    steps.when(seen("Accepted"), at_ms=2_000)
    events = steps.when(seen(phase, "no quota"), at_ms=10_000)
    assert messages(events) == [f"{FULL} ProvisioningRequest {NAME}: {phase}: no quota"]
    assert withdrawn(events) == []
    steps.when(seen(phase, "still no quota"), at_ms=10_500)
    steps.reload()
    again_ms = 10_000 + PROVISIONING_RETRY_MS
    assert withdrawn(_settle(steps, again_ms - 1)) == []
    assert withdrawn(_settle(steps, again_ms)) == ["u-1"]
    assert asked(_settle(steps, again_ms + 100)) == []
    assert asked(steps.when(ProvisioningGone("u-1"), at_ms=again_ms + 200)) == [WANTED]
    steps.when(seen(uid="u-2"), at_ms=again_ms + 300)
    steps.when(seen(phase, uid="u-2"), at_ms=again_ms + 400)
    again_ms += 400 + 2 * PROVISIONING_RETRY_MS
    assert withdrawn(_settle(steps, again_ms - 1)) == []
    assert withdrawn(_settle(steps, again_ms)) == ["u-2"]


def _settle(steps: Any, at_ms: int) -> Any:
    """Return what is decided then; a try of the gang fails."""
    events = steps.when(at_ms=at_ms)
    for event in gang_tries(events):
        events = [*events, *steps.when(released(event))]
    return events


def test_the_wait_between_requests_has_a_bound():
    steps = without_room()
    at_ms = 1_000
    for _failure in range(8):
        steps.when(ProvisioningRefused((KEY,), ("forbidden",)), at_ms=at_ms)
        at_ms = steps.state.provisioning[KEY].until_ms
    assert at_ms - steps.state.now_ms == PROVISIONING_RETRY_MS_MAX


def test_a_request_that_the_server_refuses_is_told_to_the_members():
    steps = without_room()
    events = steps.when(ProvisioningRefused((KEY,), ("may not create",)), at_ms=2_000)
    text = f"{FULL} ProvisioningRequest {NAME} was not written: may not create"
    assert messages(events) == [text]
    assert asked(_settle(steps, 1_999 + PROVISIONING_RETRY_MS)) == []
    assert asked(_settle(steps, 2_000 + PROVISIONING_RETRY_MS)) == [WANTED]


def test_a_request_that_somebody_deleted_is_made_anew_after_a_while():
    steps = without_room()
    steps.when(seen("Accepted"), at_ms=2_000)
    assert asked(steps.when(ProvisioningGone("u-1"), at_ms=3_000)) == []
    assert asked(_settle(steps, 3_000 + PROVISIONING_RETRY_MS)) == [WANTED]


@pytest.mark.parametrize(
    "change", [GangGone(1), group(2, provisioning=""), group(2, provisioning="other")]
)
def test_a_request_of_a_gang_that_changed_or_ended_is_withdrawn(change: Any):
    steps = without_room()
    steps.when(seen("Accepted"), at_ms=2_000)
    assert withdrawn(steps.when(change, at_ms=3_000)) == ["u-1"]
    assert withdrawn(steps.when(at_ms=3_000 + PROVISIONING_UNSEEN_MS)) == ["u-1"]
    steps.when(ProvisioningGone("u-1"))
    assert not any(one.uid for one in steps.state.provisioning.values())


def test_a_changed_gang_asks_anew_for_what_it_needs_then():
    steps = without_room()
    steps.when(seen("Accepted"), at_ms=2_000)
    events = steps.when(replace(group(2), min_count=1), at_ms=3_000)
    assert withdrawn(events) == ["u-1"]
    steps.when(released(gang_tries(events)[0]), at_ms=3_100)
    (request,) = asked(steps.when(ProvisioningGone("u-1"), at_ms=3_200))
    assert request.counts == (1,)


def test_a_request_that_is_seen_after_its_gang_changed_is_withdrawn():
    steps = without_room()
    steps.when(replace(group(2), min_count=1), at_ms=1_100)
    assert withdrawn(steps.when(seen(), at_ms=1_200)) == ["u-1"]


def test_a_request_without_a_gang_is_deleted():
    steps = queue()
    assert withdrawn(steps.when(seen("Provisioned"))) == ["u-1"]
    assert withdrawn(steps.when(at_ms=1_000 + PROVISIONING_UNSEEN_MS - 1)) == []
    steps.reload()
    assert withdrawn(steps.when(at_ms=1_000 + PROVISIONING_UNSEEN_MS)) == ["u-1"]
    steps.when(ProvisioningGone("u-1"))
    assert steps.state.provisioning == {}
    assert steps.core.due_ms(steps.state) is None


def test_preemption_is_asked_before_the_autoscaler():
    steps = queue(gang_preemption=True)
    (event,) = gang_tries(steps.when(group(), pending(1, 1, 2, gang=1)))
    events = steps.when(released(event, preemptible=True))
    assert len(of_type(events, GangPreemptAsked)) == 1
    assert asked(events) == []
    closed = GangPreemptionClosed(1, 1, "preemption: no victims.")
    assert asked(steps.when(closed, at_ms=2_000)) == [WANTED]


def test_an_earlier_process_has_asked():
    """A new journal finds the request of the one before."""
    steps = queue()
    events = steps.when(group(), seen("Accepted"), pending(1, 1, 2, gang=1))
    assert withdrawn(events) == []
    assert asked(steps.when(released(gang_tries(events)[0]))) == []
