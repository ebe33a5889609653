"""The only loop: how an owner reads, decides, records, and starts effects.

One turn = one step = at most one record. While an append is in flight nothing is decided; new input
goes into the next turn (group commit). A turn that consumed and decided nothing makes no record:
the next record, a second later at the latest, holds what it consumed, with its time. Three rules
keep it safe, and the exhaustive model (tests/properties/test_machine_model.py) breaks without any
one:

* No effect starts before its record is acknowledged at the expected position.
* A position other than the expected one means that another process wrote: read, and find out which.
* After a failed or unknown append the memory is discarded, and the next owner claims again.
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
from shared.model.ids import EffectId, JournalName, Position
from shared.ports.bus import Bus, WrongPosition
from shared.ports.clock import Clock
from shared.ports.snapshots import SnapshotStore

# Python 3.11 looks enum members up slowly, and these are used in every turn.
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
READ_BYTES_MAX = 256 << 10
"""Bytes read from one journal in one turn; short turns keep the services of one process in step."""
CATCH_UP_BYTES_MAX = 64 << 20  # the same for a first turn, which decides on everything
QUIET_RANGES_MAX = 256
"""Ranges consumed in turns without decisions before a record is written for them alone."""
SUBMISSIONS_PER_TURN = 1_024
SUBMISSIONS_MAX = 4_096


class OwnershipLost(Exception):
    """The journal has another claim: this owner's memory is void."""


class EpochOver(Exception):
    """A reset closed this epoch: the process must start again in the new one."""


class Shell(Protocol):
    """A service's side to the outside: carries out effects and submits observations."""

    def start(self, owner: "OwnerPort") -> None:
        """Begin ownership: resume from `owner.state`."""

    def effect(self, effect_id: EffectId, effect: Event) -> None:
        """Carry out one effect and submit its outcome, whatever it is."""

    async def stop(self) -> None:
        """End ownership: submit nothing any more."""


class OwnerPort(Protocol):
    """The part of an owner that a shell uses."""

    @property
    def state(self) -> Any:
        """Return the folded state, for reading only."""

    @property
    def submitted(self) -> int:
        """Return the number of submissions that wait to be recorded."""

    def submit(self, *events: Event) -> None:
        """Submit observations; they are recorded together, in the next turn."""


class QuietShell:
    """The shell of a service without effects and observations."""

    def start(self, owner: "OwnerPort") -> None:
        """Do nothing."""

    def effect(self, effect_id: EffectId, effect: Event) -> None:
        """Never called: cores with this shell have no effects."""
        raise AssertionError(f"effect {effect_id} without a shell: {effect}")

    async def stop(self) -> None:
        """Do nothing."""


@dataclass
class Host:
    """The process's services for a runtime. `offload` runs blocking work beside the loop."""

    clock: Clock
    owner: str
    nonce: Callable[[], str]
    offload: Callable[..., Any] = asyncio.to_thread
    probe: Probe = no_probe


@dataclass(frozen=True)
class Rhythm:
    """When turns are taken. Turns begin at least `pace_ms` apart. New records of a source wait up
    to `linger_ms[source]` for a turn with another cause, submissions up to `submissions_ms`; if
    `is_alert`, not while the core has a timer running. Between two turns an owner lets the loop
    turn `behind` times, so that those before it in the flow go first. Silence is recorded every
    `heartbeat_ms`; values above HEARTBEAT_MS are for owners without standbys. An owner rests for
    `rest_ms` at most; a jump of the wall clock counts as twice that. Inputs without a record are
    recorded after `quiet_ms`: with the next heartbeat, or a second later where owners rest longer.
    """

    pace_ms: int = 0
    linger_ms: Mapping[str, int] = field(default_factory=dict)
    submissions_ms: int = 0
    is_alert: bool = False
    behind: int = 0
    heartbeat_ms: int = HEARTBEAT_MS
    rest_ms: int = HEARTBEAT_MS

    @property
    def quiet_ms(self) -> int:
        """See Rhythm."""
        return HEARTBEAT_MS if self.rest_ms > HEARTBEAT_MS else self.heartbeat_ms


@dataclass
class Stats:
    """Plain counters, read by the metrics exporter."""

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


