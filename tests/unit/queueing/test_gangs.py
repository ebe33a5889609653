"""Gangs: waiting, attempts, failures, the lane, versions, and members after the commit."""

from typing import Any

import pytest

from services.queueing.core import decisions, scheduling_queue
from services.queueing.core.pods.table import CAPACITY_MIN
from services.queueing.core.waiting.messages import ON_PERMIT, TOO_FEW
from shared.events.binding import BindFailed
from shared.events.ingest import GangGone, GangSet, PodsAssigned, PodsGone
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut
from shared.events.queueing import (
    GangDispatched,
    GangShown,
    GangWaits,
    LaneFreed,
    LaneTaken,
    Parked,
)
from shared.model.columns import pack, unpack
from tests.unit.queueing.inputs import (
    CPU,
    bound,
    gang_tries,
    ids,
    improved,
    of_type,
    pending,
    queue,
    reserved,
    tried,
    tries,
)

FAR_MS = 100_000


def group(min_count: int, gang: int = 1, version: int = 1) -> GangSet:
    return GangSet(gang, f"default/g{gang}", min_count, 300_000, version)


def of_workload(gang: int, name: str) -> GangSet:
    return GangSet(gang, f"default/w/{name}", 2, 300_000, 1)


def members(event: GangDispatched) -> list[tuple[int, list[int]]]:
    return [(part.sig, unpack(part.ids).tolist()) for part in event.members]


def committed(event: GangDispatched, *pods: int) -> GangCommitted:
    return GangCommitted(event.gang, event.attempt, pack(pods), pack(pods))


def released(event: GangDispatched, stale: bool = False) -> GangReleased:
    return GangReleased(event.gang, event.attempt, ((CPU, 3),), 3, stale)


def fail(steps: Any, first: GangDispatched, times: int) -> None:
    """Let this attempt and the following ones fail, each long after the one before."""
    attempt = first
    for number in range(times):
        events = steps.when(released(attempt), at_ms=FAR_MS * (number + 1))
        if number + 1 < times:
            attempt = gang_tries(steps.when(at_ms=FAR_MS * (number + 1) + 50_000))[0]
        assert gang_tries(events) == []


def test_members_wait_for_the_group_and_for_min_count():
    steps = queue()
    events = steps.when(pending(1, 1, 2, gang=1, key="default/g1"))
    assert [event.message for event in of_type(events, GangWaits)] == [
        'waiting for pods\'s pod group "g1" to appear in scheduling queue'
    ]
    events = steps.when(group(3))
    assert [event.message for event in of_type(events, GangWaits)] == [
        "waiting for minCount pods from a gang to appear in scheduling queue"
    ]
    events = steps.when(pending(1, 3, gang=1))
    assert [members(event) for event in gang_tries(events)] == [[(1, [1, 2, 3])]]
    assert tries(events) == []


def parked(events: Any) -> list[tuple[list[int], str]]:
    return [(ids(event), event.message) for event in of_type(events, Parked)]


@pytest.mark.parametrize("key", ["default/team/all", "default/team/all/3"])
def test_members_of_an_untried_gang_have_a_message(key):
    steps = queue(priorities=(0, 0))
    steps.when(pending(1, 1, 2, gang=1, key=key), pending(2, 3, gang=1, key=key))
    assert steps.core.due_ms(steps.state) == 2_000
    assert parked(steps.when(at_ms=1_999)) == []
    steps.reload()
    text = 'waiting for pods\'s workload "team" to appear in scheduling queue'
    assert parked(steps.when(at_ms=2_000)) == [([1, 2], text), ([3], text)]
    assert steps.core.due_ms(steps.state) is None
    assert parked(steps.when(group(4), at_ms=10_000)) == []
    assert parked(steps.when(at_ms=11_000)) == [([1, 2], TOO_FEW), ([3], TOO_FEW)]
    # A later member gets the message, too, although the gang has no new one.
    assert parked(steps.when(pending(1, 4, gang=1, gated=True), at_ms=11_500)) == []
    assert parked(steps.when(PodsGone(pack([2])), pending(1, 4, gang=1), at_ms=12_000)) == []
    assert parked(steps.when(at_ms=13_000)) == [([1, 4], TOO_FEW), ([3], TOO_FEW)]


