"""What the journals of a flood say about batches and shards."""

from dataclasses import dataclass, field

from shared.events.placement import GangHeld, Reserved
from shared.events.queueing import Dispatched
from shared.machine.core import Cursor
from shared.machine.reader import Reader
from shared.machine.record import own_events
from shared.model.columns import size
from shared.model.ids import QUEUEING, placement
from shared.ports.bus import Bus


@dataclass
class Told:
    """Times are those of records, in ms since the epoch: sizes of batches, and for each shard how
    many pods it placed.
    """

    batches: list[tuple[int, int]] = field(default_factory=list)
    shards: list[list[tuple[int, int]]] = field(default_factory=list)


async def told(bus: Bus, placements: int) -> Told:
    """Read the journals of queueing and of all shards."""
    found = Told(shards=[[] for _ in range(placements)])
    async for position, record in Reader(QUEUEING, Cursor()).records(bus):
        for event in own_events(record, QUEUEING, position):
            if isinstance(event, Dispatched):
                found.batches.append((record.time_ms, size(event.ids)))
    for shard, placed in enumerate(found.shards):
        journal = placement(shard)
        async for position, record in Reader(journal, Cursor()).records(bus):
            for event in own_events(record, journal, position):
                if isinstance(event, Reserved | GangHeld):
                    placed.append((record.time_ms, size(event.ids)))
    return found
