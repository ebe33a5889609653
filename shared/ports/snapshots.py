"""Where copies of folded states are kept. A port; what is inside a body is the machine's matter."""

from typing import Protocol

from msgspec import Struct


class SnapshotBad(Exception):
    """The snapshot is missing, torn or does not match its checksum; the message names it."""


class SnapshotMeta(Struct, frozen=True):
    """What a snapshot is of: the state after the record at `position - 1` of `journal`."""

    journal: str
    position: int
    version: int
    state_hash: str
    cursors: dict[str, int]
    size_bytes: int


class SnapshotStore(Protocol):
    """Several snapshots per journal are kept; one at the same position replaces the earlier one."""

    def save(self, meta: SnapshotMeta, body: bytes) -> None:
        """Store durably and atomically: it is whole, or it is not listed.

        Raises ValueError when `size_bytes` is not the body's length.
        """
        ...

    def load(self, journal: str, position: int) -> bytes:
        """The body. Raises SnapshotBad when it is missing, torn or fails its checksum."""
        ...

    def drop(self, journal: str, below: int) -> None:
        """Remove the snapshots at positions below this one. Idempotent."""
        ...

    def journals(self) -> list[str]:
        """The journals that have a snapshot, sorted."""
        ...

    def damaged(self, journal: str) -> "list[str]":
        """What is wrong with snapshots that are not listed, newest first."""
        ...

    # Last in the class, because it hides the builtin from the annotations after it.
    def list(self, journal: str) -> list[SnapshotMeta]:
        """The manifests that are whole and valid, newest (highest position) first."""
        ...


def check_meta(meta: SnapshotMeta, body: bytes) -> None:
    """What every store demands of its caller. Raises ValueError."""
    if meta.size_bytes != len(body):
        raise ValueError(
            f"snapshot {meta.journal}@{meta.position}: size_bytes is {meta.size_bytes}, "
            f"the body has {len(body)}"
        )
    if meta.position < 0:
        raise ValueError(f"snapshot {meta.journal}@{meta.position}: position must be >= 0")
