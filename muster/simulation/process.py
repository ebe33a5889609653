"""One simulated process: a member of a service's group with its own bus client, clock and memory.

It can die at any crash point or at any moment: its memory is lost, its sent requests may still
arrive. It can also become a ghost: an owner that has lost its journal but keeps appending and
running effects, as a broken or long-paused process would.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from muster.app.pacing import rhythm
from muster.app.virtual_time import SimClock, inline
from muster.simulation.network import SimNetwork
from shared.events.base import Event
from shared.machine.core import Core
from shared.machine.crash import CrashPoint
from shared.machine.member import MISSED_HEARTBEATS, Member
from shared.machine.runtime import HEARTBEAT_MS, Host, Owner, OwnershipLost, Shell
from shared.machine.snapshots import SnapshotPolicy
from shared.model.ids import JournalName
from shared.ports.bus import Bus, WrongPosition
from shared.ports.snapshots import SnapshotStore

SILENCE_S = MISSED_HEARTBEATS * HEARTBEAT_MS / 1000


class SimCrash(BaseException):
    """The process dies here. Not an Exception, so that no product code can catch it."""

    def __init__(self, point: CrashPoint) -> None:
        super().__init__(point.value)
        self.point = point


class SimOwner(Owner[Any]):
    """The production owner with one switch: a ghost ignores that it has lost its journal.

    It keeps appending, and its earlier effects go on (the nemesis sends them again). Effects that
    only its void records ask for stay inside (rule 4): an owner that ran them would read the new
    owner's fence and bind again with the revision it finds, and the API could not tell the two
    apart. That defect is planted as `position-not-checked`.
    """

    member: "SimMember"
    ghost = False
    lost = False
    cut_off = False
    took_over = False

    async def claim(self) -> None:
        """See Owner.claim."""
        await super().claim()
        self.took_over, self.member.after_silence = self.member.after_silence, False

    async def _find_out(self, error: WrongPosition) -> None:
        if not self.ghost:
            await super()._find_out(error)
            return
        self.lost = True
        self.folded.own_reader.next = error.actual

    def _start_effects(self) -> None:
        if not self.lost:
            super()._start_effects()

    async def _record(self, now_ms: int, received: tuple[Event, ...], events: list[Event]) -> None:
        try:
            await super()._record(now_ms, received, events)
        except OwnershipLost:
            self.cut_off = bool(events)
            raise
        except SimCrash as crash:
            self.cut_off = bool(events) and crash.point is CrashPoint.BEFORE_APPEND
            raise

    async def _snapshot(self) -> None:
        # A ghost must not write a snapshot where the real owner looks for one.
        if not self.ghost:
            await super()._snapshot()


class SimMember(Member):
    """A member that records whether it waited for a silent journal before it claimed."""

    after_silence = False

    async def _stand_by(self, at_start: bool) -> bool:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        waited = await super()._stand_by(at_start)
        self.after_silence = loop.time() - began_s >= SILENCE_S
        return waited


class EagerMember(SimMember):
    """A member that claims at once, even if the journal has an owner: forces a second owner."""

    async def _stand_by(self, at_start: bool) -> bool:
        return not at_start and await super()._stand_by(at_start)


class Process:
    """Runs one member until it dies; `on_end` gets the reason."""

    def __init__(
        self,
        journal: JournalName,
        name: str,
        bus: Bus,
        clock: SimClock,
        store: SnapshotStore,
        make_core: Callable[[], Core[Any]],
        make_shell: Callable[[], Shell],
        config: dict[str, Any],
        policy: SnapshotPolicy,
    ) -> None:
        self.journal, self.name, self.bus, self.clock = journal, name, bus, clock
        self.store, self.make_core, self.make_shell = store, make_core, make_shell
        self.config, self.policy = config, policy
        self.epoch = 1
        self.armed: CrashPoint | None = None
        self.skips = 0
        self.owners: list[SimOwner] = []
        self.nonces = 0
        self.networks: list[SimNetwork] = []
        self.member: SimMember | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def owner(self) -> SimOwner | None:
        """Return the present owner in this process, or None."""
        found = self.member.owner if self.member is not None else None
        return found if isinstance(found, SimOwner) else None

    def start(self, on_end: Callable[["Process", BaseException | None], None], eager: bool) -> None:
        """Start the process."""
        host = Host(self.clock, self.name, self._nonce, inline, self._probe)
        kind = EagerMember if eager else SimMember
        self.member = kind(self.journal, self.bus, host, lambda: self._make_owner(host))
        self.task = asyncio.get_running_loop().create_task(self._live(on_end))

    def _nonce(self) -> str:
        self.nonces += 1
        return f"{self.name}-{id_of(self)}-{self.nonces}"

    def _make_owner(self, host: Host) -> Owner[Any]:
        core = self.make_core()
        owner = SimOwner(
            core,
            self.bus,
            self.store,
            host,
            self.make_shell(),
            self.config,
            self.policy,
            self.epoch,
            rhythm(core),
        )
        assert self.member is not None
        owner.member = self.member
        self.owners.append(owner)
        return owner

    def _probe(self, point: CrashPoint) -> None:
        if point is not self.armed:
            return
        if self.skips > 0:
            self.skips -= 1
            return
        self.armed = None
        raise SimCrash(point)

    async def _live(self, on_end: Callable[["Process", BaseException | None], None]) -> None:
        assert self.member is not None
        cause: BaseException | None = None
        try:
            await self.member.serve()
        except asyncio.CancelledError:
            pass
        except (SimCrash, Exception) as error:
            cause = error
        for owner in self.owners:
            await owner.close()
        await self.bus.close()
        on_end(self, cause)

    def kill(self) -> None:
        """End the process at any await, like SIGKILL."""
        if self.task is not None:
            self.task.cancel()


def id_of(process: Process) -> int:
    """Return a number that differs between two lives of one name and is the same in each run of a
    seed.
    """
    return int(process.clock.now_ms())
