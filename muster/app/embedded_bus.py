"""The bus of a mesh in one process: a SQLite file that nobody else writes, or memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.bus.memory import MemoryBus, MemoryLog
from shared.bus.sqlite.bus import SqliteBus, SqliteLog


@contextmanager
def embedded_bus(kind: str, path: Path) -> Iterator[Callable[[str], SqliteBus | MemoryBus]]:
    """Makes a client for each journal: of the SQLite file, or of memory."""
    if kind == "memory":
        memory = MemoryLog()
        yield lambda _journal: MemoryBus(memory)
        return
    sqlite = SqliteLog(path, exclusive=True)
    try:
        yield lambda _journal: SqliteBus(sqlite)
    finally:
        sqlite.close()
