"""Other objects: recorded when they change, kept by uid, deleted by a list of all their kinds."""

import msgspec
import pytest

from services.ingest.core.core import IngestCore
from services.ingest.grouping import grouped
from services.ingest.shell import IngestShell
from shared.events.base import Configured, Event
from shared.events.describe import View, describe
from shared.events.ingest import (
    ListApplied,
    ListAsked,
    ObjectsGone,
    ObjectsSet,
    SignatureDefined,
    StorageGone,
    StorageSet,
)
from shared.events.names import Names
from shared.events.observed import (
    ListBegan,
    ListEnded,
    ObjectsDeletedSeen,
    ObjectsSeen,
    WatchAdvanced,
)
from shared.model.claims import Device, Reach, ResourceSlice
from shared.model.cluster_objects import ClusterObject, Namespace, SliceObject, StorageClass
from shared.model.volumes import ClaimUse
from shared.model.world import World
from shared.simulated.cluster import SimCluster
from tests.unit.ingest.inputs import SMALL, ingest, listed, names, pods
from tests.unit.ingest.test_shell import Owner

FAST = StorageClass(uid="s1", name="fast", provisioner="p")
TEAM = Namespace(uid="n1", name="team", labels=(("env", "test"),))
SLOW = StorageClass(uid="s2", name="slow")


def seen(*objects: ClusterObject) -> ObjectsSeen:
    return ObjectsSeen(objects)


def test_only_changed_objects_are_recorded():
    steps = ingest()
    assert steps.when(seen(FAST, TEAM)) == [ObjectsSet((FAST, TEAM))]
    assert steps.when(seen(FAST), seen(TEAM)) == []
    moved = msgspec.structs.replace(TEAM, labels=(("env", "live"),))
    assert steps.when(seen(FAST, moved)) == [ObjectsSet((moved,))]
    assert steps.when(seen(TEAM)) == [ObjectsSet((TEAM,))]
    assert steps.when(ObjectsDeletedSeen("s1\nnobody")) == [ObjectsGone("s1")]
    assert steps.when(ObjectsDeletedSeen("s1")) == []
    assert list(steps.state.objects) == ["n1"]


def test_shards_get_the_objects_about_volumes():
    steps = ingest(volumes=True)
    decided = steps.when(seen(FAST, TEAM))
    assert decided == [ObjectsSet((TEAM,)), StorageSet((FAST,))]
    assert decided[1].to() == StorageGone("s1").to() == ("placement",)
    assert steps.when(ObjectsDeletedSeen("s1\nn1")) == [ObjectsGone("n1"), StorageGone("s1")]


def test_earlier_objects_reach_the_shards_once_they_are_configured():
    steps = ingest()
    steps.when(seen(SLOW, FAST, TEAM))
    on = Configured({"ingest": {"volumes": True}})
    assert steps.when(on) == [StorageSet((FAST, SLOW))]
    assert steps.when(on) == []


def test_claims_of_pods_are_of_their_namespace():
    steps = ingest()
    claims = msgspec.structs.replace(SMALL, volumes=(ClaimUse("c"),))
    decided = [
        *steps.when(pods("a", spec=claims, namespace="x")),
        *steps.when(pods("b", at=2, spec=claims, namespace="y")),
    ]
    defined = [one for one in decided if isinstance(one, SignatureDefined)]
    assert [one.spec.namespace for one in defined] == ["x", "y"]


def test_other_objects_go_to_no_service():
    assert ObjectsSet((FAST,)).to() == ObjectsGone("s1").to() == ()


def test_one_list_of_all_kinds_finds_what_vanished_of_any():
    steps = ingest()
    steps.when(seen(FAST, TEAM))
    decided = steps.when(*listed("objects", seen(SLOW, FAST), revision=5, count=2))
    assert decided == [ObjectsSet((SLOW,)), ObjectsGone("n1"), ListApplied("objects", 1)]
    assert steps.state.listed_objects == 5


def test_a_list_that_is_not_whole_deletes_nothing():
    steps = ingest()
    steps.when(seen(FAST, TEAM))
    assert steps.when(ListBegan("objects", 5), seen(FAST)) == []
    assert steps.when(Configured({}), ListEnded("objects", 1)) == []
    short = listed("objects", seen(FAST), revision=5, count=2)
    assert steps.when(*short) == [ListAsked(1, "objects")]
    assert list(steps.state.objects) == ["s1", "n1"]
    assert not steps.state.listed_objects


