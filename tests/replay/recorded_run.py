"""A run to replay: the whole mesh on virtual time with crashes, takeovers and void records.

The journals are kept whole (nothing cut, no reset) and so are all snapshots.
"""

import asyncio
from dataclasses import dataclass, replace
from functools import cache

from muster.app.journals import all_journals
from muster.app.mesh import make_core
from muster.app.virtual_time import VirtualLoop
from muster.simulation.run import Run
from muster.simulation.scenario import PLACEMENTS, make_scenario
from shared.bus.memory import MemoryBus, MemoryLog
from shared.model.ids import JournalName
from shared.replay.replay import ReplayReport, replay
from shared.snapshots.memory import MemorySnapshots

JOURNALS = all_journals(PLACEMENTS)


@dataclass(frozen=True)
class Recorded:
    """The journals and snapshots of a run."""

    records: dict[str, list[bytes]]
    store: MemorySnapshots

    def bus(self) -> MemoryBus:
        """Return a client of the journals as they are now."""
        return _filled(self.records)

    def with_flipped_bit(self, journal: JournalName, position: int, bit: int) -> "Recorded":
        """Return the run with one bit changed in one record."""
        damaged = bytearray(self.records[journal][position])
        damaged[bit // 8 % len(damaged)] ^= 1 << bit % 8
        own = list(self.records[journal])
        own[position] = bytes(damaged)
        return replace(self, records={**self.records, journal: own})

    def snapshots(self, journal: JournalName) -> list[int]:
        """Return the positions of the snapshots, oldest first."""
        return sorted(meta.position for meta in self.store.list(journal))

    async def replayed(
        self, journal: JournalName, start: int | None = None, redecide: bool = True
    ) -> ReplayReport:
        """Return the replay of one journal."""
        return await replay(
            lambda: make_core(journal, PLACEMENTS), self.bus(), self.store, start, redecide
        )


def _filled(records: dict[str, list[bytes]]) -> MemoryBus:
    log = MemoryLog()
    bus = MemoryBus(log)
    for journal, payloads in records.items():
        log._journal(JournalName(journal)).records.extend(payloads)
    return bus


@cache
def recorded(seed: int) -> Recorded:
    """Play one seed and keep everything."""
    scenario = make_scenario(seed)
    policy = replace(scenario.policy, every_records=25, keep=10_000, cut=False)
    scenario = replace(scenario, policy=policy, tears=(), reset_s=None)
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        run = runner.run(_play(scenario))
    assert run.mesh.failures == []
    return Recorded(dict(run.log.records), run.mesh.store)


async def _play(scenario) -> Run:
    run = Run(scenario)
    await run.play()
    await run.mesh.stop()
    return run
