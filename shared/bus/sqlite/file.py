"""The SQLite file of the embedded bus: opening, locks, checks, run metadata.

It knows no journals. Every error of SQLite leaves this module as one that names the file.
"""

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shared.ports.bus import BusCorrupt, BusUnavailable

APPLICATION_ID = 0x4D555354  # "MUST": marks our files
FORMAT_VERSION = 1
BUSY_TIMEOUT_MS = 2_000
OPENING_S = 2.0
POLL_S = 0.01
WAL_HEADER_BYTES = 32
# Frames (4 KiB) after which a commit also copies the WAL back. Small and often: a commit then takes
# 1-3 ms now and then, where the default of 1,000 makes it 6 ms with large records. A WAL that is
# never copied back is slower still, because each commit then extends a file.
CHECKPOINT_PAGES = 400
# The number of cached prepared statements: journals times statements of a run.
_CACHED_STATEMENTS = 1_024
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class SqliteFile:
    """One connection, used from one thread; `another` makes more for other threads.

    `exclusive` locks out every other writer; otherwise several processes may write. `readonly`
    takes no lock and changes nothing, so that a live run can be read; it leaves no files behind.
    Without `is_durable` a commit does not wait for the disk: a power loss may lose the file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        exclusive: bool = False,
        readonly: bool = False,
        is_durable: bool = True,
    ) -> None:
        self.path = Path(path)
        self.exclusive = exclusive
        self.readonly = readonly
        self.is_durable = is_durable
        self._lock_fd: int | None = None
        self._connection: sqlite3.Connection | None = None
        self._files: list[tuple[int, int]] = []
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        if self.readonly:
            if not self.path.exists():
                raise BusUnavailable(f"{self.path}: no such file")
            self._check_header()
            # The last connection to close a file removes its WAL, unless it is read-only. A WAL
            # with content is left to the next writer.
            self._connect("ro" if self._has_wal() else "rw")
            self.execute("PRAGMA query_only=ON")
            self._check_format()
            return
        if not self.path.parent.is_dir():
            raise BusUnavailable(f"{self.path}: directory {self.path.parent} does not exist")
        self._lock()
        if not self.path.exists():
            self._create()
        self._check_header()
        self._connect("rw")
        self._check_format()
        self._files = self._found()
        assert self._lock_fd is not None
        # The creator lets other processes in now, unless it is exclusive.
        fcntl.flock(self._lock_fd, fcntl.LOCK_EX if self.exclusive else fcntl.LOCK_SH)

    def _lock(self) -> None:
        """Lock the file, alone while opening if possible: then an empty file is a torn one, not a
        new one.

        The lock ends with the process, however it ends.
        """
        try:
            self._lock_fd = os.open(
                f"{self.path}-lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise BusUnavailable(f"{self.path}: cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pass
        # Another process holds it: share it. That process may be alone in it for the moment of its
        # opening.
        end_s = time.monotonic() + OPENING_S
        while not self.exclusive and time.monotonic() < end_s:
            try:
                fcntl.flock(self._lock_fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                time.sleep(POLL_S)
        raise BusUnavailable(
            f"{self.path}: in use by another process; stop it, or choose another file"
        )

    def another(self) -> sqlite3.Connection:
        """Return one more connection, for any one thread."""
        return self._open_connection(self.path, "rw")

    def _connect(self, mode: str) -> None:
        self._connection = self._open_connection(self.path, mode)
        if not self.readonly:
            # An exclusive bus does it beside the loop.
            pages = 0 if self.exclusive else CHECKPOINT_PAGES
            self.execute(f"PRAGMA wal_autocheckpoint={pages}")

    def _open_connection(self, path: Path, mode: str) -> sqlite3.Connection:
        with self.errors():
            connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}",
                uri=True,
                isolation_level=None,
                timeout=BUSY_TIMEOUT_MS / 1_000,
                cached_statements=_CACHED_STATEMENTS,
                check_same_thread=False,
            )
            if mode != "ro":
                connection.execute(f"PRAGMA synchronous={'FULL' if self.is_durable else 'OFF'}")
            return connection

    def _check_header(self) -> None:
        """Check the header. SQLite takes an empty file for a new database; for us it is
        a torn one.
        """
        try:
            with self.path.open("rb") as file:
                head = file.read(100)
                size_bytes = os.fstat(file.fileno()).st_size
        except OSError as error:
            raise BusUnavailable(f"{self.path}: cannot be read: {error.strerror}") from error
        if len(head) < 100 or not head.startswith(b"SQLite format 3\0"):
            raise BusCorrupt(f"{self.path}: is truncated or not a Muster journal file")
        # Without a WAL the file must be whole. SQLite checks its length at the first read, but
        # rounds it up, and so does not see that the last page is torn.
        page_bytes = max(1, int.from_bytes(head[16:18], "big"))
        if size_bytes % page_bytes and not self._has_wal():
            raise BusCorrupt(f"{self.path}: is truncated, its last page is not whole")

    def _has_wal(self) -> bool:
        """Return whether the WAL has pages: a process that dies with an empty WAL leaves the file
        behind.
        """
        try:
            return os.stat(f"{self.path}-wal").st_size > WAL_HEADER_BYTES
        except FileNotFoundError:
            return False

    def _found(self) -> list[tuple[int, int]]:
        """Return the identities of the files under the names of the database and its WAL. Raises
        OSError.
        """
        found = (os.stat(f"{self.path}{rest}") for rest in ("", "-wal"))
        return [(one.st_dev, one.st_ino) for one in found]

    def check_place(self) -> None:
        """Check that the files still have their names: data written to a file without a name is
        lost with the process. Raises BusCorrupt.
        """
        try:
            if self._found() == self._files:
                return
            what = "was replaced"
        except FileNotFoundError:
            what = "was removed or renamed"
        except OSError as error:
            what = f"is out of reach ({error.strerror})"
        raise BusCorrupt(
            f"{self.path}: {what} while it was in use; nothing more is written, and what was "
            "recorded since may be lost: put it back if it was moved, and start again"
        )

    def _create(self) -> None:
        """Create the file under another name until it is complete: another process finds no file
        instead of a torn one, and so does the next one if this process is killed.
        """
        making = Path(f"{self.path}-new")
        for rest in ("", "-journal", "-wal", "-shm"):
            Path(f"{making}{rest}").unlink(missing_ok=True)
        self._connection = self._open_connection(making, "rwc")
        self.execute("PRAGMA journal_mode=WAL")
        with self.transaction():
            self.execute(f"PRAGMA application_id={APPLICATION_ID}")
            self.execute(f"PRAGMA user_version={FORMAT_VERSION}")
            self.execute(
                "CREATE TABLE meta(key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
            )
            self.execute(
                "CREATE TABLE journals(id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL,"
                " first INTEGER NOT NULL DEFAULT 0)"
            )
        with self.errors():
            self._connection.close()
        self._connection = None
        making.rename(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _check_format(self) -> None:
        application_id = self.execute("PRAGMA application_id").fetchone()[0]
        version = self.execute("PRAGMA user_version").fetchone()[0]
        if application_id != APPLICATION_ID:
            raise BusCorrupt(f"{self.path}: is not a Muster journal file")
        if version > FORMAT_VERSION:
            raise BusCorrupt(
                f"{self.path}: format {version} is newer than {FORMAT_VERSION}, the newest this "
                "version reads; use a newer Muster"
            )
        # Reads the schema, and checks the length of the file through it.
        self.execute("SELECT count(*) FROM sqlite_master").fetchone()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn SQLite's errors into BusCorrupt and BusUnavailable."""
        try:
            yield
        except sqlite3.Error as error:
            if is_damage(error):
                raise BusCorrupt(f"{self.path}: is damaged ({error})") from error
            raise BusUnavailable(f"{self.path}: {error}") from error

    @property
    def connection(self) -> sqlite3.Connection:
        """Return the connection for hot paths, which map errors themselves."""
        if self._connection is None:
            raise BusUnavailable(f"{self.path}: is closed")
        return self._connection

    def execute(self, sql: str, parameters: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        """Run one statement. Raises BusCorrupt, BusUnavailable."""
        with self.errors():
            return self.connection.execute(sql, parameters)

    def fetch(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of one query. Raises BusCorrupt, BusUnavailable."""
        with self.errors():
            return self.connection.execute(sql, parameters).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all statements inside, or none."""
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.rollback()
            raise

    def get_meta(self, key: str) -> bytes | None:
        """Return a value of the run's metadata, or None."""
        rows = self.fetch("SELECT value FROM meta WHERE key=?", (key,))
        return bytes(rows[0][0]) if rows else None

    def put_meta(self, key: str, value: bytes) -> None:
        """Set a value of the run's metadata."""
        self.execute(
            "INSERT INTO meta VALUES(?,?) ON CONFLICT(key) DO UPDATE SET value=excluded.value",
            (key, value),
        )

    def close(self) -> None:
        """Close and unlock. Idempotent."""
        connection, self._connection = self._connection, None
        lock_fd, self._lock_fd = self._lock_fd, None
        try:
            if connection is not None:
                with self.errors():
                    connection.close()
        finally:
            if lock_fd is not None:
                os.close(lock_fd)


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Yield whether no process writes the file, and let none open it to write meanwhile if so.
    Raises BusUnavailable.
    """
    try:
        lock_fd = os.open(f"{path}-lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield True
        return
    except OSError as error:
        raise BusUnavailable(f"{path}: cannot be opened: {error.strerror}") from error
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(lock_fd)


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether the file is damaged."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and (code & 0xFF) in _DAMAGED
