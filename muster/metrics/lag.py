"""How far the owners of a process are behind the journals that they read."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from shared.machine.runtime import Owner
from shared.model.ids import JournalName, Position
from shared.ports.bus import BusUnavailable

ANSWER_S = 1.0


class Lag:
    """`records` are those not consumed yet, by journal and source; a source is missing while the
    bus does not say where it ends.
    """

    def __init__(self, owners: Callable[[], Sequence[Owner[Any]]]) -> None:
        """Measure nothing yet."""
        self._owners = owners
        self.records: dict[tuple[JournalName, JournalName], int] = {}

    async def measure(self) -> None:
        """Measure it now, in ANSWER_S at most. Journals of this process need no bus."""
        owners = self._owners()
        ends = {owner.journal: owner.folded.own_reader.next for owner in owners}
        try:
            async with asyncio.timeout(ANSWER_S):
                for owner in owners:
                    for source in owner.core.sources:
                        if source not in ends:
                            ends[source] = (await owner.bus.bounds(source))[1]
        except (TimeoutError, BusUnavailable):
            pass
        self.records = {
            (owner.journal, source): _left(owner, source, ends[source])
            for owner in owners
            for source in owner.core.sources
            if source in ends
        }


def _left(owner: Owner[Any], source: JournalName, end: Position) -> int:
    consumed: Position = owner.state.cursors[source].next
    return max(0, end - consumed)
