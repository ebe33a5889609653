"""Snapshot files torn or changed at any byte are found; the one before is still there."""

from pathlib import Path

import pytest

from shared.adapters.run_files import NotWritten
from shared.model.ids import INGEST, QUEUEING, Position, placement
from shared.ports.snapshots import SnapshotBad, SnapshotMeta
from shared.snapshots.directory import DirectorySnapshots
from shared.snapshots.memory import MemorySnapshots

BODY = bytes(range(200)) * 5
JOURNAL = placement(2)
FOLDER = "placement-2"


def meta(position: int) -> SnapshotMeta:
    return SnapshotMeta(JOURNAL, position, 1, "hash", {INGEST: Position(4)}, len(BODY))


@pytest.fixture
def store(tmp_path: Path) -> DirectorySnapshots:
    made = DirectorySnapshots(tmp_path)
    made.save(meta(10), BODY)
    made.save(meta(20), BODY)
    return made


def newest(tmp_path: Path, suffix: str) -> Path:
    return sorted((tmp_path / FOLDER).glob(f"*{suffix}"))[-1]


def assert_only_the_older_is_good(store: DirectorySnapshots) -> None:
    with pytest.raises(SnapshotBad, match=FOLDER):
        store.load(JOURNAL, 20)
    assert store.load(JOURNAL, 10) == BODY


def test_a_body_torn_at_any_byte_is_bad(store: DirectorySnapshots, tmp_path: Path):
    path = newest(tmp_path, ".body")
    for size_bytes in [*range(0, len(BODY), 37), len(BODY) - 1]:
        path.write_bytes(BODY[:size_bytes])
        assert_only_the_older_is_good(store)
    path.write_bytes(BODY + b"x")
    assert_only_the_older_is_good(store)
    with pytest.raises(SnapshotBad, match="has 1001 bytes, the manifest says 1000"):
        store.load(JOURNAL, 20)
    path.unlink()
    assert_only_the_older_is_good(store)


def test_a_manifest_torn_at_any_byte_is_bad_and_not_listed(
    store: DirectorySnapshots, tmp_path: Path
):
    path = newest(tmp_path, ".manifest")
    whole = path.read_bytes()
    for size_bytes in range(len(whole)):
        path.write_bytes(whole[:size_bytes])
        assert [found.position for found in store.list(JOURNAL)] == [10]
        assert_only_the_older_is_good(store)
    path.write_bytes(whole)
    assert [found.position for found in store.list(JOURNAL)] == [20, 10]


def test_one_changed_bit_is_found(store: DirectorySnapshots, tmp_path: Path):
    for suffix in (".body", ".manifest"):
        path = newest(tmp_path, suffix)
        whole = path.read_bytes()
        for at in range(0, len(whole), 11):
            changed = bytearray(whole)
            changed[at] ^= 1
            path.write_bytes(changed)
            assert_only_the_older_is_good(store)
        path.write_bytes(whole)
    assert store.load(JOURNAL, 20) == BODY


@pytest.mark.parametrize("fail_at", [1, 2])
def test_a_save_that_ends_half_way_leaves_the_old_one(
    store: DirectorySnapshots, tmp_path: Path, monkeypatch, fail_at: int
):
    renames = []
    replace = Path.replace

    def interrupted(path: Path, target: Path) -> Path:
        renames.append(path)
        if len(renames) == fail_at:
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    other = BODY[::-1]
    with pytest.raises(KeyboardInterrupt):
        store.save(meta(20), other)
    assert store.load(JOURNAL, 20) == BODY
    monkeypatch.undo()
    store.save(meta(20), other)
    assert store.load(JOURNAL, 20) == other
    store.drop(JOURNAL, 21)
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_everything_is_synced_before_it_is_named(tmp_path: Path, monkeypatch):
    happened: list[str] = []
    import os

    fsync, replace = os.fsync, Path.replace
    kinds = {True: "folder", False: "file"}

    def noting_fsync(descriptor: int) -> None:
        happened.append(f"sync {kinds[os.path.isdir(f'/proc/self/fd/{descriptor}')]}")
        fsync(descriptor)

    def noting_replace(path: Path, target: Path) -> Path:
        happened.append(f"name {target.suffix}")
        return replace(path, target)

    store = DirectorySnapshots(tmp_path)
    store.save(meta(1), BODY)
    monkeypatch.setattr(os, "fsync", noting_fsync)
    monkeypatch.setattr(Path, "replace", noting_replace)
    store.save(meta(10), BODY)
    one_file = ["sync file", "name .body", "sync folder"]
    assert happened == [*one_file, "sync file", "name .manifest", "sync folder"]


def test_a_torn_body_in_memory_is_bad():
    store = MemorySnapshots()
    store.save(meta(10), BODY)
    store.tear(JOURNAL, 10, 5)
    with pytest.raises(SnapshotBad, match="placement/2@10"):
        store.load(JOURNAL, 10)


def test_damaged_snapshots_are_named(store: DirectorySnapshots, tmp_path: Path):
    assert store.damaged(JOURNAL) == []
    ten, twenty = sorted((tmp_path / FOLDER).glob("*.manifest"))
    whole = ten.read_bytes()
    ten.write_bytes(whole[:-1])
    twenty.unlink()
    body = newest(tmp_path, ".body")
    assert store.list(JOURNAL) == []
    assert store.damaged(JOURNAL) == [
        f"{body}: its manifest is missing",
        f"{ten}: the manifest is torn or changed",
    ]
    ten.write_bytes(whole)
    (tmp_path / "queueing-0").mkdir()
    (tmp_path / "queueing-0" / ten.name).write_bytes(whole)
    assert store.damaged(QUEUEING) == [
        f"{tmp_path / 'queueing-0' / ten.name}: the manifest is of {JOURNAL}"
    ]


def test_a_full_disk_gets_one_line(tmp_path: Path):
    (tmp_path / FOLDER).write_text("in the way")
    with pytest.raises(NotWritten, match=f"{FOLDER}: cannot be written: File exists; start again"):
        DirectorySnapshots(tmp_path).save(meta(1), BODY)
