"""The bus of a mesh in one process: a SQLite file of its own, or memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.bus.memory import MemoryBus, MemoryLog
from shared.bus.sqlite.bus import SqliteBus, SqliteLog


@contextmanager
def embedded_bus(
    kind: str, path: Path, is_durable: bool = True
) -> Iterator[Callable[[str], SqliteBus | MemoryBus]]:
    """Yield a factory of bus clients, one for each journal. See SqliteLog for
    `is_durable`."""
    if kind == "memory":
        memory = MemoryLog()
        yield lambda _journal: MemoryBus(memory)
        return
    sqlite = SqliteLog(path, exclusive=True, is_durable=is_durable)
    try:
        yield lambda _journal: SqliteBus(sqlite)
    finally:
        sqlite.close()
