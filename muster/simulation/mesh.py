"""The simulated mesh: its processes, their deaths and restarts."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace

from muster.app.journals import all_journals
from muster.app.mesh import make_core, readers_of
from muster.app.virtual_time import SimClock
from muster.simulation.bus import SimBus, SimLog
from muster.simulation.network import SimNetwork, Wire
from muster.simulation.process import Process, SimCrash
from muster.simulation.scenario import Scenario
from services.binding.shell import BindingShell
from services.ingest.shell import IngestShell
from services.placement.shell import PlacementShell
from shared.machine.crash import CrashPoint
from shared.machine.reset import EpochBus, EpochStore
from shared.machine.runtime import EpochOver, OwnershipLost, QuietShell, Shell
from shared.machine.snapshots import SnapshotPolicy
from shared.model.ids import JournalName, service_of
from shared.ports.bus import Bus, BusUnavailable
from shared.ports.snapshots import SnapshotStore
from shared.snapshots.memory import MemorySnapshots

RESTART_S = 0.2


@dataclass
class SimMesh:
    """All processes of the mesh and their history."""

    scenario: Scenario
    log: SimLog
    store: MemorySnapshots
    wire: Wire
    epoch: int = 1
    processes: dict[tuple[JournalName, str], Process] = field(default_factory=dict)
    down_s: dict[tuple[JournalName, str], float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    torn: set[str] = field(default_factory=set)
    seen: Counter[str] = field(default_factory=Counter)
    crashes: Counter[tuple[str, CrashPoint]] = field(default_factory=Counter)
    deaths: int = 0
    stopping: bool = False
    opening: bool = False
    failed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def names(self) -> list[JournalName]:
        """Return the journals in the order of the flow."""
        return all_journals(self.scenario.placements)

    def start(self) -> None:
        """Start all primaries, and standbys if the scenario has them."""
        for journal in self.names:
            self.spawn(journal, "a")
            if self.scenario.standbys:
                self.spawn(journal, "b")

    def spawn(self, journal: JournalName, name: str, eager: bool = False) -> Process:
        """Start a new process with empty memory."""
        key = (journal, name)
        log_client = SimBus(self.log)
        bus: Bus = log_client
        store: SnapshotStore = self.store
        if self.epoch > 1:
            bus, store = EpochBus(log_client, self.epoch), EpochStore(self.store, self.epoch)
        process = Process(
            journal,
            f"{journal}-{name}",
            bus,
            SimClock(asyncio.get_running_loop(), self.log.rng.choice((0, 0, -700, 400))),
            store,
            lambda: make_core(journal, self.scenario.placements),
            lambda: self._shell(journal, process),
            self.scenario.config,
            self._policy(journal),
        )
        process.epoch = self.epoch
        self.processes[key] = process
        process.start(lambda ended, cause: self._ended(key, ended, cause), eager)
        return process

    def _policy(self, journal: JournalName) -> SnapshotPolicy:
        readers = readers_of(journal, self.scenario.placements)
        return replace(self.scenario.policy, readers=readers)

    def _shell(self, journal: JournalName, process: Process) -> Shell:
        service, extender_calls = service_of(journal), self.scenario.judges
        if service == "placement" and extender_calls is not None:
            return PlacementShell(extender_calls)
        if service not in ("ingest", "binding"):
            return QuietShell()
        network = SimNetwork(self.wire, process.name, process.epoch)
        process.networks.append(network)
        if service == "ingest":
            return IngestShell(network)
        return BindingShell(network, extender_calls=extender_calls)

    def owner_of(self, journal: JournalName) -> Process | None:
        """Return the process that owns a journal now; ghosts do not count."""
        for (owned, _name), process in self.processes.items():
            if owned == journal and process.owner is not None and not process.owner.ghost:
                return process
        return None

    def _ended(
        self, key: tuple[JournalName, str], process: Process, cause: BaseException | None
    ) -> None:
        if self.processes.get(key) is process:
            del self.processes[key]
        for owner in process.owners:
            self.seen["snapshot-fallback"] += len(owner.stats.bad_snapshots)
            self.seen["takeover-before-append"] += owner.cut_off
            self.seen["standby-takeover-after-silence"] += owner.took_over
        if self.stopping:
            return
        self.deaths += 1
        self._note(key[0], process, cause)
        delay_s = self.down_s.pop(key, RESTART_S)
        asyncio.get_running_loop().call_later(delay_s, self._restart, key)

    def _note(self, journal: JournalName, process: Process, cause: BaseException | None) -> None:
        match cause:
            case SimCrash():
                self.crashes[(service_of(journal), cause.point)] += 1
            case None | BusUnavailable() | EpochOver() | OwnershipLost():
                pass
            case _ if any(owner.ghost for owner in process.owners):
                # A ghost's memory may contradict the records it reads: its death is correct.
                self.seen["ghost-stopped-itself"] += 1
            case _:
                self.failures.append(f"{journal} halted: {type(cause).__name__}: {cause}")
                self.seen["halt"] += 1
                self.failed.set()

    def _restart(self, key: tuple[JournalName, str]) -> None:
        if self.opening:
            # Services wait while an epoch is opening.
            asyncio.get_running_loop().call_later(RESTART_S, self._restart, key)
        elif not self.stopping and key not in self.processes:
            self.spawn(*key)

    async def stop(self) -> None:
        """Stop all processes in a fixed order."""
        self.stopping = True
        tasks = []
        for key in list(self.processes):
            process = self.processes[key]
            process.kill()
            if process.task is not None:
                tasks.append(process.task)
        for task in tasks:
            await asyncio.wait([task])
        for flight in list(self.wire.flights):
            flight.cancel()
