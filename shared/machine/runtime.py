"""The only loop: how an owner reads, decides, records, and lets effects out.

One turn = one step = at most one record. While an append is in flight nothing is decided; what
arrives meanwhile goes into the next turn (group commit). A turn that consumed and decided nothing
makes no record of its own: the next one holds what it consumed, with its time. Three rules keep it
safe, and the exhaustive model (tests/properties/test_machine_model.py) breaks without any one:

* Nothing is shown outside before its record is acknowledged at the expected position.
* A position other than the expected one means somebody else wrote: read, and find out who.
* After a failed or unknown append the memory is thrown away, and the next owner claims anew.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Protocol

from shared.events.base import Event
from shared.machine.core import Core, S, step
from shared.machine.crash import CrashPoint, Probe, no_probe
from shared.machine.fold import Folded, Inputs, apply_inputs, fold, fold_on
from shared.machine.reader import Reader
from shared.machine.record import (
    RECORD_FORMAT_VERSION,
    Claim,
    Consumed,
    Record,
    SnapshotNote,
    encode,
    events_for,
    pack_received,
    slice_events,
)
from shared.machine.snapshots import SnapshotPolicy, Snapshots
from shared.ports.bus import Bus, JournalName, WrongPosition
from shared.ports.clock import Clock
from shared.ports.snapshots import SnapshotStore

# Python 3.11 looks members of an enum up slowly, and these are passed in every turn.
(
    BEFORE_CONSUME,
    AFTER_CONSUME,
    BEFORE_DECIDE,
    AFTER_DECIDE,
    BEFORE_APPEND,
    AFTER_APPEND,
    BEFORE_ACKNOWLEDGE,
    AFTER_ACKNOWLEDGE,
    BEFORE_EFFECT,
    AFTER_EFFECT,
    BEFORE_OUTCOME,
    AFTER_OUTCOME,
    *_OF_SNAPSHOTS,
) = CrashPoint

HEARTBEAT_MS = 1_000
JUMP_MS_MAX = 2_000
READ_BYTES_MAX = 256 << 10
"""Read from one journal in one turn; short turns keep the services of one process in step."""
CATCH_UP_BYTES_MAX = 64 << 20  # the same of a first turn, which decides on all that came
QUIET_RANGES_MAX = 256
"""Ranges consumed in turns that decided nothing, until a record is written for them alone."""
OFFERS_PER_TURN = 1_024
OFFERS_MAX = 4_096


class OwnershipLost(Exception):
    """Another claim lies in the journal: this owner's memory is void."""


class EpochOver(Exception):
    """A reset closed this epoch: the process must start again, in the new one."""


class Shell(Protocol):
    """The outside of a service: carries out effects, offers what it observes."""

    def start(self, owner: "Offers") -> None:
        """Ownership begins: resume from what `owner.state` says."""

    def effect(self, effect_id: int, effect: Event) -> None:
        """Carry out one effect; its outcome is offered, whatever it is."""

    async def stop(self) -> None:
        """Ownership ended: nothing may be offered any more."""


class Offers(Protocol):
    """What a shell sees of its owner."""

    @property
    def state(self) -> Any:
        """The folded state; to be read only."""

    @property
    def offers(self) -> int:
        """How many times was offered what waits to be recorded."""

    def offer(self, *events: Event) -> None:
        """Hand in what was observed outside; it is recorded together, in the next turn."""


class QuietShell:
    """The shell of a service without an outside."""

    def start(self, owner: "Offers") -> None:
        """Nothing to start."""

    def effect(self, effect_id: int, effect: Event) -> None:
        """No core with this shell demands effects."""
        raise AssertionError(f"effect {effect_id} without a shell: {effect}")

    async def stop(self) -> None:
        """Nothing to stop."""


@dataclass
class Host:
    """What a runtime gets from its process. `offload` runs blocking work beside the loop."""

    clock: Clock
    owner: str
    nonce: Callable[[], str]
    offload: Callable[..., Any] = asyncio.to_thread
    probe: Probe = no_probe


@dataclass(frozen=True)
class Rhythm:
    """When turns are taken: they begin at least `pace_ms` apart, and the news of a source waits up
    to `linger_ms[source]` for a turn that something else causes, what the shell offers up to
    `offers_ms`; if `is_alert`, not while the core has a timer running. Before it goes on from one
    turn to the next an owner lets the loop turn `behind` times: those before it in the flow have
    theirs first. What says nothing is recorded every `heartbeat_ms`; more than HEARTBEAT_MS is for
    those whose silence nobody listens to.
    """

    pace_ms: int = 0
    linger_ms: Mapping[str, int] = field(default_factory=dict)
    offers_ms: int = 0
    is_alert: bool = False
    behind: int = 0
    heartbeat_ms: int = HEARTBEAT_MS


