"""A process that appends to a SQLite bus and prints each acknowledgement until it is killed. Run as
a module.
"""

import asyncio
import sys

from shared.bus.sqlite.bus import SqliteBus, SqliteLog
from shared.model.ids import JournalName, Position


async def main(path: str, records: int, payload_bytes: int) -> None:
    """Append, printing each acknowledged position; 0 records means for ever."""
    bus = SqliteBus(SqliteLog(path))
    journal = JournalName("ingest/0")
    position = (await bus.bounds(journal))[1]
    end = position + records
    while records == 0 or position < end:
        payload = b"%d:" % position + bytes(payload_bytes)
        print(await bus.append(journal, position, payload), flush=True)
        position = Position(position + 1)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
