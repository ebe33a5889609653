"""Snapshots as files: a folder per journal, a body and a manifest per snapshot.

The body is synced and in place before its manifest: a kill or a power loss at any moment leaves the
snapshot complete or unlisted. A body's name contains its checksum, so saving again at a position
never changes the body of the old manifest.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from shared.adapters.run_files import writing
from shared.model.ids import JournalName, Position
from shared.model.text import quoted
from shared.ports.bus import split_journal
from shared.ports.snapshots import SnapshotBad, SnapshotMeta, check_meta
from shared.snapshots.manifest import (
    Manifest,
    check_body,
    checksum,
    decode_manifest,
    encode_manifest,
)

_MANIFEST = ".manifest"
_BODY = ".body"
_UNFINISHED = ".tmp"


class DirectorySnapshots:
    """A SnapshotStore in a folder: several processes may read it, one writes a
    journal's snapshots.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = Path(root)

    def _folder(self, journal: JournalName) -> Path:
        service, partition = split_journal(journal)
        return self._root / f"{service}-{partition}"

    def save(self, meta: SnapshotMeta, body: bytes) -> None:
        """See SnapshotStore.save. Raises NotWritten."""
        check_meta(meta, body)
        folder = self._folder(meta.journal)
        with writing(folder):
            self._save(meta, body, folder)

    def _save(self, meta: SnapshotMeta, body: bytes, folder: Path) -> None:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            _sync_folder(self._root)
        digest = checksum(body)
        stem = f"{meta.position:020d}"
        manifest = Manifest(meta, digest, f"{stem}-{digest}{_BODY}")
        _write(folder / manifest.body, body)
        # The body's name must be on disk before a manifest that refers to it.
        _sync_folder(folder)
        _write(folder / f"{stem}{_MANIFEST}", encode_manifest(manifest))
        _sync_folder(folder)
        for other in folder.glob(f"{stem}-*{_BODY}"):
            if other.name != manifest.body:
                other.unlink(missing_ok=True)

    def load(self, journal: JournalName, position: Position) -> bytes:
        """See SnapshotStore.load."""
        folder = self._folder(journal)
        path = folder / f"{position:020d}{_MANIFEST}"
        manifest = _read_manifest(path)
        body_path = folder / manifest.body
        return check_body(manifest, _read(body_path), str(body_path))

    def drop(self, journal: JournalName, below: Position) -> None:
        """See SnapshotStore.drop. Manifests are removed first; a body without one counts as
        nothing.
        """
        folder = self._folder(journal)
        for suffix in (_MANIFEST, _BODY, _UNFINISHED):
            for path in sorted(folder.glob(f"*{suffix}")):
                if _position(path) < below:
                    path.unlink(missing_ok=True)

    def journals(self) -> list[str]:
        """See SnapshotStore.journals."""
        found = []
        for folder in self._root.glob("*-*") if self._root.is_dir() else ():
            service, _, partition = folder.name.rpartition("-")
            journal = JournalName(f"{service}/{partition}")
            if folder.is_dir() and self.list(journal):
                found.append(journal)
        return sorted(found)

    def damaged(self, journal: JournalName) -> list[str]:
        """See SnapshotStore.damaged. A kill between body and manifest leaves one, too."""
        folder = self._folder(journal)
        bad = {
            path.name[:20]: str(found)
            for path, found in self._read_all(journal)
            if isinstance(found, SnapshotBad)
        }
        listed = {path.name[:20] for path in folder.glob(f"*{_MANIFEST}")}
        for path in folder.glob(f"*{_BODY}"):
            if path.name[:20] not in listed:
                bad[path.name[:20]] = f"{path}: its manifest is missing"
        return [bad[position] for position in sorted(bad, reverse=True)]

    def _read_all(self, journal: JournalName) -> Iterator[tuple[Path, SnapshotMeta | SnapshotBad]]:
        """Yield manifests or their errors, newest first."""
        for path in sorted(self._folder(journal).glob(f"*{_MANIFEST}"), reverse=True):
            try:
                meta = _read_manifest(path).meta
            except SnapshotBad as error:
                yield path, error
                continue
            if meta.journal == journal:
                yield path, meta
            else:
                yield path, SnapshotBad(f"{path}: the manifest is of {quoted(meta.journal)}")

    def list(self, journal: JournalName) -> list[SnapshotMeta]:
        """See SnapshotStore.list."""
        found = (meta for _path, meta in self._read_all(journal))
        return [meta for meta in found if isinstance(meta, SnapshotMeta)]


def _position(path: Path) -> int:
    digits = path.name[:20]
    # Other files in the folder are not ours to remove.
    return int(digits) if digits.isdigit() else 1 << 63


def _read_manifest(path: Path) -> Manifest:
    return decode_manifest(_read(path), str(path))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SnapshotBad(f"{path}: cannot be read: {error.strerror}") from error


def _write(path: Path, content: bytes) -> None:
    """Write a file that is complete and on disk under its name, or missing (apart from the folder's
    own sync).
    """
    unfinished = path.with_name(path.name + _UNFINISHED)
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
