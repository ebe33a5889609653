"""The manifest of a snapshot's body: its subject, and checksums that detect a torn one."""

import hashlib

import msgspec
from msgspec import Struct

from shared.ports.snapshots import SnapshotBad, SnapshotMeta

_CHECKSUM_BYTES = 16


def checksum(body: bytes) -> str:
    """Return the checksum of a body or of a manifest's text."""
    return hashlib.blake2b(body, digest_size=_CHECKSUM_BYTES).hexdigest()


class Manifest(Struct, frozen=True):
    """The content of the manifest; `body` is the body's name, where bodies have names."""

    meta: SnapshotMeta
    checksum: str
    body: str = ""


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the manifest as bytes: a line with the checksum of the next line, which is JSON."""
    text = msgspec.json.encode(manifest)
    return checksum(text).encode() + b"\n" + text + b"\n"


def decode_manifest(raw: bytes, name: str) -> Manifest:
    """Return the manifest. Raises SnapshotBad, naming it, unless it is complete and unchanged."""
    lines = raw.split(b"\n")
    # Three pieces, the last one empty: so the final newline, written last, is there.
    if len(lines) != 3 or lines[2] or checksum(lines[1]).encode() != lines[0]:
        raise SnapshotBad(f"{name}: the manifest is torn or changed")
    try:
        return msgspec.json.decode(lines[1], type=Manifest)
    except msgspec.MsgspecError as error:
        raise SnapshotBad(f"{name}: the manifest cannot be read: {error}") from error


def check_body(manifest: Manifest, body: bytes, name: str) -> bytes:
    """Return the body if it is the manifest's. Raises SnapshotBad."""
    if len(body) != manifest.meta.size_bytes:
        raise SnapshotBad(
            f"{name}: the body has {len(body)} bytes, the manifest says {manifest.meta.size_bytes}"
        )
    if checksum(body) != manifest.checksum:
        raise SnapshotBad(f"{name}: the body does not match its checksum")
    return body
