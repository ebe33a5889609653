"""Gangs with minimums for their parts: when they are tried, and in which order their members."""

from shared.events.ingest import GangSet, PodsAssigned, SignatureDefined
from shared.events.queueing import GangPreemptAsked, GangWaits, Minimum
from shared.model.columns import pack, unpack
from shared.model.objects import PartMinimum, PodSpec
from tests.unit.queueing.inputs import gang_tries, of_type, pending, queue
from tests.unit.queueing.test_gangs import FAR_MS, released

MASTER, WORKER, OTHER = 11, 12, 13


def define(sig: int, part: str) -> SignatureDefined:
    return SignatureDefined(sig, PodSpec(part=part))


def group(min_count: int, *minimums: PartMinimum, version: int = 1) -> GangSet:
    return GangSet(1, "default/g@volcano", min_count, 300_000, version, minimums=minimums)


def start(*minimums: PartMinimum, min_count: int = 3):
    steps = queue()
    steps.when(define(MASTER, "master"), define(WORKER, "worker"), define(OTHER, ""))
    steps.when(group(min_count, *minimums))
    return steps


TASKS = (PartMinimum("master", 1), PartMinimum("worker", 2))


def members(event) -> list[tuple[int, list[int]]]:
    return [(part.sig, unpack(part.ids).tolist()) for part in event.members]


def test_a_gang_waits_for_the_members_of_every_part():
    steps = start(*TASKS)
    events = steps.when(pending(WORKER, 1, 2, 3, gang=1), at_ms=FAR_MS)
    assert gang_tries(events) == []
    events = steps.when(at_ms=2 * FAR_MS)
    (waits,) = of_type(events, GangWaits)
    assert waits.message == 'waiting for 1 pod of "master" to appear in scheduling queue'
    (tried,) = gang_tries(steps.when(pending(MASTER, 4, gang=1), pending(OTHER, 5, gang=1)))
    assert tried.min_count == 3
    assert tried.minimums == (Minimum(1, (MASTER,)), Minimum(2, (WORKER,)))
    # Those that parts need come first.
    assert members(tried) == [(MASTER, [4]), (WORKER, [1, 2]), (WORKER, [3]), (OTHER, [5])]


def test_after_a_refusal_the_same_members_are_tried_and_no_pod_is_evicted():
    steps = start(*TASKS)
    events = steps.when(pending(WORKER, 1, 2, gang=1), pending(MASTER, 3, gang=1))
    (tried,) = gang_tries(events)
    assert not tried.preempts
    assert of_type(steps.when(released(tried)), GangPreemptAsked) == []
    steps.reload()
    (again,) = gang_tries(steps.when(at_ms=FAR_MS))
    assert (again.members, again.minimums) == (tried.members, tried.minimums)


def test_of_more_parts_than_it_needs_those_with_most_members_are_chosen():
    steps = queue()
    parts = {21: "team/a", 22: "team/b", 23: "team/c", 24: "teams"}
    steps.when(*(define(sig, part) for sig, part in parts.items()))
    steps.when(group(4, PartMinimum("team", 2, parts=2)))
    events = steps.when(
        *(pending(24, 1, 2, gang=1), pending(21, 3, 4, gang=1), pending(22, 5, gang=1)),
        at_ms=FAR_MS,
    )
    assert gang_tries(events) == []
    (waits,) = of_type(steps.when(at_ms=2 * FAR_MS), GangWaits)
    assert waits.message.startswith('waiting for 2 sub-groups of 2 pods each of "team" to appear')
    events = steps.when(pending(23, 6, 7, 8, gang=1))
    (tried,) = gang_tries(events)
    assert tried.minimums == (Minimum(2, (23,)), Minimum(2, (21,)))


def test_once_a_member_runs_parts_have_no_minimum():
    steps = start(*TASKS)
    steps.when(pending(WORKER, 1, 2, gang=1))
    steps.when(PodsAssigned(0, pack([1]), pack([WORKER]), pack([7])))
    (tried,) = gang_tries(steps.when(pending(WORKER, 3, gang=1)))
    assert (tried.min_count, tried.minimums) == (2, ())
