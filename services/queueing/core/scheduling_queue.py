"""The scheduling queue: how pods become ready, which are tried next, and at which shard.

    enqueue, enqueue_few    pods -> READY: in the queue of their signature (pods/fifo.py), which is
                            in the index of what a shard can try (pods/priority_index.py)
    next_to_try             the signature or gang that is first: by priority, leftovers, then age;
                            what borrows waits for what claims a guarantee
    decide_dispatch         Dispatched: so many of its pods to the best shard, by free amounts,
                            credits, the reorder window and the batch limit
    on_dispatched           pods -> IN_FLIGHT: out of the queue, in an open attempt

decisions.py parks what no shard can try before it asks for the next one, and sends gangs to permit.
"""

from collections.abc import Sequence

import numpy as np

from services.queueing.core.config import (
    GANGS_OPEN_MAX,
    SPREAD_PODS_MIN,
    UNITS_DISPATCH_MIN,
    URGENT_ROUNDS_MAX,
)
from services.queueing.core.gangs import members
from services.queueing.core.pods.priority_index import next_of_priority, next_single
from services.queueing.core.pods.table import SMALL, Rows
from services.queueing.core.queues.guarantees import claiming_queue, is_within_guarantee
from services.queueing.core.queues.looks import wake_held
from services.queueing.core.queues.quota import BORROWS, CLAIMS
from services.queueing.core.state import (
    Attempt,
    Entry,
    Gang,
    Leftovers,
    QueueingState,
    Shard,
    Sig,
)
from services.queueing.core.transitions import Pod
from shared.events.queueing import Dispatched
from shared.model.columns import I64, ID_BYTES, as_numbers, size, unpack
from shared.model.ids import AttemptId, PodId

PLENTY = 1 << 60
LOWEST = -(1 << 63)
READY, LEFT, WAITING = int(Pod.READY), int(Pod.LEFTOVER), int(Pod.GANG_PENDING)

Single = tuple[Entry, int]
"""An entry of the index, and the shards that can try it, as bits."""


# ------------------------------------------------------------------ enqueue


def enqueue(state: QueueingState, event: str, sig: Sig, ids: I64) -> None:
    """Put pods of one signature into its queue by age, unless a plugin gates them."""
    pods = state.pods
    rows = pods.rows(ids)
    if state.gates and sig.sig in state.gates:
        pods.move("gated", ids, rows)
        return
    pods.move(event, ids, rows)
    if pods.seq[rows].any():
        _insert(state, sig, ids, rows)
    else:
        sig.fifo.push(ids.tobytes(), state.assign_order(rows, len(ids)).tobytes())
    state.index_queue(sig)


def _insert(state: QueueingState, sig: Sig, ids: I64, rows: Rows) -> None:
    """Insert pods that have an order number already, which they keep."""
    seqs = state.pods.seq[rows]
    if sig.queue:
        sig.told_seq = min(sig.told_seq, int(seqs.min()) - 1)  # they have another message now
    if np.count_nonzero(seqs[1:] > seqs[:-1]) < len(ids) - 1:
        order = seqs.argsort(kind="stable")
        ids, seqs = ids[order], seqs[order]
    if sig.fifo.insert(state.pods, ids, seqs):
        sig.lane = -1  # its entry there is too far behind


def enqueue_few(state: QueueingState, event: str, sig: Sig, ids: Sequence[PodId]) -> None:
    """Enqueue a few pods, without arrays."""
    pods, seq = state.pods, state.next_seq
    for number, pod in enumerate(ids, start=seq):
        row = pod - pods.base
        pods.move_one(event, row)
        pods.seq_at[row] = number
        pods.order_ms_at[row] = state.listing_ms or state.now_ms
    sig.fifo.push_few(ids, seq)
    state.next_seq = seq + len(ids)
    state.index_queue(sig)


# ------------------------------------------------------------------ what is tried next


def next_to_try(state: QueueingState) -> Gang | Single | None:
    """Return what is tried next: by priority, then leftovers, then age. None while everything ready
    waits for credits, binds or the gang with the lane.
    """
    counts, lane = state.pods.counts, state.lane
    wake_held(state)
    if not (counts[READY] or counts[LEFT] or counts[WAITING]) or state.is_bind_limited():
        return None
    behind = lane.priority if lane.gang else LOWEST  # the gang with the lane goes before these
    free = state.free_mask()
    may_borrow = state.quota is None or not claiming_queue(state, free)
    single = next_single(state, free, may_borrow)
    if single is not None and -single[0][0] <= behind:
        single = None
    gang = members.first_ready(state, may_borrow) if counts[WAITING] else None
    if gang is not None and gang.gang != lane.gang and gang.priority <= behind:
        gang = None
    if gang is None or (single is not None and single[0][:3] < (-gang.priority, 1, gang.seq)):
        is_too_young = single is not None and state.gangs_in_flight and _is_too_young(state, single)
        return None if is_too_young else single
    if len(state.gangs_in_flight) < GANGS_OPEN_MAX:
        return gang
    # It is dispatched after the next answer: younger pods must not take its place meanwhile.
    return None if members.head_starts(state) else single


