"""Bugs in the machine: records, claims, positions, snapshots."""

from tests.simulation.planted import Bug, edit

BUGS = (
    Bug(
        "cursors-not-recorded",
        "shared.machine.runtime",
        edit(
            """
            now_ms,
            consumed,
""",
            """
            now_ms,
            (),
""",
        ),
        by=("exactly-once", "is not a legal transition"),
    ),
    Bug(
        "void-records-applied",
        "shared.machine.reader",
        edit(
            """
        if record.term != self.term:
""",
            """
        if False:
""",
        ),
        edit(
            """
        if self.seq >= 0 and record.seq != self.seq + 1:
""",
            """
        if False:
""",
        ),
        by=("exactly-once",),
    ),
    Bug(
        "position-not-checked",
        "shared.machine.runtime",
        edit(
            """
                await self._find_out(error)
""",
            """
                self.folded.own_reader.next = error.actual
""",
        ),
        by=("exactly-once", "reserved is not allowed in"),
    ),
    Bug(
        "effect-before-acknowledged",
        "shared.machine.runtime",
        edit(
            """
            await self._record(now_ms, received, events)
            self._start_effects()
""",
            """
            self._start_effects()
            await self._record(now_ms, received, events)
""",
        ),
        by=("record-first",),
    ),
    Bug(
        "no-fresh-claim-after-a-failed-append",
        "shared.machine.runtime",
        edit(
            """
            except WrongPosition as error:
                await self._find_out
""",
            """
            except AppendUnknown:
                return expected
            except WrongPosition as error:
                await self._find_out
""",
        ),
        edit(
            """
from shared.ports.bus import Bus, WrongPosition
""",
            """
from shared.ports.bus import AppendUnknown, Bus, WrongPosition
""",
        ),
        by=("record-first", "JournalGap"),
    ),
    Bug(
        "snapshot-with-wrong-cursors",
        "shared.machine.fold",
        edit(
            """
name: (at.next, at.term) for
""",
            """
name: (at.next + 1, at.term) for
""",
        ),
        by=("exactly-once", "RecordUnreadable"),
    ),
    Bug(
        "outcomes-not-recorded",
        "shared.machine.runtime",
        edit(
            """
            pack_received(received),
""",
            """
            b"",
""",
        ),
        by=("definite", "published where None was next"),
    ),
    Bug(
        "open-effects-not-sent-again",
        "shared.machine.runtime",
        edit(
            """
        self.shell.start(self)
""",
            """
        self._started_effect = max(self.core.effects(self.state), default=-1)
        self.shell.start(self)
""",
        ),
        by=("conservation", "no-pod-lost"),
    ),
    Bug(
        "cut-below-the-newest-snapshot",
        "shared.machine.snapshots",
        edit(
            """
return found[1].position if len(found) > 1 else START
""",
            """
return found[0].position if found else START
""",
        ),
        edit(
            """
return found[1].cursors.get(self._journal, START) if len(found) > 1 else START
""",
            """
return found[0].cursors.get(self._journal, START) if found else START
""",
        ),
        by=("NeedsReset", "CutAway"),
        first=(6,),
    ),
)