def test_a_gang_that_is_soon_complete_gets_no_message():
    steps = queue()
    steps.when(group(3), pending(1, 1, 2, gang=1))
    event = gang_tries(steps.when(pending(1, 3, gang=1), at_ms=1_900))[0]
    assert parked(steps.when(at_ms=2_899)) == []
    assert parked(steps.when(committed(event, 1, 2, 3))) == []
    assert steps.core.due_ms(steps.state) is None


def test_members_of_a_long_attempt_wait_on_permit_in_their_message():
    steps = queue()
    steps.when(group(3), pending(1, 1, 2, gang=1))
    assert parked(steps.when(at_ms=2_000)) == [([1, 2], TOO_FEW)]
    event = gang_tries(steps.when(pending(1, 3, gang=1), at_ms=5_000))[0]
    steps.reload()
    assert parked(steps.when(at_ms=5_999)) == []
    events = steps.when(at_ms=6_000)
    assert parked(events) == [([1, 2, 3], ON_PERMIT)]
    assert of_type(events, GangWaits) == [GangWaits(1, ON_PERMIT)]
    text = "0/3 nodes are available: 3 Insufficient cpu."
    assert parked(steps.when(released(event), at_ms=7_000)) == [([1, 2, 3], text)]


def test_a_member_that_joins_an_unschedulable_gang_gets_its_message():
    steps = queue()
    event = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))[0]
    steps.when(released(event), at_ms=2_000)
    again = gang_tries(steps.when(pending(1, 3, gang=1), at_ms=3_000))[0]
    assert parked(steps.when(released(again), at_ms=3_010)) == []
    text = "0/3 nodes are available: 3 Insufficient cpu."
    assert parked(steps.when(at_ms=4_000)) == [([1, 2, 3], text)]


def test_a_full_step_still_writes_the_members_messages(monkeypatch):
    monkeypatch.setattr(decisions, "STEP_EVENTS_MAX", 1)
    steps = queue()
    event = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))
    while not event:
        event = gang_tries(steps.when())
    text = "0/3 nodes are available: 3 Insufficient cpu."
    assert parked(steps.when(released(event[0]), at_ms=2_000)) == [([1, 2], text)]


def test_a_gated_member_does_not_count():
    steps = queue()
    assert (
        gang_tries(steps.when(group(2), pending(1, 1, gang=1), pending(1, 2, gang=1, gated=True)))
        == []
    )
    assert len(gang_tries(steps.when(pending(1, 2, gang=1)))) == 1


def test_members_are_grouped_by_signature_beyond_min_count_too():
    steps = queue(priorities=(0, 5))
    events = steps.when(pending(1, 1, gang=1), pending(2, 2, 3, gang=1), group(2))
    event = gang_tries(events)[0]
    assert members(event) == [(2, [2, 3]), (1, [1])]
    assert (event.min_count, event.timeout_ms, event.version) == (2, 300_000, 1)


def test_a_member_that_the_commit_leaves_out_continues_as_a_single_pod():
    steps = queue()
    event = gang_tries(steps.when(group(2), pending(1, 1, 2, 3, gang=1)))[0]
    assert tries(steps.when(committed(event, 1, 2))) == [(0, 1, [3])]


def test_a_member_bound_by_another_scheduler_counts():
    steps = queue()
    steps.when(group(3), pending(1, 1, 2, gang=1))
    column = pack([1])
    steps.when(PodsAssigned(0, column, column, column))
    event = gang_tries(steps.when(pending(1, 3, gang=1)))[0]
    assert (members(event), event.min_count) == ([(1, [2, 3])], 2)


def test_late_members_are_single_pods():
    steps = queue()
    event = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))[0]
    during = steps.when(pending(1, 3, gang=1))
    assert (tries(during), gang_tries(during)) == ([], [])
    assert tries(steps.when(committed(event, 1, 2))) == [(0, 1, [3])]
    assert tries(steps.when(pending(1, 4, gang=1))) == [(0, 1, [4])]


