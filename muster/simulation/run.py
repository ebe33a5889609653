"""One seed from beginning to end: safety phase, heal, liveness phase, verdict."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from muster.app.mesh import make_core
from muster.app.virtual_time import SimClock, SimulationStuck, VirtualLoop, inline
from muster.checker.check import Report, check
from muster.checker.inputs.history import ClusterHistory
from muster.checker.inputs.journals import Problem
from muster.simulation import coverage
from muster.simulation.bus import SimBus, SimLog
from muster.simulation.mesh import SimMesh
from muster.simulation.nemesis import Nemesis
from muster.simulation.network import SimNetwork, Wire
from muster.simulation.outcome import digest, history_of
from muster.simulation.refold import Valid, refold
from muster.simulation.scenario import Scenario
from muster.simulation.worlds import BALLAST
from shared.events.placement import Refused
from shared.events.queueing import Confirmed, GangWaits, ReasonsAsked
from shared.machine.record import Record, decode, own_events
from shared.machine.reset import ResetFailed, renamed, reset
from shared.machine.runtime import Host
from shared.model.ids import JournalName, Position
from shared.model.text import counted
from shared.ports.bus import AppendUnknown, BusUnavailable
from shared.simulated.cluster import SimCluster
from shared.simulated.config import SimConfig
from shared.snapshots.memory import MemorySnapshots

POLL_S = 0.5
QUIET_S = 1.5
RECHECK_S = 8.0
GRACE_MS = 300
VOLUME_FAILURE = 0.2


@dataclass
class Result:
    """The result of one seed. `pods` counts the pods to schedule, `deaths` all ends of processes,
    `crashes` those at crash points.
    """

    seed: int
    problems: list[Problem] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    digest: str = ""
    records: int = 0
    events: int = 0
    pods: int = 0
    bound: int = 0
    deaths: int = 0
    crashes: int = 0
    ended_s: float = 0.0

    @property
    def is_good(self) -> bool:
        """Return whether there is no violation."""
        return not self.problems


class Run:
    """One run on a virtual loop."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        seed = scenario.seed
        self.loop = asyncio.get_running_loop()
        config = SimConfig(
            seed=seed, grace_ms=GRACE_MS, speed=scenario.speed, volume_failure=VOLUME_FAILURE
        )
        self.cluster = SimCluster(scenario.world, config)
        bus_rng, wire_rng = random.Random(f"{seed}/bus"), random.Random(f"{seed}/wire")
        bus_faults = replace(scenario.bus)
        network_faults = replace(scenario.network)
        self.log = SimLog(bus_rng, scenario.refuses, bus_faults)
        self.wire = Wire(self.cluster, wire_rng, network_faults)
        self.mesh = SimMesh(scenario, self.log, MemorySnapshots(), self.wire)
        self.nemesis = Nemesis(self.mesh, self.cluster)
        self.quiet_since_s = 0.0
        self.read: dict[str, int] = {}
        self.report: Report | None = None
        self.problems: list[Problem] = []
        self.is_unsafe = False

    async def play(self) -> None:
        """Run the safety phase, heal, and run the liveness phase."""
        if self.scenario.reset_s is not None:
            await self._reset("cold start")
            self.loop.call_at(self.scenario.reset_s, self._reset_later)
        self.cluster.start()
        self.mesh.start()
        self.nemesis.start()
        await self._wait(self.scenario.heal_s)
        self.nemesis.heal()
        self._judge(is_at_rest=False)
        if not self.problems:
            await self._settle()

    async def _wait(self, until_s: float) -> None:
        """Wait until a time, or until a permanent failure."""
        left_s = until_s - self.loop.time()
        if left_s > 0 and not self.mesh.failures:
            try:
                await asyncio.wait_for(self.mesh.failed.wait(), left_s)
            except TimeoutError:
                pass

    async def _settle(self) -> None:
        """Poll until the mesh is at rest without violations, or the deadline has passed; then check
        it at its next rest, if that comes soon.
        """
        deadline_s = self.loop.time() + self.scenario.deadline_s
        checked_s = -RECHECK_S
        while not self.mesh.failures:
            await self._wait(self.loop.time() + POLL_S)
            now_s = self.loop.time()
            if self._still_moves():
                self.quiet_since_s = now_s
            is_quiet = now_s - self.quiet_since_s >= QUIET_S and not self._unfinished()
            if is_quiet and now_s - checked_s >= RECHECK_S:
                checked_s = now_s
                self._judge(is_at_rest=True)
                if not self.problems or self.is_unsafe:
                    return
            if now_s >= deadline_s and (is_quiet or now_s >= deadline_s + RECHECK_S):
                break
        self._judge(is_at_rest=not self.mesh.failures)
        if not self.problems and not self.mesh.failures and now_s - self.quiet_since_s < QUIET_S:
            self.problems.append(("liveness", "it does not come to rest"))

    def _unfinished(self) -> bool:
        return not self.cluster.arrived or any(
            self.mesh.owner_of(journal) is None for journal in self.mesh.names
        )

    def _still_moves(self) -> bool:
        """Return whether anything but heartbeats and messages was recorded since the last poll.
        With many waiting pods, some message is always being refreshed.
        """
        moves = False
        for journal, payloads in self.log.records.items():
            start, plain = self.read.get(journal, 0), JournalName(journal.partition("-")[0])
            self.read[journal] = len(payloads)
            for position in range(start, len(payloads)):
                if journal.startswith("epochs"):
                    continue
                at = Position(position)
                moves = moves or _is_move(decode(payloads[position], plain, at), plain, at)
        return moves

    def progress(self) -> str:
        """Return how far the run is."""
        pods = self.cluster.pods.values()
        bound = sum(1 for pod in pods if pod.node)
        return (
            f"{self.loop.time():.1f} virtual s: {bound:,} of {counted(len(pods), 'pod')} bound, "
            f"{counted(self.mesh.deaths, 'process death')}"
        )

    def history(self) -> ClusterHistory:
        """Return the cluster's history so far."""
        undone = self.nemesis.undone
        return history_of(self.cluster, self.nemesis.extra, self.wire.posts, undone)

    def names(self, epoch: int) -> dict[str, JournalName]:
        """Return stored name -> plain name of one epoch's journals."""
        return {str(renamed(journal, epoch)): journal for journal in self.mesh.names}

    def _judge(self, is_at_rest: bool) -> None:
        self.problems = [("halt", text) for text in self.mesh.failures]
        history = self.history()
        for epoch in range(1, self.mesh.epoch + 1):
            last = epoch == self.mesh.epoch
            names = self.names(epoch)
            if any(stored not in self.log.records for stored in names):
                self.problems.append(("liveness", f"epoch {epoch}: journals were never claimed"))
                continue
            self.report = check(
                self.log.records,
                names,
                self.scenario.placements,
                history,
                is_at_rest and last,
                epoch,
                self.log.landed_s,
            )
            self.problems += self.report.problems
            self.is_unsafe = self.is_unsafe or self.report.unsafe > 0

    # -------------------------------------------------------------------------------- reset

    def _reset_later(self) -> None:
        task = self.loop.create_task(self._reset("drill"))
        self.wire.flights.add(task)

    async def _reset(self, reason: str) -> None:
        """Reset, and repeat until it succeeds, as an operator would."""
        mesh = self.mesh
        host = Host(SimClock(self.loop), "operator", lambda: reason, inline)
        bus, cluster = SimBus(self.log), SimNetwork(self.wire, "operator", 0)
        mesh.opening = True
        while True:
            try:
                opened = await reset(bus, cluster, host, mesh.names, reason)
                break
            except (ResetFailed, AppendUnknown, BusUnavailable):
                await asyncio.sleep(0.5)
        mesh.seen["reset"] += opened.number > 1
        mesh.epoch, mesh.opening = opened.number, False
        await bus.close()
        for journal in mesh.names:
            process = mesh.owner_of(journal)
            if process is not None:
                process.kill()


