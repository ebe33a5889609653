"""Bugs in the machine: records, claims, positions, snapshots."""

from tests.simulation.planted import Bug

BUGS = (
    Bug(
        "cursors-not-recorded",
        "shared.machine.runtime",
        (
            (
                "            now_ms,\n            consumed,\n",
                "            now_ms,\n            (),\n",
            ),
        ),
    ),
    Bug(
        "void-records-applied",
        "shared.machine.reader",
        (
            ("        if record.term != self.term:\n", "        if False:\n"),
            ("        if self.seq >= 0 and record.seq != self.seq + 1:\n", "        if False:\n"),
        ),
    ),
    Bug(
        "position-not-checked",
        "shared.machine.runtime",
        (
            (
                "                await self._find_out(error)\n",
                "                self.folded.own.next = error.actual\n",
            ),
        ),
    ),
    Bug(
        "effect-before-acknowledged",
        "shared.machine.runtime",
        (
            (
                "            await self._record(now_ms, received, events)\n"
                "            self._start_effects()\n",
                "            self._start_effects()\n"
                "            await self._record(now_ms, received, events)\n",
            ),
        ),
    ),
    Bug(
        "no-fresh-claim-after-a-failed-append",
        "shared.machine.runtime",
        (
            (
                "            except WrongPosition as error:\n                await self._find_out",
                "            except AppendUnknown:\n                return expected\n"
                "            except WrongPosition as error:\n                await self._find_out",
            ),
            (
                "from shared.ports.bus import Bus, JournalName, WrongPosition\n",
                "from shared.ports.bus import AppendUnknown, Bus, JournalName, WrongPosition\n",
            ),
        ),
    ),
    Bug(
        "snapshot-with-wrong-cursors",
        "shared.machine.fold",
        (("name: (at.next, at.term) for", "name: (at.next + 1, at.term) for"),),
    ),
    Bug(
        "outcomes-not-recorded",
        "shared.machine.runtime",
        (("            pack_received(received),\n", '            b"",\n'),),
    ),
    Bug(
        "open-effects-not-sent-again",
        "shared.machine.runtime",
        (
            (
                "        self.shell.start(self)\n",
                "        self._started_effect = max(self.core.effects(self.state), default=-1)\n"
                "        self.shell.start(self)\n",
            ),
        ),
    ),
    Bug(
        "cut-below-the-newest-snapshot",
        "shared.machine.snapshots",
        (
            (
                "return found[1].position if len(found) > 1 else 0",
                "return found[0].position if found else 0",
            ),
            (
                "return found[1].cursors.get(self._journal, 0) if len(found) > 1 else 0",
                "return found[0].cursors.get(self._journal, 0) if found else 0",
            ),
        ),
    ),
)