def test_a_committed_member_whose_bind_was_abandoned_is_retried_alone():
    steps = queue()
    event = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))[0]
    steps.when(committed(event, 1, 2))
    assert tries(steps.when(BindFailed(pack([2]), "abandoned"))) == []
    assert tries(steps.when(at_ms=3_000)) == [(0, 1, [2])]


def test_pods_that_replace_members_whose_bind_failed_start_together():
    steps = queue()
    event = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))[0]
    steps.when(committed(event, 1, 2), BindFailed(pack([1, 2]), "abandoned"))
    steps.when(PodsGone(pack([1, 2]), pack([1, 2])))
    first = steps.when(pending(1, 3, gang=1), at_ms=20_000)
    assert (tries(first), gang_tries(first)) == ([], [])
    both = steps.when(pending(1, 4, gang=1), at_ms=40_000)
    assert tries(both) == []
    assert [unpack(one.ids).tolist() for one in gang_tries(both)[0].members] == [[3, 4]]


def test_a_gang_whose_members_get_new_numbers_goes_on():
    steps = queue()
    event = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))[0]
    steps.when(committed(event, 1, 2), PodsAssigned(0, pack([1, 2]), pack([1, 1]), pack([7, 7])))
    gone, known = PodsGone(pack([1, 2]), pack([1, 2])), pending(1, 3, 4, gang=1)
    steps.when(gone, known, PodsAssigned(0, pack([3, 4]), pack([1, 1]), pack([7, 7])))
    assert steps.state.gangs[1].running == 2
    assert tries(steps.when(pending(1, 5, gang=1))) == [(0, 1, [5])]
    steps.reload()


def test_a_missing_group_and_a_missing_workload_have_different_messages():
    steps = queue()

    def says(*events) -> list[tuple[int, str]]:
        found = [(one.gang, one.message) for one in of_type(steps.when(*events), GangWaits)]
        steps.reload()
        return found

    no_workload = 'waiting for pods\'s workload "w" to appear in scheduling queue'
    no_group = 'pod group "{}" doesn\'t exist for a workload "w"'.format
    first, second = (pending(1, n, gang=n, key=f"default/w/g{n}") for n in (1, 2))
    assert says(first) == [(1, no_workload)]
    assert says(of_workload(3, "g3")) == [(1, no_group("g1"))]
    assert says(second) == [(2, no_group("g2"))]
    assert says(GangGone(3)) == [(1, no_workload), (2, no_workload)]
    assert says(of_workload(1, "g1")) == [(1, TOO_FEW), (2, no_group("g2"))]
    assert says(GangGone(1)) == [(1, no_workload), (2, no_workload)]


def test_a_failed_attempt_has_a_message_and_is_repeated_after_an_improvement():
    steps = queue()
    event = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))[0]
    events = steps.when(released(event), at_ms=2_000)
    message = "0/3 nodes are available: 3 Insufficient cpu."
    assert [said.message for said in of_type(events, GangWaits)] == [message]
    assert [(ids(said), said.message) for said in of_type(events, Parked)] == [([1, 2], message)]
    assert steps.core.due_ms(steps.state) == 12_000
    assert gang_tries(steps.when(improved(0, 1), at_ms=2_500)) == []
    assert steps.core.due_ms(steps.state) == 3_000
    assert len(gang_tries(steps.when(at_ms=3_000))) == 1


def test_an_improvement_during_the_try_counts():
    steps = queue()
    event = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))[0]
    steps.when(improved(0, 1))
    steps.when(released(event), at_ms=2_000)
    assert steps.core.due_ms(steps.state) == 3_000


def test_a_gang_is_tried_again_after_the_longest_backoff_in_any_case():
    steps = queue()
    event = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))[0]
    steps.when(released(event), at_ms=2_000)
    assert gang_tries(steps.when(at_ms=11_999)) == []
    assert len(gang_tries(steps.when(at_ms=12_000))) == 1


