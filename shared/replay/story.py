"""The story of one pod, gang or node, across all journals, in causal order.

shared.events knows what events mean and concern; this module only walks the journals.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from shared.events.describe import View, describe
from shared.events.names import Names, Subject, concerns, differing
from shared.machine.record import all_events
from shared.model.ids import INGEST, JournalName, Position
from shared.ports.bus import Bus
from shared.replay.causal import causal
from shared.replay.replay import Divergence


@dataclass(frozen=True)
class StoryLine:
    """One event that concerns the subject."""

    time_ms: int
    journal: JournalName
    position: Position
    text: str

    def __str__(self) -> str:
        return f"{self.time_ms} {self.journal}@{self.position} {self.text}"


async def began_ms(bus: Bus, journals: Sequence[JournalName]) -> int:
    """Return when the run began, ms: the time of the first record that the journals still have; 0
    without any. The stories of all subjects count from it.
    """
    async for _journal, _position, record in causal(bus, journals):
        return record.time_ms
    return 0


async def read_names(bus: Bus, journals: Sequence[JournalName] = (INGEST,)) -> Names:
    """Return all names of the world journal."""
    names = Names()
    async for journal, position, record in causal(bus, journals):
        for event in all_events(record, journal, position):
            names.learn(event)
    return names


async def story(
    bus: Bus, journals: Sequence[JournalName], words: str, namespace: str = ""
) -> AsyncIterator[StoryLine]:
    """Yield the story of `pod/NAME`, `gang/NAME` or `node/NAME`, of this namespace if one is given;
    `journals` in the order of the flow.

    Raises NoSuchName, RecordUnreadable, JournalGap.
    """
    names = await read_names(bus)
    async for line in story_of(bus, journals, names.find(words, namespace), names):
        yield line


async def story_of(
    bus: Bus,
    journals: Sequence[JournalName],
    subject: Subject,
    names: Names,
    last: tuple[str, int] | None = None,
) -> AsyncIterator[StoryLine]:
    """Yield the story of a known subject; `last` is the record to end with, if any."""
    view = View(names, subject)
    async for journal, position, record in causal(bus, journals):
        for event in all_events(record, journal, position):
            names.learn(event)
            if concerns(event, subject, names):
                yield StoryLine(record.time_ms, journal, position, describe(event, view))
        if (journal, position) == last:
            return


async def story_of_divergence(
    bus: Bus, journals: Sequence[JournalName], journal: JournalName, found: Divergence
) -> list[StoryLine]:
    """Return the story, up to where the journal's core decides differently now, of the pod, gang or
    node for which it does; empty if the events name none. Raises as `story`.
    """
    names = await read_names(bus)
    subject = differing(found.recorded, found.decided, names)
    if subject is None:
        return []
    last = journal, found.position
    return [line async for line in story_of(bus, journals, subject, names, last)]
