"""What waits because a queue is at its max: ready pods, gangs, and pods that could preempt.

Signatures without room are left out of the priority index when they come up, and come back when
their queue uses less. They keep their place and their age.
"""

from services.queueing.core.derived import reindex
from services.queueing.core.gangs import members
from services.queueing.core.gangs.member_lists import pending_groups
from services.queueing.core.pods.priority_index import next_single
from services.queueing.core.queues import charges
from services.queueing.core.queues.gang_members import members_within
from services.queueing.core.state import Gang, QueueingState, Sig
from shared.events.ingest import QueuesSet
from shared.events.queueing import QuotaReached
from shared.model.columns import unpack
from shared.model.ids import PodId, SignatureId


def on_queues_set(state: QueueingState, event: QueuesSet) -> None:
    """Take a new tree, and check again what it holds back."""
    state.queues, state.asked_in_vain = event.queues, {}
    charges.follow(state)
    reindex(state)


def why_held(state: QueueingState, sig: Sig) -> str:
    """Return why one more pod of a signature waits for its queue; empty if it does not."""
    quota = state.quota
    return quota.message(sig.queue, sig.amounts) if quota is not None and sig.queue else ""


def ready_nominees(state: QueueingState, sig: Sig, pods: list[PodId]) -> list[PodId]:
    """Return those of the nominated pods of a signature for which its queue has room."""
    if state.quota is None or not sig.queue:
        return pods
    return pods[: state.quota.room(sig.queue, sig.amounts, but_nominated=True)]


def are_nominees_ready(state: QueueingState) -> bool:
    """Return whether a nominated pod may be dispatched."""
    if state.quota is None:
        return bool(state.nominated)
    sigs = (state.sigs[state.pods.sig_at[pod - state.pods.base]] for pod in state.nominated)
    return any(ready_nominees(state, sig, [PodId(0)]) for sig in sigs)


def held_pods(state: QueueingState) -> int:
    """Return how many ready pods wait for their queue, once nothing else is left to be tried."""
    if state.quota is None:
        return 0
    numbers = [number for one in state.quota.held.values() for number in one]
    return sum(state.sigs[number].fifo.live for number in numbers if number in state.sigs)


def decide_reached(state: QueueingState) -> QuotaReached | None:
    """Return a message for pods or a gang that wait for their queue and have none yet. It is
    decided when nothing is left to be tried, so that all that waits is known.
    """
    quota = state.quota
    if quota is None or not (quota.untold or quota.held_gangs):
        return None
    if state.is_bind_limited() or state.free_mask() != state.all_mask:
        return None
    if members.first_ready(state) is not None or next_single(state, state.all_mask) is not None:
        return None
    for gang in sorted(quota.held_gangs):
        text = _why_gang_held(state, state.gangs.get(gang))
        if text:
            return QuotaReached(text, gang=gang)
    for number in sorted(quota.untold):
        found = _why_pods_held(state, number)
        if found is not None:
            return found
    return None


def _why_gang_held(state: QueueingState, gang: Gang | None) -> str:
    if gang is None or gang.held or not members.ready(state, gang):
        return ""
    groups = pending_groups(state, gang)
    return members_within(state, gang, groups, members.needed(gang))[1]


def _why_pods_held(state: QueueingState, number: SignatureId) -> QuotaReached | None:
    sig = state.sigs.get(number)
    if sig is None or not sig.fifo.live:
        return None
    ids, seqs = sig.fifo.oldest(state.pods, sig.fifo.live)
    new = seqs > sig.told_seq
    if not new.any() and state.quota is not None:
        state.quota.untold.pop(number, None)  # a new one is noted again
    text = why_held(state, sig) if new.any() else ""
    return QuotaReached(text, number, ids[new].tobytes()) if text else None


def on_quota_reached(state: QueueingState, event: QuotaReached) -> None:
    """Note that the message was sent."""
    if event.gang:
        gang = state.gangs[event.gang]
        gang.held = event.message
        members.touch(state, gang)
        return
    sig, ids = state.sigs[event.sig], unpack(event.ids)
    sig.told_seq = max(sig.told_seq, int(state.pods.seq[state.pods.rows(ids)].max()))
    if state.quota is not None:
        state.quota.untold.pop(event.sig, None)
