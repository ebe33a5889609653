"""Journals as the checker reads them: its own rule for void records, its own list of steps.

Deliberately not the machine's Reader: a fault there must not blind the checker too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from shared.events import EVENTS
from shared.events.base import Event
from shared.machine.record import Record, decode, received_of
from shared.model.ids import JournalName, Position, service_of

Problem = tuple[str, str]
"""(rule, what is wrong)."""


@dataclass
class Entry:
    """One valid record, with its events decoded once, by addressees."""

    position: Position
    record: Record
    slices: list[tuple[tuple[str, ...], list[Event]]]

    def events(self) -> list[Event]:
        """Return all its events."""
        return [event for _to, events in self.slices for event in events]

    def events_for(self, reader: str) -> list[Event]:
        """Return its events for one reader."""
        service = service_of(reader)
        return [
            event for to, events in self.slices if reader in to or service in to for event in events
        ]


@dataclass
class Step:
    """One valid record with what it consumed: `inputs` are (journal, position, event)."""

    position: Position
    record: Record
    inputs: list[tuple[str, int, Event]]
    received: list[Event]
    own: list[Event]

    def time_ms(self, source: str, position: int) -> int:
        """Return when it applied an input, ms."""
        for part in self.record.consumed:
            if part.journal == source and part.start <= position < part.stop and part.time_ms >= 0:
                return part.time_ms
        return self.record.time_ms


@dataclass
class Journal:
    """The valid records of one journal, oldest first."""

    name: str
    entries: list[Entry] = field(default_factory=list)
    voids: int = 0
    claims: int = 0
    steps: list[Step] = field(default_factory=list)


_decoders = {
    service: msgspec.msgpack.Decoder(list[union])  # type: ignore[valid-type]
    for service, union in EVENTS.items()
}


def read_all(
    records: Mapping[str, Sequence[bytes]], services: Mapping[str, str]
) -> tuple[dict[str, Journal], list[Problem]]:
    """Return journals by plain name. `services` maps a stored name to its plain one (epochs
    differ).
    """
    problems: list[Problem] = []
    found = {
        plain: _read(plain, records[stored], problems)
        for stored, plain in services.items()
        if stored in records
    }
    for journal in found.values():
        _consume(journal, found, problems)
    return found, problems


def decode_events(payload: bytes, name: str, position: Position) -> list[Event]:
    """Return the events of one record, void or not."""
    decoder = _decoders[service_of(name)]
    slices = decode(payload, JournalName(name), position).slices
    return [event for part in slices for event in decoder.decode(part.body)]


def _read(name: str, payloads: Sequence[bytes], problems: list[Problem]) -> Journal:
    journal = Journal(name)
    decoder = _decoders[service_of(name)]
    term, seq, epoch = -1, 0, 0
    for at, payload in enumerate(payloads):
        position = Position(at)
        record = decode(payload, JournalName(name), position)
        if record.claim is not None:
            if record.claim.epoch < epoch:
                journal.voids += 1
                continue
            term, seq, epoch = position, 0, record.claim.epoch
            journal.claims += 1
        elif record.term != term:
            journal.voids += 1
            continue
        else:
            if record.seq != seq + 1:
                problems.append(("sequence", f"{name} at {position}: {record.seq} after {seq}"))
            seq = record.seq
        slices = [(part.to, decoder.decode(part.body)) for part in record.slices]
        journal.entries.append(Entry(position, record, slices))
    return journal


def _consume(journal: Journal, all_of: Mapping[str, Journal], problems: list[Problem]) -> None:
    """Resolve what each record consumed, and check that nothing is consumed twice or skipped."""
    at: dict[str, int] = {}
    index: dict[str, int] = {}
    for entry in journal.entries:
        inputs: list[tuple[str, int, Event]] = []
        for part in entry.record.consumed:
            was = at.get(part.journal, 0)
            if part.start != was:
                where = f"{journal.name} at {entry.position}"
                text = f"{where}: consumed {part.journal} from {part.start}, was at {was}"
                problems.append(("exactly-once", text))
            at[part.journal] = part.stop
            source = all_of[part.journal].entries
            row = index.get(part.journal, 0)
            while row < len(source) and source[row].position < part.stop:
                addressed = source[row].events_for(journal.name)
                inputs += [(part.journal, source[row].position, event) for event in addressed]
                row += 1
            index[part.journal] = row
        received = received_of(entry.record, JournalName(journal.name), entry.position)
        journal.steps.append(Step(entry.position, entry.record, inputs, received, entry.events()))
