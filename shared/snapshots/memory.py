"""Snapshots in memory, for tests and simulation. They end with the process."""

from shared.model.ids import JournalName, Position
from shared.ports.snapshots import SnapshotBad, SnapshotMeta, check_meta
from shared.snapshots.manifest import Manifest, check_body, checksum


class MemorySnapshots:
    """A SnapshotStore in memory; one object is the storage and its only client."""

    def __init__(self) -> None:
        self._held: dict[str, dict[int, tuple[Manifest, bytes]]] = {}

    def save(self, meta: SnapshotMeta, body: bytes) -> None:
        """See SnapshotStore.save."""
        check_meta(meta, body)
        held = self._held.setdefault(meta.journal, {})
        held[meta.position] = (Manifest(meta, checksum(body)), bytes(body))

    def load(self, journal: JournalName, position: Position) -> bytes:
        """See SnapshotStore.load."""
        name = f"snapshot {journal}@{position}"
        found = self._held.get(journal, {}).get(position)
        if found is None:
            raise SnapshotBad(f"{name}: is not there")
        return check_body(found[0], found[1], name)

    def tear(self, journal: JournalName, position: Position, size_bytes: int) -> None:
        """Keep only the body's first bytes, like a storage fault, for simulation."""
        manifest, body = self._held[journal][position]
        self._held[journal][position] = (manifest, body[:size_bytes])

    def drop(self, journal: JournalName, below: Position) -> None:
        """See SnapshotStore.drop."""
        held = self._held.get(journal, {})
        for position in [position for position in held if position < below]:
            del held[position]
        if not held:
            self._held.pop(journal, None)

    def journals(self) -> list[str]:
        """See SnapshotStore.journals."""
        return sorted(self._held)

    def damaged(self, journal: JournalName) -> list[str]:
        """See SnapshotStore.damaged. Snapshots in memory are always complete."""
        return []

    def list(self, journal: JournalName) -> list[SnapshotMeta]:
        """See SnapshotStore.list."""
        held = self._held.get(journal, {})
        return [held[position][0].meta for position in sorted(held, reverse=True)]
