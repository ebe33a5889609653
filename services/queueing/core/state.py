"""Queueing's state: pods, signatures, shards, attempts, gangs, preemptions, and small helpers.

Everything derived (queues, heaps, counters, buckets) is rebuilt by `load` from the columns and the
records, so nothing here may depend on the order of past events.
"""

from array import array
from collections.abc import Iterable, Sequence
from heapq import heappush

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
from services.queueing.core.transitions import Pod
from shared.events.placement import Refused
from shared.machine.core import MachineState
from shared.model.columns import I64
from shared.model.ids import JournalName

RESERVED = int(Pod.RESERVED)
NOT_ASKED, ASK_WANTED, ASK_OPEN = range(3)  # a gang's state with preemption

Entry = tuple[int, int, int, int]
"""(-priority, 0 leftovers or 1 queue, attempt or order number, signature): heap key, unique."""


class Refusal(Struct, frozen=True, array_like=True):
    """A shard's last refusal of a signature."""

    reasons: tuple[tuple[str, int], ...]
    nodes: int
    world: int
    resolvable: int
    preemptible: bool
    rejected: bool = False


def refusal_of(event: Refused) -> Refusal:
    """Return the part of a shard's answer that is kept."""
    helps = event.resolvable, event.preemptible, event.rejected
    return Refusal(event.reasons, event.nodes, event.world, *helps)


class Leftovers:
    """The leftovers of one attempt. `tried`: this round's shards, as bits."""

    __slots__ = ("ids", "live", "rounds", "tried")

    def __init__(self, tried: int, rounds: int) -> None:
        """Start without pods."""
        self.tried, self.rounds = tried, rounds
        self.ids = array("q")
        self.live = 0


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


class Sig:
    """A signature: the part of its spec that queueing needs, its queue, and the shards that refused
    it.

    `priority`: what the queue is ordered by: the pods' own, or a user's QueueSort. `mask`: shards
    whose latest answer is a refusal, as bits; `retry_mask`: those of them that are asked anyway for
    pods refused long ago; `refusals`: the last one of each shard. `stays`: when how many of its
    unschedulable pods are tried again; `flush_ms`: the first of these times. `sent`: shards that
    got the signature, as bits. `note`: preemption's text; preemption is not asked before `ask_ms`.
    Shards are asked for their reasons again at `refresh_ms`; `refresh_mask`: those that owe an
    answer; `is_refreshed`: all have answered. `parked`, `leftovers`: indexes over the pods.
    """

    __slots__ = (
        *(
            "retry_mask",
            "ask_ms",
            "askable",
            "cpu_milli",
            "fifo",
            "flush_ms",
            "gpu_milli",
            "lane",
            "leftovers",
        ),
        *(
            "refresh_ms",
            "is_refreshed",
            "refresh_mask",
            "mask",
            "memory_bytes",
            "never_preempts",
            "note",
            "parked",
            "parked_live",
            "priority",
        ),
        *("refusals", "scheduler", "sent", "sig", "stays"),
    )

    def __init__(self, sig: int, priority: int, never_preempts: bool, scheduler: str = "") -> None:
        """Create a signature without pods and refusals. Old snapshots lack the scheduler's name."""
        self.sig, self.priority, self.never_preempts = sig, priority, never_preempts
        self.scheduler = scheduler
        self.cpu_milli = self.memory_bytes = self.gpu_milli = 0
        self.fifo = Fifo(sig)
        self.mask = self.retry_mask = self.sent = 0
        self.stays: dict[int, int] = {}
        self.refusals: dict[int, Refusal] = {}
        self.note = ""
        self.parked = array("q")
        self.parked_live = self.askable = 0
        self.ask_ms = self.flush_ms = 0
        self.refresh_ms = self.refresh_mask = 0
        self.is_refreshed = False
        self.leftovers: dict[int, Leftovers] = {}
        self.lane = -1  # key of the heap with the queue's valid entry

    def blocked_mask(self) -> int:
        """Return the shards at which its pods are not tried now, as bits."""
        return self.mask & ~self.retry_mask


class Attempt:
    """Pods of one signature at one shard; `fixed`: work units besides one per open pod."""

    __slots__ = ("attempt", "fixed", "open", "rounds", "shard", "sig", "tried")

    def __init__(self, attempt: int, shard: int, sig: int, fixed: int) -> None:
        """Start without pods."""
        self.attempt, self.shard, self.sig, self.fixed = attempt, shard, sig, fixed
        self.open = self.tried = self.rounds = 0


