"""An image as an OCI layout: layers as compressed archives, a configuration, a manifest, an index.

Nothing in it depends on the time, the order of a folder or who builds it: equal contents have equal
digests.
"""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

TYPES = "application/vnd.oci.image"
PROGRAM, FILE, FOLDER = 0o755, 0o644, 0o755
LEVEL = 6
Owner = Callable[[str], tuple[int, int]]
"""Returns owner and mode of a path; a mode of 0 stands for the usual one."""


class Layout:
    """An OCI layout in an empty folder."""

    def __init__(self, folder: Path) -> None:
        """Make the folder."""
        self._blobs = folder / "blobs" / "sha256"
        self._blobs.mkdir(parents=True)
        self._folder = folder
        self._layers: list[dict[str, Any]] = []
        self._contents: list[str] = []

    def add_layer(self, root: Path, owner: Owner) -> None:
        """Add what a folder holds as a layer."""
        archive = _archive(root, owner)
        self._contents.append(_digest(archive))
        packed = io.BytesIO()
        with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=LEVEL, mtime=0) as file:
            file.write(archive)
        self._layers.append(self._blob(packed.getvalue(), f"{TYPES}.layer.v1.tar+gzip"))

    def finish(self, config: dict[str, Any], platform: dict[str, str], name: str) -> str:
        """Write configuration, manifest and index; return the manifest's digest."""
        whole = {
            **platform,
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": self._contents},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{TYPES}.manifest.v1+json",
            "config": self._blob(_json(whole), f"{TYPES}.config.v1+json"),
            "layers": self._layers,
        }
        found = self._blob(_json(manifest), f"{TYPES}.manifest.v1+json")
        found |= {"platform": platform}
        found |= {"annotations": {"org.opencontainers.image.ref.name": name}}
        index = {
            "schemaVersion": 2,
            "mediaType": f"{TYPES}.index.v1+json",
            "manifests": [found],
        }
        (self._folder / "index.json").write_bytes(_json(index))
        (self._folder / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
        return str(found["digest"])

    def _blob(self, content: bytes, kind: str) -> dict[str, Any]:
        """Write a blob; return its descriptor."""
        digest = _digest(content)
        (self._blobs / digest.removeprefix("sha256:")).write_bytes(content)
        return {"mediaType": kind, "digest": digest, "size": len(content)}


def _archive(root: Path, owner: Owner) -> bytes:
    """Return a folder as a tar archive with usual modes and no times."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root).as_posix()
            info = tarfile.TarInfo(name)
            who, mode = owner(name)
            info.uid = info.gid = who
            if path.is_dir():
                info.type, info.mode = tarfile.DIRTYPE, mode or FOLDER
                archive.addfile(info)
                continue
            info.mode = mode or (PROGRAM if path.stat().st_mode & 0o100 else FILE)
            info.size = path.stat().st_size
            with path.open("rb") as file:
                archive.addfile(info, file)
    return packed.getvalue()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
