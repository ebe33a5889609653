"""A gang that does not fit asks preemption for room for all its members, one ask at a time, and is
tried when the room is free.
"""

import itertools

import pytest

from services.queueing.core.config import GANG_ASK_AGAIN_MS, GANG_ASKS_OPEN_MAX
from shared.events.ingest import GangGone, GangSet, PodsGone, SignatureDefined
from shared.events.permit import GangCommitted, GangReleased
from shared.events.preemption import GangPreemptionClosed, GangRoomMade
from shared.events.queueing import (
    Dispatched,
    GangPreemptAsked,
    GangPreemptRecalled,
    GangWaits,
    Parked,
    PreemptAsked,
)
from shared.model.columns import pack, unpack
from shared.model.objects import PodSpec
from tests.unit.queueing.inputs import CPU, gang_tries, improved, of_type, pending, queue, refused

TEXT = "0/3 nodes are available: 3 Insufficient cpu."
SAID = "no new claims to deallocate"  # by DynamicResources
NOTE = "preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."


def group(min_count=2, gang=1, version=1):
    return GangSet(gang, f"default/g{gang}", min_count, 300_000, version)


def released(tried, preemptible=True, stale=False):
    return GangReleased(tried.gang, tried.attempt, ((CPU, 3),), 3, stale, preemptible)


def asks(events):
    return of_type(events, GangPreemptAsked)


def failed(*, gang=1, steps=None, **more):
    """Return steps in which a gang of three, two of them needed, found no room, and the last
    decisions.
    """
    steps = steps or queue(priorities=(10, 20), gang_preemption=True)
    (tried,) = gang_tries(
        steps.when(group(gang=gang), pending(1, *(10 * gang + at for at in range(3)), gang=gang))
    )
    return steps, steps.when(released(tried, **more))


def asked():
    steps, events = failed()
    assert len(asks(events)) == 1
    return steps


def try_of(events):
    (tried,) = gang_tries(events)
    return tried


def test_a_gang_without_room_asks_for_all_needed_members():
    steps, events = failed()
    assert try_of(steps.when(improved(0, 1), at_ms=20_000)).preempts
    (ask,) = asks(events)
    assert (ask.gang, ask.needed) == (1, 2)
    assert [unpack(part.ids).tolist() for part in ask.members] == [[10, 11, 12]]


@pytest.mark.parametrize("more", [{"preemptible": False}, {"stale": True}])
def test_a_hopeless_or_untried_gang_does_not_ask(more):
    _steps, events = failed(**more)
    assert not asks(events)


@pytest.mark.parametrize(
    ("options", "spec"),
    [
        ({}, {"never_preempts": True}),
        ({"preemption": False}, {}),
        ({"gang_preemption": False}, {}),
        ({"preemption_except": ("s",)}, {"scheduler": "s"}),
    ],
    ids=["preemptionPolicy Never", "switched off", "for gangs", "not for this scheduler"],
)
def test_gangs_with_a_never_preempting_member_do_not_ask(options, spec):
    steps = queue(priorities=(10,), **{"gang_preemption": True, **options})
    steps.given(SignatureDefined(2, PodSpec(priority=5, requests=(("cpu", 2),), **spec)))
    (tried,) = gang_tries(steps.when(group(), pending(1, 10, 11, gang=1), pending(2, 12, gang=1)))
    assert not tried.preempts


@pytest.mark.parametrize(
    ("options", "nodes", "said"),
    [
        ({}, 3, f"{TEXT} {SAID}, preemption: not eligible due to preemptionPolicy=Never."),
        ({}, 0, "no nodes available to schedule pods"),
        ({"preemption": False}, 3, TEXT),
        ({"gang_preemption": False}, 3, TEXT),
    ],
)
def test_a_never_preempting_member_is_named_in_its_gangs_message(options, nodes, said):
    steps = queue(priorities=(10,), **{"gang_preemption": True, **options})
    never = PodSpec(priority=5, requests=(("cpu", 2),), never_preempts=True)
    steps.given(SignatureDefined(2, never))
    (tried,) = gang_tries(steps.when(group(), pending(1, 10, 11, gang=1), pending(2, 12, gang=1)))
    events = steps.when(GangReleased(tried.gang, tried.attempt, ((CPU, 3),), nodes))
    assert of_type(events, GangWaits)[-1].message == said


def test_a_gang_has_one_open_ask_and_is_tried_during_it():
    steps = asked()
    steps.reload()
    tried = try_of(steps.when(improved(0, 1), at_ms=20_000))
    assert not asks(steps.when(released(tried)))


def test_a_gang_with_room_is_tried_at_once():
    steps = asked()
    steps.reload()
    assert gang_tries(steps.when(GangRoomMade(1, 1)))


def test_room_that_is_made_during_a_try_is_tried_after_it_at_once():
    steps = asked()
    tried = try_of(steps.when(improved(0, 1), at_ms=20_000))
    assert not gang_tries(steps.when(GangRoomMade(1, 1)))
    again = steps.when(released(tried))
    assert gang_tries(again)
    assert not gang_tries(steps.when(released(try_of(again)))), "and then it waits its time"


def test_a_gang_without_candidates_has_a_message_and_asks_again_later():
    steps = asked()
    events = steps.when(GangPreemptionClosed(1, 1, NOTE))
    assert of_type(events, GangWaits)[-1].message == f"{TEXT} {SAID}, {NOTE}"
    assert of_type(events, Parked)[-1].message == f"{TEXT} {SAID}, {NOTE}"
    steps.reload()
    tried = try_of(steps.when(at_ms=20_000))
    events = steps.when(released(tried))
    assert not asks(events)
    assert not of_type(events, GangWaits), "the message is the same"
    tried = try_of(steps.when(at_ms=20_000 + GANG_ASK_AGAIN_MS))
    assert asks(steps.when(released(tried)))


