"""Replays a finished run's journals through the production cores.

Every recorded snapshot hash must come out again. If asked, every step must decide the same events
again from its recorded inputs, time and configuration.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from muster.checker.inputs.journals import Problem
from shared.machine.core import Core, Cursor, step
from shared.machine.fold import Folded, state_hash
from shared.machine.reader import Reader
from shared.machine.record import Consumed, Record, slice_events
from shared.model.ids import JournalName, Position

Inputs = list[tuple[Consumed, list[tuple[Position, Record]]]]


class Valid:
    """The valid records of all journals of one epoch, decoded once."""

    def __init__(self, records: Mapping[JournalName, Sequence[bytes]]) -> None:
        """`records` by plain journal name, from position 0."""
        self.of: dict[JournalName, list[tuple[Position, Record]]] = {}
        for name, payloads in records.items():
            reader = Reader(name, Cursor())
            self.of[name] = list(
                reader.accept_all((Position(at), payload) for at, payload in enumerate(payloads))
            )

    def taken(self, consumed: Consumed, row: int) -> tuple[list[tuple[Position, Record]], int]:
        """Return the valid records below `stop` from row on, and the next row."""
        source = self.of.get(consumed.journal, [])
        stop = row
        while stop < len(source) and source[stop][0] < consumed.stop:
            stop += 1
        return source[row:stop], stop


def refold(valid: Valid, core: Core[Any], redecide: bool) -> list[Problem]:
    """Fold one journal from its start. Stops at the first difference."""
    folded: Folded[Any] = Folded(core)
    journal = core.journal
    rows = dict.fromkeys(core.sources, 0)
    for position, record in valid.of[journal]:
        where = f"{journal} at {position}"
        note = record.snapshot
        if note is not None:
            problem = _compare(folded, note.position, note.state_hash, where)
            if problem is not None:
                return [problem]
        inputs: Inputs = []
        for part in record.consumed:
            found, rows[part.journal] = valid.taken(part, rows[part.journal])
            inputs.append((part, found))
        if redecide and record.claim is None:
            problem = _redecide(folded, record, inputs, where)
            if problem is not None:
                return [problem]
        else:
            folded.apply(record, inputs)
        reader = folded.own_reader
        reader.next = Position(position + 1)
        reader.term = position if record.claim is not None else record.term
        reader.seq = 0 if record.claim is not None else record.seq
        if record.claim is not None:
            reader.epoch = record.claim.epoch
    return []


def _compare(folded: Folded[Any], position: Position, recorded: str, where: str) -> Problem | None:
    if folded.own_reader.next != position:
        return ("replay", f"{where}: a snapshot of {position}, folded to {folded.own_reader.next}")
    if state_hash(folded.body()) != recorded:
        return ("replay", f"{where}: the state below {position} has another hash than recorded")
    return None


def _redecide(folded: Folded[Any], record: Record, inputs: Inputs, where: str) -> Problem | None:
    core, state = folded.core, folded.state
    folded.apply_causes(record, inputs)
    events = step(core, state)
    slices = slice_events(events)
    if slices == record.slices:
        return None
    names = [type(event).__name__ for event in events]
    return ("replay", f"{where}: decided again it gives {names}, not what is recorded")