class Shard:
    """Work in flight at one shard, and its free amounts after that: its last digest minus what was
    dispatched since and not refused (`nodes` -1: no digest yet).
    """

    __slots__ = ("free_cpu_milli", "free_gpu_milli", "free_memory_bytes", "nodes", "open", "units")

    def __init__(self) -> None:
        """Create an idle shard without a digest."""
        self.units = self.open = 0
        self.nodes = -1
        self.free_cpu_milli = self.free_memory_bytes = self.free_gpu_milli = 0

    def add_load(self, sig: Sig, count: int) -> None:
        """Count `count` pods of a signature dispatched to it, or, if negative, returned."""
        self.free_cpu_milli -= sig.cpu_milli * count
        self.free_memory_bytes -= sig.memory_bytes * count
        self.free_gpu_milli -= sig.gpu_milli * count


class Gang:
    """A pod group and its members. `attempt` 0: none open. `seq`: its age.

    Times: `tried_ms`, `failed_ms`, `until_ms` (end of backoff); `improved`: a shard improved since
    the last try. The message of a repeated failure is confirmed (`is_refreshed`) from `refresh_ms`
    on. At `message_ms` members get the gang's message. `due_ms`, `timer_ms` and `place` are its
    last entries on the heaps of messages, failed gangs and gangs that can be tried. `members` is an
    index over the pods and may hold former members. `has_workload`: a group of its workload exists.
    `preempting` is one of the three constants above; it asks again from `ask_ms` on. `asks`: failed
    asks in a row, the last one until `ask_closed_ms`. `note`: preemption's last text. `has_room`:
    room was made and the gang not tried since.
    """

    __slots__ = (
        *("ask_ms", "attempt", "committed", "due_ms", "exists", "failed_ms", "failures", "gang"),
        *(
            "asks",
            "has_workload",
            "improved",
            "key",
            "note",
            "preempting",
            "has_room",
            "ask_closed_ms",
        ),
        *(
            "refresh_ms",
            "is_refreshed",
            "members",
            "members_max",
            "message",
            "min_count",
            "place",
            "priority",
            "running",
            "seq",
            "sigs",
            "timeout_ms",
        ),
        *("message_ms", "timer_ms", "tried_ms", "until_ms", "verdict", "version", "waiting"),
    )

    def __init__(self, gang: int, seq: int) -> None:
        """Create a group that only a member has named so far."""
        self.gang, self.seq = gang, seq
        self.key = ""
        self.exists = self.committed = self.improved = self.has_workload = False
        self.min_count = self.version = self.timeout_ms = 0
        self.attempt = self.failures = self.tried_ms = self.failed_ms = self.until_ms = 0
        self.preempting, self.ask_ms, self.has_room, self.note = NOT_ASKED, 0, False, ""
        self.asks = self.ask_closed_ms = 0
        self.priority = -(1 << 62)
        self.message = self.verdict = ""
        self.refresh_ms = self.message_ms = 0
        self.due_ms: int | None = None
        self.timer_ms: int | None = None
        self.place: tuple[int, int, int] | None = None
        self.is_refreshed = False
        self.sigs: tuple[int, ...] = ()
        self.members, self.members_max = array("q"), MEMBERS_KEPT_MIN
        self.waiting = self.running = 0


class Ask:
    """A pod's asks of preemption. `ended`: the highest ask known to have ended."""

    __slots__ = ("ended", "sig")

    def __init__(self, sig: int, ended: int = 0) -> None:
        """Create the record at the first ask."""
        self.sig, self.ended = sig, ended


class Lane:
    """The lane: the one gang that nothing of its priority may pass; gang 0: free."""

    __slots__ = ("gang", "priority", "until_ms")

    def __init__(self) -> None:
        """Create a free lane."""
        self.gang = self.priority = self.until_ms = 0


class BindRate:
    """Binds in the present and in the last full second of the journal's time."""

    __slots__ = ("at_ms", "count", "last", "since_ms")

    def __init__(self) -> None:
        """Start without measurements."""
        self.since_ms = self.count = self.last = 0
        self.at_ms = -(1 << 40)  # of the last bind

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


