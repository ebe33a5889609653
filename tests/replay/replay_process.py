"""Replays a recorded run in a process of its own: `python -m tests.replay.replay_process FILE`.

Prints one line per journal, with its problems. The file holds journals without snapshots.
"""

import asyncio
import sys
from functools import partial
from pathlib import Path

import msgspec

from muster.app.mesh import make_core
from muster.simulation.scenario import PLACEMENTS
from shared.replay.replay import replay
from shared.snapshots.memory import MemorySnapshots
from tests.replay.recorded_run import JOURNALS, Recorded


def write(run: Recorded, file: Path) -> None:
    """Leave the journals for another process."""
    file.write_bytes(msgspec.msgpack.encode(run.records))


async def main(payload: bytes) -> None:
    """Replay everything in the file."""
    records = msgspec.msgpack.decode(payload, type=dict[str, list[bytes]])
    bus = Recorded(records, MemorySnapshots()).bus()
    for journal in JOURNALS:
        report = await replay(partial(make_core, journal, PLACEMENTS), bus, MemorySnapshots())
        print(journal, report.records, report.events, report.snapshots, *report.lines())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).read_bytes()))