async def append_claim(
    bus: Bus, journal: JournalName, end: Position, claim: Claim, now_ms: int
) -> Position:
    """Append a claim and return its position: `end`, unless others write. Raises AppendUnknown,
    BusUnavailable.
    """
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
        """Do nothing before `claim`."""
        self.core, self.bus, self.host, self.shell = core, bus, host, shell
        self.journal = core.journal
        self.stats = Stats()
        self.folded: Folded[S] = Folded(core)
        self.snapshots = Snapshots(self.journal, store, bus, host, policy or SnapshotPolicy())
        self._store = store
        self._claim = Claim(host.owner, host.nonce(), RECORD_FORMAT_VERSION, config, epoch)
        self._readers: list[Reader] = []
        self._fresh: list[bool] = []
        self._submissions: deque[tuple[Event, ...]] = deque()
        self._consumed: dict[JournalName, Position] = {}
        self._quiet: list[Consumed] = []
        self._wake = asyncio.Event()
        self._cancels: list[Callable[[], None]] = []
        self._started_effect = -1
        self._wall_skew_ms = 0
        self._appended_ms = 0
        self.has_read_ahead = False
        self._note: SnapshotNote | None = None
        self._rhythm = rhythm or Rhythm()
        self._lingering: asyncio.TimerHandle | None = None
        self._lingering_until_s = 0.0
        self.on_turn: Callable[[float], None] | None = None  # told how long each took, s

    @property
    def state(self) -> S:
        """Return the folded state, for reading only."""
        return self.folded.state

    @property
    def submitted(self) -> int:
        """Return how many submissions wait to be recorded (sources slow down above
        SUBMISSIONS_MAX).
        """
        return len(self._submissions)

    def submit(self, *events: Event) -> None:
        """Submit observations; they are recorded together, in the next turn."""
        self._submissions.append(events)
        if len(self._submissions) == 1:  # earlier submissions do not wait longer
            self._wake_within(self._rhythm.submissions_ms)

    async def read_ahead(self) -> None:
        """Fold to the present end and read ahead in the sources, so that unreadable records are
        found before anything changes. Raises NeedsReset, RecordUnreadable, JournalGap.
        """
        self.folded, self.stats.bad_snapshots = await fold(self.core, self.bus, self._store)
        for name, cursor in self.state.cursors.items():
            reader, journal = Reader(name, cursor), name
            _first, end = await self.bus.bounds(journal)
            reader.check_end(end)
            while reader.next < end and (batch := await self.bus.read(journal, reader.next)):
                for position, record in reader.accept_all(batch):
                    events_for(record, name, position, self.journal)
        self.has_read_ahead = True

    async def claim(self) -> None:
        """Read ahead, append the claim, fold everything before it, and start the shell.

        Raises AppendUnknown (claim again), OwnershipLost, EpochOver, and the errors of
        `read_ahead`.
        """
        if not self.has_read_ahead:
            await self.read_ahead()
        now_ms = self.host.clock.now_ms()
        end = self.folded.own_reader.next
        position = await append_claim(self.bus, self.journal, end, self._claim, now_ms)
        if position == end:
            await fold_on(self.folded, self.bus, Position(position + 1))
        else:  # others wrote meanwhile, and may have cut the journal
            found = await fold(self.core, self.bus, self._store, Position(position + 1))
            self.folded, self.stats.bad_snapshots = found
        if self.folded.own_reader.epoch > self._claim.epoch:
            raise EpochOver(
                f"{self.journal}: epoch {self._claim.epoch} was closed by a reset; "
                f"restart to join epoch {self.folded.own_reader.epoch}"
            )
        if self.folded.own_reader.term != position:
            raise OwnershipLost(f"{self.journal}: claimed at {position}, but not in force")
        self._wall_skew_ms = min(0, now_ms - self.state.now_ms)
        self._appended_ms = self.state.now_ms
        self._readers = [Reader(name, self.state.cursors[name]) for name in self.core.sources]
        self._consumed = {reader.journal: reader.next for reader in self._readers}
        self._fresh = [True for _ in self._readers]
        for index, reader in enumerate(self._readers):
            notify = partial(self._on_source_news, index)
            name = reader.journal
            self._cancels.append(self.bus.watch(name, reader.next, notify))
        self.shell.start(self)
        self._start_effects()
        self._wake.set()

    def _on_source_news(self, index: int) -> None:
        known, self._fresh[index] = self._fresh[index], True
        linger_ms = self._rhythm.linger_ms.get(self._readers[index].journal, 0)
        if not known or not linger_ms or self._rhythm.is_alert:
            self._wake_within(linger_ms)

    def _wake_within(self, linger_ms: int) -> None:
        """Begin a turn when something else causes one, at the latest after `linger_ms`."""
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
        """Take turns until ownership is lost or an error occurs; always close the shell."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._rest()
                began_s = loop.time()
                await self._turn()
                ended_s = loop.time()
                if self.on_turn is not None:
                    self.on_turn(ended_s - began_s)
                left_s = began_s + self._rhythm.pace_ms / 1000 - ended_s
                if left_s > 0:
                    await asyncio.sleep(left_s)
        except (AssertionError, LookupError, ValueError):
            await self._assert_ours()
            raise
        finally:
            await self.close()

    async def _assert_ours(self) -> None:
        """Check that no other owner has claimed: a void memory may contradict what it reads before
        its next append fails. Raises OwnershipLost.
        """
        expected = self.folded.own_reader.next
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
        """Sleep until there is input, a submission or a due timer, but not so long that time would
        be lost (see `_now_ms`).
        """
        due_ms = self.core.due_ms(self.state)
        rest_ms = HEARTBEAT_MS if self._quiet else self._rhythm.rest_ms
        wait_ms = self.state.now_ms + rest_ms - self._now_ms()
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
        """Return the journal's time, ms: wall time, but a jump forward counts as two rests (2 s),
        and none goes back.
        """
        last_ms = self.state.now_ms
        now_ms = self.host.clock.now_ms() - self._wall_skew_ms
        bounded_ms = min(max(now_ms, last_ms), last_ms + 2 * self._rhythm.rest_ms)
        self._wall_skew_ms += now_ms - bounded_ms
        return bounded_ms

    async def _turn(self) -> None:
        """Take one step: consume, decide, record."""
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
        beat_ms = self._rhythm.quiet_ms if self._quiet else self._rhythm.heartbeat_ms
        beat = now_ms - self._appended_ms >= beat_ms
        full = len(self._quiet) >= QUIET_RANGES_MAX
        if events or received or beat or full or self._note:
            await self._record(now_ms, received, events)
            self._start_effects()
            await self._snapshot()
        elif count:
            self._quiet += self._ranges(now_ms)

    def _ranges(self, time_ms: int = -1) -> list[Consumed]:
        """Return the consumed records that are in no range yet, in the order of the sources."""
        ranges = [
            Consumed(reader.journal, self._consumed[reader.journal], reader.next, time_ms)
            for reader in self._readers
            if reader.next > self._consumed[reader.journal]
        ]
        self._consumed = {reader.journal: reader.next for reader in self._readers}
        return ranges

    def _received(self) -> tuple[Event, ...]:
        """Return the oldest submissions, as many as fit a short turn, each of them whole."""
        offers = self._submissions
        received: list[Event] = []
        while offers and len(received) < SUBMISSIONS_PER_TURN:
            received += offers.popleft()
        if offers:
            self._wake.set()
        return tuple(received)

    async def _gather(self) -> Inputs:
        """Return the new records of each source journal, in the fixed order of sources; journals
        that reported nothing since they were found empty are not read.
        """
        found: Inputs = []
        for index, reader in enumerate(self._readers):
            if not self._fresh[index]:
                continue
            self._fresh[index] = False
            start, voids = reader.next, reader.voids
            limit_bytes = READ_BYTES_MAX if self.stats.steps else CATCH_UP_BYTES_MAX
            records, size_bytes, is_full = await reader.read(self.bus, READ_BYTES_MAX, limit_bytes)
            self.snapshots.count_records(size_bytes)
            self.stats.voids += reader.voids - voids
            if reader.next > start:
                found.append((Consumed(reader.journal, start, reader.next), records))
            if is_full:
                self._on_source_news(index)
        return found

    async def _record(self, now_ms: int, received: tuple[Event, ...], events: list[Event]) -> None:
        """Append the step as one record and wait for its acknowledgement."""
        consumed = (*self._quiet, *self._ranges())
        self._quiet = []
        reader = self.folded.own_reader
        record = Record(
            reader.term,
            reader.seq + 1,
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
        reader.next, reader.seq = Position(position + 1), reader.seq + 1
        self._note = None
        self._appended_ms = now_ms
        self.stats.records += 1
        self.stats.bytes += len(payload)
        self.snapshots.count_records(len(payload))
        self.stats.events += len(events)
        probe(AFTER_ACKNOWLEDGE)

    async def _append(self, payload: bytes) -> Position:
        while True:
            expected = self.folded.own_reader.next
            try:
                return await self.bus.append(self.journal, expected, payload)
            except WrongPosition as error:
                await self._find_out(error)
                if error.landed:
                    return error.actual

    async def _find_out(self, error: WrongPosition) -> None:
        """Find out who wrote between the expected and the actual position. Void records do no harm;
        a claim ends this ownership. Raises OwnershipLost, JournalGap.
        """
        reader = self.folded.own_reader
        reader.check_end(error.actual)
        while reader.next < error.actual:
            batch = await self.bus.read(self.journal, reader.next)
            if not batch:
                raise OwnershipLost(f"{self.journal}: cannot read {reader.next}")
            for position, payload in batch:
                if position >= error.actual:
                    break
                if reader.accept(position, payload) is not None:
                    raise OwnershipLost(f"{self.journal}: another owner's record at {position}")

    def _start_effects(self) -> None:
        """Start the effects of acknowledged records that were not started yet."""
        for effect_id, effect in self.core.effects(self.state).items():
            if effect_id > self._started_effect:
                self.host.probe(BEFORE_EFFECT)
                self._started_effect = effect_id
                self.shell.effect(effect_id, effect)
                self.host.probe(AFTER_EFFECT)

    async def _snapshot(self) -> None:
        if self.snapshots.due(self.folded.own_reader.next, self.state.now_ms):
            self._note = await self.snapshots.write(self.folded)
            self.stats.snapshots += 1
