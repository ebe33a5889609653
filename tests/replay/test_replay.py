"""Every journal is what its core makes of its inputs; a difference is named with its position."""

from dataclasses import replace
from functools import partial

import pytest

from muster.app.mesh import make_core
from muster.simulation.scenario import PLACEMENTS
from services.permit.core import core as permit
from services.permit.core.config import Config
from shared.bus.memory import MemoryBus
from shared.events.permit import GangReleased
from shared.events.placement import Reserved
from shared.machine.core import Cursor
from shared.machine.reader import Reader
from shared.machine.record import own_events
from shared.model.ids import PERMIT, placement
from shared.replay.read_once import ReadOnceBus
from shared.replay.replay import replay
from shared.scheduling.plugins.node_resources_fit import LeastAllocated
from shared.snapshots.memory import MemorySnapshots
from tests.replay.recorded_run import JOURNALS, recorded

SEED = 3

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replay")]


@pytest.fixture(scope="module")
def run():
    """Played outside of any event loop: it has one of its own."""
    return recorded(SEED)


def records_of(run, journal):
    return list(Reader(journal, Cursor()).accept_all(list(enumerate(run.records[journal]))))


@pytest.mark.parametrize("journal", JOURNALS)
async def test_every_record_is_decided_again_as_it_was(run, journal):
    report = await run.replayed(journal)
    assert report.lines() == []
    assert report.stop == len(run.records[journal])
    assert report.records + report.voids == report.stop
    assert report.snapshots > 0
    assert report.divergence is None


async def test_the_run_covers_the_hard_cases(run):
    reports = [await run.replayed(journal) for journal in JOURNALS]
    assert sum(report.voids for report in reports) > 0
    assert sum(report.events for report in reports) > 500
    claims = [record.claim for _at, record in records_of(run, "queueing/0") if record.claim]
    assert len(claims) > 1


@pytest.mark.parametrize("journal", JOURNALS)
async def test_replays_begin_at_any_snapshot(run, journal):
    positions = run.snapshots(journal)
    assert positions
    for position in positions:
        report = await run.replayed(journal, start=position)
        assert report.lines() == []
        assert (report.start, report.stop) == (position, len(run.records[journal]))


async def test_folding_alone_checks_the_snapshots(run):
    report = await run.replayed("queueing/0", redecide=False)
    assert report.lines() == []
    assert report.snapshots > 0
    assert report.events == 0


@pytest.mark.parametrize("journal", JOURNALS)
async def test_one_flipped_bit_is_named_with_its_position(run, journal):
    position = len(run.records[journal]) // 2
    for bit in (0, 37, 8 * 40 + 3):
        report = await run.with_flipped_bit(journal, position, bit).replayed(journal)
        (line,) = report.lines()
        assert line.startswith(f"{journal} at {position}: ")
        assert report.stop == position


async def test_a_flipped_bit_is_named_by_its_readers_too(run):
    damaged = run.with_flipped_bit("ingest/0", 5, 100)
    (line,) = (await damaged.replayed("queueing/0")).lines()
    assert "ingest/0 at 5: checksum does not match" in line


async def test_a_changed_decision_is_named_with_its_event(run, monkeypatch):
    make = permit._decide_release

    def one_node_more(attempt, stale):
        was = make(attempt, stale)
        return GangReleased(was.gang, was.attempt, was.reasons, was.nodes + 1, was.stale)

    monkeypatch.setattr(permit, "_decide_release", one_node_more)
    report = await run.replayed("permit/0")
    expected = next(
        (position, index, event)
        for position, record in records_of(run, "permit/0")
        for index, event in enumerate(own_events(record, PERMIT, position))
        if isinstance(event, GangReleased) and event.nodes
    )
    found = report.divergence
    assert found is not None
    assert (found.position, found.index, found.recorded) == expected
    assert isinstance(found.decided, GangReleased)
    assert found.decided.nodes == expected[2].nodes + 1
    (line,) = report.lines()
    assert line.startswith(f"permit/0 at {expected[0]}: event {expected[1]}: recorded GangReleased")


