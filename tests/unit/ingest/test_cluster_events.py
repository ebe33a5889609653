"""Cluster events for queueing, recorded only where a plugin makes pods wait for them."""

import pytest

from shared.events import observed
from shared.events.ingest import Happened
from shared.model.cluster_event_kinds import KINDS
from shared.model.cluster_objects import Namespace, PersistentVolume
from shared.model.objects import Taint
from tests.unit.ingest.inputs import LARGE, bound, gone, ingest, node, nodes, pods

TAINT = Taint("k", "v", "NoSchedule")
VOLUME = PersistentVolume(uid="v", name="v")


def seen(**changes) -> observed.NodesSeen:
    return observed.NodesSeen((node("a", **changes),))


def relabelled(*labels: tuple[str, str], at: int = 9):
    return pods("p", at=at, labels=labels)


def objects(*some):
    return observed.ObjectsSeen(some)


def world(*wakes: str):
    """Return steps with a node, a pod on it, a waiting pod and a volume."""
    steps = ingest(wakes=wakes)
    steps.when(nodes("a"), pods("p"), pods("q", on="a", at=2), objects(VOLUME))
    return steps


def kinds(decided) -> list[str]:
    return [kind for event in decided if isinstance(event, Happened) for kind in event.kinds]


UPDATES = ("Node/Update", "Node/UpdateAllocatable", "Node/UpdateLabel", "Node/UpdateTaint")


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        (nodes("b"), ["Node/Add"]),
        (nodes("a"), []),
        (seen(allocatable=(("cpu", 1),)), [UPDATES[0], UPDATES[1]]),
        (observed.NodesSeen((node("a", zone="z"),)), [UPDATES[0], UPDATES[2]]),
        (seen(taints=(TAINT,)), [UPDATES[0], UPDATES[3]]),
        (seen(unschedulable=True), [UPDATES[0], UPDATES[3]]),
        (seen(images=b"x"), [UPDATES[0]]),
        (observed.NodesDeletedSeen("uid-a"), ["Node/Delete"]),
        (observed.NodesDeletedSeen("uid-x"), []),
        (pods("r", at=9), ["Pod/Add"]),
        (pods("p"), []),
        (pods("p", at=9), []),
        (relabelled(("a", "b")), ["Pod/Update", "Pod/UpdateLabel"]),
        (pods("p", at=9, spec=LARGE), ["Pod/Update"]),
        (pods("p", at=9, gated=True), ["Pod/Update"]),
        (pods("p", at=9, terminating=True), ["Pod/Update"]),
        (pods("p", at=9, on="a"), ["Pod/Add"]),
        (bound("p:a", at=9), ["Pod/Add"]),
        (bound("q:a", at=9), []),
        (gone("p"), ["Pod/Delete"]),
        (gone("p", "q"), ["Pod/Delete"]),
        (gone("x"), []),
        (objects(VOLUME), []),
        (objects(PersistentVolume(uid="w", name="w")), ["PersistentVolume/Add"]),
        (objects(PersistentVolume(uid="v", name="w")), ["PersistentVolume/Update"]),
        (objects(Namespace(uid="n", name="n")), []),
        (observed.ObjectsDeletedSeen("v"), ["PersistentVolume/Delete"]),
    ],
)
def test_each_kind_is_recorded_once_and_after_the_facts(seen, found):
    decided = world(*KINDS).when(seen)
    assert kinds(decided) == found
    assert not found or isinstance(decided[-1], Happened)
    assert kinds(world().when(seen)) == []
    for kind in found:
        assert kinds(world(kind).when(seen)) == [kind]


def test_a_step_records_a_kind_once():
    decided = world(*KINDS).when(pods("r", at=8), nodes("b"), gone("q"), pods("s", at=9))
    assert decided[-1] == Happened(("Node/Add", "Pod/Add", "Pod/Delete"))
    assert decided[-1].to() == ("queueing",)


def test_pending_events_survive_a_snapshot():
    steps = world(*KINDS)
    steps.given(nodes("b"))
    before = steps.dumped()
    steps.reload()
    assert steps.dumped() == before
    assert kinds(steps.when()) == ["Node/Add"]
    assert kinds(steps.when()) == []
