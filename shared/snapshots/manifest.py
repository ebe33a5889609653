"""The manifest beside a snapshot's body: what it is of, and the checksums that find it torn."""

import hashlib

import msgspec
from msgspec import Struct

from shared.ports.snapshots import SnapshotBad, SnapshotMeta

_CHECKSUM_BYTES = 16


def checksum(body: bytes) -> str:
    """Of a body or a manifest's own text."""
    return hashlib.blake2b(body, digest_size=_CHECKSUM_BYTES).hexdigest()


class Manifest(Struct, frozen=True):
    """What is stored beside the body; `body` is its name where bodies have names."""

    meta: SnapshotMeta
    checksum: str
    body: str = ""


def encode_manifest(manifest: Manifest) -> bytes:
    """One line with the checksum of the next, which is JSON for people to read."""
    text = msgspec.json.encode(manifest)
    return checksum(text).encode() + b"\n" + text + b"\n"


def decode_manifest(raw: bytes, name: str) -> Manifest:
    """Raises SnapshotBad, naming it, unless it is whole and unchanged."""
    lines = raw.split(b"\n")
    # Three pieces, the last empty: then the final newline, written last, is there too.
    if len(lines) != 3 or lines[2] or checksum(lines[1]).encode() != lines[0]:
        raise SnapshotBad(f"{name}: the manifest is torn or changed")
    try:
        return msgspec.json.decode(lines[1], type=Manifest)
    except msgspec.MsgspecError as error:
        raise SnapshotBad(f"{name}: the manifest cannot be read: {error}") from error


def check_body(manifest: Manifest, body: bytes, name: str) -> bytes:
    """The body, if it is the one that the manifest speaks of. Raises SnapshotBad."""
    if len(body) != manifest.meta.size_bytes:
        raise SnapshotBad(
            f"{name}: the body has {len(body)} bytes, the manifest says {manifest.meta.size_bytes}"
        )
    if checksum(body) != manifest.checksum:
        raise SnapshotBad(f"{name}: the body does not match its checksum")
    return body
