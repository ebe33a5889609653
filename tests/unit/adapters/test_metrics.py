"""What a scrape shows of the machine."""

import urllib.request

from shared.adapters.memory_bus import MemoryBus, MemoryLog
from shared.adapters.metrics import registry_of, serve
from shared.adapters.snapshot_memory import MemorySnapshots
from shared.testing.server_process import free_ports
from tests.unit.machine.toy import ToyIngest, owner, turn


async def test_a_scrape_shows_each_journals_counters():
    member = owner(ToyIngest(), MemoryBus(MemoryLog()), MemorySnapshots())
    await member.claim()
    await turn(member, 1, 2)
    registry = registry_of(lambda: [member, None])
    assert registry.get_sample_value("muster_records_total", {"journal": "ingest/0"}) == 1
    assert registry.get_sample_value("muster_events_total", {"journal": "ingest/0"}) == 2
    assert registry.get_sample_value("muster_journal_position", {"journal": "ingest/0"}) == 2


def test_metrics_are_served_over_http():
    (free_port,) = free_ports(1)
    stop = serve(registry_of(list), "127.0.0.1", free_port)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{free_port}/metrics", timeout=5) as answer:
            assert b"muster_records" in answer.read()
    finally:
        stop()
