"""Epochs: what a reset closes and fences, and how an interrupted reset is finished."""

import pytest

from shared.bus.memory import MemoryBus, MemoryLog
from shared.events.observed import PodsSeen
from shared.machine.reset import EpochBus, EpochStore, ResetFailed, epochs, renamed, reset
from shared.machine.runtime import Host, OwnershipLost
from shared.model.api_outcome import Answer
from shared.model.ids import INGEST, QUEUEING, placement
from shared.model.objects import Node, PodSpec
from shared.model.world import Arrival, World
from shared.ports.cluster import BindRequest, PodRef
from shared.ports.snapshots import SnapshotMeta
from shared.simulated.cluster import SimCluster
from shared.snapshots.memory import MemorySnapshots
from tests.unit.machine.toy import HandClock, ToyIngest, inline, owner, turn

JOURNALS = [INGEST, QUEUEING]


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus(MemoryLog())


@pytest.fixture
def host() -> Host:
    return Host(HandClock(), "reset", lambda: "n", inline)


@pytest.fixture
async def cluster():
    pods = PodsSeen(spec=PodSpec(), uids="u1\nu2", names="p1\np2", revisions=b"")
    made = SimCluster(
        World(
            name="two pods",
            nodes=(Node(uid="n1", name="n1"),),
            arrivals=(Arrival(at_ms=0, pods=pods),),
        )
    )
    made.start()
    yield made
    made.stop()


async def test_the_cold_start_is_the_first_epoch(bus, host, cluster):
    opened = await reset(bus, cluster, host, JOURNALS, "cold start")
    assert (opened.number, opened.is_open) == (1, True)
    assert [epoch.is_open for epoch in await epochs(bus)] == [False, True]


async def test_old_owners_are_void_and_the_new_epoch_is_empty(bus, host, cluster):
    old = owner(ToyIngest(), bus, MemorySnapshots())
    await old.claim()
    await turn(old, 3)
    opened = await reset(bus, cluster, host, JOURNALS, "a try")
    assert opened.number == 2
    with pytest.raises(OwnershipLost):
        await turn(old, 4)
    new = owner(ToyIngest(), EpochBus(bus, 2), MemorySnapshots(), epoch=2)
    await new.claim()
    assert new.state.total == 0


async def test_a_bind_sent_before_the_reset_cannot_land_after_it(bus, host, cluster):
    before = await cluster.read([PodRef("u1")])
    late = BindRequest("u1", "default", "p1", "n1", before[0].revision)
    old = owner(ToyIngest(), bus, MemorySnapshots())
    await old.claim()
    await reset(bus, cluster, host, JOURNALS, "a try")
    assert [read.answer for read in await cluster.bind([late])] == [Answer.STALE]


async def test_a_reset_that_died_is_finished_by_the_next(bus, host, cluster, monkeypatch):
    old = owner(ToyIngest(), bus, MemorySnapshots())
    await old.claim()

    async def dies(kind):
        raise ResetFailed("the cluster does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(cluster, "list_all", dies)
        with pytest.raises(ResetFailed):
            await reset(bus, cluster, host, JOURNALS, "first try")
    assert not (await epochs(bus))[-1].is_open
    opened = await reset(bus, cluster, host, JOURNALS, "second try")
    assert (opened.number, opened.is_open) == (2, True)


async def test_of_two_resets_at_once_one_fails(bus, host, cluster, monkeypatch):
    await reset(bus, cluster, host, JOURNALS, "cold start")

    known = await epochs(bus)

    async def as_before(_bus):
        return list(known)

    await reset(bus, cluster, host, JOURNALS, "the one")
    monkeypatch.setattr("shared.machine.reset.epochs", as_before)
    with pytest.raises(ResetFailed, match="at the same time"):
        await reset(bus, cluster, host, JOURNALS, "the other")


def test_snapshots_of_epochs_do_not_mix():
    plain = MemorySnapshots()
    first, third = EpochStore(plain, 1), EpochStore(plain, 3)
    assert renamed("placement/2", 3) == "placement-e3/2"
    third.save(SnapshotMeta(placement(2), 5, 1, "hash", {}, 4), b"body")
    assert third.load(placement(2), 5) == b"body"
    assert [meta.journal for meta in third.list(placement(2))] == ["placement/2"]
    assert third.journals() == ["placement/2"]
    assert first.journals() == []
    assert first.list(placement(2)) == []
