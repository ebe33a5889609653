"""The coverage table counts a fault when it has happened."""

import asyncio
import random
from dataclasses import replace

from muster.app.virtual_time import VirtualLoop
from muster.simulation.bus import BusFaults, Fate, SimBus, SimLog
from muster.simulation.run import simulate
from muster.simulation.scenario import CRASHES, make_scenario
from shared.model.ids import INGEST
from shared.ports.bus import AppendUnknown, WrongPosition

JOURNAL = INGEST


async def landed_and_counted(appends: int) -> tuple[int, int]:
    """Every append fails somehow, and every other one lands at an unexpected position."""
    log = SimLog(random.Random(1), True, BusFaults(append_fails=1.0))
    bus, landed = SimBus(log), 0
    for number in range(appends):
        payload = number.to_bytes(2, "little")
        try:
            await bus.append(JOURNAL, log.end(JOURNAL) + number % 2, payload)
        except AppendUnknown:
            landed += payload in log.records.get(JOURNAL, ())
        except WrongPosition:
            pass
    return landed, log.seen[Fate.LANDED_UNKNOWN]


def test_an_append_that_failed_but_landed_is_counted_when_it_landed() -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        landed, counted = runner.run(landed_and_counted(60))
    assert counted == landed > 0


def test_an_unreached_crash_point_crashes_at_heal() -> None:
    scenario = make_scenario(5)
    never = tuple(replace(crash, skips=1_000_000) for crash in scenario.crashes)
    result = simulate(replace(scenario, crashes=never))
    assert result.is_good, result.lines
    assert result.seen["crash-not-reached"] == CRASHES
    deaths = {name: n for name, n in result.seen.items() if name.startswith("crash:") and n}
    assert sum(deaths.values()) == CRASHES
    assert all(name.endswith(":before-consume") for name in deaths)