def test_a_list_older_than_what_was_consumed_counts_for_nothing():
    steps = ingest()
    steps.when(seen(FAST), WatchAdvanced(10))
    assert steps.when(*listed("objects", seen(TEAM), revision=9, count=1)) == [
        ListAsked(1, "objects")
    ]
    assert list(steps.state.objects) == ["s1"]
    assert steps.when(*listed("objects", seen(TEAM), revision=10, count=1)) == [
        *(ObjectsSet((TEAM,)), ObjectsGone("s1"), ListApplied("objects", 1))
    ]
    assert not steps.core.effects(steps.state)


def test_objects_are_in_a_snapshot_in_the_middle_of_a_list():
    steps = ingest()
    steps.when(seen(FAST, TEAM), ListBegan("objects", 5), seen(FAST))
    steps.reload()
    assert steps.when(ListEnded("objects", 1))[0] == ObjectsGone("n1")
    steps.reload()
    assert steps.when(seen(FAST)) == []


def test_the_snapshot_does_not_depend_on_the_order_of_objects():
    dumps = []
    for objects in ((FAST, TEAM), (TEAM, FAST)):
        steps = ingest()
        steps.when(seen(*objects))
        dumps.append(steps.dumped())
    assert dumps[0] == dumps[1]


def test_a_snapshot_without_objects_can_be_read():
    steps = ingest()
    body = msgspec.msgpack.decode(steps.dumped())
    assert {"objects", "listed_objects"}.isdisjoint(body)
    steps.state = steps.core.load(body)
    assert (steps.state.objects, steps.state.listed_objects) == ({}, 0)


def test_many_objects_are_recorded_over_several_steps():
    steps = ingest()
    many = [StorageClass(uid=f"s{i}", name=f"s{i}") for i in range(9_000)]
    parts = list(grouped([seen(*many[:10]), seen(*many[10:])]))
    assert [_size(part) for part in parts] == [2_000] * 4 + [1_000]
    first = steps.when(*parts)
    assert names(first + steps.when()) == ["ObjectsSet"] * 5
    assert len(first) < 5


def test_slices_with_many_devices_are_several_events():
    devices = tuple(Device(f"gpu-{number}") for number in range(128))
    slices = [
        SliceObject(
            uid=name, name=name, value=ResourceSlice(name, "d", name, 1, 1, Reach(name), devices)
        )
        for name in (f"slice-{number}" for number in range(150))
    ]
    parts = list(grouped([seen(*slices)]))
    assert [_size(part) for part in parts] == [64, 64, 22]
    steps = ingest()
    decided = [event for given in (parts, (), ()) for event in steps.when(*given)]
    assert names(decided) == ["DevicesSet"] * 3


def _size(event: Event) -> int:
    assert isinstance(event, ObjectsSeen)
    return len(event.objects)


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (ObjectsSet((FAST, TEAM)), "StorageClass fast, Namespace team set"),
        (ObjectsSet((FAST,) * 4), "4 objects set"),
        (ObjectsGone("s1\nn1"), "2 objects deleted"),
        (seen(msgspec.structs.replace(FAST, namespace="a")), "cluster: StorageClass a/fast seen"),
        (ObjectsDeletedSeen("s1"), "cluster: 1 object deleted"),
    ],
)
def test_events_about_objects_have_readable_lines(event: Event, line: str):
    assert describe(event, View(Names())) == line


def with_objects(*objects: ClusterObject) -> SimCluster:
    """A simulated cluster that has other objects, too."""
    return SimCluster(World(name="w", nodes=(), arrivals=(), objects=objects))


async def test_the_first_owner_lists_objects_before_pods():
    cluster = with_objects(FAST)
    cluster.start()
    owner, shell = Owner(IngestCore(1)), IngestShell(cluster)
    cluster.revision = 7
    shell.start(owner)
    await owner.until(lambda: owner.state.revision == 7)
    assert [event.kind for event in owner.kinds(ListBegan)] == list(cluster.kinds)
    assert owner.kinds(ListEnded)[3] == ListEnded("objects", 1)
    assert owner.state.objects == {"s1": FAST}
    await shell.stop()
    later, shell = Owner(IngestCore(1), owner.state), IngestShell(cluster)
    shell.start(later)
    cluster.revision = 8
    cluster._publish(seen(TEAM))
    await later.until(lambda: "n1" in later.state.objects)
    assert not later.kinds(ListBegan)
    await shell.stop()


async def test_an_owner_lists_the_objects_that_an_older_journal_lacks():
    cluster = with_objects(FAST)
    cluster.start()
    cluster.revision = 7
    owner, shell = Owner(IngestCore(1)), IngestShell(cluster)
    owner.steps.when(Configured({}), WatchAdvanced(7))
    shell.start(owner)
    await owner.until(lambda: bool(owner.state.listed_objects))
    assert [event.kind for event in owner.kinds(ListBegan)] == ["objects"]
    assert owner.state.objects == {"s1": FAST}
    await shell.stop()
