"""Epochs: recovery from states that should not happen, and the cold start, which is the same.

A reset closes the old epoch before it opens the next one:

1. A claim of the new epoch is appended to every old journal. From there on the old owners' records
are void, and no claim of an older epoch can be in force again, so no old owner starts an effect.
2. Every unassigned pod's resourceVersion is raised. Effects that old owners sent before step 1
carry older ones, so the API refuses them however late they arrive: every open bind is definite.
So is that of every resource claim without devices, for the same reason.
3. The new epoch opens with empty journals; its ingest lists the world as it is.

Old journals stay, for reading. Nothing is placed in between: services wait while an epoch is
opening, and a reset that died is finished by running it again.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shared.events.base import Event
from shared.events.observed import ObjectsSeen, PodsSeen
from shared.machine.record import RECORD_FORMAT_VERSION, Claim
from shared.machine.runtime import Host, append_claim
from shared.model.api_outcome import Answer
from shared.model.claims import Allocation, ClaimChoice
from shared.model.cluster_objects import ClaimObject
from shared.model.columns import split, unpack
from shared.model.ids import JournalName, Position
from shared.ports.bus import Bus, WrongPosition
from shared.ports.cluster import OBJECTS, ClaimsRequest, Cluster, PodRef
from shared.ports.snapshots import SnapshotMeta, SnapshotStore

EPOCHS = JournalName("epochs/0")
FENCE_ROUNDS_MAX = 100
UNASSIGNED = "-"
ASSIGNED_OR_GONE = (Answer.DONE, Answer.GONE, Answer.ASSIGNED)


class ResetFailed(Exception):
    """The reset was not finished; the message says why. Run it again."""


class Epoch(Struct, frozen=True):
    """An epoch that is opening (`is_open` False), or is open."""

    number: int
    is_open: bool
    reason: str
    time_ms: int


def renamed(journal: str, epoch: int) -> JournalName:
    """Return a journal's name in an epoch: `placement/2` in epoch 1, `placement-e3/2`
    in epoch 3.
    """
    if epoch <= 1:
        return JournalName(journal)
    service, _, partition = journal.partition("/")
    return JournalName(f"{service}-e{epoch}/{partition}")


class EpochBus:
    """A bus client that shows one epoch's journals under their plain names."""

    def __init__(self, bus: Bus, epoch: int) -> None:
        """Translate all names; `close` closes the client below."""
        self._bus, self._epoch = bus, epoch

    def _name(self, journal: JournalName) -> JournalName:
        return renamed(journal, self._epoch)

    async def append(self, journal: JournalName, expected: Position, payload: bytes) -> Position:
        return await self._bus.append(self._name(journal), expected, payload)

    async def read(
        self, journal: JournalName, start: Position, limit_bytes: int = 4 << 20
    ) -> list[tuple[Position, bytes]]:
        return await self._bus.read(self._name(journal), start, limit_bytes)

    async def bounds(self, journal: JournalName) -> tuple[Position, Position]:
        return await self._bus.bounds(self._name(journal))

    def watch(
        self, journal: JournalName, start: Position, notify: Callable[[], None]
    ) -> Callable[[], None]:
        return self._bus.watch(self._name(journal), start, notify)

    async def cut(self, journal: JournalName, below: Position) -> None:
        await self._bus.cut(self._name(journal), below)

    async def close(self) -> None:
        await self._bus.close()


class EpochStore:
    """A snapshot store that shows one epoch's snapshots under their journals' plain names."""

    def __init__(self, store: SnapshotStore, epoch: int) -> None:
        """Translate all names."""
        self._store, self._epoch = store, epoch

    def save(self, meta: SnapshotMeta, body: bytes) -> None:
        named = renamed(meta.journal, self._epoch)
        self._store.save(msgspec.structs.replace(meta, journal=named), body)

    def journals(self) -> list[str]:
        plain = self._store.journals()
        if self._epoch <= 1:
            return [name for name in plain if "-e" not in name.partition("/")[0]]
        suffix = f"-e{self._epoch}"
        cut = [(name.partition("/")[0], name.partition("/")[2]) for name in plain]
        return [f"{s[: -len(suffix)]}/{p}" for s, p in cut if s.endswith(suffix)]

    def damaged(self, journal: JournalName) -> list[str]:
        return self._store.damaged(renamed(journal, self._epoch))

    def list(self, journal: JournalName) -> list[SnapshotMeta]:
        found = self._store.list(renamed(journal, self._epoch))
        return [msgspec.structs.replace(meta, journal=journal) for meta in found]

    def load(self, journal: JournalName, position: Position) -> bytes:
        return self._store.load(renamed(journal, self._epoch), position)

    def drop(self, journal: JournalName, below: Position) -> None:
        self._store.drop(renamed(journal, self._epoch), below)


