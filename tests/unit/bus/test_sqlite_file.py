"""The SQLite file: a fault in it gives one line that names it, and nothing is changed."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shared.bus.sqlite import bus as sqlite_bus
from shared.bus.sqlite.bus import SqliteBus, SqliteLog
from shared.bus.sqlite.file import FORMAT_VERSION, SqliteFile
from shared.bus.sqlite.packing import ABOVE_BYTES
from shared.model.ids import JournalName
from shared.ports.bus import AppendUnknown, BusCorrupt, BusUnavailable, WrongPosition

JOURNAL = JournalName("ingest/0")
MODES: list[dict[str, bool]] = [{}, {"exclusive": True}, {"readonly": True}]


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A closed file with 40 records of 10 kB."""
    path = tmp_path / "bus.db"
    log = SqliteLog(path, exclusive=True)
    for position in range(40):
        await SqliteBus(log).append(JOURNAL, position, b"%d" % position + bytes(10_000))
    log.put_meta("world", b"openb")
    log.close()
    assert not path.with_name("bus.db-wal").exists()
    return path


def alter(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_metadata_is_kept(path: Path):
    log = SqliteLog(path)
    assert log.get_meta("world") == b"openb"
    assert log.get_meta("seed") is None
    log.put_meta("world", b"flood")
    log.close()
    looking = SqliteLog(path, readonly=True)
    assert looking.get_meta("world") == b"flood"
    assert looking.journals() == [JOURNAL]
    looking.close()


def test_a_file_is_complete_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, execute, seen = tmp_path / "bus.db", SqliteFile.execute, []

    def watched(file: SqliteFile, sql: str, parameters: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        if path.exists() and not file.readonly:
            SqliteLog(path, readonly=True).close()
        seen.append((path.exists(), sql))
        if sql == "COMMIT" and len(seen) < 10:
            raise KeyboardInterrupt
        return execute(file, sql, parameters)

    with monkeypatch.context() as patch:
        patch.setattr(SqliteFile, "execute", watched)
        with pytest.raises(KeyboardInterrupt):
            SqliteLog(path)
        assert not path.exists()
        SqliteLog(path).close()
    assert {there for there, _sql in seen} == {False, True}
    assert sorted(one.name for one in tmp_path.iterdir()) == ["bus.db", "bus.db-lock"]


@pytest.mark.parametrize("size_bytes", [0, 1, 15, 99, 100, 512, 4_096, 8_192, 50_000, -1])
@pytest.mark.parametrize("mode", MODES)
def test_a_truncated_file_is_named_and_left_alone(path: Path, size_bytes: int, mode):
    whole = path.read_bytes()
    path.write_bytes(whole[:size_bytes])
    before = path.read_bytes()
    with pytest.raises(BusCorrupt, match=r"bus\.db: is (truncated|damaged)"):
        SqliteLog(path, **mode)
    assert path.read_bytes() == before


@pytest.mark.parametrize("cut_bytes", [1, 2_000, 4_095, 4_096])
@pytest.mark.parametrize("wal_bytes", [0, 32])
@pytest.mark.parametrize("mode", MODES)
def test_a_wal_without_pages_hides_no_torn_page(path: Path, cut_bytes: int, wal_bytes: int, mode):
    """A process that dies before its first commit leaves such a WAL."""
    path.write_bytes(path.read_bytes()[:-cut_bytes])
    path.with_name("bus.db-wal").write_bytes(bytes(wal_bytes))
    before = path.read_bytes()
    with pytest.raises(BusCorrupt, match=r"bus\.db: is (truncated|damaged)"):
        SqliteLog(path, **mode)
    assert path.read_bytes() == before


def files(path: Path) -> list[str]:
    return sorted(one.name for one in path.parent.iterdir())


def records(log: SqliteLog) -> int:
    return len(asyncio.run(SqliteBus(log).read(JOURNAL, 0)))


def test_a_reader_leaves_no_files_behind(path: Path):
    before = files(path), path.read_bytes()
    for beside in ([], ["bus.db-wal"], ["bus.db-shm", "bus.db-wal"]):  # as a killed reader may
        for name in beside:
            path.with_name(name).touch()
        first, second = SqliteLog(path, readonly=True), SqliteLog(path, readonly=True)
        assert records(first) == 40
        first.close()
        assert records(second) == 40
        second.close()
        assert (files(path), path.read_bytes()) == before


@pytest.mark.parametrize("exclusive", [True, False])
async def test_a_reader_sees_concurrent_writes(path: Path, exclusive: bool):
    log = SqliteLog(path, exclusive=exclusive)
    looking = SqliteLog(path, readonly=True)  # nothing was written yet: the WAL is empty
    for position in range(40, 1_000):
        await SqliteBus(log).append(JOURNAL, position, bytes(10_000))
    assert await SqliteBus(looking).bounds(JOURNAL) == (0, 1_000)
    again = SqliteLog(path, readonly=True)
    assert [at for at, _ in await SqliteBus(again).read(JOURNAL, 990)] == [*range(990, 1_000)]
    again.close()
    looking.close()
    assert await SqliteBus(log).append(JOURNAL, 1_000, b"x") == 1_000
    last = SqliteLog(path, readonly=True)
    log.close()
    assert [at for at, _ in await SqliteBus(last).read(JOURNAL, 999)] == [999, 1_000]
    last.close()
    looking = SqliteLog(path, readonly=True)
    assert await SqliteBus(looking).bounds(JOURNAL) == (0, 1_001)
    looking.close()


def test_the_wal_of_a_killed_writer_is_left_to_the_next_writer(path: Path):
    script = (
        "import asyncio, os, sys\n"
        "from shared.bus.sqlite.bus import SqliteBus, SqliteLog\n"
        "log = SqliteLog(sys.argv[1])\n"
        "asyncio.run(SqliteBus(log).append('ingest/0', 40, b'x'))\n"
        "os._exit(1)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert done.returncode == 1
    wal = path.with_name("bus.db-wal")
    before = path.read_bytes(), wal.read_bytes()
    looking = SqliteLog(path, readonly=True)
    assert asyncio.run(SqliteBus(looking).bounds(JOURNAL)) == (0, 41)
    looking.close()
    assert (path.read_bytes(), wal.read_bytes()) == before
    SqliteLog(path).close()
    assert files(path) == ["bus.db", "bus.db-lock"]


@pytest.fixture
def damaged(path: Path) -> Path:
    content = bytearray(path.read_bytes())
    for offset in range(3 * 4_096, len(content), 4_096):
        content[offset : offset + 64] = b"\xff" * 64
    path.write_bytes(content)
    return path


async def test_damage_inside_is_found_by_the_read_that_meets_it(damaged: Path):
    async def read_everything() -> None:
        log = SqliteLog(damaged)
        try:
            position = 0
            while batch := await SqliteBus(log).read(JOURNAL, position):
                position = batch[-1][0] + 1
        finally:
            log.close()

    with pytest.raises(BusCorrupt, match=r"bus\.db"):
        await read_everything()


async def test_damage_in_a_compressed_record_is_named(tmp_path: Path):
    path = tmp_path / "bus.db"
    log = SqliteLog(path)
    await SqliteBus(log).append(JOURNAL, 0, bytes(ABOVE_BYTES + 1))
    log.close()
    with sqlite3.connect(path) as connection:
        (stored,) = connection.execute("SELECT payload FROM journal_1").fetchone()
        assert len(stored) < ABOVE_BYTES
        connection.execute("UPDATE journal_1 SET payload=?", (b"\0" + stored[1:],))
    connection.close()
    log = SqliteLog(path, readonly=True)
    with pytest.raises(BusCorrupt, match=r"bus\.db: journal ingest/0: position 0 is damaged"):
        await SqliteBus(log).read(JOURNAL, 0)
    log.close()


async def test_a_missing_record_is_found(path: Path):
    alter(path, "DELETE FROM journal_1 WHERE position=17")
    log = SqliteLog(path)
    bus = SqliteBus(log)
    with pytest.raises(BusCorrupt, match=r"bus\.db: journal ingest/0: position 17 is missing"):
        await bus.read(JOURNAL, 10)
    log.close()


def test_a_file_of_another_kind_is_refused(tmp_path: Path):
    text = tmp_path / "notes.txt"
    text.write_text("not a database " * 20)
    with pytest.raises(BusCorrupt, match=r"notes\.txt: is truncated or not a Muster journal"):
        SqliteLog(text)
    foreign = tmp_path / "foreign.db"
    alter(foreign, "CREATE TABLE t(x)")
    before = foreign.read_bytes()
    with pytest.raises(BusCorrupt, match=r"foreign\.db: is not a Muster journal"):
        SqliteLog(foreign)
    assert foreign.read_bytes() == before


def test_a_newer_format_is_refused(path: Path):
    alter(path, f"PRAGMA user_version={FORMAT_VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(BusCorrupt, match=rf"bus\.db: format {FORMAT_VERSION + 1} is newer"):
        SqliteLog(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", [{}, {"readonly": True}])
def test_an_impossible_path_is_named(tmp_path: Path, mode):
    with pytest.raises(BusUnavailable, match=r"absent.bus\.db"):
        SqliteLog(tmp_path / "absent" / "bus.db", **mode)


async def test_a_file_opened_to_read_cannot_be_written(path: Path):
    log = SqliteLog(path, readonly=True)
    with pytest.raises(AppendUnknown, match=r"bus\.db: .*readonly"):
        await SqliteBus(log).append(JOURNAL, 40, b"x")
    log.close()


async def test_a_closed_file_says_so(path: Path):
    log = SqliteLog(path)
    bus = SqliteBus(log)
    log.close()
    log.close()
    with pytest.raises(BusUnavailable, match="is closed"):
        await bus.append(JOURNAL, 40, b"x")


async def test_a_file_that_is_locked_is_an_unknown_append(path: Path, monkeypatch):
    monkeypatch.setattr("shared.bus.sqlite.file.BUSY_TIMEOUT_MS", 10)
    log = SqliteLog(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(AppendUnknown, match="locked"):
        await SqliteBus(log).append(JOURNAL, 40, b"x")
    holder.execute("ROLLBACK")
    holder.close()
    assert await SqliteBus(log).append(JOURNAL, 40, b"x") == 40
    log.close()


async def test_an_interrupted_cut_continues_next_time(path: Path):
    alter(path, "UPDATE journals SET first=30")  # the rows are still there
    log = SqliteLog(path)
    bus = SqliteBus(log)
    assert await bus.bounds(JOURNAL) == (30, 40)
    await bus.cut(JOURNAL, 31)
    with pytest.raises(WrongPosition):
        await bus.append(JOURNAL, 5, b"x")
    rows = log.file.fetch("SELECT min(position), count(*) FROM journal_1")
    assert rows == [(31, 9)]
    log.close()


async def test_a_cut_frees_space(path: Path):
    log = SqliteLog(path, exclusive=True)
    bus = SqliteBus(log)
    position = 40
    sizes = set()
    for _ in range(5):
        for _ in range(100):
            position = await bus.append(JOURNAL, position, bytes(10_000)) + 1
        await bus.cut(JOURNAL, position - 10)
        sizes.add(log.file.fetch("PRAGMA page_count")[0][0])
    assert len(sizes) <= 2
    log.close()


def replace_by_copy(name: str) -> None:
    shutil.copy(name, f"{name}-copy")
    os.replace(f"{name}-copy", name)


@pytest.mark.parametrize("lost", ["", "-wal"])
@pytest.mark.parametrize("mode", [{}, {"exclusive": True}])
async def test_a_file_that_lost_its_name_is_not_written(
    path: Path, monkeypatch: pytest.MonkeyPatch, mode: dict[str, bool], lost: str
):
    monkeypatch.setattr(sqlite_bus, "LOOK_S", 0.01)
    log, woken = SqliteLog(path, **mode), asyncio.Event()
    bus = SqliteBus(log)
    bus.watch(JOURNAL, 40, woken.set)
    await asyncio.sleep(0.05)
    await bus.append(JOURNAL, 40, b"more")
    await woken.wait()
    woken.clear()
    replace_by_copy(f"{path}{lost}")
    await asyncio.wait_for(woken.wait(), 5)
    with pytest.raises(BusCorrupt, match=r"bus\.db: was replaced while it was in use"):
        await bus.append(JOURNAL, 41, b"more")
    with pytest.raises(BusCorrupt, match="start again"):
        await bus.read(JOURNAL, 0)
    log.close()
