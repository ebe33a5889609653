"""The embedded bus: every journal in one SQLite file (WAL, synchronous=FULL).

Each journal is a table whose rowid is the position, so an append always extends the table's last
page. Appends commit in the loop's thread: handing a commit of 0.15 ms to another thread costs more
than it saves (measured twice: waiting for the interpreter makes it slower). Appends of one turn of
the loop are committed together.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable

import cramjam

from shared.bus.sqlite.checkpoints import Checkpoints
from shared.bus.sqlite.commits import Commits, Waiting
from shared.bus.sqlite.file import SqliteFile, is_damage
from shared.bus.sqlite.newest_records import Ring
from shared.bus.sqlite.packing import Packing
from shared.bus.watches import Watches
from shared.model.ids import START, JournalName, Position
from shared.ports.bus import (
    AppendUnknown,
    BusCorrupt,
    CutAway,
    WrongPosition,
    check_record,
    split_journal,
)

RING_BYTES = 64 << 20
POLL_S = 0.001
LOOK_S = 1.0
"""Seconds between checks that the file still has its name."""
# Rows deleted before the loop gets a turn.
_CUT_ROWS = 256


class _Journal:
    __slots__ = ("end", "first", "insert", "name", "ring", "table")

    def __init__(self, name: JournalName) -> None:
        self.name = name
        self.table: str | None = None  # None until its first record
        self.insert = ""
        self.first = START
        self.end = START

    def found(self, journal_id: int, first: Position) -> None:
        """Note that the journal exists in the file."""
        self.table = table = f"journal_{journal_id}"
        # Refused unless it follows the last record: true for every process that has the file open;
        # cutting keeps the last row so that this can always be checked.
        self.insert = (
            f"INSERT INTO {table} SELECT ?1,?2,?3"
            f" WHERE coalesce((SELECT max(position) FROM {table}),-1)=?1-1"
        )
        self.first = first


class SqliteLog:
    """One process's access to the file; its clients share it and one thread.

    With `exclusive` no other process writes, and nothing is polled. Otherwise, other processes'
    records are found by polling while a watch is open. Runs that can be repeated need no
    `is_durable`: without it, commits do not sync the disk and the file's name is not checked.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        exclusive: bool = False,
        readonly: bool = False,
        ring_bytes: int = RING_BYTES,
        is_durable: bool = True,
    ) -> None:
        self.file = SqliteFile(path, exclusive=exclusive, readonly=readonly, is_durable=is_durable)
        self._ring = Ring(ring_bytes)
        self._journals: dict[JournalName, _Journal] = {}
        self._clients: list[SqliteBus] = []
        self._poll_handle: asyncio.TimerHandle | None = None
        self._look_handle: asyncio.TimerHandle | None = None
        self._gone: BusCorrupt | None = None
        self._checkpoints = Checkpoints(self.file)
        self._packing = Packing()
        self._commits = Commits(self._commit, ahead=exclusive)
        self._data_version = -1
        try:
            self._reload()
        except BaseException:
            self.file.close()
            raise

    def get_meta(self, key: str) -> bytes | None:
        """Return a value of the run's metadata, or None."""
        return self.file.get_meta(key)

    def put_meta(self, key: str, value: bytes) -> None:
        """Set a value of the run's metadata."""
        self.file.put_meta(key, value)

    def journals(self) -> list[JournalName]:
        """Return the existing journals, sorted."""
        self._refresh()
        return sorted(name for name, held in self._journals.items() if held.table is not None)

    def close(self) -> None:
        """Close the file. Idempotent; its clients cannot be used afterwards."""
        for client in self._clients:
            client._watches.clear()
        self._clients.clear()
        self._commits.close()
        self._checkpoints.close()
        self._stop_polling()
        self._stop_looking()
        self.file.close()

    # -- what the clients use ---------------------------------------------------------------

    def _journal(self, name: JournalName) -> _Journal:
        held = self._journals.get(name)
        if held is None:
            split_journal(name)
            held = self._journals[name] = _Journal(name)
        return held

    def _append(
        self, name: JournalName, expected: Position, payload: bytes
    ) -> asyncio.Future[Position]:
        check_record(name, payload)
        held = self._journal(name)
        if expected < 0 or (self.file.exclusive and expected != held.end):
            raise self._refused(name, expected)
        answer = self._commits.add(name, expected, payload)
        if self.file.exclusive:
            self._show(held, expected, payload)
        return answer

    def _show(self, held: _Journal, position: Position, payload: bytes) -> None:
        """Make the record readable for this process's clients."""
        if held.end != position:
            self._ring.restart(held.name, position)
        held.end = Position(position + 1)
        self._ring.push(held.name, position, payload)
        for client in self._clients:
            client._watches.wake(held.name, held.end)

    def _commit(self, appends: list[Waiting]) -> None:
        """Write the appends that follow their journals' ends; answer all."""
        for one in appends:
            held = self._journal(one.journal)
            if held.table is None:
                self._create(held)
        for one in self._write(appends):
            if not self.file.exclusive:
                self._show(self._journal(one.journal), one.expected, one.payload)
            if not one.answer.done():
                one.answer.set_result(one.expected)
        for one in appends:
            if not one.answer.done():
                one.fail(self._refused(one.journal, one.expected))

    def _write(self, appends: list[Waiting]) -> list[Waiting]:
        """Write one transaction; return the appends that were at their journals' ends."""
        connection = self.file.connection
        landed = []
        try:
            connection.execute("BEGIN IMMEDIATE")
            for one in appends:
                stored, size_bytes = self._packing.pack(one.payload)
                insert = self._journal(one.journal).insert
                if connection.execute(insert, (one.expected, size_bytes, stored)).rowcount == 1:
                    landed.append(one)
            connection.execute("COMMIT")
            if self.file.exclusive:
                self._checkpoints.wrote([len(one.payload) for one in appends])
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.rollback()
            if is_damage(error):
                raise BusCorrupt(f"{self.file.path}: is damaged ({error})") from error
            if self.file.exclusive:
                raise BusCorrupt(
                    f"{self.file.path}: a commit failed ({error}); nothing more is written, and "
                    "nothing that was not committed was shown outside: start again"
                ) from error
            raise AppendUnknown(f"{self.file.path}: {error}") from error
        assert len(landed) == len(appends) or not self.file.exclusive, "another process wrote"
        return landed

    def _refused(self, name: JournalName, expected: Position) -> WrongPosition:
        end = self._fresh_end(self._journal(name))
        return WrongPosition(name, expected, end, landed=False)

    def _read(
        self, name: JournalName, start: Position, limit_bytes: int
    ) -> list[tuple[Position, bytes]]:
        if self._gone is not None:
            raise self._gone
        held = self._journal(name)
        if start >= held.end or start < held.first:
            self._refresh()
        if start < held.first:
            raise CutAway(name, start, held.first)
        if start >= held.end:
            return []
        cached = self._ring.read(name, start, limit_bytes)
        if cached:
            return cached
        self._commits.flush()  # the file must have everything that is read
        return self._read_rows(held, start, limit_bytes)

    def _bounds(self, name: JournalName) -> tuple[Position, Position]:
        self._refresh()
        held = self._journal(name)
        return held.first, held.end

    def _cut_first(self, name: JournalName, below: Position) -> Position:
        """Move the first position kept, durably; return it."""
        self._refresh()
        held = self._journal(name)
        first = min(max(below, held.first), held.end)
        if held.table is not None:
            self.file.execute(
                "UPDATE journals SET first=max(first,?) WHERE name=?", (first, held.name)
            )
        held.first = first
        self._ring.cut(name, first)
        return first

    def _cut_rows(self, name: JournalName, first: Position) -> bool:
        """Delete some rows below `first`; return whether there may be more. The last row always
        stays.
        """
        table = self._journal(name).table
        if table is None:
            return False
        deleted = self.file.execute(
            f"DELETE FROM {table} WHERE position IN (SELECT position FROM {table}"
            f" WHERE position<min(?,(SELECT max(position) FROM {table}))"
            f" ORDER BY position LIMIT {_CUT_ROWS})",
            (first,),
        ).rowcount
        return deleted == _CUT_ROWS

    # -- the file ---------------------------------------------------------------------------

    def _create(self, held: _Journal) -> None:
        with self.file.transaction():
            self.file.execute("INSERT OR IGNORE INTO journals(name) VALUES(?)", (held.name,))
            row = self.file.fetch("SELECT id, first FROM journals WHERE name=?", (held.name,))[0]
            self.file.execute(
                f"CREATE TABLE IF NOT EXISTS journal_{row[0]}"
                "(position INTEGER PRIMARY KEY, size_bytes INTEGER NOT NULL, payload BLOB NOT NULL)"
            )
        held.found(row[0], row[1])

    def _unpack(self, held: _Journal, position: Position, stored: bytes, size_bytes: int) -> bytes:
        if size_bytes < 0:
            return stored
        try:
            return bytes(cramjam.zstd.decompress(stored, size_bytes))
        except cramjam.DecompressionError as error:
            raise BusCorrupt(
                f"{self.file.path}: journal {held.name}: position {position} is damaged ({error})"
            ) from error

    def _read_rows(
        self, held: _Journal, start: Position, limit_bytes: int
    ) -> list[tuple[Position, bytes]]:
        out: list[tuple[Position, bytes]] = []
        total_bytes = 0
        with self.file.errors():
            cursor = self.file.connection.execute(
                f"SELECT position, size_bytes, payload FROM {held.table}"
                " WHERE position>=? AND position<? ORDER BY position",
                (start, held.end),
            )
            for position, size_bytes, stored in cursor:
                if position != start + len(out):
                    break
                payload = self._unpack(held, position, stored, size_bytes)
                out.append((position, payload))
                total_bytes += len(payload)
                if total_bytes >= limit_bytes:
                    return out
        if not out or out[-1][0] != held.end - 1:
            self._refresh(force=True)
            if start < held.first:  # another process cut meanwhile
                raise CutAway(held.name, start, held.first)
            raise BusCorrupt(
                f"{self.file.path}: journal {held.name}: position {start + len(out)} is missing"
            )
        return out

    def _fresh_end(self, held: _Journal) -> Position:
        self._refresh(force=True)
        return held.end

    def _refresh(self, force: bool = False) -> None:
        """Read what other processes wrote."""
        if self.file.exclusive and not force:
            return
        version = self.file.fetch("PRAGMA data_version")[0][0]
        if version != self._data_version or force:
            self._data_version = version
            self._reload()

    def _reload(self) -> None:
        for journal_id, name, first in self.file.fetch("SELECT id, name, first FROM journals"):
            held = self._journal(name)
            if held.table is None:
                held.found(journal_id, first)
            held.first = first
            last = self.file.fetch(f"SELECT max(position) FROM {held.table}")[0][0]
            end = first if last is None else last + 1
            if end > held.end:
                held.end = end
                self._ring.restart(held.name, end)
                for client in self._clients:
                    client._watches.wake(held.name, end)

    # -- the file's place -------------------------------------------------------------------

    def _start_looking(self) -> None:
        is_needed = self._look_handle is None and self._gone is None
        if is_needed and self.file.is_durable:
            self._look_handle = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _stop_looking(self) -> None:
        if self._look_handle is not None:
            self._look_handle.cancel()
            self._look_handle = None

    def _look(self) -> None:
        """Fail appends and reads, also of idle readers, if the file has lost its name."""
        self._look_handle = None
        watched = [client._watches for client in self._clients if len(client._watches)]
        if not watched:
            return
        try:
            self.file.check_place()
        except BusCorrupt as error:
            self._gone = error
            self._commits.fail(error)
            for watches in watched:
                for journal in watches.journals():
                    watches.wake_all(journal)
        else:
            self._start_looking()

    # -- other processes --------------------------------------------------------------------

    def _start_polling(self) -> None:
        if not self.file.exclusive and self._poll_handle is None:
            self._poll_handle = asyncio.get_running_loop().call_later(POLL_S, self._poll)

    def _stop_polling(self) -> None:
        if self._poll_handle is not None:
            self._poll_handle.cancel()
            self._poll_handle = None

    def _poll(self) -> None:
        self._poll_handle = None
        watched = [client for client in self._clients if len(client._watches)]
        if not watched:
            return
        try:
            self._refresh()
        finally:
            self._start_polling()


