"""The SQLite bus between processes: acknowledged records survive a kill, and watches work across
processes.
"""

import asyncio
import sys
import threading
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest

from shared.bus.sqlite.bus import SqliteBus, SqliteLog
from shared.bus.sqlite.file import SqliteFile
from shared.model.ids import JournalName
from shared.ports.bus import BusUnavailable

ROOT = Path(__file__).resolve().parents[2]
JOURNAL = JournalName("ingest/0")
WAIT_S = 300.0


async def start_writer(path: Path, records: int, payload_bytes: int) -> Process:
    arguments = [str(path), str(records), str(payload_bytes)]
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.contract.sqlite_writer", *arguments, stdout=PIPE, cwd=ROOT
    )


async def acknowledged(process: Process, until: int) -> int:
    """Kill the writer (-9) once `until` is acknowledged; return the last acknowledged position."""
    assert process.stdout is not None
    last = -1
    async with asyncio.timeout(WAIT_S):
        while last < until:
            last = int(await process.stdout.readline())
        process.kill()
        while line := await process.stdout.readline():
            last = int(line) if line.endswith(b"\n") else last
        await process.wait()
    return last


@pytest.mark.parametrize("payload_bytes", [10, 40_000])
async def test_acknowledged_records_of_a_killed_process_are_there(
    tmp_path: Path, payload_bytes: int
):
    path = tmp_path / "bus.db"
    until = 20
    for _ in range(3):
        last = await acknowledged(await start_writer(path, 0, payload_bytes), until)
        log = SqliteLog(path, exclusive=True)
        bus = SqliteBus(log)
        end = (await bus.bounds(JOURNAL))[1]
        assert end >= last + 1
        records: list[tuple[int, bytes]] = []
        while batch := await bus.read(JOURNAL, len(records)):
            records.extend(batch)
        expected = [(at, b"%d:" % at + bytes(payload_bytes)) for at in range(end)]
        assert records == expected
        log.close()
        until = end + 20


async def test_a_watch_reports_records_of_another_process(tmp_path: Path):
    path = tmp_path / "bus.db"
    log = SqliteLog(path)
    reader = SqliteBus(log)
    notified = asyncio.Event()
    reader.watch(JOURNAL, 0, notified.set)
    seen: list[int] = []
    process = await start_writer(path, 50, 10)
    async with asyncio.timeout(WAIT_S):
        while len(seen) < 50:
            await notified.wait()
            notified.clear()
            while batch := await reader.read(JOURNAL, len(seen)):
                seen.extend(position for position, _ in batch)
        await process.communicate()
    log.close()
    assert seen == list(range(50))


async def test_an_exclusive_file_keeps_other_writers_out_and_lets_readers_in(tmp_path: Path):
    path = tmp_path / "bus.db"
    log = SqliteLog(path, exclusive=True)
    await SqliteBus(log).append(JOURNAL, 0, b"x")
    for exclusive in (True, False):
        with pytest.raises(BusUnavailable, match=r"bus\.db: in use by another process"):
            SqliteLog(path, exclusive=exclusive)
    looking = SqliteLog(path, readonly=True)
    assert await SqliteBus(looking).read(JOURNAL, 0) == [(0, b"x")]
    await SqliteBus(log).append(JOURNAL, 1, b"y")
    assert await SqliteBus(looking).read(JOURNAL, 1) == [(1, b"y")]
    looking.close()
    log.close()
    shared = SqliteLog(path)
    with pytest.raises(BusUnavailable, match="in use by another process"):
        SqliteLog(path, exclusive=True)
    shared.close()
    SqliteLog(path, exclusive=True).close()


def test_processes_that_open_a_new_file_at_once_wait_for_it(tmp_path: Path):
    path = tmp_path / "bus.db"
    first = SqliteFile(path, exclusive=True)  # what it is while it makes the file
    made = threading.Timer(0.2, first.close)
    made.start()
    SqliteLog(path).close()
    made.join()
