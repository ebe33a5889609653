"""Guarantees come before borrowing: nothing that borrows is dispatched while a pod or a gang that
claims can be tried. It is an order and no block (ADR 0040): what cannot be tried now holds nothing
back.
"""

from services.queueing.core.config import GANGS_OPEN_MAX
from services.queueing.core.gangs import members
from services.queueing.core.gangs.member_lists import pending_groups
from services.queueing.core.pods.priority_index import next_claiming
from services.queueing.core.queues.gang_members import gang_standing
from services.queueing.core.queues.quota import BORROWS
from services.queueing.core.state import Gang, QueueingState, Sig
from services.queueing.core.transitions import Pod
from shared.events.queueing import Members


def claiming_queue(state: QueueingState, free: int) -> str:
    """Return the queue of a pod or gang that claims and can be tried now, at the `free` shards
    (bits); empty if none can.
    """
    quota = state.quota
    if quota is None or not quota.has_guarantees:
        return ""
    single = next_claiming(state, free)
    if single is not None:
        return state.sigs[single[0][3]].queue
    if not state.pods.counts[Pod.GANG_PENDING] or len(state.gangs_in_flight) >= GANGS_OPEN_MAX:
        return ""
    gang = members.first_claiming(state)
    return _first_queue(state, pending_groups(state, gang)) if gang is not None else ""


def is_within_guarantee(state: QueueingState, gang: Gang) -> bool:
    """Return whether a gang that is being tried is within what its queues are guaranteed."""
    sigs = [state.sigs[number] for number in gang.sigs if number in state.sigs]
    queued = [sig for sig in sigs if sig.queue]
    quota = state.quota
    if quota is None or not queued:
        return False
    return all(quota.is_within(sig.queue, sig.amounts) for sig in queued)


def why_borrower_waits(state: QueueingState, sig: Sig) -> str:
    """Return the message of a signature that borrows while others claim; else empty."""
    quota = state.quota
    if quota is None or not sig.queue or quota.claims(sig.queue, sig.amounts):
        return ""
    return _behind(sig.queue, claiming_queue(state, state.all_mask))


def why_borrowing_gang_waits(state: QueueingState, gang: Gang) -> str:
    """Return the message of a gang that borrows while others claim; else empty."""
    needed = members.needed(gang)
    if not members.ready(state, gang) or gang_standing(state, gang, needed) != BORROWS:
        return ""
    name = _first_queue(state, pending_groups(state, gang))
    return _behind(name, claiming_queue(state, state.all_mask))


def _behind(queue: str, other: str) -> str:
    if not other:
        return ""
    return f"queue {queue} borrows; pods of queue {other} within its guarantee go first"


def _first_queue(state: QueueingState, groups: tuple[Members, ...]) -> str:
    return next((name for one in groups if (name := state.sigs[one.sig].queue)), "")
