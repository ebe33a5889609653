"""The target over Kafka: a simulated cluster here, and a process for each journal."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from muster.app.journals import all_journals, partitions
from muster.cli.addresses.bus import parse_bus
from muster.cli.errors import Fault
from muster.flood.plan import Plan
from muster.flood.targets.simulated import Simulated
from shared.bus.kafka.bus import KafkaBus
from shared.model.ids import INGEST
from shared.model.world import World
from shared.ports.bus import Bus
from shared.simulated.cluster import SimCluster
from shared.simulated.config import SimConfig
from shared.simulated.server import SimClusterServer

START_S, QUIET_S, LOOK_S = 120.0, 1.0, 0.05
SERVING = "serving"


@dataclass
class Services:
    """A process for each journal, with its log."""

    folder: Path
    running: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)

    async def start(self, journal: str, words: Sequence[str]) -> None:
        """Start one."""
        with self._log(journal).open("wb") as log:
            self.running[journal] = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "muster", "serve", journal, *words),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _log(self, journal: str) -> Path:
        return self.folder / f"{journal.replace('/', '-')}.log"

    async def until_serving(self) -> None:
        """Wait until all of them say so. Raises Fault."""
        end_s = time.monotonic() + START_S
        for journal in self.running:
            while SERVING not in self._log(journal).read_text(errors="replace"):
                self.check()
                if time.monotonic() > end_s:
                    raise Fault(f"{journal} did not start within {START_S:.0f} s")
                await asyncio.sleep(LOOK_S)

    def check(self) -> None:
        """Raise Fault with its last line if one has ended."""
        for journal, process in self.running.items():
            if process.returncode is not None:
                lines = self._log(journal).read_text(errors="replace").splitlines()
                raise Fault(f"{journal} ended: {lines[-1] if lines else 'without a word'}")

    def processor_s(self) -> float:
        """Return the processor time of all of them and of this process."""
        return time.process_time() + sum(
            # What clock_getcpuclockid(3) makes of a pid on Linux: 2 = the time its threads ran.
            time.clock_gettime(~process.pid << 3 | 2)
            for process in self.running.values()
            if process.returncode is None
        )

    async def stop(self) -> None:
        """End all of them."""
        for process in self.running.values():
            if process.returncode is None:
                process.terminate()
        await asyncio.gather(*(process.wait() for process in self.running.values()))


@asynccontextmanager
async def over_kafka(
    plan: Plan, address: str, folder: Path, placements: int, settings: Sequence[str], sim: SimConfig
) -> AsyncIterator[Simulated]:
    """Yield a target whose services serve over the broker at `address`."""
    kafka = parse_bus(address).kafka
    assert kafka is not None, address
    world = World(name=plan.name, nodes=plan.nodes, arrivals=(), objects=plan.objects)
    cluster = SimCluster(world, sim)
    server, services = SimClusterServer(cluster), Services(folder)
    reader = KafkaBus(kafka, partitions(placements))
    socket = await server.start(f"unix:{folder / 'cluster.sock'}")
    words = ["--bus", address, "--cluster", socket, "--placements", str(placements)]
    words += ["--run-dir", str(folder / "serve")]
    own = [text for text in settings if not text.startswith("cluster.")]
    words += [word for text in own for word in ("--set", text)]
    try:
        for journal in all_journals(placements):
            await services.start(journal, words)
        await services.until_serving()
        await reader.start()
        await _until_quiet(reader, services)
        yield Simulated(cluster, reader, services.check, services.processor_s)
    finally:
        cluster.stop()
        await services.stop()
        await reader.close()
        await server.stop()


async def _until_quiet(reader: Bus, services: Services) -> None:
    """Wait until ingest has recorded the nodes, and no journal has grown for a while."""
    last, since_s = -1, time.monotonic()
    while last < 1 or time.monotonic() < since_s + QUIET_S:
        services.check()
        _, end = await reader.bounds(INGEST)
        if end != last:
            last, since_s = end, time.monotonic()
        await asyncio.sleep(LOOK_S)
