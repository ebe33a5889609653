"""When a gang's request to the cluster autoscaler is written or deleted, and what its members are
told about it. Used by everything that changes gangs; provisioning.py has the events.

A request is wanted from a try without room, which preemption does not help, until the gang has
started. The one that exists has the gang's name, so there is never more than one. One that ended
stays, for people to read, until the next takes its place.
"""

from services.queueing.core.config import PROVISIONING_UNSEEN_MS
from services.queueing.core.state import NOT_ASKED, Gang, Provisioning, QueueingState
from shared.model.groups.provisioning import ENDS, PROVISIONED, request_name


def wants_nodes(gang: Gang | None) -> bool:
    """Return whether the autoscaler may be asked for the gang's nodes."""
    if gang is None or not gang.exists or not gang.provisioning:
        return False
    return not (gang.committed or gang.started)


def lacks_nodes(gang: Gang) -> bool:
    """Return whether the last try of a gang that waits found no room, and preemption makes none."""
    if gang.attempt or gang.is_error or gang.has_room or gang.lacking or not gang.waiting:
        return False
    is_complete = gang.waiting + gang.running >= gang.min_count
    return is_complete and bool(gang.shortage) and gang.preempting == NOT_ASKED


def is_provisioned(state: QueueingState, gang: Gang) -> bool:
    """Return whether the autoscaler says that the gang's nodes are there or on their way."""
    one = state.provisioning.get(gang.key) if gang.provisioning else None
    return one is not None and one.phase == PROVISIONED


def _due_ms(state: QueueingState, one: Provisioning) -> int | None:
    """Return when the request is to be written or deleted, ms; what was sent without effect is sent
    once more after a while.
    """
    gang = state.gangs.get(one.gang)
    is_wanted = gang is not None and wants_nodes(gang)
    again_ms = one.sent_ms + PROVISIONING_UNSEEN_MS if one.sent_ms else 0
    if not one.uid:
        is_needed = is_wanted and gang is not None and lacks_nodes(gang)
        return max(again_ms, one.until_ms) if is_needed else None
    if not is_wanted:
        return again_ms
    if one.phase in ENDS:
        return max(again_ms, one.until_ms)
    return again_ms if one.is_outdated else None


def update(state: QueueingState, key: str) -> None:
    """Update the index, and what members are told, after a change of the gang or of its request."""
    one = state.provisioning.get(key)
    if one is None:
        return
    gang = state.gangs.get(one.gang)
    if not one.uid and not wants_nodes(gang):
        del state.provisioning[key]
        state.provisioning_due.pop(key, None)
        return
    due_ms = _due_ms(state, one)
    if due_ms is None:
        state.provisioning_due.pop(key, None)
    else:
        state.provisioning_due[key] = due_ms
    if gang is not None:
        gang.provisioning_note = _note(one)


def _note(one: Provisioning) -> str:
    start = f"ProvisioningRequest {request_name(one.key)}"
    if one.error:
        return f"{start} was not written: {one.error}"
    if not one.uid:
        return ""
    text = f"{one.phase}: {one.message}" if one.phase and one.message else one.phase
    return f"{start}: {text or 'not accepted yet'}"


def next_ms(state: QueueingState) -> int | None:
    """Return when the next request is to be written or deleted, ms."""
    return min(state.provisioning_due.values(), default=None)