def test_a_stale_release_is_no_failure():
    steps = queue()
    event = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))[0]
    events = steps.when(group(1, version=2), released(event, stale=True))
    assert [(again.version, again.min_count) for again in gang_tries(events)] == [(2, 1)]


def test_a_new_version_is_tried_at_once():
    steps = queue()
    event = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))[0]
    steps.when(released(event))
    assert len(gang_tries(steps.when(group(2, version=2)))) == 1


def test_a_deleted_member_leaves_the_gang_incomplete():
    steps = queue()
    event = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))[0]
    steps.when(PodsGone(pack([1])))
    assert gang_tries(steps.when(released(event, stale=True))) == []
    assert len(gang_tries(steps.when(pending(1, 3, gang=1)))) == 1


def test_the_permit_timeout_parks_the_members_with_its_message():
    steps = queue()
    event = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))[0]
    events = steps.when(GangTimedOut(1, event.attempt), at_ms=2_000)
    assert [said.message for said in of_type(events, GangWaits)] == [
        "gang default/g1 timed out after 300 s waiting for 2 members to have a node."
    ]
    assert len(gang_tries(steps.when(at_ms=12_000))) == 1


def short(event: GangDispatched, placed: int, *reasons: tuple[str, int]) -> GangReleased:
    why, counts = reasons or ((CPU, 3),), (placed, event.min_count)
    return GangReleased(event.gang, event.attempt, why, 3, False, False, *counts)


def short_of(placed: int, *sigs: int, running: int = 0) -> Any:
    """Return steps with a gang of three signatures that lacks room for all but `placed` of them,
    and the last decisions.
    """
    steps = queue(priorities=(0, 0))
    steps.when(group(3 + running))
    for pod in range(10, 10 + running):
        steps.when(pending(1, pod, gang=1), PodsAssigned(0, pack([pod]), pack([1]), pack([5])))
    events = steps.when(*(pending(sig, pod, gang=1) for pod, sig in enumerate(sigs, start=1)))
    return steps, steps.when(short(gang_tries(events)[0], placed), at_ms=2_000)


@pytest.mark.parametrize(
    ("placed", "sigs", "running", "text"),
    [
        (2, (1, 1, 1), 0, "2 of 3 members have a node; 1 more"),
        (0, (1, 1, 2), 0, "0 of 3 members have a node; 3 more"),
        (1, (1, 1, 1), 2, "3 of 5 members have a node; 2 more"),
        (0, (1, 1, 1), 2, "2 of 5 members have a node; 3 more"),
    ],
    ids=["some fit", "none of several specs", "some run", "only those that run"],
)
def test_a_gang_without_room_counts_its_members(placed, sigs, running, text):
    _steps, events = short_of(placed, *sigs, running=running)
    text = f"gang default/g1: {text}: 3 Insufficient cpu."
    assert of_type(events, GangWaits) == [GangWaits(1, text)]
    assert {message for _pods, message in parked(events)} == {text}


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_a_member_that_ended_does_not_run(is_reloaded):
    steps = queue()
    steps.when(group(3), pending(1, 1, gang=1))
    steps.when(PodsAssigned(0, pack([1]), pack([1]), pack([5])))
    # The table grows and forgets finished pods.
    steps.when(pending(1, *range(10, 10 + CAPACITY_MIN), gated=True))
    assert steps.state.pods.base > 1
    if is_reloaded:
        steps.reload()
    steps.when(PodsGone(pack([1])))
    assert gang_tries(steps.when(pending(1, 2, 3, gang=1))) == []
    (event,) = gang_tries(steps.when(pending(1, 4, gang=1)))
    assert event.min_count == 3


def test_a_gang_of_one_spec_of_which_no_member_fits_has_the_message_of_a_pod():
    _steps, events = short_of(0, 1, 1, 1)
    text = "0/3 nodes are available: 3 Insufficient cpu."
    assert of_type(events, GangWaits) == [GangWaits(1, text)]


