"""One trial of real processes: a mesh over the broker, followed from outside, disturbed and
checked.

The verdict comes from the independent checker over the journals and the cluster's own history.
"""

import asyncio
import math
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from loadtest.processes import Child, ProcessMesh
from muster.app.journals import all_journals, partitions
from muster.checker.check import Report, check
from muster.checker.inputs.history import ClusterHistory, PodTruth
from muster.cli.addresses.bus import parse_bus
from shared.bus.kafka.bus import KafkaBus
from shared.model.columns import split
from shared.model.ids import QUEUEING
from shared.model.world import World
from shared.simulated.history import Happened, read_history
from shared.worlds.settings import Choice, load_world
from tests.e2e.follow import Follower
from tests.e2e.recovery_times import Recovery

QUIET_S = 1.3
LOOKS = 6
LOOK_S = 0.25
FETCHED_S = 0.1
"""What the follower fetched before a fault is read by then: it is no sign of life."""
SNAPSHOT_S = 3
"""Short, so that a replay of a short run can begin in its middle."""


class Hurt(Struct, frozen=True):
    """A fault of a journal's owner, and its time."""

    what: str
    journal: str
    at_ms: int


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Trial:
    """Starts with `async with`; ends every process when the block ends, however it ends."""

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        world: str,
        placements: int = 1,
        settings: Sequence[str] = (),
        commands: Mapping[str, Sequence[str]] | None = None,
        metrics: Mapping[str, int] | None = None,
        query: str = "",
    ) -> None:
        """`bootstrap` and `query` are those of the address of `--bus`."""
        self.world: World = load_world([world], Choice()).world
        self.total = sum(len(split(arrival.pods.uids)) for arrival in self.world.arrivals)
        self.placements = placements
        bus = f"kafka://{bootstrap}/{folder.name}" + (f"?{query}" if query else "")
        self.mesh = ProcessMesh(
            folder,
            bus,
            [world],
            placements,
            settings,
            commands or {},
            snapshot_s=SNAPSHOT_S,
            metrics=metrics or {},
        )
        kafka = parse_bus(bus).kafka
        assert kafka is not None
        self.bus = KafkaBus(kafka, partitions(placements))
        self.hurts: list[Hurt] = []
        self.happened: list[Happened] = []

    async def __aenter__(self) -> Self:
        try:
            await self.bus.start()
            self.journals = Follower(self.bus, all_journals(self.placements))
            self._following = asyncio.create_task(self.journals.run())
            await asyncio.to_thread(self.mesh.start)
        except BaseException:
            self.mesh.close()
            raise
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.mesh.close()
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)
        self.journals.close()
        await self.bus.close()

    # ------------------------------------------------------------------------------- what is done

    def hurt(self, journal: str, what: str) -> None:
        """Note that something is done to a journal's owner now."""
        self.hurts.append(Hurt(what, journal, now_ms()))

    def kill(self, *journals: str) -> None:
        """Kill these at once with -9, and start them again under the same owners' names."""
        for journal in journals:
            self.hurt(journal, "kill -9")
            self.mesh.services[journal].kill()
        for journal in journals:
            self.mesh.services[journal].start()

    def acts_again(self, *journals: str) -> bool:
        """Return whether each of these has recorded something since its last fault."""
        last_ms = {one.journal: one.at_ms for one in self.hurts}
        return all(self.journals.acts(journal, last_ms[journal]) for journal in journals)

    async def until(self, holds: Callable[[], bool], limit_s: float, what: str) -> None:
        """Wait for something that the journals show; a process that has ended ends the wait."""
        end_s = time.monotonic() + limit_s
        while not holds():
            if self._following.done():
                self._following.result()
            for child in (*self.mesh.services.values(), *self.mesh.others):
                assert child.runs, f"{child.log.stem} ended: {child.said()[-3_000:]}"
            assert time.monotonic() < end_s, f"not within {limit_s:.0f} s: {what}; {self.status()}"
            await asyncio.sleep(LOOK_S)

    def status(self) -> str:
        """Return the progress of the run, for messages."""
        journals = self.journals
        ends = {name: len(records) for name, records in journals.records.items()}
        return (
            f"{len(journals.seen_ms)} of {self.total} seen, {len(journals.bound)} bound, "
            f"{journals.in_flight()} in flight, {len(journals.waiting())} of them wait; {ends}"
        )

    # --------------------------------------------------------------------------- how it is judged

    async def settle(self, limit_s: float) -> Report:
        """Wait until every pod is bound, deleted or waiting, stop everything in order,
        and check.
        """
        journals = self.journals

        def at_rest() -> bool:
            return len(journals.seen_ms) >= self.total and journals.in_flight() == len(
                journals.waiting()
            )

        end_s = time.monotonic() + limit_s
        while True:
            await self.until(at_rest, end_s - time.monotonic(), "bound or waiting")
            # Lifetimes keep ending in the cluster, but its state must not change during the check.
            self.mesh.cluster.signal(signal.SIGSTOP)
            if await self._comes_to_rest() and at_rest():
                break
            self.mesh.cluster.signal(signal.SIGCONT)
            await asyncio.sleep(LOOK_S)
        # A gang whose backoff ends during the stop would be tried and never be answered.
        dispatcher = self.mesh.services.get(QUEUEING)
        if dispatcher is not None and dispatcher.runs:
            assert await asyncio.to_thread(dispatcher.terminate) == 0
            await self._comes_to_rest()
        services = [child for child in self._serving() if child.runs]
        codes = await asyncio.gather(*(asyncio.to_thread(child.terminate) for child in services))
        assert not any(codes), dict(zip([c.log.stem for c in services], codes, strict=True))
        self.mesh.cluster.signal(signal.SIGCONT)
        assert await asyncio.to_thread(self.mesh.cluster.terminate) == 0
        await journals.catch_up()
        return self._judge()

    async def _comes_to_rest(self) -> bool:
        """Return whether nothing but heartbeats is recorded for a while, soon. Each owner that runs
        must have recorded one: a broker that stalls shows nothing at all, and that is no rest.
        """
        for _ in range(LOOKS):
            before = self.journals.moved
            heard = {name: len(acts) for name, acts in self.journals.acts_ms.items()}
            await asyncio.sleep(QUIET_S)
            if self.journals.moved == before and all(
                len(self.journals.acts_ms[name]) > heard[name]
                for name, child in self.mesh.services.items()
                if child.runs
            ):
                return True
        return False

    def _serving(self) -> list[Child]:
        return [*self.mesh.services.values(), *self.mesh.others]

    def _judge(self) -> Report:
        self.happened = read_history(self.mesh.history)
        seen = [one for one in self.happened if one.revision <= self.journals.revision]
        history = history_of(self.world, seen)
        names: dict[str, str] = {name: name for name in all_journals(self.placements)}
        report = check(self.journals.records, names, self.placements, history, is_at_rest=True)
        if report.problems:
            kept = self.mesh.folder / "records"
            kept.write_bytes(msgspec.msgpack.encode(self.journals.records))
            lines = report.lines(history)
            shown = lines if len(lines) <= 120 else [*lines[:40], "...", *lines[-80:]]
            raise AssertionError("\n".join([f"records: {kept}", *shown]))
        return report

    def recovered(self) -> list[Recovery]:
        """Return how each journal recovered from each fault, until its next one."""
        found: list[Recovery] = []
        next_ms: dict[str, int] = {}
        for one in reversed(self.hurts):
            before_ms = next_ms.get(one.journal, math.inf)
            next_ms[one.journal] = one.at_ms
            times_ms = self.journals.recovery(one.journal, one.at_ms, before_ms)
            seconds = [None if ms is None else (ms - one.at_ms) / 1000 for ms in times_ms]
            flying = self.journals.in_flight_at(one.at_ms)
            found.append(Recovery(one.journal, one.what, flying, *seconds))
        return found[::-1]


def history_of(world: World, happened: Sequence[Happened]) -> ClusterHistory:
    """The cluster's history in the checker's types."""
    specs = {
        uid: (arrival.pods, name)
        for arrival in world.arrivals
        for uid, name in zip(split(arrival.pods.uids), split(arrival.pods.names), strict=True)
    }
    history = ClusterHistory(nodes=list(world.nodes))
    for change in happened:
        match change.kind:
            case "create":
                pods, name = specs[change.uid]
                history.pods[change.uid] = PodTruth(
                    change.uid, pods.namespace, name, pods.spec, gang=pods.gang, gated=pods.gated
                )
            case "bind" | "late-bind" | "foreign-bind":
                pod = history.pods[change.uid]
                pod.node, pod.by_mesh = change.node, change.kind != "foreign-bind"
                history.binds.append((pod.uid, pod.node, pod.by_mesh))
            case "evict":
                history.pods[change.uid].evicted = True
                history.evicted.append(change.uid)
            case "delete":
                history.pods[change.uid].deleted = True
            case _:
                pass
    return history
