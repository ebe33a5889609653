"""The contract of snapshot stores, the same for every adapter."""

from pathlib import Path

import pytest

from shared.model.ids import INGEST, QUEUEING, JournalName, placement
from shared.ports.snapshots import SnapshotBad, SnapshotMeta, SnapshotStore
from shared.snapshots.directory import DirectorySnapshots
from shared.snapshots.memory import MemorySnapshots

PLACEMENT = placement(2)
BODIES = [b"", b"x", bytes(range(256)) * 400]


@pytest.fixture(params=["memory", "directory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SnapshotStore:
    if request.param == "memory":
        return MemorySnapshots()
    return DirectorySnapshots(tmp_path / "snapshots")


def meta(position: int, body: bytes, journal: JournalName = PLACEMENT) -> SnapshotMeta:
    cursors = {INGEST: position * 2, QUEUEING: 7}
    return SnapshotMeta(journal, position, 3, f"hash-{position}", cursors, len(body))


@pytest.mark.parametrize("body", BODIES)
def test_what_was_saved_is_listed_and_loaded(store: SnapshotStore, body: bytes):
    store.save(meta(5, body), body)
    assert store.list(JournalName("placement/2")) == [meta(5, body)]
    assert store.load(JournalName("placement/2"), 5) == body


def test_the_newest_is_first(store: SnapshotStore):
    for position in (5, 100, 99, 0):
        body = b"%d" % position
        store.save(meta(position, body), body)
    assert [found.position for found in store.list(JournalName("placement/2"))] == [100, 99, 5, 0]


def test_saving_again_replaces(store: SnapshotStore):
    store.save(meta(5, b"old"), b"old")
    store.save(meta(5, b"newer"), b"newer")
    assert store.list(JournalName("placement/2")) == [meta(5, b"newer")]
    assert store.load(JournalName("placement/2"), 5) == b"newer"


def test_journals_do_not_share_snapshots(store: SnapshotStore):
    for journal in ("placement/2", "placement/12", "a-b/1"):
        store.save(meta(1, journal.encode(), JournalName(journal)), journal.encode())
    assert store.journals() == ["a-b/1", "placement/12", "placement/2"]
    assert store.load(JournalName("placement/12"), 1) == b"placement/12"
    store.drop(JournalName("placement/12"), 2)
    assert store.journals() == ["a-b/1", "placement/2"]


def test_dropping_keeps_positions_from_the_limit_on(store: SnapshotStore):
    for position in (1, 2, 3):
        store.save(meta(position, b"x"), b"x")
    for _ in range(2):
        store.drop(JournalName("placement/2"), 3)
        assert [found.position for found in store.list(JournalName("placement/2"))] == [3]
    assert store.load(JournalName("placement/2"), 3) == b"x"
    store.drop(JournalName("queueing/0"), 3)


def test_a_missing_snapshot_is_bad(store: SnapshotStore):
    assert store.list(JournalName("placement/2")) == []
    assert store.journals() == []
    with pytest.raises(SnapshotBad, match=r"placement.2"):
        store.load(JournalName("placement/2"), 5)


def test_a_wrong_size_is_refused(store: SnapshotStore):
    with pytest.raises(ValueError, match="size_bytes"):
        store.save(meta(5, b"x"), b"xy")
    assert store.list(JournalName("placement/2")) == []
