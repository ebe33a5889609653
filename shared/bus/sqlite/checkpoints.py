"""Copies the WAL of a file back into it in a thread, if no other process writes.

SQLite would do it inside a commit, which then takes 2-3 ms instead of 0.3; at 1,000 pods/s two pods
in a hundred wait for that. A thread copies while commits continue (SQLite allows it), the loop only
copies the rest, and the next commit restarts the WAL.
"""

import asyncio
import logging
import sqlite3
from concurrent.futures import ThreadPoolExecutor

from shared.bus.sqlite.file import SqliteFile
from shared.ports.bus import BusUnavailable

PAGES = 2_000
PAGE_BYTES = 4_096
COPY = "PRAGMA wal_checkpoint(PASSIVE)"  # never waits

log = logging.getLogger("muster.bus.sqlite")


class Checkpoints:
    """Checkpoints of one file. Each error is logged once and left to the next commit, which meets
    the same disk.
    """

    def __init__(self, file: SqliteFile) -> None:
        self._file = file
        self._pages = 0
        self._thread: ThreadPoolExecutor | None = None
        self._connection: sqlite3.Connection | None = None
        self._copying = False
        self._logged = ""

    def wrote(self, sizes_bytes: list[int]) -> None:
        """Count a commit with records of these sizes."""
        self._pages += sum(2 + size_bytes // PAGE_BYTES for size_bytes in sizes_bytes)
        if self._pages < PAGES or self._copying:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # the file is being closed, which copies everything
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "muster-checkpoint")
            self._connection = self._file.another()
        self._copying = True
        copying = loop.run_in_executor(self._thread, self._copy)
        copying.add_done_callback(self._finish)

    def _copy(self) -> str:
        """Copy the WAL; return the error text, empty if none."""
        assert self._connection is not None
        try:
            self._connection.execute(COPY)
        except sqlite3.Error as error:
            return str(error)
        return ""

    def _finish(self, copied: asyncio.Future[str]) -> None:
        self._copying = False
        self._pages = 0
        text = "" if copied.cancelled() else copied.result()
        if self._connection is not None:
            try:
                self._file.execute(COPY)
            except BusUnavailable as error:
                text = text or str(error)
        if text and text != self._logged:
            log.warning("%s: the WAL was not copied back: %s", self._file.path, text)
        self._logged = text

    def close(self) -> None:
        """Wait for a copy under way."""
        if self._thread is not None:
            self._thread.shutdown()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
