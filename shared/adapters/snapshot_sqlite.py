"""Snapshots in the embedded bus's own file, so that a run is one file.

Saving is one transaction in the bus's thread, so a large state holds the loop up; a directory
does not have to.
"""

from shared.adapters.snapshot_manifest import (
    Manifest,
    check_body,
    checksum,
    decode_manifest,
    encode_manifest,
)
from shared.adapters.sqlite_bus_file import SqliteFile
from shared.ports.bus import JournalName, split_journal
from shared.ports.snapshots import SnapshotBad, SnapshotMeta, check_meta


class SqliteSnapshots:
    """A SnapshotStore over an open file (`SqliteLog.file`); used from its thread."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    def save(self, meta: SnapshotMeta, body: bytes) -> None:
        """See SnapshotStore.save; durable when it returns. Also BusUnavailable, BusCorrupt."""
        check_meta(meta, body)
        split_journal(JournalName(meta.journal))
        manifest = encode_manifest(Manifest(meta, checksum(body)))
        self._file.execute(
            "INSERT INTO snapshots VALUES(?,?,?,?) ON CONFLICT(journal, position) DO UPDATE"
            " SET manifest=excluded.manifest, body=excluded.body",
            (meta.journal, meta.position, manifest, body),
        )

    def load(self, journal: str, position: int) -> bytes:
        """See SnapshotStore.load."""
        name = f"{self._file.path}: snapshot {journal}@{position}"
        rows = self._file.fetch(
            "SELECT manifest, body FROM snapshots WHERE journal=? AND position=?",
            (journal, position),
        )
        if not rows:
            raise SnapshotBad(f"{name}: is not there")
        return check_body(decode_manifest(rows[0][0], name), rows[0][1], name)

    def drop(self, journal: str, below: int) -> None:
        """See SnapshotStore.drop."""
        self._file.execute("DELETE FROM snapshots WHERE journal=? AND position<?", (journal, below))

    def journals(self) -> list[str]:
        """See SnapshotStore.journals."""
        rows = self._file.fetch("SELECT DISTINCT journal FROM snapshots ORDER BY journal")
        return [row[0] for row in rows if self.list(row[0])]

    def list(self, journal: str) -> list[SnapshotMeta]:
        """See SnapshotStore.list."""
        found = []
        for position, raw in self._file.fetch(
            "SELECT position, manifest FROM snapshots WHERE journal=? ORDER BY position DESC",
            (journal,),
        ):
            try:
                meta = decode_manifest(raw, f"{self._file.path}: {journal}@{position}").meta
            except SnapshotBad:
                continue  # load says what is wrong with it; recovery takes the one before
            found.append(meta)
        return found
