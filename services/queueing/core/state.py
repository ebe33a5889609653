"""Queueing's state: pods, signatures, shards, attempts, gangs, preemptions, and small helpers.

Everything derived (queues, heaps, counters, buckets) is rebuilt by `load` from the columns and the
records, so nothing here may depend on the order of past events.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import InitVar, dataclass, field
from heapq import heappush
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from services.queueing.core.config import (
    ASKS_KEPT_MIN,
    MEMBERS_KEPT_MIN,
    UNITS_DISPATCH_MIN,
    UNITS_NEW_SIGNATURE,
    UNITS_NODES_DIVISOR,
    URGENT_ROUNDS_MAX,
    Config,
)
from services.queueing.core.pods.fifo import Fifo
from services.queueing.core.pods.table import Pods, Rows
from services.queueing.core.queues.quota import GangEntry, Quota
from services.queueing.core.transitions import Pod
from shared.events.placement import PlaceKept, Refused
from shared.machine.core import MachineState
from shared.machine.saved import Amount, Derived
from shared.model.cluster_objects import Queue
from shared.model.columns import I64
from shared.model.groups.below_minimum import BelowMinimum
from shared.model.groups.topology import Path, Topology
from shared.model.groups.trees import GroupTree
from shared.model.ids import (
    NO_ASK,
    NO_ATTEMPT,
    NO_GANG,
    AskId,
    AttemptId,
    GangId,
    JournalName,
    PodId,
    Position,
    SignatureId,
)
from shared.model.objects import PartMinimum

RESERVED = int(Pod.RESERVED)
NOT_ASKED, ASK_WANTED, ASK_OPEN = range(3)  # a gang's state with preemption

Index = dict[SignatureId, dict[PodId, None]]
Entry = tuple[int, int, int, SignatureId]
"""(-priority, 0 leftovers or 1 queue, attempt or order number, signature): heap key, unique."""


class Refusal(Struct, frozen=True, array_like=True):
    """A shard's last refusal of a signature."""

    reasons: tuple[tuple[str, int], ...]
    nodes: int
    world: Position
    resolvable: int
    preemptible: bool
    rejected: bool = False


if TYPE_CHECKING:
    Ids = array[int]
else:
    Ids = array  # takes no parameter in Python 3.11


def _no_ids() -> Ids:
    return array("q")


def refusal_of(event: Refused) -> Refusal:
    """Return the part of a shard's answer that is kept."""
    helps = event.resolvable, event.preemptible, event.rejected
    return Refusal(event.reasons, event.nodes, event.world, *helps)


@dataclass(slots=True, eq=False)
class Leftovers:
    """The leftovers of one attempt. `tried`: this round's shards, as bits."""

    tried: int
    rounds: int
    ids: Derived[Ids] = field(default_factory=_no_ids)
    live: Derived[int] = 0


class Bucket:
    """Pods whose backoff ends at one time, after errors or not; `live` of `ids` are still in it.
    `line`: their order for early pops, once computed (some may have left since).
    """

    __slots__ = ("ids", "line", "live")

    def __init__(self) -> None:
        """Start without pods."""
        self.ids = array("q")
        self.live = 0
        self.line: I64 | None = None