def test_a_gang_whose_time_is_over_counts_its_members():
    steps, _events = short_of(2, 1, 1, 1)
    steps.reload()
    text = "2 of 3 members have a node; 1 more: 3 Insufficient cpu."
    events = steps.when(GangTimedOut(1, 1), at_ms=5_000)
    assert of_type(events, GangWaits) == [
        GangWaits(1, f"gang default/g1 timed out after 300 s: {text}")
    ]
    (again,) = gang_tries(steps.when(at_ms=50_000))
    events = steps.when(short(again, 2), at_ms=50_010)
    assert of_type(events, GangWaits) == [GangWaits(1, f"gang default/g1: {text}")]


def test_a_changed_gang_forgets_what_it_was_short_of():
    steps, _events = short_of(2, 1, 1, 1)
    (again,) = gang_tries(steps.when(group(3, version=2), at_ms=5_000))
    events = steps.when(GangTimedOut(1, again.attempt), at_ms=6_000)
    (said,) = of_type(events, GangWaits)
    assert said.message.endswith("waiting for 3 members to have a node.")


def test_a_member_without_a_reason_is_still_missing():
    steps = queue()
    event = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))[0]
    release = GangReleased(1, event.attempt, (), 3, placed=1, needed=2)
    (said,) = of_type(steps.when(release, at_ms=2_000), GangWaits)
    assert said.message == "gang default/g1: 1 of 2 members have a node; 1 more."


def test_a_permit_timeout_after_a_new_dispatch_is_ignored():
    steps = queue()
    event = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))[0]
    steps.when(released(event), at_ms=2_000)
    again = gang_tries(steps.when(at_ms=12_000))[0]
    steps.when(GangTimedOut(1, event.attempt))
    assert tries(steps.when(committed(again, 1, 2))) == []
    assert steps.state.gangs[1].committed


def test_after_two_failures_the_gang_gets_the_lane():
    steps = queue(priorities=(3, 3, 2, 4))
    event = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))[0]
    fail(steps, event, 2)
    events = steps.when(at_ms=FAR_MS * 2 + 50_000)
    assert [type(each) for each in events] == [LaneTaken, GangDispatched]
    assert gang_tries(events)[0].lane
    # Equal and lower priorities wait for its answer, higher ones do not.
    assert tries(steps.when(pending(2, 3), pending(3, 4), pending(4, 5))) == [(0, 4, [5])]
    events = steps.when(released(gang_tries(events)[0]))
    assert of_type(events, LaneFreed) == [LaneFreed(1)]
    assert tries(events) == [(0, 2, [3]), (0, 3, [4])]


def test_the_lane_ends_with_its_time():
    steps = queue(priorities=(3, 3))
    event = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))[0]
    fail(steps, event, 2)
    start_ms = FAR_MS * 2 + 50_000
    steps.when(at_ms=start_ms)
    assert tries(steps.when(pending(2, 3), at_ms=start_ms + 1_999)) == []
    assert steps.core.due_ms(steps.state) == start_ms + 2_000
    assert tries(steps.when(at_ms=start_ms + 2_000)) == [(0, 2, [3])]


def test_gangs_and_single_pods_are_dispatched_by_priority():
    steps = queue(priorities=(1, 5, 9))
    events = steps.when(pending(1, 1), pending(2, 2, 3, gang=1), pending(3, 4), group(2))
    kinds = [
        event.sig if not isinstance(event, GangDispatched) else "gang"
        for event in events
        if not isinstance(event, GangWaits)
    ]
    assert kinds == [3, "gang", 1]


def test_a_deleted_group_makes_its_members_wait_and_is_forgotten_with_the_last():
    steps = queue()
    steps.when(group(2), pending(1, 1, gang=1))
    events = steps.when(GangGone(1))
    assert '"g1"' in of_type(events, GangWaits)[0].message
    steps.when(PodsGone(pack([1])))
    assert steps.state.gangs == {}


