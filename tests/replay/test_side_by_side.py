"""Replays in several processes say what they say in one; a lost process is told of."""

import os
import signal
from contextlib import asynccontextmanager
from functools import partial

import pytest

from muster.mesh import make_core
from muster.simulation.scenario import PLACEMENTS
from shared.ports.bus import BusUnavailable
from shared.replay.side_by_side import Part, ReplayLost, Source, processes_for, replay_all
from tests.replay.recorded import JOURNALS, recorded

SEED = 3

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


def test_a_damaged_record_is_named_from_another_process(run):
    journal = JOURNALS[1]
    damaged = run.with_flipped_bit(journal, len(run.records[journal]) // 2, 3)
    parts = [Part(journal) for journal in JOURNALS]
    found = replay_all(source_of(damaged), parts, 2)
    assert [one.lines() for one in found] == [
        one.lines() for one in replay_all(source_of(damaged), parts, 1)
    ]
    assert not found[1].ok


def test_what_opening_raises_comes_back(run):
    @asynccontextmanager
    async def opened():
        raise BusUnavailable("nowhere: no such file")
        yield

    for processes in (1, 2):
        with pytest.raises(BusUnavailable, match="no such file"):
            replay_all(Source(opened, source_of(run).core_of), parts_of(run), processes)


def test_a_process_that_is_killed_is_told_of(run):
    def killed(journal):
        os.kill(os.getpid(), signal.SIGKILL)

    source = Source(source_of(run).opened, killed)
    with pytest.raises(ReplayLost, match="ended from outside"):
        replay_all(source, parts_of(run), 2)


def test_there_are_not_more_processes_than_parts_or_cores(run):
    assert processes_for(parts_of(run)[:1]) == 1
    assert 1 <= processes_for(parts_of(run)) <= (os.cpu_count() or 1)
