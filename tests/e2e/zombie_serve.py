"""`muster` with owners that misbehave on purpose; for tests of real processes alone.

    python -m tests.e2e.zombie_serve regardless:SECONDS serve binding ...
    python -m tests.e2e.zombie_serve forced serve binding ...

An owner with `regardless` loses its journal and continues for so many seconds: it appends under its
old term and runs effects. An owner with `forced` claims at once, whoever owns the journal. Both
write the cluster's answers to their binds: one line of milliseconds and counts by answer for each
call.
"""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Generic

from muster.app import mesh
from muster.cli.commands import serve
from muster.cli.main import main
from shared.machine.core import S
from shared.machine.runtime import Owner, OwnershipLost
from shared.ports.bus import WrongPosition
from shared.ports.cluster import BindRequest, PodRead
from shared.simulated.client import SimClusterClient

goes_on_s = 0.0


class Regardless(Owner[S], Generic[S]):
    """Keeps its term for a while after another claim."""

    lost_s: float | None = None

    async def _find_out(self, error: WrongPosition) -> None:
        own = self.folded.own_reader
        term, seq = own.term, own.seq
        if self.lost_s is not None and time.monotonic() - self.lost_s > goes_on_s:
            print(f"{self.journal}: stands by at last", flush=True)
            raise OwnershipLost(f"{self.journal}: lost for {goes_on_s:.0f} s")
        try:
            await super()._find_out(error)
        except OwnershipLost:
            if self.lost_s is None:
                self.lost_s = time.monotonic()
                since_ms = time.time_ns() // 1_000_000
                print(f"{self.journal}: lost, going on regardless since {since_ms} ms", flush=True)
        own.next, own.term, own.seq = error.actual, term, seq

    async def _snapshot(self) -> None:
        # Readers would believe a copy of void memory (docs/explanation/simulation.md).
        if self.lost_s is None:
            await super()._snapshot()


class Forced(mesh.MeshMember):
    """Claims at its start without waiting for silence."""

    async def _stand_by(self, at_start: bool) -> bool:
        return not at_start and await super()._stand_by(at_start)


class Listening(SimClusterClient):
    """Writes down the answers to binds."""

    async def bind(self, requests: Sequence[BindRequest]) -> list[PodRead]:
        reads = await super().bind(requests)
        counts = Counter(read.answer.name for read in reads)
        with answers_path().open("a") as out:
            out.write(json.dumps([time.time_ns() // 1_000_000, counts]) + "\n")
        return reads


def answers_path() -> Path:
    return Path(os.environ["MUSTER_CHILD"]).with_suffix(".answers")


def misbehave(how: str) -> None:
    global goes_on_s
    kind, _, seconds = how.partition(":")
    vars(serve)["open_cluster"] = Listening
    if kind == "regardless":
        goes_on_s = float(seconds)
        vars(mesh)["Owner"] = Regardless
    else:
        assert kind == "forced", how
        vars(mesh)["MeshMember"] = Forced


if __name__ == "__main__":
    misbehave(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
