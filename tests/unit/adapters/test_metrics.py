"""The metrics that a scrape of the machine shows."""

from services.binding.shell import BindingShell
from shared.adapters.metrics import registry_of
from shared.bus.memory import MemoryBus, MemoryLog
from shared.model.world import World
from shared.scheduling.api.custom.plugin import PLUGINS
from shared.simulated.cluster import SimCluster
from shared.snapshots.memory import MemorySnapshots
from tests.support.custom_plugins import ByZoneEach, known
from tests.unit.machine.toy import ToyIngest, owner, turn


async def test_a_scrape_shows_each_journals_counters():
    member = owner(ToyIngest(), MemoryBus(MemoryLog()), MemorySnapshots())
    await member.claim()
    await turn(member, 1, 2)
    registry = registry_of(lambda: [member, None])
    assert registry.get_sample_value("muster_records_total", {"journal": "ingest/0"}) == 1
    assert registry.get_sample_value("muster_events_total", {"journal": "ingest/0"}) == 2
    assert registry.get_sample_value("muster_journal_position", {"journal": "ingest/0"}) == 2


async def test_a_scrape_shows_evictions_beyond_budgets():
    member = owner(ToyIngest(), MemoryBus(MemoryLog()), MemorySnapshots())
    registry = registry_of(lambda: [member])
    labels = {"beyond_budget": "true"}
    assert registry.get_sample_value("muster_evictions_total", labels) is None
    member.shell = BindingShell(SimCluster(World(name="", nodes=(), arrivals=())))
    member.shell.evictions = [5, 2]
    assert registry.get_sample_value("muster_evictions_total", labels) == 2
    assert registry.get_sample_value("muster_evictions_total", {"beyond_budget": "false"}) == 5


def test_a_scrape_shows_what_is_left_out_now():
    counts = {"Node": 2}
    registry = registry_of(list, lambda: counts)
    assert registry.get_sample_value("muster_left_out", {"kind": "Node"}) == 2
    counts.clear()
    assert registry.get_sample_value("muster_left_out", {"kind": "Node"}) is None


def test_a_scrape_shows_calls_of_plugins_for_one_node():
    with known(ByZoneEach):
        PLUGINS["ByZoneEach"].made_with("").scalar_calls = 3
        registry = registry_of(list)
        labels = {"plugin": "ByZoneEach"}
        assert registry.get_sample_value("muster_plugin_scalar_total", labels) == 3