@dataclass(slots=True, eq=False)
class Sig:
    """A signature: the part of its spec that queueing needs, its queue, and the shards that refused
    it.

    `priority`: what the queue is ordered by: the pods' own, or a user's QueueSort. `mask`: shards
    whose latest answer is a refusal, as bits; `retry_mask`: those of them that are asked anyway for
    pods refused long ago; `refusals`: the last one of each shard. `flush_counts`: when how many of
    its unschedulable pods are tried again; `flush_ms`: the first of these times. `sent`: shards
    that got the signature, as bits. `note`: preemption's text; preemption is not asked before
    `ask_ms`. Shards are asked for their reasons again at `refresh_ms`; `refresh_mask`: those that
    owe an answer; `is_refreshed`: all have answered. `parked`, `leftovers`: indexes over the pods.
    `pod_priority`: the pods' own. `amounts`: what each uses of its `queue`; `told_seq`: the last
    order number of a pod with a message that its queue is at its max.
    """

    sig: SignatureId
    priority: int
    never_preempts: bool
    scheduler: str = ""
    cpu_milli: int = 0
    memory_bytes: int = 0
    gpu_milli: int = 0
    part: str = ""
    mask: int = 0
    retry_mask: int = 0
    sent: int = 0
    refusals: dict[int, Refusal] = field(default_factory=dict)
    leftovers: dict[AttemptId, Leftovers] = field(default_factory=dict)
    note: str = ""
    ask_ms: int = 0
    refresh_ms: int = 0
    refresh_mask: int = 0
    is_refreshed: bool = False
    pod_priority: int = 0
    queue: str = ""
    amounts: tuple[tuple[str, int], ...] = ()
    told_seq: int = 0

    fifo: Derived[Fifo] = field(init=False)
    parked: Derived[Ids] = field(default_factory=_no_ids)
    parked_live: Derived[int] = 0
    askable: Derived[int] = 0
    flush_counts: Derived[dict[int, int]] = field(default_factory=dict)
    flush_ms: Derived[int] = 0
    # Key of the heap with the queue's valid entry, and the order number in that entry.
    lane: Derived[int] = -1
    lane_seq: Derived[int] = 0

    def __post_init__(self) -> None:
        self.fifo = Fifo(self.sig)

    def blocked_mask(self) -> int:
        """Return the shards at which its pods are not tried now, as bits."""
        return self.mask & ~self.retry_mask


@dataclass(slots=True, eq=False)
class Attempt:
    """Pods of one signature at one shard; `fixed`: work units besides one per open pod."""

    attempt: AttemptId
    shard: int
    sig: SignatureId
    fixed: int
    tried: int = 0
    rounds: int = 0
    open: Derived[int] = 0


@dataclass(slots=True, eq=False)
class Shard:
    """Work in flight at one shard, and its free amounts after that: its last digest minus what was
    dispatched since and not refused (`nodes` -1: no digest yet).
    """

    nodes: int = -1
    free_cpu_milli: Amount = 0
    free_memory_bytes: Amount = 0
    free_gpu_milli: Amount = 0
    open: Derived[int] = 0
    units: Derived[int] = 0

    def add_load(self, sig: Sig, count: int) -> None:
        """Count `count` pods of a signature dispatched to it, or, if negative, returned."""
        self.free_cpu_milli -= sig.cpu_milli * count
        self.free_memory_bytes -= sig.memory_bytes * count
        self.free_gpu_milli -= sig.gpu_milli * count