def _is_too_young(state: QueueingState, single: Single) -> bool:
    """Return whether an older gang of at least its priority has a head start on a queue's head;
    of any priority if the gang is within its guarantee and the queue borrows.
    """
    entry = single[0]
    borrows = state.sigs[entry[3]].lane >> len(state.shards) == BORROWS
    return entry[1] != 0 and any(
        gang.seq < entry[2]
        and (-gang.priority <= entry[0] or (borrows and is_within_guarantee(state, gang)))
        for gang in members.head_starts(state)
    )


# ------------------------------------------------------------------ dispatch


def decide_dispatch(state: QueueingState, entry: Entry, usable: int) -> Dispatched:
    """Return the dispatch for the next entry."""
    sig = state.sigs[entry[3]]
    shard = best_shard(state, sig, usable)
    attempt = AttemptId(state.next_attempt)
    if entry[1] == 0:
        left_by = AttemptId(entry[2])
        ids = leftover_ids(state, sig, left_by, sig.leftovers[left_by])
        count = batch_limit(state, sig, shard, usable, len(ids))
        return Dispatched(attempt, shard, sig.sig, ids[:count].tobytes(), urgent=True)
    limit = batch_limit(state, sig, shard, usable, sig.fifo.live)
    if sig.queue and state.quota is not None:
        limit = min(limit, state.quota.room(sig.queue, sig.amounts))
        claimed, _name = state.quota.claimed(sig.queue, sig.amounts)
        limit = min(limit, claimed or limit)  # a batch that claims ends with the guarantee
    standing = sig.lane >> len(state.shards)
    claims, borrows = standing == CLAIMS, standing == BORROWS
    if limit == 1:
        oldest = sig.fifo.first(state.pods)
        one = oldest.to_bytes(8, "little")
        return Dispatched(attempt, shard, sig.sig, one, claims=claims, borrows=borrows)
    ids, seqs = sig.fifo.oldest(state.pods, limit)
    ids = _before_gang(state, sig, _within_window(state, sig, ids, seqs), seqs)
    return Dispatched(attempt, shard, sig.sig, ids.tobytes(), claims=claims, borrows=borrows)


def _within_window(state: QueueingState, sig: Sig, ids: I64, seqs: I64) -> I64:
    """Return the oldest pods that may be tried before others of their priority."""
    if len(ids) == 1:
        return ids
    if state.config.strict_order:
        limit = next_of_priority(state, sig.priority, sig.sig)
        return ids if limit is None else ids[: max(1, int(np.searchsorted(seqs, limit)))]
    times = state.pods.order_ms[state.pods.rows(ids)]
    last = int(times[0]) + state.config.reorder_window_ms
    if int(times[-1]) <= last:
        return ids
    return ids[: int(np.searchsorted(times, last, side="right"))]


def _before_gang(state: QueueingState, sig: Sig, ids: I64, seqs: I64) -> I64:
    """Return the pods older than the next gang: a batch reorders pods, not gangs."""
    gang = members.first_ready(state) if state.pods.counts[WAITING] else None
    if gang is None or gang.priority < sig.priority or gang.seq < seqs[0]:
        return ids
    return ids[: int(np.searchsorted(seqs[: len(ids)], gang.seq))]


def leftover_ids(state: QueueingState, sig: Sig, attempt: AttemptId, leftovers: Leftovers) -> I64:
    """Return the leftovers of this attempt, in queue order."""
    pods = state.pods
    ids = np.frombuffer(leftovers.ids, np.int64).copy()
    if len(ids) != leftovers.live:
        ids = pods.known(np.unique(ids))
        rows = ids - pods.base
        ids = ids[(pods.state[rows] == Pod.LEFTOVER) & (pods.attempt[rows] == attempt)]
        assert len(ids) == leftovers.live, f"signature {sig.sig}: leftovers of attempt {attempt}"
    return ids[pods.seq[pods.rows(ids)].argsort(kind="stable")]


