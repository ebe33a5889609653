"""Replays in several processes report what one process reports; a lost process is reported."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from muster.app.mesh import make_core
from muster.simulation.scenario import PLACEMENTS
from shared.machine.fold import fold, state_hash
from shared.ports.bus import BusUnavailable
from shared.ports.snapshots import SnapshotMeta
from shared.replay import parallel
from shared.replay.parallel import Part, ReplayLost, Source, pieces, processes_for, replay_all
from shared.snapshots.memory import MemorySnapshots
from tests.replay.recorded_run import JOURNALS, recorded

SEED = 3
ENDED_S = 60

PROGRAM = """
import asyncio, os
from contextlib import asynccontextmanager
from shared.replay.parallel import Part, Source, _in_processes, _Work

@asynccontextmanager
async def opened():
    os.write(1, b"%d\\n" % os.getpid())  # in one piece, beside the other
    await asyncio.sleep(600)
    yield None, None

parts = [Part("ingest/0"), Part("queueing/0")]
_in_processes(_Work(Source(opened, None), parts, 2))
"""

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replay")]


@pytest.fixture(scope="module")
def run():
    """Played outside of any event loop: it has one of its own."""
    return recorded(SEED)


def source_of(run):
    @asynccontextmanager
    async def opened():
        yield run.bus(), run.store

    return Source(opened, partial(make_core, placements=PLACEMENTS))


def parts_of(run):
    starts = {journal: [None, *run.snapshots(journal)[:2]] for journal in JOURNALS}
    return [Part(journal, start) for journal in JOURNALS for start in starts[journal]]


@pytest.mark.parametrize("processes", [2, 3, 50])
def test_reports_are_those_of_one_process_in_the_order_of_the_parts(run, processes):
    parts = parts_of(run)
    expected = replay_all(source_of(run), parts, 1)
    assert [(one.journal, one.start) for one in expected] == [
        (part.journal, part.start or 0) for part in parts
    ]
    assert all(one.ok for one in expected)
    assert replay_all(source_of(run), parts, processes) == expected


def test_a_part_is_cut_at_its_snapshots_without_gaps(run):
    whole = [Part(journal) for journal in JOURNALS]
    for journal, cut in zip(JOURNALS, asyncio.run(pieces(source_of(run), whole)), strict=True):
        within = [at for at in run.snapshots(journal) if 0 < at < len(run.records[journal])]
        assert [piece.start for piece in cut] == [None, *within]
        assert [piece.stop for piece in cut] == [*within, None]
        assert sum(piece.length for piece in cut) == len(run.records[journal])
    assert any(run.snapshots(journal) for journal in JOURNALS)


def with_another_snapshot(run, journal, position, body=None):
    """Add a snapshot without a record, as after a crash; `body`: a false one."""
    core = make_core(journal, PLACEMENTS)

    async def folded():
        found = (await fold(core, run.bus(), MemorySnapshots(), position))[0]
        return found.body()

    store = MemorySnapshots()
    for meta in run.store.list(journal):
        store.save(meta, run.store.load(journal, meta.position))
    body = asyncio.run(folded()) if body is None else body
    version = run.store.list(journal)[0].version
    store.save(SnapshotMeta(journal, position, version, state_hash(body), {}, len(body)), body)
    return replace(run, store=store)


def between(run, journal):
    """Return a position without a snapshot."""
    kept = run.snapshots(journal)
    return next(at for at in range(kept[0] + 2, kept[1]) if at not in kept)


def test_a_snapshot_without_a_record_ends_no_piece(run):
    journal = JOURNALS[0]
    more = with_another_snapshot(run, journal, between(run, journal))
    parts = [Part(journal)]
    assert replay_all(source_of(more), parts, 2) == replay_all(source_of(run), parts, 1)


def test_an_unreadable_snapshot_is_skipped(run):
    journal = JOURNALS[0]
    bad = with_another_snapshot(run, journal, run.snapshots(journal)[1], b"torn")
    parts = [Part(journal)]
    assert replay_all(source_of(bad), parts, 2) == replay_all(source_of(run), parts, 1)


class Drifts:
    """A core that decides as recorded while its state differs."""

    def __init__(self, journal):
        self.core, self.fresh = make_core(journal, PLACEMENTS), None

    def __getattr__(self, name):
        return getattr(self.core, name)

    def new(self):
        self.fresh = self.core.new()
        return self.fresh

    def dump(self, state):
        return "another" if state is self.fresh else self.core.dump(state)


def test_a_diverged_state_is_found_at_the_end_of_its_piece(run):
    source, parts = Source(source_of(run).opened, Drifts), [Part(JOURNALS[0])]
    found = replay_all(source, parts, 2)
    assert not found[0].ok
    assert found == replay_all(source, parts, 1)


def test_a_damaged_record_is_named_from_another_process(run):
    journal = JOURNALS[1]
    damaged = run.with_flipped_bit(journal, len(run.records[journal]) // 2, 3)
    parts = [Part(journal) for journal in JOURNALS]
    found = replay_all(source_of(damaged), parts, 2)
    assert [one.lines() for one in found] == [
        one.lines() for one in replay_all(source_of(damaged), parts, 1)
    ]
    assert not found[1].ok


def test_errors_of_opening_are_raised(run):
    @asynccontextmanager
    async def opened():
        raise BusUnavailable("nowhere: no such file")
        yield

    for processes in (1, 2):
        with pytest.raises(BusUnavailable, match="no such file"):
            replay_all(Source(opened, source_of(run).core_of), parts_of(run), processes)


def test_a_killed_process_is_reported(run):
    plain, parent = source_of(run), os.getpid()

    def killed(journal):
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return plain.core_of(journal)

    source = Source(plain.opened, killed)
    with pytest.raises(ReplayLost, match="ended from outside"):
        replay_all(source, parts_of(run), 2)


@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_a_process_killed_while_taking_a_part_does_not_stop_the_others(run, monkeypatch, first):
    take = parallel._next_part

    def killed(*arguments):
        if not first:
            take(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(parallel, "_next_part", killed)
    with pytest.raises(ReplayLost, match="ended from outside"):
        replay_all(source_of(run), parts_of(run), 2)


def test_no_more_processes_run_than_parts_or_cores(run):
    assert processes_for(parts_of(run)[:1]) == 1
    assert 1 <= processes_for(parts_of(run)) <= (os.cpu_count() or 1)


def test_processes_end_when_the_one_that_started_them_is_killed():
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True
    ) as one:
        assert one.stdout is not None
        children = [int(one.stdout.readline()) for _ in range(2)]
        one.kill()
        one.wait()
        # The pipe ends with its last holder: files close before a process has ended.
        assert one.stdout.read() == ""
    end_s = time.monotonic() + ENDED_S
    while any(is_running(child) for child in children):
        assert time.monotonic() < end_s, f"{children} still run"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Return whether the process runs and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
