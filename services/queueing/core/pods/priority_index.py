"""The priority index: finds the next signature that a free shard can try.

A heap holds the signatures (and leftovers) that cannot be tried at the same set of shards. There
are few such sets, so finding the next one costs a look at the top of each heap with a free shard,
however many signatures wait for busy shards. Signatures that claim a guarantee, and those that
borrow, have heaps of their own, so that neither is in the way of the other. Entries are checked
when they come up; the top depends only on the pods, so the index can be rebuilt at any time.
"""

from heapq import heappop, heapreplace

from services.queueing.core.queues.quota import BORROWS, CLAIMS, PLAIN
from services.queueing.core.state import Entry, QueueingState
from shared.model.ids import AttemptId


def top(state: QueueingState, mask: int) -> Entry | None:
    """Return the first valid entry of a heap."""
    heap = state.heaps.get(mask)
    if heap is None:
        return None
    while heap:
        entry = heap[0]
        fresh = _checked(state, mask, entry)
        if fresh == entry:
            return entry
        if fresh is None:
            heappop(heap)
        else:
            heapreplace(heap, fresh)
            state.sigs[fresh[3]].lane_seq = fresh[2]
    del state.heaps[mask]
    return None


def _checked(state: QueueingState, mask: int, entry: Entry) -> Entry | None:
    """Return the entry as it should be now; None if it no longer belongs here."""
    sig = state.sigs.get(entry[3])
    if sig is None:
        return None
    if entry[1] == 0:
        leftovers = sig.leftovers.get(AttemptId(entry[2]))
        return entry if leftovers is not None and state.tried_mask(sig, leftovers) == mask else None
    if sig.lane != mask or sig.lane_seq != entry[2]:
        return None  # the queue left this heap, and has another entry if it came back
    if sig.blocked_mask() != mask & state.all_mask or not sig.fifo.live:
        sig.lane = -1
        return None
    quota = state.quota if sig.queue and mask != state.all_mask else None
    if quota is not None and quota.hold(sig.sig, sig.queue, sig.amounts):
        sig.lane = -1
        return None
    if quota is not None and quota.has_guarantees:
        lane = quota.lane(sig.sig, sig.queue, sig.amounts, sig.blocked_mask(), state.all_mask)
        if lane != mask:
            state.index_queue(sig)  # it claimed, and borrows now
            return None
    return (entry[0], 1, sig.fifo.head_seq(state.pods), entry[3])


def next_single(
    state: QueueingState, free: int, may_borrow: bool = True
) -> tuple[Entry, int] | None:
    """Return the first entry that one of the `free` shards can try, and those shards as bits; of a
    queue that borrows only if it `may_borrow`.
    """
    best = _first(state, free, PLAIN, None)
    if state.quota is not None and state.quota.has_guarantees:
        best = _first(state, free, CLAIMS, best)  # before those that borrow, which may get some
        best = _first(state, free, BORROWS, best) if may_borrow else best
    return best


def next_claiming(state: QueueingState, free: int) -> tuple[Entry, int] | None:
    """Return the first entry that claims, as next_single does."""
    return _first(state, free, CLAIMS, None)


def _first(
    state: QueueingState, free: int, standing: int, best: tuple[Entry, int] | None
) -> tuple[Entry, int] | None:
    """Return the first entry of the heaps of this standing, or `best` if that goes before it."""
    shards = len(state.shards)
    for mask in list(state.heaps):
        usable = free & ~mask
        if not usable or mask >> shards != standing:
            continue
        entry = top(state, mask)
        if entry is not None and (best is None or entry < best[0]):
            best = (entry, usable)
    return best


def next_of_priority(state: QueueingState, priority: int, but: int) -> int | None:
    """Return the oldest order number among the other signatures' queues of this priority."""
    oldest: int | None = None
    for mask in list(state.heaps):
        heap = state.heaps.get(mask, [])
        if mask == state.all_mask or top(state, mask) is None:
            continue
        for entry in heap:
            if entry[0] != -priority or entry[1] == 0 or entry[3] == but:
                continue
            fresh = _checked(state, mask, entry)
            if fresh is not None and (oldest is None or fresh[2] < oldest):
                oldest = fresh[2]
    return oldest