def _is_move(record: Record, journal: JournalName, position: Position) -> bool:
    """Return whether its events do more than refresh the messages of waiting pods."""
    return bool(record.received) or not all(
        isinstance(event, ReasonsAsked | Confirmed | GangWaits)
        or (isinstance(event, Refused) and not event.attempt)
        for event in own_events(record, journal, position)
    )


def replay_problems(run: Run, redecide: bool) -> list[Problem]:
    """Fold every journal of every epoch again; return the differences."""
    problems: list[Problem] = []
    for epoch in range(1, run.mesh.epoch + 1):
        names = run.names(epoch)
        records: Mapping[JournalName, Sequence[bytes]] = {
            plain: run.log.records[stored]
            for stored, plain in names.items()
            if stored in run.log.records
        }
        valid = Valid(records)
        for journal in records:
            core = make_core(journal, run.scenario.placements)
            problems += refold(valid, core, redecide)
    return problems


async def _simulate(scenario: Scenario, redecide: bool, show: Callable[[str], None]) -> Result:
    run = Run(scenario)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: _unhandled(run.mesh, context))
    assert isinstance(loop, VirtualLoop)
    loop.show_with(lambda: show(run.progress()))
    await run.play()
    result = Result(scenario.seed, list(run.problems), ended_s=loop.time())
    await run.mesh.stop()
    if not run.mesh.failures:
        show("replaying the journals")
        result.problems += replay_problems(run, redecide)
    history = run.history()
    if result.problems and run.report is not None:
        run.report.problems = result.problems
        result.lines = run.report.lines(history)
    elif result.problems:
        result.lines = [f"VIOLATION {rule}: {text}" for rule, text in result.problems]
    _count(run, result, history)
    return result


def _unhandled(mesh: SimMesh, context: Mapping[str, object]) -> None:
    error = context.get("exception")
    mesh.failures.append(f"unhandled: {context.get('message')}: {error!r}")
    mesh.failed.set()


def _count(run: Run, result: Result, history: ClusterHistory) -> None:
    mesh = run.mesh
    result.seen = mesh.seen + run.log.seen + run.wire.seen
    for (service, point), times in mesh.crashes.items():
        result.seen[coverage.pair_key(service, point)] += times
    if run.report is not None:
        result.seen += coverage.of_report(run.report)
        journals = run.report.journals.values()
        result.events = sum(len(e.events()) for journal in journals for e in journal.entries)
    result.digest = digest(run.log.records)
    result.records = sum(len(payloads) for payloads in run.log.records.values())
    result.pods = sum(not uid.startswith(BALLAST) for uid in history.pods)
    result.bound = sum(1 for pod in history.pods.values() if pod.node and not pod.deleted)
    result.deaths = mesh.deaths
    result.crashes = mesh.crashes.total()


def simulate(
    scenario: Scenario, redecide: bool = False, show: Callable[[str], None] = lambda _text: None
) -> Result:
    """Run a scenario on its own virtual loop. `show` gets its progress a few times a second."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        try:
            return runner.run(_simulate(scenario, redecide, show))
        except SimulationStuck as error:
            return Result(scenario.seed, [("stuck", str(error))], [f"VIOLATION stuck: {error}"])
