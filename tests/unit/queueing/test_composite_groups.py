"""Trees of CompositePodGroups in the queue: when their root is tried, and with whom."""

from typing import Any

from shared.events.ingest import GangGone, GangSet, PodsAssigned, PodsGone, SignatureDefined
from shared.events.permit import GangCommitted
from shared.events.queueing import GangShown, GangWaits
from shared.model.columns import pack, unpack
from shared.model.groups.trees import GroupNode, GroupTree
from shared.model.objects import PodSpec
from tests.unit.queueing.inputs import gang_tries, of_type, pending, queue
from tests.unit.queueing.test_gangs import FAR_MS, released

ROOT, A, B, SIG = 1, 2, 3, 11


def tree(least: int = 2, of_a: int = 2, of_b: int = 1) -> GroupTree:
    return (
        GroupNode(ROOT, least, 0, is_composite=True),
        GroupNode(A, of_a, 1),
        GroupNode(B, of_b, 1),
    )


def groups(version: int = 1, **counts: int) -> list[GangSet]:
    made = tree(**counts)
    return [
        GangSet(A, "default/a", made[1].least, 300_000, version, root=ROOT),
        GangSet(B, "default/b", made[2].least, 300_000, version, root=ROOT),
        GangSet(ROOT, "default/r@composite", 1, 300_000, version, tree=made),
    ]


def start(**counts: int) -> Any:
    steps = queue(group_conditions=True)
    steps.when(SignatureDefined(SIG, PodSpec()), *groups(**counts))
    return steps


def committed(tried: Any, *pods: int) -> GangCommitted:
    return GangCommitted(ROOT, tried.attempt, pack(pods), pack([7] * len(pods)))


def needs(tried: Any) -> list[int]:
    return [node.least for node in tried.tree[1:]]


def test_the_root_is_tried_when_enough_groups_have_their_members():
    steps = start()
    assert gang_tries(steps.when(pending(SIG, 1, gang=A), pending(SIG, 2, gang=B))) == []
    (waits,) = of_type(steps.when(at_ms=FAR_MS), GangWaits)
    assert waits.message == 'waiting for composite pod group "r" tree to meet quorum'
    steps.reload()
    (tried,) = gang_tries(steps.when(pending(SIG, 3, gang=A)))
    assert (tried.gang, tried.min_count, tried.leaves, tried.tree) == (ROOT, 1, (A, B), tree())
    assert [unpack(part.ids).tolist() for part in tried.members] == [[1, 3], [2]]


def test_after_a_refusal_all_members_and_conditions_say_why():
    steps = start()
    (tried,) = gang_tries(steps.when(pending(SIG, 1, 2, gang=A), pending(SIG, 3, gang=B)))
    events = steps.when(released(tried))
    (waits,) = of_type(events, GangWaits)
    shown = {event.gang: event.message for event in of_type(events, GangShown)}
    assert shown == {A: waits.message, B: waits.message}
    steps.reload()
    (again,) = gang_tries(steps.when(at_ms=FAR_MS))
    assert again.members == tried.members


def test_groups_that_started_need_only_what_they_lost():
    steps = start(least=1)
    (tried,) = gang_tries(steps.when(pending(SIG, 1, 2, gang=A), pending(SIG, 3, gang=B)))
    events = steps.when(committed(tried, 1, 2))
    assert {event.gang: event.message for event in of_type(events, GangShown)} == {A: ""}
    (rest,) = gang_tries(events)
    assert (rest.leaves, needs(rest)) == ((B,), [0, 1])
    steps.when(released(rest), PodsAssigned(0, pack([1, 2]), pack([SIG] * 2), pack([7] * 2)))
    steps.when(PodsGone(pack([1]), pack([1])))
    (again,) = gang_tries(steps.when(at_ms=2 * FAR_MS))
    assert needs(again) == [1, 1]


def test_members_that_finish_count_even_if_their_bind_is_known_before_the_commit():
    steps = start(least=1)
    (tried,) = gang_tries(steps.when(pending(SIG, 1, 2, gang=A), pending(SIG, 3, gang=B)))
    steps.when(PodsAssigned(0, pack([1, 2]), pack([SIG] * 2), pack([7] * 2)))
    (rest,) = gang_tries(steps.when(committed(tried, 1, 2)))
    steps.when(released(rest), PodsGone(pack([1])))
    (again,) = gang_tries(steps.when(at_ms=2 * FAR_MS))
    assert needs(again) == [0, 1]


def test_a_group_that_goes_during_a_try_waits_by_itself_afterwards():
    steps = start(least=1)
    (tried,) = gang_tries(steps.when(pending(SIG, 1, 2, gang=A), pending(SIG, 3, gang=B)))
    left = GangSet(ROOT, "default/r@composite", 1, 300_000, 2, tree=(tree(1)[0], tree(1)[2]))
    steps.when(GangGone(A), left)
    steps.reload()
    (again,) = gang_tries(steps.when(released(tried)) + steps.when(at_ms=FAR_MS))
    assert again.leaves == (B,)
    (alone,) = gang_tries(steps.when(GangSet(A, "default/a", 2, 300_000, 3)))
    assert (alone.gang, unpack(alone.members[0].ids).tolist()) == (A, [1, 2])


def test_a_problem_is_the_message_of_all_members():
    steps = start()
    steps.when(GangSet(ROOT, "default/r@composite", 1, 300_000, 2, tree=tree(), problem="no"))
    assert gang_tries(steps.when(pending(SIG, 1, 2, gang=A), pending(SIG, 3, gang=B))) == []
    (waits,) = of_type(steps.when(at_ms=FAR_MS), GangWaits)
    assert (waits.gang, waits.message) == (ROOT, "no")
