"""The store of snapshots. A port; the content of a body belongs to the machine."""

from typing import Protocol

from msgspec import Struct

from shared.model.ids import JournalName, Position


class SnapshotBad(Exception):
    """The snapshot is missing, torn or fails its checksum; the message names it."""


class SnapshotMeta(Struct, frozen=True):
    """The subject of a snapshot: the state after the record at `position - 1` of `journal`."""

    journal: JournalName
    position: Position
    version: int
    state_hash: str
    cursors: dict[JournalName, Position]
    size_bytes: int


class SnapshotStore(Protocol):
    """Keeps several snapshots per journal; a new one at the same position replaces the
    earlier one.
    """

    def save(self, meta: SnapshotMeta, body: bytes) -> None:
        """Store durably and atomically: the snapshot is complete, or not listed.

        Raises ValueError if `size_bytes` is not the body's length.
        """
        ...

    def load(self, journal: JournalName, position: Position) -> bytes:
        """Return the body. Raises SnapshotBad if it is missing, torn or fails its checksum."""
        ...

    def drop(self, journal: JournalName, below: Position) -> None:
        """Remove the snapshots at positions below this one. Idempotent."""
        ...

    def journals(self) -> list[str]:
        """Return the journals that have a snapshot, sorted."""
        ...

    def damaged(self, journal: JournalName) -> "list[str]":
        """Return the errors of snapshots that are not listed, newest first."""
        ...

    # Last in the class, because it hides the builtin from the annotations after it.
    def list(self, journal: JournalName) -> list[SnapshotMeta]:
        """Return the valid manifests, newest (highest position) first."""
        ...


def check_meta(meta: SnapshotMeta, body: bytes) -> None:
    """Check the arguments of `save`. Raises ValueError."""
    if meta.size_bytes != len(body):
        raise ValueError(
            f"snapshot {meta.journal}@{meta.position}: size_bytes is {meta.size_bytes}, "
            f"the body has {len(body)}"
        )
    if meta.position < 0:
        raise ValueError(f"snapshot {meta.journal}@{meta.position}: position must be >= 0")