@dataclass(slots=True, eq=False)
class Gang:
    """A pod group and its members. `attempt` 0: none open. `seq`: its age. `committed`: members are
    single pods while minCount run or have finished; those of a gang with a `topology` never are,
    also once it `started`. `running`: members with a node, and since the start those that finished.

    Times: `tried_ms`, `failed_ms`, `until_ms` (end of backoff); `improved`: a shard improved since
    the last try. The message of a repeated failure is confirmed (`is_refreshed`) from `refresh_ms`
    on. At `message_ms` members get the gang's message. `due_ms`, `timer_ms` and `place` are its
    last entries on the heaps of messages, failed gangs and gangs that can be tried. `members` is an
    index over the pods and may hold former members. `has_workload`: a group of its workload exists.
    `preempting` is one of the three constants above; it asks again from `ask_ms` on. `asks`: failed
    asks in a row, the last one until `ask_closed_ms`. `note`: preemption's last text. `has_room`:
    room was made and the gang not tried since. `shortage`: what the last try was short of. `shown`:
    what its PodGroup's condition says; empty: scheduled. `domains`: of its topology, where
    preemption may make room. `lacking`: why a part of it has too few members for its minimum.
    `group_priority`: the PodGroup's own. `is_error`: the verdict is an error, for which its members
    were not tried. `provisioning`: the class with which the autoscaler is asked for nodes, and
    `provisioning_note` what it says. In CompositePodGroups: the `root` of a PodGroup, and of the
    root its `tree`, its `problem`, and the PodGroups that are in its open attempt.
    `below_ms`: since when fewer than minCount run, if `below_minimum` says what comes of that;
    `shrunk`: minCount counts as satisfied since. `held`: a queue of its members was at its max when
    it was to be tried.
    """

    gang: GangId
    seq: int
    key: str = ""
    exists: bool = False
    committed: bool = False
    improved: bool = False
    min_count: int = 0
    version: int = 0
    timeout_ms: int = 0
    attempt: AttemptId = NO_ATTEMPT
    failures: int = 0
    tried_ms: int = 0
    failed_ms: int = 0
    until_ms: int = 0
    priority: int = -(1 << 62)
    message: str = ""
    verdict: str = ""
    message_ms: int = 0
    running: int = 0
    refresh_ms: int = 0
    is_refreshed: bool = False
    sigs: tuple[SignatureId, ...] = ()
    preempting: int = NOT_ASKED
    ask_ms: int = 0
    has_room: bool = False
    note: str = ""
    asks: int = 0
    ask_closed_ms: int = 0
    shortage: str = ""
    shown: str | None = None
    topology: Topology | None = None
    started: bool = False
    domains: list[Path] = field(default_factory=list)
    minimums: tuple[PartMinimum, ...] = ()
    lacking: str = ""
    group_priority: int | None = None
    is_error: bool = False
    provisioning: str = ""
    provisioning_note: str = ""
    root: GangId = NO_GANG
    tree: GroupTree = ()
    problem: str = ""
    tried_groups: tuple[GangId, ...] = ()
    below_minimum: BelowMinimum | None = None
    below_ms: int = 0
    shrunk: bool = False
    held: str = ""

    members: Derived[Ids] = field(default_factory=_no_ids)
    members_max: Derived[int] = MEMBERS_KEPT_MIN
    waiting: Derived[int] = 0
    bound: Derived[int] = 0  # members on nodes for good, of those `running`
    has_workload: Derived[bool] = False
    due_ms: Derived[int | None] = None
    timer_ms: Derived[int | None] = None
    place: Derived[GangEntry | None] = None

    @property
    def outcome(self) -> str:
        """The verdict of the last try, followed by what the autoscaler says; or that a queue holds
        it back.
        """
        if self.held:
            return self.held
        if self.verdict and self.provisioning_note:
            return f"{self.verdict} {self.provisioning_note}"
        return self.verdict


@dataclass(slots=True, eq=False)
class Provisioning:
    """A gang's request to the cluster autoscaler: `name`, `phase` and `message` of the one that the
    cluster has (`uid` empty: none).

    `error`: why it was not written. `sent_ms`: when its creation or deletion was sent to binding
    and not seen yet; 0: not. `failures`: requests in a row that failed; none is made before
    `until_ms`. `is_outdated`: it is for the group as it was.
    """

    key: str
    gang: GangId = NO_GANG
    uid: str = ""
    name: str = ""
    phase: str = ""
    message: str = ""
    error: str = ""
    sent_ms: int = 0
    failures: int = 0
    until_ms: int = 0
    is_outdated: bool = False


@dataclass(slots=True, eq=False)
class Ask:
    """A pod's asks of preemption. `ended`: the highest ask known to have ended."""

    sig: SignatureId
    ended: AskId = NO_ASK


@dataclass(slots=True, eq=False)
class Lane:
    """The lane: the one gang that nothing of its priority may pass; gang 0: free."""

    gang: GangId = NO_GANG
    priority: int = 0
    until_ms: int = 0


@dataclass(slots=True, eq=False)
class BindRate:
    """Binds in the present and in the last full second of the journal's time."""

    since_ms: int = 0
    count: int = 0
    last: int = 0
    at_ms: int = -(1 << 40)  # of the last bind

    def add(self, now_ms: int, count: int) -> None:
        """Count binds."""
        elapsed_ms = now_ms - self.since_ms
        if elapsed_ms >= 1_000:
            self.last = self.count * 1_000 // elapsed_ms
            self.since_ms, self.count = now_ms, 0
        self.count += count
        self.at_ms = now_ms

    def per_second(self) -> int:
        """Return the higher count of both seconds."""
        return max(self.last, self.count)


