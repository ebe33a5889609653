"""When the owner copies its folded state, and how far journals may be cut.

A snapshot is taken right after an acknowledgement, when memory is exactly the fold of the journal.
Its hash goes into the next record, so every replay checks it. A journal is cut only below its
owner's second-newest snapshot and below every reader's cursor *in that reader's second-newest
snapshot*: a reader that falls back must still be able to read again what it consumed.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.machine.core import S
from shared.machine.crash import CrashPoint
from shared.machine.fold import SNAPSHOT_VERSION, Folded, state_hash
from shared.machine.record import SnapshotNote
from shared.model.ids import START, JournalName, Position
from shared.ports.bus import Bus
from shared.ports.snapshots import SnapshotMeta, SnapshotStore

if TYPE_CHECKING:
    from shared.machine.runtime import Host


@dataclass(frozen=True)
class SnapshotPolicy:
    """When to take snapshots: after this many records, or after this much time if the records since
    the last one are as large as the snapshot (with many waiting pods it has megabytes and little
    changes). `keep` snapshots are kept. `readers`: journals whose owners read this one. `cut`: also
    drop records that no reader needs (else keep all for replay). `check`: check the core's
    expensive invariants before each copy (the simulation does).
    """

    every_records: int = 50_000
    every_ms: int = 60_000
    keep: int = 4
    cut: bool = False
    check: bool = False
    readers: tuple[JournalName, ...] = ()


class Snapshots:
    """Writes snapshots of one journal's fold, drops old ones, cuts the journal."""

    def __init__(
        self,
        journal: JournalName,
        store: SnapshotStore,
        bus: Bus,
        host: "Host",
        policy: SnapshotPolicy,
    ) -> None:
        """Count from the first acknowledgement."""
        self._journal, self._store, self._bus, self._host = journal, store, bus, host
        self._policy = policy
        self._at: Position | None = None
        self._at_ms = 0
        self._size_bytes = self._folded_bytes = 0

    def count_records(self, size_bytes: int) -> None:
        """Count records that the state has applied, own or consumed."""
        self._folded_bytes += size_bytes

    def due(self, position: Position, now_ms: int) -> bool:
        """Return whether a copy of the state below `position` is due."""
        if self._at is None:
            self._at, self._at_ms = position, now_ms
            return False
        if position - self._at >= self._policy.every_records:
            return True
        if now_ms - self._at_ms < self._policy.every_ms:
            return False
        return self._folded_bytes >= self._size_bytes

    async def write(self, folded: Folded[S]) -> SnapshotNote:
        """Copy the state, store it, cut if allowed; return the note for the next record."""
        self._host.probe(CrashPoint.BEFORE_SNAPSHOT)
        if self._policy.check:
            folded.core.check(folded.state)
        body = folded.body()
        cursors = {name: at.next for name, at in folded.state.cursors.items()}
        position = folded.own_reader.next
        self._at, self._at_ms = position, folded.state.now_ms
        self._size_bytes, self._folded_bytes = len(body), 0
        hashed = await self._host.offload(state_hash, body)
        meta = SnapshotMeta(self._journal, position, SNAPSHOT_VERSION, hashed, cursors, len(body))
        await self._host.offload(self._store.save, meta, body)
        self._host.probe(CrashPoint.AFTER_SNAPSHOT)
        await self._host.offload(self._drop_old)
        if self._policy.cut:
            await self._cut()
        return SnapshotNote(position, meta.state_hash, meta.version)

    def _drop_old(self) -> None:
        kept = self._store.list(self._journal)[: self._policy.keep]
        if len(kept) == self._policy.keep:
            self._store.drop(self._journal, kept[-1].position)

    async def _cut(self) -> None:
        below = self._second_newest_position()
        for reader in self._policy.readers:
            below = min(below, self._second_newest_cursor(reader))
        if below > 0:
            self._host.probe(CrashPoint.BEFORE_CUT)
            await self._bus.cut(self._journal, below)
            self._host.probe(CrashPoint.AFTER_CUT)

    def _second_newest_position(self) -> Position:
        found = self._store.list(self._journal)
        return found[1].position if len(found) > 1 else START

    def _second_newest_cursor(self, reader: JournalName) -> Position:
        found = self._store.list(reader)
        return found[1].cursors.get(self._journal, START) if len(found) > 1 else START