def test_a_group_that_is_made_anew_under_running_members_starts_without_them():
    steps = queue()
    steps.when(group(1), pending(1, 1, gang=1))
    steps.when(PodsAssigned(0, pack([1]), pack([1]), pack([5])))
    steps.when(GangGone(1))
    steps.when(group(1, version=2))
    steps.reload()
    steps.when(PodsGone(pack([1]), pack([1])))
    assert steps.state.gangs[1].running == 0


def test_a_gang_that_lost_a_member_before_its_commit_waits_for_another():
    steps = queue()
    event = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))[0]
    during = steps.when(pending(1, 3, gang=1), PodsGone(pack([2]), pack([2])))
    assert tries(during) == []
    events = steps.when(committed(event, 1, 2))
    assert tries(events) == []
    assert [members(one) for one in gang_tries(events)] == [[(1, [3])]]


def test_ended_members_are_not_kept():
    steps = queue()
    steps.when(group(3))
    for pod in range(1, 1_001, 2):
        steps.when(pending(1, pod, pod + 1, gang=1))
        steps.when(PodsGone(pack([pod, pod + 1])))
        assert len(steps.state.gangs[1].members) <= 66
    steps.when(pending(1, 1_001, 1_002, gang=1))
    for pod in range(2_001, 2_101):
        steps.when(pending(1, pod, gang=2), PodsGone(pack([pod])))
    event = gang_tries(steps.when(pending(1, 3_000, gang=1)))[0]
    assert members(event) == [(1, [1_001, 1_002, 3_000])]


def test_a_gang_keeps_one_place_in_the_queue_and_one_time():
    steps = queue()
    (attempt,) = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))
    steps.when(released(attempt), at_ms=2_000)
    for _look in range(100):
        steps.when(improved(0, 1), group(2))
    assert (len(steps.state.gang_timers), len(steps.state.gangs_ready)) == (2, 0)
    steps.at(FAR_MS)
    for _look in range(100):
        steps.given(improved(0, 1), group(2))
    assert len(steps.state.gangs_ready) == 1
    steps.reload()
    assert [event.gang for event in gang_tries(steps.when())] == [1]


def test_a_refused_gang_does_not_wake_single_pods_nor_sleep_with_them():
    steps = queue(priorities=(0, 0))
    event = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))[0]
    steps.when(released(event), at_ms=2_000)
    assert tries(steps.when(pending(1, 3))) == [(0, 1, [3])]
    assert tried(steps.when(pending(2, 4)))[0].sig == 2


def test_younger_pods_give_a_gang_a_moment_and_older_ones_do_not_wait():
    steps = queue(priorities=(0, 0, 9))
    events = steps.when(pending(1, 1), group(2), pending(1, 2, 3, gang=1), pending(2, 4))
    assert (tries(events), len(gang_tries(events))) == ([(0, 1, [1])], 1)
    assert tries(steps.when(pending(3, 5), at_ms=1_999)) == [(0, 3, [5])], "of higher priority"
    steps.reload()
    assert steps.core.due_ms(steps.state) == 2_000
    assert tries(steps.when(at_ms=2_000)) == [(0, 2, [4])]


def test_the_answer_ends_the_moment():
    steps = queue(priorities=(0, 0))
    events = steps.when(group(1), pending(1, 2, gang=1), pending(2, 4))
    (attempt,) = gang_tries(events)
    assert tries(steps.when(committed(attempt, 2))) == [(0, 2, [4])]


def test_a_batch_does_not_reach_past_a_gang():
    steps = queue(priorities=(0, 0, 0), unbound_max=1)
    first = tried(steps.when(pending(1, 1)))
    steps.when(reserved(first[0]))
    events = steps.when(pending(1, 2), group(1), pending(2, 3, gang=1), pending(1, 4))
    assert tries(events) == []
    events = steps.when(bound(1))
    assert (tries(events), len(gang_tries(events))) == ([(0, 1, [2])], 1)


