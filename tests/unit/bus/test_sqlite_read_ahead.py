"""A process alone in its file reads records ahead of their commit; no other process ever does."""

import asyncio
import os
from pathlib import Path

import pytest

from shared.bus.sqlite import checkpoints
from shared.bus.sqlite.bus import SqliteBus, SqliteLog
from shared.model.ids import JournalName, Position
from shared.ports.bus import BusCorrupt

CAUSE, EFFECT = JournalName("ingest/0"), JournalName("queueing/0")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bus.db"


async def committed(path: Path, journal: JournalName) -> list[tuple[Position, bytes]]:
    """Return the records that another process finds in the file."""
    log = SqliteLog(path, readonly=True)
    found = await SqliteBus(log).read(journal, 0)
    log.close()
    return found


async def test_a_record_is_read_before_its_commit_and_answered_after(path: Path):
    log = SqliteLog(path, exclusive=True)
    bus = SqliteBus(log)
    append = asyncio.create_task(bus.append(CAUSE, 0, b"cause"))
    await asyncio.sleep(0)
    assert (await bus.read(CAUSE, 0), append.done()) == ([(0, b"cause")], False)
    assert await committed(path, CAUSE) == []
    assert (await bus.append(EFFECT, 0, b"effect"), await append) == (0, 0)
    assert await committed(path, CAUSE) == [(0, b"cause")]
    log.close()


async def test_a_cancelled_append_that_was_read_is_written_all_the_same(path: Path):
    log = SqliteLog(path, exclusive=True)
    bus = SqliteBus(log)
    append = asyncio.create_task(bus.append(CAUSE, 0, b"cause"))
    await asyncio.sleep(0)
    append.cancel()
    assert await bus.append(EFFECT, 0, b"effect") == 0
    log.close()
    assert await committed(path, CAUSE) == [(0, b"cause")]


async def test_records_that_were_read_are_written_before_the_file_is_closed(path: Path):
    log = SqliteLog(path, exclusive=True)
    append = asyncio.create_task(SqliteBus(log).append(CAUSE, 0, b"cause"))
    await asyncio.sleep(0)
    log.close()
    assert await append == 0
    assert await committed(path, CAUSE) == [(0, b"cause")]


async def test_after_a_commit_that_failed_nothing_is_written_ever_again(path: Path):
    log = SqliteLog(path, exclusive=True)
    bus = SqliteBus(log)
    for journal in (CAUSE, EFFECT):
        await bus.append(journal, 0, b"first")
    log.file.execute("PRAGMA max_page_count=1")
    appends = (bus.append(CAUSE, 1, os.urandom(60_000)), bus.append(EFFECT, 1, b"effect"))
    for answer in await asyncio.gather(*appends, return_exceptions=True):
        assert isinstance(answer, BusCorrupt)
        assert "bus.db: a commit failed (database or disk is full)" in str(answer)
    log.file.execute("PRAGMA max_page_count=100000")
    with pytest.raises(BusCorrupt, match="start again"):
        await bus.append(EFFECT, 2, b"more")
    log.close()
    for journal in (CAUSE, EFFECT):
        assert await committed(path, journal) == [(0, b"first")]


async def test_the_wal_is_checkpointed_off_the_loop_and_restarted(path: Path, monkeypatch):
    monkeypatch.setattr(checkpoints, "PAGES", 50)
    log = SqliteLog(path, exclusive=True)
    bus = SqliteBus(log)
    payload = bytes(8_000)
    for position in range(500):
        await bus.append(CAUSE, position, payload)
        await asyncio.sleep(0.0005)
    wal = f"{path}-wal"
    assert os.stat(wal).st_size < 500 * len(payload) / 4
    assert os.stat(path).st_size > 100 * len(payload)
    log.close()
    assert os.listdir(path.parent).count("bus.db-wal") == 0
    assert len(await committed(path, CAUSE)) == 500


async def test_a_failed_wal_checkpoint_is_reported_once(path: Path, monkeypatch, caplog):
    monkeypatch.setattr(checkpoints, "PAGES", 10)
    log = SqliteLog(path, exclusive=True)
    bus = SqliteBus(log)
    for position in range(100):
        refused = position < 80
        copy = "PRAGMA wal_checkpoint(" if refused else "PRAGMA wal_checkpoint(PASSIVE)"
        monkeypatch.setattr(checkpoints, "COPY", copy)
        await bus.append(CAUSE, position, bytes(8_000))
        await asyncio.sleep(0.001)
    log.close()
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"{path}: the WAL was not copied back: ")
