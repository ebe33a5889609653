"""`muster serve` and `muster cluster`: the mesh in several processes over one SQLite file."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from muster.app.journals import all_journals
from muster.explain.tally import Tally
from shared.bus.sqlite.bus import SqliteBus, SqliteLog
from shared.machine.record import decode
from shared.model.ids import Position, placement
from shared.simulated.history import read_history
from tests.e2e.console import ROOT, muster

PATIENCE_S = 300.0
PODS = 400


class Started:
    """A command that keeps running, with its output in a file."""

    def __init__(self, folder: Path, name: str, *words: str) -> None:
        self.output = folder / f"{name}.txt"
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "muster", *words],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def until_said(self, text: str) -> None:
        """Wait for a line of output."""
        until(lambda: text in self.output.read_text(), self.output.read_text)

    def stop(self) -> int:
        """End the command as a platform does."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)


def until(holds, shown):
    end_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end_s, shown()
        time.sleep(0.1)


def bound(path: Path) -> int:
    """Return the number of bound pods in the journals."""

    async def count() -> int:
        log = SqliteLog(path, readonly=True)
        tally = Tally(SqliteBus(log), all_journals(1))
        await tally.catch_up()
        log.close()
        return sum(1 for pod in tally.pods.values() if pod.bound_ms >= 0)

    return asyncio.run(count())


def firsts(path: Path) -> dict[str, int]:
    """Return the first position of each journal."""

    async def read() -> dict[str, int]:
        log = SqliteLog(path, readonly=True)
        bus = SqliteBus(log)
        found: dict[str, int] = {name: (await bus.bounds(name))[0] for name in all_journals(1)}
        log.close()
        return found

    return asyncio.run(read())


def strategies(path: Path) -> list[str]:
    """Return the GPU profile's strategy of each owner of the shard, in order."""

    async def read() -> list[str]:
        log = SqliteLog(path, readonly=True)
        bus, journal = SqliteBus(log), placement(0)
        found: list[str] = []
        start, _end = await bus.bounds(journal)
        while batch := await bus.read(journal, start):
            for position, payload in batch:
                claim = decode(payload, journal, position).claim
                if claim is not None:
                    profile = claim.config["placement"]["profiles"][1]
                    found.append(profile["strategy"].get("kind", "LeastAllocated"))
                start = Position(position + 1)
        log.close()
        return found

    return asyncio.run(read())


@pytest.mark.slow
def test_a_mesh_of_processes_binds_a_flood(tmp_path):
    journals, history = tmp_path / "j.db", tmp_path / "history"
    address = f"unix:{tmp_path / 'c.sock'}"
    world = f"flood:pods={PODS},nodes=10,rate=400"
    cluster = Started(
        tmp_path, "cluster", "cluster", world, "--listen", address, "--history", str(history)
    )
    common = ("--bus", f"sqlite:{journals}", "--run-dir", str(tmp_path / "run"))
    others = []
    try:
        cluster.until_said("listening on")
        for name, services in (
            ("a", ("queueing", "placement", "permit", "preemption")),
            ("b", ("ingest", "binding")),
        ):
            words = ("serve", *services, *common, "--cluster", address, "--owner", name)
            others.append(Started(tmp_path, name, *words))
        for other in others:
            other.until_said("serving")
        until(lambda: bound(journals) == PODS, lambda: f"{bound(journals)} of {PODS} bound")
    finally:
        codes = [started.stop() for started in (*others, cluster)]
    assert codes == [0, 0, 0]
    kinds = [happened.kind for happened in read_history(history)]
    assert kinds.count("create") == kinds.count("bind") == PODS


@pytest.mark.slow
def test_the_next_owner_may_have_other_profiles_and_the_run_replays(tmp_path):
    journals, address = tmp_path / "j.db", f"unix:{tmp_path / 'c.sock'}"
    examples = ROOT / "examples"
    other = tmp_path / "other.yaml"
    text = (examples / "scheduler-config.yaml").read_text(encoding="utf-8")
    other.write_text(text.replace("type: MostAllocated", "type: LeastAllocated"))
    words = ("--bus", f"sqlite:{journals}", "--run-dir", str(tmp_path / "run"))
    cluster = Started(
        tmp_path, "cluster", "cluster", str(examples / "profiles"), "--listen", address
    )
    codes: list[int] = []
    try:
        cluster.until_said("listening on")
        for name, config in (("first", examples / "scheduler-config.yaml"), ("second", other)):
            serving = ("serve", "all", *words, "--cluster", address, "--config", str(config))
            started = Started(tmp_path, name, *serving)
            started.until_said("serving")
            until(lambda: bound(journals) == 16, lambda: f"{bound(journals)} of 16 bound")
            claims = len(codes) + 1
            until(lambda n=claims: len(strategies(journals)) == n, lambda: "no claim")
            codes.append(started.stop())
    finally:
        codes.append(cluster.stop())
    assert codes == [0, 0, 0]
    assert strategies(journals) == ["MostAllocated", "LeastAllocated"]
    replayed = muster("replay", tmp_path / "run", "--bus", f"sqlite:{journals}")
    assert replayed.code == 0, replayed.out


@pytest.mark.slow
def test_cut_journals_can_be_continued_explained_and_replayed(tmp_path):
    journals, address = tmp_path / "j.db", f"unix:{tmp_path / 'c.sock'}"
    read, run = ("--bus", f"sqlite:{journals}"), tmp_path / "run"
    words = ("serve", "all", *read, "--run-dir", str(run), "--cluster", address, "--cut-journals")
    world = f"flood:pods={PODS},nodes=10,rate=60"
    cluster = Started(tmp_path, "cluster", "cluster", world, "--listen", address)
    codes: list[int] = []
    try:
        cluster.until_said("listening on")
        first = Started(tmp_path, "first", *words, "--snapshot-seconds", "1")
        until(lambda: journals.exists() and min(firsts(journals).values()) > 0, lambda: "no cut")
        codes.append(first.stop())
        begins = firsts(journals)
        second = Started(tmp_path, "second", *words)
        last = f"default/flood-{PODS - 1}"
        asked = ("why", "pod", last, run, *read)
        until(lambda: f"pod {last}: bound" in muster(*asked).out, lambda: muster(*asked).out)
        codes.append(second.stop())
    finally:
        codes.append(cluster.stop())
    assert codes == [0, 0, 0]
    assert firsts(journals) == begins  # the second run took no snapshot yet
    assert "bound" in muster("story", f"pod/{last}", run, *read).out
    for begin in ("start", "each"):
        replayed = muster("replay", run, *read, "--from", begin, "--output", "json")
        assert replayed.code == 0, replayed.out
        found = [(one["journal"], one["start"]) for one in replayed.json()["journals"]]
        assert {name for name, _start in found} == begins.keys()
        assert all(start >= begins[name] > 0 for name, start in found)
