"""Queueing's state: pods, signatures, shards, attempts, gangs, preemptions; and its small helpers.

What is derived (queues, heaps, counters, buckets) is rebuilt by `load` from the columns and the
records, so nothing here may decide by the order in which something once happened.
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

RESERVED = int(Pod.RESERVED)
NO, WANTED, ASKED = range(3)  # what a gang has to do with preemption

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
    """What is kept of a shard's answer."""
    helps = event.resolvable, event.preemptible, event.rejected
    return Refusal(event.reasons, event.nodes, event.world, *helps)


class Left:
    """Pods that one attempt left over. `tried` are this round's shards, as bits."""

    __slots__ = ("ids", "live", "rounds", "tried")

    def __init__(self, tried: int, rounds: int) -> None:
        """No pods yet."""
        self.tried, self.rounds = tried, rounds
        self.ids = array("q")
        self.live = 0


class Bucket:
    """Pods whose backoff ends at one time, after errors or not; `live` of `ids` are still in it.
    `line`: in which order they are next, once somebody has asked (some may have left since).
    """

    __slots__ = ("ids", "line", "live")

    def __init__(self) -> None:
        """No pods yet."""
        self.ids = array("q")
        self.live = 0
        self.line: I64 | None = None


class Sig:
    """A signature: what queueing knows of its spec, its queue, and which shards refused it.

    `priority` is what the queue goes by: the pods' own, or what a plugin of a user says for it.
    `mask` has a bit for each shard whose latest answer is a refusal, `again` for those of them that
    are asked all the same, for pods that were refused long ago; `refusals` keeps the last of each
    shard. `stays`: when how many of its unschedulable pods are tried again; `flush_ms` is the first
    of these times. `sent` has a bit for each shard that got the signature. `note` is the text that
    preemption added; it is not asked before `ask_ms`.
    Shards are asked for their reasons again at `look_ms`; `looking` are those that owe an answer,
    and once all have come it is `looked` at. `parked`, `left` are indexes over the pods.
    """

    __slots__ = (
        *(
            "again",
            "ask_ms",
            "askable",
            "cpu_milli",
            "fifo",
            "flush_ms",
            "gpu_milli",
            "lane",
            "left",
        ),
        *(
            "look_ms",
            "looked",
            "looking",
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
        """Nothing queued, nothing refused. Old snapshots do not tell the scheduler's name."""
        self.sig, self.priority, self.never_preempts = sig, priority, never_preempts
        self.scheduler = scheduler
        self.cpu_milli = self.memory_bytes = self.gpu_milli = 0
        self.fifo = Fifo(sig)
        self.mask = self.again = self.sent = 0
        self.stays: dict[int, int] = {}
        self.refusals: dict[int, Refusal] = {}
        self.note = ""
        self.parked = array("q")
        self.parked_live = self.askable = 0
        self.ask_ms = self.flush_ms = 0
        self.look_ms = self.looking = 0
        self.looked = False
        self.left: dict[int, Left] = {}
        self.lane = -1  # in which lane the queue's valid entry lies

    def shut(self) -> int:
        """Shards at which its pods are not tried now."""
        return self.mask & ~self.again


class Attempt:
    """Pods of one signature at one shard; `fixed` work units beside one per open pod."""

    __slots__ = ("attempt", "fixed", "open", "rounds", "shard", "sig", "tried")

    def __init__(self, attempt: int, shard: int, sig: int, fixed: int) -> None:
        """No pods yet."""
        self.attempt, self.shard, self.sig, self.fixed = attempt, shard, sig, fixed
        self.open = self.tried = self.rounds = 0


class Shard:
    """Work in flight at one shard, and what it will have left after that: its last digest less
    what was dispatched since and not refused (`nodes` -1: no digest yet).
    """

    __slots__ = ("free_cpu_milli", "free_gpu_milli", "free_memory_bytes", "nodes", "open", "units")

    def __init__(self) -> None:
        """Idle and unknown."""
        self.units = self.open = 0
        self.nodes = -1
        self.free_cpu_milli = self.free_memory_bytes = self.free_gpu_milli = 0

    def take(self, sig: Sig, count: int) -> None:
        """So many pods of a signature are on their way to it (or, negative, come back)."""
        self.free_cpu_milli -= sig.cpu_milli * count
        self.free_memory_bytes -= sig.memory_bytes * count
        self.free_gpu_milli -= sig.gpu_milli * count


class Gang:
    """A pod group and its members. `attempt` 0: none open. `seq` is its age.

    Times: tried at `tried_ms`, failed at `failed_ms`, `until_ms` ends the backoff, `improved` since
    the last try. What a try says again is said (`looked`) from `look_ms` on. At `tell_ms` members
    are told what is said of the gang. `due_ms`, `timer_ms` and `place` are what was put last on the
    heaps of messages, of failed gangs and of those that can be tried; `members` is an index over
    the pods, with some that are members no more. `has_workload`: some group of its workload exists.
    `preempting` is one of the three above, again not before `ask_ms`: `asks` in a row, the last of
    them until `told_ms`, were in vain. `note` is what preemption said last, `room` that it was made
    and the gang not tried since.
    """

    __slots__ = (
        *("ask_ms", "attempt", "committed", "due_ms", "exists", "failed_ms", "failures", "gang"),
        *("asks", "has_workload", "improved", "key", "note", "preempting", "room", "told_ms"),
        *(
            "look_ms",
            "looked",
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
        *("tell_ms", "timer_ms", "tried_ms", "until_ms", "verdict", "version", "waiting"),
    )

    def __init__(self, gang: int, seq: int) -> None:
        """A group that was only named by a member so far."""
        self.gang, self.seq = gang, seq
        self.key = ""
        self.exists = self.committed = self.improved = self.has_workload = False
        self.min_count = self.version = self.timeout_ms = 0
        self.attempt = self.failures = self.tried_ms = self.failed_ms = self.until_ms = 0
        self.preempting, self.ask_ms, self.room, self.note = NO, 0, False, ""
        self.asks = self.told_ms = 0
        self.priority = -(1 << 62)
        self.message = self.verdict = ""
        self.look_ms = self.tell_ms = 0
        self.due_ms: int | None = None
        self.timer_ms: int | None = None
        self.place: tuple[int, int, int] | None = None
        self.looked = False
        self.sigs: tuple[int, ...] = ()
        self.members, self.members_max = array("q"), MEMBERS_KEPT_MIN
        self.waiting = self.running = 0


class Ask:
    """A pod's dealings with preemption. `ended` is the highest ask known to be over."""

    __slots__ = ("ended", "sig")

    def __init__(self, sig: int, ended: int = 0) -> None:
        """Asked for the first time."""
        self.sig, self.ended = sig, ended


class Lane:
    """The one gang that nothing of its priority may pass; gang 0 = free."""

    __slots__ = ("gang", "priority", "until_ms")

    def __init__(self) -> None:
        """Free."""
        self.gang = self.priority = self.until_ms = 0


class BindRate:
    """Binds in the present and the last full second of the journal's time."""

    __slots__ = ("at_ms", "count", "last", "since_ms")

    def __init__(self) -> None:
        """Nothing measured."""
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
        """The higher of both seconds."""
        return max(self.last, self.count)


class QueueingState(MachineState):
    """See the module's first lines."""

    def __init__(self, sources: Sequence[str], placements: int) -> None:
        """An empty queue before `placements` idle shards."""
        super().__init__(sources)
        self.config = Config()
        self.all_mask = (1 << placements) - 1
        self.pods = Pods()
        self.sigs: dict[int, Sig] = {}
        self.shards = [Shard() for _ in range(placements)]
        self.attempts: dict[int, Attempt] = {}
        self.gangs: dict[int, Gang] = {}
        self.asks: dict[int, Ask] = {}
        self.asks_max = ASKS_KEPT_MIN  # beyond it, those of pods that are over are dropped
        self.lane = Lane()
        self.listing_ms = 0  # since when a world is listed for the first time; 0: it is known
        self.rate = BindRate()
        self.next_attempt = self.next_seq = 1
        # Work that inputs brought and decided events take out.
        self.nominated: dict[int, int] = {}  # pod -> shard that made room for it
        self.closed: dict[int, None] = {}  # pods whose preemption found nobody
        self.leaving: dict[int, None] = {}  # pods for whom victims are leaving
        self.room: dict[int, int] = {}  # pods tried elsewhere just then -> shard that made room
        self.gates: dict[int, str] = {}  # signatures that a plugin of a user holds back, and why
        self.retired: dict[int, None] = {}  # signatures to be forgotten with their last asking pod
        self.gang_recalls: dict[int, None] = {}  # gangs whose preemption is to be taken back
        self.heirs: list[tuple[int, int, int]] = []  # (world position, signature, one made of it)
        # Tries that came to an error, to be told: signature, pods, what it said.
        self.errors: list[tuple[int, bytes, str]] = []
        self.held: dict[str, dict[int, None]] = {}  # plugin -> pods; see the module `held`
        self.happened: dict[str, int] = {}  # kind of event -> the first attempt after the last
        self.roused: dict[int, str] = {}  # those of them that are tried again, and for what
        # Derived from the above.
        self.lanes: dict[int, list[Entry]] = {}  # shards that cannot be tried (bits) -> heap
        self.backoff: dict[int, Bucket] = {}  # see pods.backoff_ends
        self.backoff_ends: list[int] = []
        self.flushes: list[tuple[int, int]] = []
        self.looks: list[tuple[int, int]] = []  # (when, signature)
        self.looks_from_ms = self.flush_from_ms = 0  # the next steps that ask or flush
        self.looked: dict[int, None] = {}  # signatures with a message to confirm
        self.gangs_looked: dict[int, None] = {}  # gangs with one
        self.wake: dict[int, None] = {}  # signatures with pods that wait and a shard to try
        self.ask_next: dict[int, None] = {}  # signatures in one of these two, once each:
        self.ask_due: list[tuple[int, int]] = []  # (-priority, signature) that may be asked for
        self.ask_later: list[tuple[int, int]] = []  # (when, signature)
        # Signature -> pods for which preemption looks for victims, and whose victims are leaving.
        self.askers: dict[int, dict[int, None]] = {}
        self.preempting: dict[int, dict[int, None]] = {}
        self.say: dict[int, None] = {}  # gangs whose message changed
        self.gangs_ready: list[tuple[int, int, int]] = []  # (-priority, age, gang)
        self.gang_timers: list[tuple[int, int]] = []
        self.gang_tells: list[tuple[int, int]] = []  # when members are told, gang
        self.gang_asks: dict[int, None] = {}  # gangs that want to ask preemption, or did
        self.trying: dict[int, None] = {}  # gangs with an open attempt
        self.workloads: dict[str, dict[int, None]] = {}  # workload -> gangs that are named of it
        self.gangs_by_sig: dict[int, dict[int, None]] = {}  # signature -> gangs tried with it

    # ------------------------------------------------------------- signatures

    def refresh(self, sig: Sig) -> None:
        """Bring the indexes in line after the mask, the parked pods or the asks changed."""
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
        """Forget a signature that no pod has once preemption looks for nobody under it."""
        if sig.sig in self.retired and sig.sig not in self.askers:
            del self.sigs[sig.sig], self.retired[sig.sig]

    def enlist(self, sig: Sig) -> None:
        """Give the signature's queue its place among the lanes."""
        if sig.fifo.live and sig.lane != sig.shut():
            sig.lane = sig.shut()
            entry = (-sig.priority, 1, sig.fifo.head_seq(self.pods), sig.sig)
            heappush(self.lanes.setdefault(sig.lane, []), entry)

    def lane_of(self, sig: Sig, left: Left) -> int:
        """Shards at which these leftovers cannot be tried; all of them = park.

        When every shard was tried and one has improved since its refusal, a new round begins at
        once, a few times: parking would lose that wake-up.
        """
        tried = sig.shut() | left.tried
        if tried == self.all_mask and left.rounds < URGENT_ROUNDS_MAX:
            return sig.shut()
        return tried

    def enlist_left(self, sig: Sig, attempt: int, left: Left) -> None:
        """Give leftovers their place among the lanes."""
        entry = (-sig.priority, 0, attempt, sig.sig)
        heappush(self.lanes.setdefault(self.lane_of(sig, left), []), entry)

    def set_mask(self, sig: Sig, mask: int, again: int) -> None:
        """Other shards refuse the signature now, or others of them are asked all the same."""
        again &= mask
        if mask == sig.mask and again == sig.again:
            return
        sig.mask, sig.again = mask, again
        self.enlist(sig)
        for attempt in sorted(sig.left):
            self.enlist_left(sig, attempt, sig.left[attempt])
        self.refresh(sig)

    # ------------------------------------------------------------- counters

    def blocked(self) -> bool:
        """Whether so many reserved pods wait for their bind that nothing more is dispatched."""
        limit = max(self.config.unbound_max, self.rate.per_second())
        return self.pods.counts[RESERVED] >= limit

    def fixed_units(self, sig: Sig, shard: int) -> int:
        """What a dispatch of the signature costs the shard before the first pod."""
        if sig.sent >> shard & 1:
            return 0
        return UNITS_NEW_SIGNATURE + max(self.shards[shard].nodes, 0) // UNITS_NODES_DIVISOR

    def free_mask(self) -> int:
        """Shards with credits for at least one small dispatch, as bits."""
        mask = 0
        for number, shard in enumerate(self.shards):
            if not shard.units or shard.units + UNITS_DISPATCH_MIN <= self.config.credit_units:
                mask |= 1 << number
        return mask

    def answered(self, attempt: Attempt, count: int, placed: bool = False) -> None:
        """Credits of `count` pods come back; the attempt ends with its last pod."""
        shard = self.shards[attempt.shard]
        if not placed and attempt.sig in self.sigs:
            shard.take(self.sigs[attempt.sig], -count)
        attempt.open -= count
        shard.open -= count
        shard.units -= count
        assert attempt.open >= 0
        if attempt.open == 0:
            shard.units -= attempt.fixed
            del self.attempts[attempt.attempt]
        assert shard.units >= 0
        assert shard.open >= 0

    def line_up(self, rows: Rows, count: int) -> I64:
        """Pods came, or failed: they are behind all that did before, and stay there whatever moves
        them meanwhile (kube-scheduler's Timestamp). Returns their numbers.
        """
        seqs = np.arange(self.next_seq, self.next_seq + count, dtype=np.int64)
        self.pods.seq[rows] = seqs
        self.next_seq += count
        # Those that were there before anybody looked have all waited for us alike.
        self.pods.order_ms[rows] = self.listing_ms or self.now_ms
        return seqs

    def delay(self, ids: I64, end: int) -> None:
        """Put pods into a bucket of those in backoff."""
        bucket = self.backoff.get(end)
        if bucket is None:
            bucket = self.backoff[end] = Bucket()
            heappush(self.backoff_ends, end)
        bucket.ids.frombytes(ids.tobytes())
        bucket.live += len(ids)
        bucket.line = None

    def undelay(self, end: int, count: int) -> None:
        """Pods left the bucket; it goes with the last."""
        bucket = self.backoff[end]
        bucket.live -= count
        assert bucket.live >= 0
        if not bucket.live:
            del self.backoff[end]


def put(index: dict[int, dict[int, None]], sig: int, pods: Iterable[int]) -> None:
    """Pods of a signature are in the index from here on."""
    index.setdefault(sig, {}).update(dict.fromkeys(pods))


def take(index: dict[int, dict[int, None]], sig: int, pod: int) -> None:
    """A pod is not any more; the signature goes with its last."""
    del index[sig][pod]
    if not index[sig]:
        del index[sig]


def by_number(numbers: I64) -> list[tuple[int, I64]]:
    """Distinct values in ascending order, each with the places where it stands."""
    if np.count_nonzero(numbers == numbers[0]) == len(numbers):
        return [(int(numbers[0]), np.arange(len(numbers)))]
    order = numbers.argsort(kind="stable")
    values, starts = np.unique(numbers[order], return_index=True)
    parts = np.split(order, starts[1:])
    return [(int(value), part) for value, part in zip(values, parts, strict=True)]
