"""Everything that happened to one pod, gang or node, across all journals, in causal order.

What events mean and whom they concern is said by shared.events; this only walks the journals.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from shared.events.describe import View, describe
from shared.events.names import Names, Subject, concerns, differing
from shared.machine.record import own_events, received_of
from shared.model.ids import INGEST
from shared.ports.bus import Bus
from shared.replay.causal import causal
from shared.replay.replay import Divergence


@dataclass(frozen=True)
class StoryLine:
    """One event that concerns the subject."""

    time_ms: int
    journal: str
    position: int
    text: str

    def __str__(self) -> str:
        return f"{self.time_ms} {self.journal}@{self.position} {self.text}"


async def read_names(bus: Bus, journals: Sequence[str] = (INGEST,)) -> Names:
    """All names that the world journal knows."""
    names = Names()
    async for journal, position, record in causal(bus, journals):
        received = received_of(record, journal, position)
        for event in (*received, *own_events(record, journal, position)):
            names.learn(event)
    return names


async def story(bus: Bus, journals: Sequence[str], words: str) -> AsyncIterator[StoryLine]:
    """The story of `pod/NAME`, `gang/NAME` or `node/NAME`; `journals` in the order of the flow.

    Raises NoSuchName, RecordUnreadable, JournalGap.
    """
    names = await read_names(bus)
    async for line in story_of(bus, journals, names.find(words), names):
        yield line


async def story_of(
    bus: Bus,
    journals: Sequence[str],
    subject: Subject,
    names: Names,
    last: tuple[str, int] | None = None,
) -> AsyncIterator[StoryLine]:
    """The story of a subject that was found already; `last` is the record to end with, if any."""
    view = View(names, subject)
    async for journal, position, record in causal(bus, journals):
        received = received_of(record, journal, position)
        for event in (*received, *own_events(record, journal, position)):
            names.learn(event)
            if concerns(event, subject, names):
                yield StoryLine(record.time_ms, journal, position, describe(event, view))
        if (journal, position) == last:
            return


async def story_of_divergence(
    bus: Bus, journals: Sequence[str], journal: str, found: Divergence
) -> list[StoryLine]:
    """What had happened, up to where the journal's core decides differently now, to the pod, gang
    or node for which it does; empty when the events name none. Raises as `story`.
    """
    names = await read_names(bus)
    subject = differing(found.recorded, found.decided, names)
    if subject is None:
        return []
    last = journal, found.position
    return [line async for line in story_of(bus, journals, subject, names, last)]