class QueueingState(MachineState):
    """Queueing's state; see the module docstring."""

    def __init__(self, sources: Sequence[JournalName], placements: int) -> None:
        """Create an empty queue for `placements` idle shards."""
        super().__init__(sources)
        self.config = Config()
        self.all_mask = (1 << placements) - 1
        self.pods = Pods()
        self.sigs: dict[int, Sig] = {}
        self.shards = [Shard() for _ in range(placements)]
        self.attempts: dict[int, Attempt] = {}
        self.gangs: dict[int, Gang] = {}
        self.asks: dict[int, Ask] = {}
        self.asks_max = ASKS_KEPT_MIN  # beyond it, asks of finished pods are dropped
        self.lane = Lane()
        self.listing_ms = 0  # since when the first list is open; 0: it is complete
        self.rate = BindRate()
        self.next_attempt = self.next_seq = 1
        # Work added by inputs and removed by own events.
        self.nominated: dict[int, int] = {}  # pod -> shard that made room for it
        self.closed_asks: dict[int, None] = {}  # pods whose preemption found no victims
        self.leaving: dict[int, None] = {}  # pods whose victims are leaving
        self.room: dict[int, int] = {}  # pods in flight elsewhere -> shard that made room
        self.gates: dict[int, str] = {}  # gated signatures -> reason of the PreEnqueue plugin
        self.retired: dict[int, None] = {}  # signatures to forget with their last asking pod
        self.gang_recalls: dict[int, None] = {}  # gangs whose preemption must be recalled
        self.relabelled: list[
            tuple[int, int, int]
        ] = []  # (world position, signature, signature made of it)
        # Tries that ended in an error, to be recorded: (signature, pods, message).
        self.errors: list[tuple[int, bytes, str]] = []
        self.permit_rejected: dict[
            str, dict[int, None]
        ] = {}  # plugin -> pods; see the module `held`
        self.last_events: dict[str, int] = {}  # kind of event -> the first attempt after the last
        self.woken_by_event: dict[int, str] = {}  # those of them that are tried again, and for what
        # Derived from the above.
        self.heaps: dict[int, list[Entry]] = {}  # shards that cannot be tried (bits) -> heap
        self.backoff: dict[int, Bucket] = {}  # see pods.backoff_ends
        self.backoff_ends: list[int] = []
        self.flushes: list[tuple[int, int]] = []
        self.refresh_heap: list[tuple[int, int]] = []  # (when, signature)
        self.looks_from_ms = self.flush_from_ms = 0  # the next steps that refresh or flush
        self.refreshed: dict[int, None] = {}  # signatures with a message to confirm
        self.gangs_refreshed: dict[int, None] = {}  # gangs with a message to confirm
        self.wake: dict[int, None] = {}  # signatures with pods that wait and a shard to try
        self.ask_next: dict[int, None] = {}  # signatures in one of these two, once each:
        self.ask_due: list[tuple[int, int]] = []  # (-priority, signature) that may ask
        self.ask_later: list[tuple[int, int]] = []  # (when, signature)
        # Signature -> pods whose preemption searches, and whose victims are leaving.
        self.askers: dict[int, dict[int, None]] = {}
        self.preempting: dict[int, dict[int, None]] = {}
        self.messages_due: dict[int, None] = {}  # gangs whose message changed
        self.gangs_ready: list[tuple[int, int, int]] = []  # (-priority, age, gang)
        self.gang_timers: list[tuple[int, int]] = []
        self.gang_message_heap: list[tuple[int, int]] = []  # (when members get the message, gang)
        self.gang_asks: dict[int, None] = {}  # gangs that want to ask preemption, or did
        self.gangs_in_flight: dict[int, None] = {}  # gangs with an open attempt
        self.workloads: dict[str, dict[int, None]] = {}  # workload -> its gangs
        self.gangs_by_sig: dict[int, dict[int, None]] = {}  # signature -> gangs tried with it

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

    def index_queue(self, sig: Sig) -> None:
        """Add the signature's queue to the heap of its blocked shards."""
        if sig.fifo.live and sig.lane != sig.blocked_mask():
            sig.lane = sig.blocked_mask()
            entry = (-sig.priority, 1, sig.fifo.head_seq(self.pods), sig.sig)
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

    def index_leftovers(self, sig: Sig, attempt: int, leftovers: Leftovers) -> None:
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
        """Return the credits of `count` pods; the attempt ends with its last pod."""
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
        bucket = self.backoff.get(end)
        if bucket is None:
            bucket = self.backoff[end] = Bucket()
            heappush(self.backoff_ends, end)
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


def add_pods(index: dict[int, dict[int, None]], sig: int, pods: Iterable[int]) -> None:
    """Add pods of a signature to the index."""
    index.setdefault(sig, {}).update(dict.fromkeys(pods))


def remove_pod(index: dict[int, dict[int, None]], sig: int, pod: int) -> None:
    """Remove a pod from the index, and its signature with the last one."""
    del index[sig][pod]
    if not index[sig]:
        del index[sig]


def by_number(numbers: I64) -> list[tuple[int, I64]]:
    """Return the distinct values, ascending, each with its places."""
    if np.count_nonzero(numbers == numbers[0]) == len(numbers):
        return [(int(numbers[0]), np.arange(len(numbers)))]
    order = numbers.argsort(kind="stable")
    values, starts = np.unique(numbers[order], return_index=True)
    parts = np.split(order, starts[1:])
    return [(int(value), part) for value, part in zip(values, parts, strict=True)]