@dataclass(eq=False, repr=False)
class QueueingState(MachineState):
    """Queueing's state; see the module docstring."""

    sources: InitVar[Sequence[JournalName]]
    placements: InitVar[int]
    config: Config = field(default_factory=Config)
    pods: Pods = field(default_factory=Pods)
    sigs: dict[SignatureId, Sig] = field(default_factory=dict)
    shards: list[Shard] = field(default_factory=list)
    attempts: dict[AttemptId, Attempt] = field(default_factory=dict)
    gangs: dict[GangId, Gang] = field(default_factory=dict)
    asks: dict[PodId, Ask] = field(default_factory=dict)
    lane: Lane = field(default_factory=Lane)
    listing_ms: int = 0  # since when the first list is open; 0: it is complete
    rate: BindRate = field(default_factory=BindRate)
    next_attempt: int = 1
    next_seq: int = 1
    # Work added by inputs and removed by own events.
    nominated: dict[PodId, int] = field(default_factory=dict)  # pod -> shard that made room for it
    # Pods whose preemption found no victims, and pods whose victims are leaving.
    closed_asks: dict[PodId, None] = field(default_factory=dict)
    leaving: dict[PodId, None] = field(default_factory=dict)
    room: dict[PodId, int] = field(default_factory=dict)  # in flight elsewhere -> shard with room
    # The texts about their victims, and pods whose message does not have it yet.
    victims_texts: dict[PodId, str] = field(default_factory=dict)
    untold: dict[PodId, None] = field(default_factory=dict)
    # Gated signatures -> reason of the PreEnqueue plugin.
    gates: dict[SignatureId, str] = field(default_factory=dict)
    bound_members: dict[PodId, GangId] = field(default_factory=dict)
    # To forget with their last asking pod.
    retired: dict[SignatureId, None] = field(default_factory=dict)
    gang_recalls: dict[GangId, None] = field(default_factory=dict)  # preemption must be recalled
    # (World position, signature, signature made of it).
    relabelled: list[tuple[int, SignatureId, SignatureId]] = field(default_factory=list)
    # Tries that ended in an error, to be recorded: (signature, pods, message).
    errors: list[tuple[SignatureId, bytes, str]] = field(default_factory=list)
    # Plugin -> pods; see the module `permit_rejections`.
    permit_rejected: dict[str, dict[PodId, None]] = field(default_factory=dict)
    last_events: dict[str, AttemptId] = field(default_factory=dict)  # first attempts after each
    woken_by_event: dict[PodId, str] = field(default_factory=dict)  # tried again, and for what
    provisioning: dict[str, Provisioning] = field(default_factory=dict)  # by the gang's key
    protected_until_ms: dict[SignatureId, int] = field(default_factory=dict)  # no victims before
    looks_from_ms: int = 0  # the next steps that refresh or flush
    flush_from_ms: int = 0
    kept_places: dict[AskId, PlaceKept] = field(default_factory=dict)  # see gangs/kept_places.py
    places_given: dict[PodId, AskId] = field(default_factory=dict)
    queues: tuple[Queue, ...] = ()
    charged: dict[PodId, SignatureId] = field(default_factory=dict)  # see queues/charges.py
    asked_in_vain: dict[SignatureId, None] = field(default_factory=dict)  # see _note_no_victims
    vain_asks: dict[SignatureId, int] = field(default_factory=dict)  # how many in a row

    quota: Derived[Quota | None] = None  # None without queues
    all_mask: Derived[int] = 0
    asks_max: Derived[int] = ASKS_KEPT_MIN  # beyond it, asks of finished pods are dropped
    # Shards that cannot be tried (bits, see quota.lane) -> heap.
    heaps: Derived[dict[int, list[Entry]]] = field(default_factory=dict)
    backoff: Derived[dict[int, Bucket]] = field(default_factory=dict)  # see pods.backoff_ends
    backoff_ends: Derived[list[int]] = field(default_factory=list)
    flushes: Derived[list[tuple[int, SignatureId]]] = field(default_factory=list)
    refresh_heap: Derived[list[tuple[int, SignatureId]]] = field(default_factory=list)  # by ms
    # Signatures and gangs with a message to confirm.
    refreshed: Derived[dict[SignatureId, None]] = field(default_factory=dict)
    gangs_refreshed: Derived[dict[GangId, None]] = field(default_factory=dict)
    # Signatures with pods that wait and a shard to try.
    wake: Derived[dict[SignatureId, None]] = field(default_factory=dict)
    # Signatures in one of the two below, once each: (-priority, signature) that may ask, and
    # (when, signature).
    ask_next: Derived[dict[SignatureId, None]] = field(default_factory=dict)
    ask_due: Derived[list[tuple[int, SignatureId]]] = field(default_factory=list)
    ask_later: Derived[list[tuple[int, SignatureId]]] = field(default_factory=list)
    # Signature -> pods whose preemption searches, and whose victims are leaving.
    askers: Derived[Index] = field(default_factory=dict)
    preempting: Derived[Index] = field(default_factory=dict)
    # Gangs with a new message.
    messages_due: Derived[dict[GangId, None]] = field(default_factory=dict)
    gangs_ready: Derived[list[GangEntry]] = field(default_factory=list)  # with guarantees see quota
    gang_timers: Derived[list[tuple[int, GangId]]] = field(default_factory=list)
    # (When members get the message, gang).
    shown_due: Derived[dict[GangId, None]] = field(default_factory=dict)
    gang_message_heap: Derived[list[tuple[int, GangId]]] = field(default_factory=list)
    gang_asks: Derived[dict[GangId, None]] = field(default_factory=dict)  # want to ask, or did
    provisioning_due: Derived[dict[str, int]] = field(default_factory=dict)  # key -> when, ms
    below_minimum: Derived[dict[GangId, None]] = field(default_factory=dict)  # with a grace
    # Gangs that are or may be tried for their minimum, and those whose other members wait for that.
    lacking_minimum: Derived[dict[GangId, None]] = field(default_factory=dict)
    growing: Derived[dict[GangId, None]] = field(default_factory=dict)
    gangs_in_flight: Derived[dict[GangId, None]] = field(
        default_factory=dict
    )  # with an open attempt
    workloads: Derived[dict[str, dict[GangId, None]]] = field(default_factory=dict)  # -> its gangs
    # Signature -> gangs tried with it.
    gangs_by_sig: Derived[dict[SignatureId, dict[GangId, None]]] = field(default_factory=dict)

    def __post_init__(self, sources: Sequence[JournalName], placements: int) -> None:
        super().__init__(sources)
        self.all_mask = (1 << placements) - 1
        self.shards = [Shard() for _ in range(placements)]

    # ------------------------------------------------------------- signatures

    def refresh(self, sig: Sig) -> None:
        """Update the indexes after a change of the mask, the parked pods or the asks."""
        if (sig.parked_live or sig.sig in self.preempting) and sig.mask != self.all_mask:
            self.wake[sig.sig] = None
        else:
            self.wake.pop(sig.sig, None)
        if not sig.parked_live:
            sig.parked = array("q")
        if sig.askable and sig.sig not in self.askers and sig.sig not in self.ask_next:
            self.ask_next[sig.sig] = None
            heappush(self.ask_later, (sig.ask_ms, sig.sig))

    def drop_retired(self, sig: Sig) -> None:
        """Forget a retired signature once preemption searches for none of its pods."""
        if sig.sig in self.retired and sig.sig not in self.askers:
            del self.sigs[sig.sig], self.retired[sig.sig]
            self.protected_until_ms.pop(sig.sig, None)
            self.vain_asks.pop(sig.sig, None)

    def index_queue(self, sig: Sig) -> None:
        """Add the signature's queue to the heap of its blocked shards, and of what it claims."""
        lane = sig.blocked_mask()
        if sig.queue and self.quota is not None:
            self.quota.untold[sig.sig] = None
            lane = self.quota.lane(sig.sig, sig.queue, sig.amounts, lane, self.all_mask)
        if sig.fifo.live and sig.lane != lane:
            sig.lane, sig.lane_seq = lane, sig.fifo.head_seq(self.pods)
            entry = (-sig.priority, 1, sig.lane_seq, sig.sig)
            heappush(self.heaps.setdefault(sig.lane, []), entry)

    def tried_mask(self, sig: Sig, leftovers: Leftovers) -> int:
        """Return the shards at which these leftovers cannot be tried; all shards: park.

        If every shard was tried and one has improved since its refusal, a new round begins at once,
        a few times: parking would lose that wake-up.
        """
        tried = sig.blocked_mask() | leftovers.tried
        if tried == self.all_mask and leftovers.rounds < URGENT_ROUNDS_MAX:
            return sig.blocked_mask()
        return tried

    def index_leftovers(self, sig: Sig, attempt: AttemptId, leftovers: Leftovers) -> None:
        """Add leftovers to the heap of their tried shards."""
        entry = (-sig.priority, 0, attempt, sig.sig)
        heappush(self.heaps.setdefault(self.tried_mask(sig, leftovers), []), entry)

    def set_mask(self, sig: Sig, mask: int, retry_mask: int) -> None:
        """Set the refusing shards, and those of them that are asked anyway."""
        retry_mask &= mask
        if mask == sig.mask and retry_mask == sig.retry_mask:
            return
        sig.mask, sig.retry_mask = mask, retry_mask
        self.index_queue(sig)
        for attempt in sorted(sig.leftovers):
            self.index_leftovers(sig, attempt, sig.leftovers[attempt])
        self.refresh(sig)

    # ------------------------------------------------------------- counters

    def is_bind_limited(self) -> bool:
        """Return whether dispatching stops because too many reserved pods wait for their bind."""
        limit = max(self.config.unbound_max, self.rate.per_second())
        return self.pods.counts[RESERVED] >= limit

    def fixed_units(self, sig: Sig, shard: int) -> int:
        """Return the shard's work units of a dispatch before its first pod."""
        if sig.sent >> shard & 1:
            return 0
        return UNITS_NEW_SIGNATURE + max(self.shards[shard].nodes, 0) // UNITS_NODES_DIVISOR

    def free_mask(self) -> int:
        """Return the shards with credits for at least one small dispatch, as bits."""
        mask = 0
        for number, shard in enumerate(self.shards):
            if not shard.units or shard.units + UNITS_DISPATCH_MIN <= self.config.credit_units:
                mask |= 1 << number
        return mask

    def return_credits(self, attempt: Attempt, count: int, placed: bool = False) -> None:
        """Give back the credits of `count` pods; the attempt ends with its last pod."""
        shard = self.shards[attempt.shard]
        if not placed and attempt.sig in self.sigs:
            shard.add_load(self.sigs[attempt.sig], -count)
        attempt.open -= count
        shard.open -= count
        shard.units -= count
        assert attempt.open >= 0
        if attempt.open == 0:
            shard.units -= attempt.fixed
            del self.attempts[attempt.attempt]
        assert shard.units >= 0
        assert shard.open >= 0

    def assign_order(self, rows: Rows, count: int) -> I64:
        """Give arrived or failed pods new order numbers, after all others, and return them. They
        keep them whatever moves them (kube-scheduler's Timestamp).
        """
        seqs = np.arange(self.next_seq, self.next_seq + count, dtype=np.int64)
        self.pods.seq[rows] = seqs
        self.next_seq += count
        # Pods that existed before the first list have all waited equally.
        self.pods.order_ms[rows] = self.listing_ms or self.now_ms
        return seqs

    def delay(self, ids: I64, end: int) -> None:
        """Put pods into a backoff bucket."""
        if end not in self.backoff:
            self.backoff[end] = Bucket()
            heappush(self.backoff_ends, end)
        bucket = self.backoff[end]
        bucket.ids.frombytes(ids.tobytes())
        bucket.live += len(ids)
        bucket.line = None

    def undelay(self, end: int, count: int) -> None:
        """Count pods that left the bucket; remove an empty one."""
        bucket = self.backoff[end]
        bucket.live -= count
        assert bucket.live >= 0
        if not bucket.live:
            del self.backoff[end]


def add_pods(index: Index, sig: SignatureId, pods: Iterable[PodId]) -> None:
    """Add pods of a signature to the index."""
    index.setdefault(sig, {}).update(dict.fromkeys(pods))


def remove_pod(index: Index, sig: SignatureId, pod: PodId) -> None:
    """Remove a pod from the index, and its signature with the last one."""
    del index[sig][pod]
    if not index[sig]:
        del index[sig]


def by_number(numbers: I64) -> list[tuple[Any, I64]]:
    """Return the distinct values, ascending, each with its places."""
    if np.count_nonzero(numbers == numbers[0]) == len(numbers):
        return [(int(numbers[0]), np.arange(len(numbers)))]
    order = numbers.argsort(kind="stable")
    values, starts = np.unique(numbers[order], return_index=True)
    parts = np.split(order, starts[1:])
    return [(int(value), part) for value, part in zip(values, parts, strict=True)]