def test_a_later_asks_result_replaces_the_earlier_one():
    steps = asked()
    steps.when(GangPreemptionClosed(1, 1, NOTE))
    tried = try_of(steps.when(improved(0, 1), at_ms=20_000))
    assert asks(steps.when(released(tried)))
    events = steps.when(GangPreemptionClosed(2, 1, "preemption: another word."))
    assert of_type(events, GangWaits)[-1].message == f"{TEXT} {SAID}, preemption: another word."


def test_an_improvement_makes_asking_again_worth_while():
    steps = asked()
    steps.when(GangPreemptionClosed(1, 1, NOTE))
    tried = try_of(steps.when(improved(0, 1), at_ms=10_000))
    assert asks(steps.when(released(tried)))


@pytest.mark.parametrize("note", [NOTE, ""], ids=["no victims", "no text"])
def test_each_failed_ask_lengthens_the_wait_whatever_improves(note):
    steps, now_ms, told_ms = queue(priorities=(10,), gang_preemption=True), 0, 0
    waits_ms: list[int] = []
    _steps, events = failed(steps=steps)
    while len(waits_ms) < 8:
        if asks(events):
            waits_ms.append(now_ms - told_ms)
            told_ms = now_ms
            steps.when(GangPreemptionClosed(1, 1, note))
            steps.reload()
        now_ms += 250
        tries = gang_tries(steps.when(improved(0, 1), at_ms=now_ms))
        events = steps.when(*map(released, tries))
    assert all(later > earlier for earlier, later in itertools.pairwise(waits_ms[2:6])), waits_ms
    assert waits_ms[-1] >= GANG_ASK_AGAIN_MS


def test_another_version_of_the_group_asks_as_if_for_the_first_time():
    steps = asked()
    for at_ms in (20_000, 60_000, 100_000):
        steps.when(GangPreemptionClosed(1, 1, NOTE))
        tried = try_of(steps.when(improved(0, 1), at_ms=at_ms))
        assert asks(steps.when(released(tried)))
    tried = try_of(steps.when(group(version=2)))
    steps.when(GangPreemptionClosed(1, 1, ""))
    assert asks(steps.when(released(tried), at_ms=101_500))


def test_a_withdrawn_ask_is_repeated_after_the_next_attempt():
    steps = asked()
    assert not asks(steps.when(GangPreemptionClosed(1, 1, "")))
    tried = try_of(steps.when(at_ms=20_000))
    assert asks(steps.when(released(tried)))


def test_a_committed_gang_withdraws_its_ask():
    steps = asked()
    tried = try_of(steps.when(improved(0, 1), at_ms=20_000))
    nodes = pack([1, 1])
    events = steps.when(GangCommitted(1, tried.attempt, pack([10, 11]), nodes))
    assert of_type(events, GangPreemptRecalled) == [GangPreemptRecalled(1)]
    assert not of_type(steps.when(GangPreemptionClosed(1, 1, "")), GangPreemptRecalled)


@pytest.mark.parametrize("is_on", [True, False])
def test_a_member_left_over_once_its_gang_is_committed_asks_for_itself(is_on):
    steps = queue(priorities=(10,), gang_preemption=is_on)
    (tried,) = gang_tries(steps.when(group(), pending(1, 10, 11, 12, gang=1)))
    events = steps.when(GangCommitted(1, tried.attempt, pack([10, 11]), pack([1, 1])))
    (alone,) = of_type(events, Dispatched)
    events = steps.when(refused(alone, preemptible=True))
    assert [ask.pod for ask in of_type(events, PreemptAsked)] == [12] * is_on


@pytest.mark.parametrize(
    "event", [group(min_count=3, version=2), GangGone(1)], ids=["another version", "deleted"]
)
def test_a_changed_group_withdraws_its_ask(event):
    steps = asked()
    steps.given(event)
    steps.reload()
    assert of_type(steps.when(), GangPreemptRecalled) == [GangPreemptRecalled(1)]


def test_a_group_deleted_with_its_members_withdraws_its_ask():
    steps = asked()
    events = steps.when(GangGone(1), PodsGone(pack([10, 11, 12])))
    assert of_type(events, GangPreemptRecalled) == [GangPreemptRecalled(1)]
    assert steps.when(GangPreemptionClosed(1, 1, "")) == []


def test_the_gang_of_highest_priority_asks_first_and_open_asks_are_bounded():
    steps = queue(priorities=(10, 20), gang_preemption=True)
    count = GANG_ASKS_OPEN_MAX + 1
    tried = []
    for gang in range(1, count + 1):
        sig = 2 if gang == count else 1
        events = steps.when(group(gang=gang), pending(sig, 100 * gang, 100 * gang + 1, gang=gang))
        tried += gang_tries(events)
    answers = [released(one) for one in tried]
    events = steps.when(*answers)
    rest = gang_tries(events)
    gangs = [one.gang for one in asks(events)]
    gangs += [one.gang for one in asks(steps.when(*(released(one) for one in rest)))]
    assert len(gangs) == GANG_ASKS_OPEN_MAX
    assert len(set(gangs)) == len(gangs)
    first = gangs[0]
    more = asks(steps.when(GangPreemptionClosed(1, first, "")))
    assert len(more) == 1, "the next one's turn comes with the first answer"