def capacity(sig: Sig, shard: Shard) -> int:
    """Return how many more pods of this signature the shard's free amounts could hold at best; 0
    without a digest.
    """
    if shard.nodes < 0:
        return 0
    pods = PLENTY
    for request, free in (
        (sig.cpu_milli, shard.free_cpu_milli),
        (sig.memory_bytes, shard.free_memory_bytes),
        (sig.gpu_milli, shard.free_gpu_milli),
    ):
        if request > 0:
            pods = min(pods, max(free, 0) // request)
    return pods


def best_shard(state: QueueingState, sig: Sig, usable: int) -> int:
    """Return the usable shard (bits) that is emptiest in what Score reads, among those with any
    room; then the one with the least work.

    So shards are scored like nodes. docs/reference/differences.md has what several shards lose.
    """
    first = usable.bit_length() - 1
    if usable == 1 << first:
        return first
    numbers = [number for number in range(first + 1) if usable >> number & 1]
    shards = state.shards
    cpu_milli = 1 + sum(max(shard.free_cpu_milli, 0) for shard in shards)
    memory_bytes = 1 + sum(max(shard.free_memory_bytes, 0) for shard in shards)

    def emptiness(shard: Shard) -> int:
        free_milli, free_bytes = max(shard.free_cpu_milli, 0), max(shard.free_memory_bytes, 0)
        return free_milli * memory_bytes + free_bytes * cpu_milli

    return min(
        numbers,
        key=lambda s: (
            capacity(sig, shards[s]) == 0,
            -emptiness(shards[s]),
            shards[s].units,
            s,
        ),
    )


def batch_limit(state: QueueingState, sig: Sig, shard: int, usable: int, waiting: int) -> int:
    """Return how many of `waiting` pods one dispatch to this shard may have."""
    config, at = state.config, state.shards[shard]
    limit = min(waiting, config.max_batch or waiting)
    limit = min(limit, max(1, config.credit_units - at.units - state.fixed_units(sig, shard)))
    shards = usable.bit_count()
    if shards > 1 and limit > SPREAD_PODS_MIN:
        share = -(-waiting // shards)
        limit = min(limit, max(SPREAD_PODS_MIN, share))
    if state.all_mask != 1 and at.nodes >= 0 and limit > SPREAD_PODS_MIN:
        limit = min(limit, max(SPREAD_PODS_MIN, capacity(sig, at)))
    return limit


def on_dispatched(state: QueueingState, event: Dispatched) -> None:
    """Open an attempt and take its credits."""
    pods, sig, shard = state.pods, state.sigs[event.sig], state.shards[event.shard]
    count = size(event.ids)
    first = int.from_bytes(event.ids[:ID_BYTES], "little") - pods.base
    attempt = Attempt(event.attempt, event.shard, event.sig, state.fixed_units(sig, event.shard))
    code = pods.state_at[first]
    if code == READY:
        sig.fifo.remove_oldest(event.ids)
    elif code == LEFT:
        _continue_leftovers(state, sig, attempt, pods.attempt_at[first], count)
    else:
        for pod in as_numbers(event.ids):  # nominated
            state.nominated.pop(pod, None)
    if count <= SMALL:
        for pod in as_numbers(event.ids):
            pods.move_one("dispatched", pod - pods.base)
            pods.attempt_at[pod - pods.base] = event.attempt
    else:
        ids = unpack(event.ids)
        rows = pods.rows(ids)
        pods.move("dispatched", ids, rows)
        pods.attempt[rows] = event.attempt
    attempt.fixed += max(0, UNITS_DISPATCH_MIN - attempt.fixed - count)
    attempt.open = count
    shard.open += count
    shard.add_load(sig, count)
    shard.units += attempt.fixed + count
    sig.sent |= 1 << event.shard
    assert event.attempt >= state.next_attempt, f"attempt {event.attempt} is not new"
    state.attempts[event.attempt] = attempt
    state.next_attempt = event.attempt + 1


def _continue_leftovers(
    state: QueueingState, sig: Sig, attempt: Attempt, number: AttemptId, count: int
) -> None:
    """Continue leftovers: within their round, or in a new one at a shard that they have tried."""
    leftovers = sig.leftovers[number]
    attempt.tried, attempt.rounds = leftovers.tried, leftovers.rounds
    if leftovers.tried >> attempt.shard & 1:
        attempt.tried, attempt.rounds = 0, leftovers.rounds + 1
        assert attempt.rounds <= URGENT_ROUNDS_MAX
    leftovers.live -= count
    if not leftovers.live:
        del sig.leftovers[number]