def test_a_due_gang_waits_while_too_many_are_tried(monkeypatch):
    steps = queue()
    first = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))[0]
    steps.when(released(first), at_ms=FAR_MS)
    again_ms = steps.core.due_ms(steps.state)
    monkeypatch.setattr(decisions, "GANGS_OPEN_MAX", 1)
    monkeypatch.setattr(scheduling_queue, "GANGS_OPEN_MAX", 1)
    second = gang_tries(steps.when(group(2, gang=2), pending(1, 3, 4, gang=2)))[0]
    assert gang_tries(steps.when(at_ms=again_ms)) == []
    assert steps.core.due_ms(steps.state) != again_ms, "there is nothing to do until an answer"
    again = steps.when(committed(second, 3, 4))
    assert [event.gang for event in gang_tries(again)] == [1]


def test_pods_do_not_overtake_a_gang_that_waits_for_others_to_be_answered(monkeypatch):
    monkeypatch.setattr(decisions, "GANGS_OPEN_MAX", 1)
    monkeypatch.setattr(scheduling_queue, "GANGS_OPEN_MAX", 1)
    steps = queue(priorities=(0, 9, 9))
    first = gang_tries(steps.when(group(1), pending(1, 1, gang=1)))[0]
    steps.when(group(1, gang=2), pending(2, 2, gang=2))
    events = steps.when(pending(3, 3))
    assert tries(events) == [], "younger than a gang of its priority"
    assert steps.core.due_ms(steps.state) == 2_000, "no longer than the open gang has a head start"
    events = steps.when(committed(first, 1))
    assert [event.gang for event in gang_tries(events)] == [2]


def test_a_gang_does_not_pass_pods_of_higher_priority_that_give_another_a_moment():
    steps = queue(priorities=(9, 9, 0))
    first = gang_tries(steps.when(group(1), pending(1, 1, gang=1)))[0]
    events = steps.when(pending(2, 2), group(1, gang=2), pending(3, 3, gang=2))
    assert (tries(events), gang_tries(events)) == ([], [])
    events = steps.when(committed(first, 1))
    assert (tries(events), [event.gang for event in gang_tries(events)]) == ([(0, 2, [2])], [2])


def shown(events: list[Any]) -> list[tuple[str, str]]:
    return [(event.key, event.message) for event in of_type(events, GangShown)]


def test_a_pod_group_says_why_its_gang_was_refused_and_for_good_that_it_was_scheduled():
    steps = queue(group_conditions=True)
    events = steps.when(pending(1, 1, 2, gang=1, key="default/g1"), group(2))
    assert shown(events) == []
    events = steps.when(released(gang_tries(events)[0]))
    ((key, message),) = shown(events)
    assert (key, message) == ("default/g1", "0/3 nodes are available: 3 Insufficient cpu.")
    events = steps.when(at_ms=FAR_MS)
    events = steps.when(released(gang_tries(events)[0]))
    assert shown(events) == []  # the same reason
    events = steps.when(at_ms=2 * FAR_MS)
    events = steps.when(committed(gang_tries(events)[0], 1, 2))
    assert shown(events) == [("default/g1", "")]
    assert shown(steps.when(PodsGone(pack([1, 2])), at_ms=3 * FAR_MS)) == []


def test_groups_of_workloads_have_no_condition_of_their_own():
    steps = queue(group_conditions=True)
    events = steps.when(pending(1, 1, 2, gang=1, key="default/w/a"), of_workload(1, "a"))
    assert shown(steps.when(released(gang_tries(events)[0]))) == []


def test_pod_groups_say_nothing_unless_asked_to():
    steps = queue()
    events = steps.when(pending(1, 1, 2, gang=1, key="default/g1"), group(2))
    assert shown(steps.when(released(gang_tries(events)[0]))) == []


@pytest.mark.parametrize(
    ("key", "says"), [("default/g@volcano", 1), ("default/g@coscheduling", 0), ("default/g", 1)]
)
def test_groups_of_volcano_say_it_and_those_of_coscheduling_do_not(key: str, says: int):
    steps = queue(group_conditions=True)
    events = steps.when(pending(1, 1, 2, gang=1, key=key), GangSet(1, key, 2, 300_000, 1))
    assert len(shown(steps.when(released(gang_tries(events)[0])))) == says