async def test_a_changed_score_is_named_with_its_event(run, monkeypatch):
    scores, score = LeastAllocated.scores, LeastAllocated.score
    monkeypatch.setattr(LeastAllocated, "scores", lambda *args: scores(*args) + 1)
    monkeypatch.setattr(LeastAllocated, "score", lambda *args: score(*args) + 1)
    found = (await run.replayed("placement/0")).divergence
    assert found is not None
    assert isinstance(found.recorded, Reserved)
    assert isinstance(found.decided, Reserved)
    assert (found.recorded.ids, found.index) == (found.decided.ids, 0)
    first = next(
        position
        for position, record in records_of(run, "placement/0")
        if any(isinstance(event, Reserved) for event in own_events(record, placement(0), position))
    )
    assert found.position == first


async def test_an_assertion_in_a_decision_is_named_and_not_raised(run, monkeypatch):
    def broken(_attempt):
        raise AssertionError("a broken rule")

    monkeypatch.setattr(permit, "_decide_commit", broken)
    (line,) = (await run.replayed("permit/0")).lines()
    assert "recorded GangCommitted" in line
    assert "a broken rule" in line


def in_a_new_form(monkeypatch) -> None:
    """Give permit's dumps one more part, as a later version may."""
    dump, load = permit.PermitCore.dump, permit.PermitCore.load

    def without_it(core, body):
        return load(core, {name: value for name, value in body.items() if name != "later"})

    monkeypatch.setattr(permit.PermitCore, "dump", lambda *given: {**dump(*given), "later": 1})
    monkeypatch.setattr(permit.PermitCore, "load", without_it)


def with_another_state(monkeypatch) -> None:
    """Change an option from what the journal says."""
    evolve = permit.PermitCore.evolve

    def changed(core, state, event):
        evolve(core, state, event)
        state.config = Config(plans_max=7)

    monkeypatch.setattr(permit.PermitCore, "evolve", changed)


async def test_a_snapshot_that_another_version_wrote_is_compared_by_what_it_says(run, monkeypatch):
    in_a_new_form(monkeypatch)
    report = await run.replayed("permit/0")
    assert report.lines() == []
    assert report.snapshots > 0


async def test_a_state_that_differs_from_another_versions_snapshot_is_named(run, monkeypatch):
    in_a_new_form(monkeypatch)
    with_another_state(monkeypatch)
    report = await run.replayed("permit/0", redecide=False)
    assert "is not the one of the snapshot made there" in report.lines()[0]


async def test_a_changed_snapshot_format_is_named_if_the_snapshot_is_missing(run, monkeypatch):
    in_a_new_form(monkeypatch)
    report = await replace(run, store=MemorySnapshots()).replayed("permit/0", redecide=False)
    assert "is not the one of the snapshot made there" in report.lines()[0]


async def test_a_hash_of_another_snapshot_version_is_not_compared(run, monkeypatch):
    in_a_new_form(monkeypatch)
    monkeypatch.setattr("shared.replay.replay.SNAPSHOT_VERSION", 1_000)
    report = await replace(run, store=MemorySnapshots()).replayed("permit/0")
    assert report.lines() == []
    assert report.snapshots == 0


async def test_a_changed_state_is_named_at_the_next_snapshot(run, monkeypatch):
    with_another_state(monkeypatch)
    report = await run.replayed("permit/0", redecide=False)
    position = report.problems[0][0]
    assert position in {at for at, record in records_of(run, "permit/0") if record.snapshot}
    assert "is not the one of the snapshot made there" in report.lines()[0]


async def test_a_missing_snapshot_is_named(run):
    report = await run.replayed("permit/0", start=1)
    assert report.lines() == ["permit/0 at 1: there is no snapshot"]


async def test_a_cut_journal_is_replayed_from_its_oldest_snapshot(run):
    bus = run.bus()
    kept = run.snapshots("permit/0")[1]
    await bus.cut(PERMIT, kept)
    report = await replay(lambda: make_core(PERMIT, PLACEMENTS), bus, run.store)
    assert report.lines() == []
    assert report.start == kept


async def test_journals_are_read_once_for_all_their_readers(run, monkeypatch):
    reads = 0
    read = MemoryBus.read

    async def counted(bus, *args):
        nonlocal reads
        reads += 1
        return await read(bus, *args)

    monkeypatch.setattr(MemoryBus, "read", counted)
    bus = ReadOnceBus(run.bus())
    for journal in JOURNALS:
        report = await replay(partial(make_core, journal, PLACEMENTS), bus, run.store)
        assert report.lines() == []
    assert reads == len(JOURNALS)