class SqliteBus:
    """A client of a SqliteLog."""

    def __init__(self, log: SqliteLog) -> None:
        self._log = log
        self._watches = Watches()
        log._clients.append(self)

    async def append(self, journal: JournalName, expected: Position, payload: bytes) -> Position:
        """See Bus.append. Durable (WAL synced) before it returns; also BusCorrupt."""
        return await self._log._append(journal, expected, payload)

    async def read(
        self, journal: JournalName, start: Position, limit_bytes: int = 4 << 20
    ) -> list[tuple[Position, bytes]]:
        """See Bus.read; also BusCorrupt."""
        return self._log._read(journal, start, limit_bytes)

    async def bounds(self, journal: JournalName) -> tuple[Position, Position]:
        """See Bus.bounds."""
        return self._log._bounds(journal)

    def watch(
        self, journal: JournalName, start: Position, notify: Callable[[], None]
    ) -> Callable[[], None]:
        """See Bus.watch."""
        cancel = self._watches.add(journal, start, notify, self._log._bounds(journal)[1])
        self._log._start_polling()
        self._log._start_looking()
        return cancel

    async def cut(self, journal: JournalName, below: Position) -> None:
        """See Bus.cut. Rows are deleted a few at a time, so that the loop continues meanwhile."""
        first = self._log._cut_first(journal, below)
        more = True
        while more:
            more = self._log._cut_rows(journal, first)
            await asyncio.sleep(0)

    async def close(self) -> None:
        """See Bus.close; the log stays open."""
        self._watches.clear()
        if self in self._log._clients:
            self._log._clients.remove(self)
