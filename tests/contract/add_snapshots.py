"""Appends a golden snapshot of each service whose snapshot format has changed.

The snapshots come from a simulation, so they hold work in flight. Old lines never change.
"""

import base64
import json
import logging
import zlib
from typing import Any

from muster.app.mesh import make_core
from muster.generate.schemas import ROOT
from muster.simulation.run import simulate
from muster.simulation.scenario import PLACEMENTS, make_scenario
from shared.machine.fold import SNAPSHOT_VERSION, Folded
from shared.ports.snapshots import SnapshotMeta
from shared.snapshots.memory import MemorySnapshots

PATH = ROOT / "golden" / "snapshots.jsonl"
SEEDS = range(1, 7)
PACKED_MAX = 12_000
"""Bytes; the largest snapshots below this cover most."""


FIRST_VERSION = 2
"""The version of lines that lack one."""


def kept() -> list[dict[str, Any]]:
    """Return every golden snapshot, oldest first."""
    return [json.loads(line) for line in PATH.read_text().splitlines()] if PATH.exists() else []


def version_of(line: dict[str, Any]) -> int:
    """Return the version of a golden snapshot."""
    return int(line.get("version", FIRST_VERSION))


def readable() -> list[dict[str, Any]]:
    """Return the golden snapshots of the present version, oldest first."""
    return [line for line in kept() if version_of(line) == SNAPSHOT_VERSION]


def body_of(line: dict[str, Any]) -> bytes:
    """Return the snapshot's body."""
    return zlib.decompress(base64.b64decode(line["zlib"]))


def as_now(line: dict[str, Any]) -> bytes:
    """Return the body as the present code writes it. Raises SnapshotBad, AssertionError."""
    folded = Folded(make_core(line["journal"], PLACEMENTS))
    folded.restore(body_of(line))
    folded.core.check(folded.state)
    return folded.body()


def newest() -> dict[str, dict[str, Any]]:
    """Return the newest golden snapshot of each service in the present version."""
    return {line["journal"].partition("/")[0]: line for line in readable()}


def taken() -> dict[str, dict[str, Any]]:
    """Return by service the largest snapshot, within the limit, of a few simulations."""
    found: dict[str, tuple[int, str, str]] = {}
    save = MemorySnapshots.save

    def also_kept(store: MemorySnapshots, meta: SnapshotMeta, body: bytes) -> None:
        save(store, meta, body)
        packed = base64.b64encode(zlib.compress(body, 9)).decode()
        service = meta.journal.partition("/")[0]
        one = len(packed), meta.journal, packed
        if len(packed) <= PACKED_MAX:
            found[service] = max(found.get(service, one), one)

    patched: Any = MemorySnapshots
    patched.save = also_kept
    try:
        for seed in SEEDS:
            simulate(make_scenario(seed))
    finally:
        patched.save = save
    return {
        service: {"version": SNAPSHOT_VERSION, "journal": journal, "zlib": packed}
        for service, (_, journal, packed) in sorted(found.items())
    }


def main() -> None:
    """Add the missing snapshots."""
    logging.getLogger("muster").setLevel(logging.ERROR)
    have, lines = newest(), kept()
    for service, line in taken().items():
        old = have.get(service)
        if old is None or as_now(old) != body_of(old):
            lines.append(line)
    PATH.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
