"""Reading a journal whose claim is cut away: the same records count as with the claim."""

from shared.bus.memory import MemoryBus, MemoryLog
from shared.machine.record import RECORD_FORMAT_VERSION, Claim, Record, encode
from shared.model.ids import INGEST
from shared.replay.causal import causal
from shared.replay.start_points import reader_at

JOURNAL = INGEST


def claim(owner):
    return Record(-1, 0, 0, claim=Claim(owner, owner, RECORD_FORMAT_VERSION, {}, 1))


async def cut_journal() -> MemoryBus:
    """An owner from 0, one from 2 while the first continues (4); both claims are cut."""
    bus = MemoryBus(MemoryLog())
    records = [claim("a"), Record(0, 1, 1), claim("b")]
    records += [Record(2, 1, 3), Record(0, 2, 4), Record(2, 2, 5), claim("c"), Record(6, 1, 7)]
    for position, record in enumerate(records):
        await bus.append(JOURNAL, position, encode(record))
    await bus.cut(JOURNAL, 3)
    return bus


async def test_the_term_in_force_is_known_though_its_claim_is_cut_away():
    bus = await cut_journal()
    reader = await reader_at(bus, JOURNAL, 3)
    assert reader.term == 2
    valid = [position for position, _record in reader.accept_all(await bus.read(JOURNAL, 3))]
    assert valid == [3, 5, 6, 7]


async def test_a_story_begins_where_the_journal_does():
    bus = await cut_journal()
    assert [position async for _name, position, _record in causal(bus, [JOURNAL])] == [3, 5, 6, 7]