async def epochs(bus: Bus) -> list[Epoch]:
    """Return the epochs of the control journal, oldest first."""
    found: list[Epoch] = []
    at, end = await bus.bounds(EPOCHS)
    while at < end:
        for position, payload in await bus.read(EPOCHS, at):
            found.append(msgspec.msgpack.decode(payload, type=Epoch))
            at = Position(position + 1)
    return found


async def reset(
    bus: Bus, cluster: Cluster, host: Host, journals: Sequence[JournalName], reason: str
) -> Epoch:
    """Close the present epoch and open the next. Raises ResetFailed."""
    known = await epochs(bus)
    last = known[-1] if known else await _unannounced(bus, journals)
    number = last.number + 1 if last.is_open else last.number
    if last.is_open:
        await _announce(
            bus, Epoch(number, False, reason, host.clock.now_ms()), Position(len(known))
        )
        known.append(last)  # the control journal has one more record now
    if number > 1:
        for journal in journals:
            await _retire(bus, host, renamed(journal, number - 1), number, reason)
    await fence_unassigned(cluster)
    await fence_claims(cluster)
    opened = Epoch(number, True, reason, host.clock.now_ms())
    await _announce(bus, opened, Position(len(known)))
    return opened


async def _unannounced(bus: Bus, journals: Sequence[JournalName]) -> Epoch:
    """Return epoch 1 as open if services wrote journals without a control journal."""
    for journal in journals:
        if (await bus.bounds(journal))[1]:
            return Epoch(1, True, "the first", 0)
    return Epoch(0, True, "nothing yet", 0)


async def _announce(bus: Bus, epoch: Epoch, expected: Position) -> None:
    try:
        await bus.append(EPOCHS, expected, msgspec.msgpack.encode(epoch))
    except WrongPosition as error:
        raise ResetFailed("another reset runs at the same time; wait for it") from error


async def _retire(bus: Bus, host: Host, journal: JournalName, epoch: int, reason: str) -> None:
    """Void everything that old owners may still append: a claim of the new epoch ends
    the journal.
    """
    claim = Claim(host.owner, host.nonce(), RECORD_FORMAT_VERSION, {"reset": reason}, epoch)
    _first, end = await bus.bounds(journal)
    await append_claim(bus, journal, end, claim, host.clock.now_ms())


async def fence_unassigned(cluster: Cluster) -> int:
    """Raise the resourceVersion of every unassigned pod until each answer is definite; return their
    number. Raises ResetFailed if the cluster does not answer.
    """
    listed = await cluster.list_all("pods")
    left = [ref for event in listed.events for ref in _unassigned(event)]
    count = len(left)
    for _round in range(FENCE_ROUNDS_MAX):
        if not left:
            return count
        answers = await cluster.touch(left, ["" for _ in left])
        left = [
            ref
            for ref, read in zip(left, answers, strict=True)
            if read.answer not in ASSIGNED_OR_GONE
        ]
    raise ResetFailed(f"{len(left)} pods could not be fenced; is the cluster reachable?")


async def fence_claims(cluster: Cluster) -> None:
    """Raise the resourceVersion of every resource claim without devices, as old owners may still
    write some. Raises ResetFailed if the cluster does not answer.
    """
    if OBJECTS not in cluster.kinds:
        return
    listed = await cluster.list_all(OBJECTS)
    left = [one for event in listed.events for one in _without_devices(event)]
    for _round in range(FENCE_ROUNDS_MAX):
        if not left:
            return
        answers = await cluster.write_claims(left)
        both = zip(left, answers, strict=True)
        left = [_at(one, found.revisions) for one, found in both if found.answer is not Answer.DONE]
    raise ResetFailed(f"{len(left)} resource claims could not be fenced; is the cluster reachable?")


def _without_devices(event: Event) -> Iterator[ClaimsRequest]:
    for one in event.objects if isinstance(event, ObjectsSeen) else ():
        if isinstance(one, ClaimObject) and one.value.allocation is None:
            choice = ClaimChoice(one.namespace, one.name, one.uid, one.revision, Allocation())
            yield ClaimsRequest(PodRef(""), (choice,), gives_back=True)


def _at(one: ClaimsRequest, revisions: tuple[int, ...]) -> ClaimsRequest:
    """Return the request at the revisions that its claims have by now, if they are known."""
    pairs = zip(one.choices, revisions, strict=False)
    choices = tuple(replace(choice, revision=revision) for choice, revision in pairs)
    return replace(one, choices=choices) if choices else one


def _unassigned(event: Event) -> Iterator[PodRef]:
    """Yield the pods of a list's event that have no node."""
    if not isinstance(event, PodsSeen):
        return
    uids, names = split(event.uids), split(event.names)
    nodes = split(event.nodes) if event.nodes else [UNASSIGNED] * len(uids)
    revisions = unpack(event.revisions).tolist()
    for uid, name, node, revision in zip(uids, names, nodes, revisions, strict=True):
        if node == UNASSIGNED:
            yield PodRef(uid, event.namespace, name, revision)