@dataclass
class Stats:
    """Plain counters, read by whoever exports metrics."""

    records: int = 0
    bytes: int = 0
    events: int = 0
    inputs: int = 0
    steps: int = 0
    voids: int = 0
    snapshots: int = 0
    bad_snapshots: list[str] = field(default_factory=list)

    @property
    def snapshots_bad(self) -> int:
        return len(self.bad_snapshots)


async def append_claim(bus: Bus, journal: JournalName, end: int, claim: Claim, now_ms: int) -> int:
    """Its position: `end`, unless others write. Raises AppendUnknown, BusUnavailable."""
    payload = encode(Record(-1, 0, now_ms, claim=claim))
    while True:
        try:
            return await bus.append(journal, end, payload)
        except WrongPosition as error:
            if error.landed:
                return error.actual
            end = error.actual


class Owner(Generic[S]):
    """One ownership of one journal, from its claim to its loss."""

    def __init__(
        self,
        core: Core[S],
        bus: Bus,
        store: SnapshotStore,
        host: Host,
        shell: Shell,
        config: dict[str, Any],
        policy: SnapshotPolicy | None = None,
        epoch: int = 1,
        rhythm: Rhythm | None = None,
    ) -> None:
        """Nothing happens before `claim`."""
        self.core, self.bus, self.host, self.shell = core, bus, host, shell
        self.journal = JournalName(core.journal)
        self.stats = Stats()
        self.folded: Folded[S] = Folded(core)
        self.snapshots = Snapshots(self.journal, store, bus, host, policy or SnapshotPolicy())
        self._store = store
        self._claim = Claim(host.owner, host.nonce(), RECORD_FORMAT_VERSION, config, epoch)
        self._readers: list[Reader] = []
        self._fresh: list[bool] = []
        self._offers: deque[tuple[Event, ...]] = deque()
        self._consumed: dict[str, int] = {}
        self._quiet: list[Consumed] = []
        self._wake = asyncio.Event()
        self._cancels: list[Callable[[], None]] = []
        self._started_effect = -1
        self._wall_skew_ms = 0
        self._appended_ms = 0
        self.has_looked = False
        self._note: SnapshotNote | None = None
        self._rhythm = rhythm or Rhythm()
        self._lingering: asyncio.TimerHandle | None = None
        self._lingering_until_s = 0.0

    @property
    def state(self) -> S:
        """The folded state; to be read only."""
        return self.folded.state

    @property
    def offers(self) -> int:
        """How many offers wait to be recorded (sources slow down above OFFERS_MAX)."""
        return len(self._offers)

    def offer(self, *events: Event) -> None:
        """Hand in what was observed outside; it is recorded together, in the next turn."""
        self._offers.append(events)
        if len(self._offers) == 1:  # what was offered before does not wait longer
            self._wake_within(self._rhythm.offers_ms)

    async def look(self) -> None:
        """Fold to the present end and read ahead in the sources: what cannot be read is met before
        anything is changed. Raises NeedsReset, RecordUnreadable, JournalGap.
        """
        self.folded, self.stats.bad_snapshots = await fold(self.core, self.bus, self._store)
        for name, cursor in self.state.cursors.items():
            reader, journal = Reader(name, cursor), JournalName(name)
            _first, end = await self.bus.bounds(journal)
            reader.check_end(end)
            while reader.next < end and (batch := await self.bus.read(journal, reader.next)):
                for position, record in reader.accept_all(batch):
                    events_for(record, name, position, self.journal)
        self.has_looked = True

    async def claim(self) -> None:
        """Look, append the claim, have the fold of everything before it, and open the shell.

        Raises AppendUnknown (claim anew), OwnershipLost, EpochOver, and as `look`.
        """
        if not self.has_looked:
            await self.look()
        now_ms = self.host.clock.now_ms()
        end = self.folded.own.next
        position = await append_claim(self.bus, self.journal, end, self._claim, now_ms)
        if position == end:
            await fold_on(self.folded, self.bus, position + 1)
        else:  # others wrote meanwhile, and may have cut too
            found = await fold(self.core, self.bus, self._store, position + 1)
            self.folded, self.stats.bad_snapshots = found
        if self.folded.own.epoch > self._claim.epoch:
            raise EpochOver(
                f"{self.journal}: epoch {self._claim.epoch} was closed by a reset; "
                f"restart to join epoch {self.folded.own.epoch}"
            )
        if self.folded.own.term != position:
            raise OwnershipLost(f"{self.journal}: claimed at {position}, but not in force")
        self._wall_skew_ms = min(0, now_ms - self.state.now_ms)
        self._appended_ms = self.state.now_ms
        self._readers = [Reader(name, self.state.cursors[name]) for name in self.core.sources]
        self._consumed = {reader.journal: reader.next for reader in self._readers}
        self._fresh = [True for _ in self._readers]
        for index, reader in enumerate(self._readers):
            notify = partial(self._arrived, index)
            name = JournalName(reader.journal)
            self._cancels.append(self.bus.watch(name, reader.next, notify))
        self.shell.start(self)
        self._start_effects()
        self._wake.set()

    def _arrived(self, index: int) -> None:
        known, self._fresh[index] = self._fresh[index], True
        linger_ms = self._rhythm.linger_ms.get(self._readers[index].journal, 0)
        if not known or not linger_ms or self._rhythm.is_alert:
            self._wake_within(linger_ms)

    def _wake_within(self, linger_ms: int) -> None:
        """A turn begins when something else causes one, at the latest then."""
        is_alert = self._rhythm.is_alert and self.core.due_ms(self.state) is not None
        if not linger_ms or is_alert:
            self._wake.set()
            return
        loop = asyncio.get_running_loop()
        until_s = loop.time() + linger_ms / 1000
        if self._lingering is not None:
            if self._lingering_until_s <= until_s:
                return
            self._lingering.cancel()
        self._lingering_until_s = until_s
        self._lingering = loop.call_at(until_s, self._wake.set)

    async def run(self) -> None:
        """Turn until ownership is lost or something fails; always closes the shell."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._rest()
                began_s = loop.time()
                await self._turn()
                left_s = began_s + self._rhythm.pace_ms / 1000 - loop.time()
                if left_s > 0:
                    await asyncio.sleep(left_s)
        except (AssertionError, LookupError, ValueError):
            await self._assert_ours()
            raise
        finally:
            await self.close()

    async def _assert_ours(self) -> None:
        """A void memory may contradict what it reads before its next append tells it so. Raises
        OwnershipLost when another owner has claimed meanwhile.
        """
        expected = self.folded.own.next
        end = (await self.bus.bounds(self.journal))[1]
        if end > expected:
            await self._find_out(WrongPosition(self.journal, expected, end, landed=False))

    async def close(self) -> None:
        """End the watches and the shell. Idempotent."""
        for cancel in self._cancels:
            cancel()
        self._cancels.clear()
        await self.shell.stop()

    async def _rest(self) -> None:
        """Sleep until there is input, an offer or a due timer, but not for so long that time would
        be lost (see JUMP_MS_MAX).
        """
        due_ms = self.core.due_ms(self.state)
        wait_ms = self.state.now_ms + HEARTBEAT_MS - self._now_ms()
        if due_ms is not None:
            wait_ms = min(wait_ms, due_ms - self._now_ms())
        rested = wait_ms > 0 and not self._wake.is_set()
        if rested:
            timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._wake.set)
            await self._wake.wait()
            timer.cancel()
        if not (rested and any(self._fresh)):
            for _ in range(1 + self._rhythm.behind):
                await asyncio.sleep(0)
        self._wake.clear()
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None

    def _now_ms(self) -> int:
        """The journal's time: wall time, but a jump forward counts as 2 s and none goes back."""
        last_ms = self.state.now_ms
        now_ms = self.host.clock.now_ms() - self._wall_skew_ms
        bounded_ms = min(max(now_ms, last_ms), last_ms + JUMP_MS_MAX)
        self._wall_skew_ms += now_ms - bounded_ms
        return bounded_ms

    async def _turn(self) -> None:
        """One step: consume, decide, record."""
        probe = self.host.probe
        probe(BEFORE_CONSUME)
        inputs = await self._gather()
        received = self._received()
        now_ms = self._now_ms()
        count = apply_inputs(self.core, self.state, inputs, now_ms)
        if received:
            probe(BEFORE_OUTCOME)
            for event in received:
                self.core.evolve(self.state, event)
            probe(AFTER_OUTCOME)
        probe(AFTER_CONSUME)
        probe(BEFORE_DECIDE)
        events = step(self.core, self.state)
        probe(AFTER_DECIDE)
        self.stats.steps += 1
        self.stats.inputs += count
        beat = now_ms - self._appended_ms >= self._rhythm.heartbeat_ms
        full = len(self._quiet) >= QUIET_RANGES_MAX
        if events or received or beat or full or self._note:
            await self._record(now_ms, received, events)
            self._start_effects()
            await self._snapshot()
        elif count:
            self._quiet += self._ranges(now_ms)

    def _ranges(self, time_ms: int = -1) -> list[Consumed]:
        """What was consumed and is in no range yet, in the order of the sources."""
        ranges = [
            Consumed(reader.journal, self._consumed[reader.journal], reader.next, time_ms)
            for reader in self._readers
            if reader.next > self._consumed[reader.journal]
        ]
        self._consumed = {reader.journal: reader.next for reader in self._readers}
        return ranges

    def _received(self) -> tuple[Event, ...]:
        """The oldest offers, as many as fit a short turn, each of them whole."""
        offers = self._offers
        received: list[Event] = []
        while offers and len(received) < OFFERS_PER_TURN:
            received += offers.popleft()
        if offers:
            self._wake.set()
        return tuple(received)

    async def _gather(self) -> Inputs:
        """What each source journal has for us, in the fixed order of sources; journals that told
        of nothing new since they were found empty are not asked.
        """
        found: Inputs = []
        for index, reader in enumerate(self._readers):
            if not self._fresh[index]:
                continue
            self._fresh[index] = False
            start, voids = reader.next, reader.voids
            limit_bytes = READ_BYTES_MAX if self.stats.steps else CATCH_UP_BYTES_MAX
            records, size_bytes, is_full = await reader.read(self.bus, READ_BYTES_MAX, limit_bytes)
            self.snapshots.folded(size_bytes)
            self.stats.voids += reader.voids - voids
            if reader.next > start:
                found.append((Consumed(reader.journal, start, reader.next), records))
            if is_full:
                self._arrived(index)
        return found

    async def _record(self, now_ms: int, received: tuple[Event, ...], events: list[Event]) -> None:
        """Append the step as one record and wait for its acknowledgement."""
        consumed = (*self._quiet, *self._ranges())
        self._quiet = []
        own = self.folded.own
        record = Record(
            own.term,
            own.seq + 1,
            now_ms,
            consumed,
            pack_received(received),
            slice_events(events),
            snapshot=self._note,
        )
        payload = encode(record)
        probe = self.host.probe
        probe(BEFORE_APPEND)
        position = await self._append(payload)
        probe(AFTER_APPEND)
        probe(BEFORE_ACKNOWLEDGE)
        own.next, own.seq = position + 1, own.seq + 1
        self._note = None
        self._appended_ms = now_ms
        self.stats.records += 1
        self.stats.bytes += len(payload)
        self.snapshots.folded(len(payload))
        self.stats.events += len(events)
        probe(AFTER_ACKNOWLEDGE)

    async def _append(self, payload: bytes) -> int:
        while True:
            expected = self.folded.own.next
            try:
                return await self.bus.append(self.journal, expected, payload)
            except WrongPosition as error:
                await self._find_out(error)
                if error.landed:
                    return error.actual

    async def _find_out(self, error: WrongPosition) -> None:
        """Who wrote between the expected and the actual position? Void records do no harm; a
        claim ends this ownership. Raises OwnershipLost, JournalGap.
        """
        own = self.folded.own
        own.check_end(error.actual)
        while own.next < error.actual:
            batch = await self.bus.read(self.journal, own.next)
            if not batch:
                raise OwnershipLost(f"{self.journal}: cannot read {own.next}")
            for position, payload in batch:
                if position >= error.actual:
                    break
                if own.accept(position, payload) is not None:
                    raise OwnershipLost(f"{self.journal}: another owner's record at {position}")

    def _start_effects(self) -> None:
        """Let out the effects that acknowledged records demand and that were not started yet."""
        for effect_id, effect in self.core.effects(self.state).items():
            if effect_id > self._started_effect:
                self.host.probe(BEFORE_EFFECT)
                self._started_effect = effect_id
                self.shell.effect(effect_id, effect)
                self.host.probe(AFTER_EFFECT)

    async def _snapshot(self) -> None:
        if self.snapshots.due(self.folded.own.next, self.state.now_ms):
            self._note = await self.snapshots.take(self.folded)
            self.stats.snapshots += 1
