"""A gang and the cluster autoscaler: after a try without room it asks for nodes, if its group names
a provisioning class, and is tried at once when the autoscaler has provisioned them.

The cluster's object is the truth about a request. What is sent to binding may get lost: it is sent
once more until the watch shows its effect. See request_timing.py for when.
"""

from collections.abc import Iterator

from services.queueing.core.config import PROVISIONING_RETRY_MS, PROVISIONING_RETRY_MS_MAX
from services.queueing.core.gangs import request_timing
from services.queueing.core.gangs.member_lists import pending_groups
from services.queueing.core.gangs.members import needed, touch
from services.queueing.core.state import Gang, Provisioning, QueueingState
from shared.events.base import Event
from shared.events.binding import ProvisioningRefused
from shared.events.ingest import ProvisioningGone, ProvisioningSet
from shared.events.queueing import ProvisioningAsked, ProvisioningWithdrawn
from shared.model.cluster_objects import ProvisioningRequest
from shared.model.columns import split, unpack
from shared.model.groups.provisioning import ENDS, PROVISIONED, ProvisioningWrite, request_name
from shared.model.ids import NO_GANG, PodId, SignatureId

# ------------------------------------------------------------------ inputs


def note_group(state: QueueingState, gang: Gang, is_changed: bool) -> None:
    """Note the class of a group that was set; a request for the group as it was is outdated."""
    one = state.provisioning.get(gang.key)
    if one is None:
        if not gang.provisioning:
            return
        one = state.provisioning[gang.key] = Provisioning(gang.key)
    one.gang = gang.gang
    if is_changed:
        one.failures, one.until_ms, one.error = 0, 0, ""
        one.is_outdated = bool(one.uid or one.sent_ms)


def on_provisioning_set(state: QueueingState, event: ProvisioningSet) -> None:
    """Note what the autoscaler says about requests."""
    for request in event.objects:
        one = state.provisioning.setdefault(request.gang, Provisioning(request.gang))
        _note_request(state, one, request)
        _touch(state, one)


def _note_request(state: QueueingState, one: Provisioning, request: ProvisioningRequest) -> None:
    before = one.phase if one.uid == request.uid else ""
    if one.uid != request.uid:
        one.sent_ms, one.is_outdated = 0, one.is_outdated and not one.uid
    one.uid, one.name = request.uid, f"{request.namespace}/{request.name}"
    one.phase, one.message, one.error = request.phase, request.message, ""
    gang = state.gangs.get(one.gang)
    if gang is not None and request.class_name != gang.provisioning:
        one.is_outdated = True
    if request.phase in ENDS and before not in ENDS:
        _fail(state, one)
    elif request.phase == PROVISIONED and before != PROVISIONED and gang is not None:
        gang.has_room = request_timing.wants_nodes(gang)


def on_provisioning_gone(state: QueueingState, event: ProvisioningGone) -> None:
    """Note deleted requests. One that somebody else deleted is not made anew at once."""
    uids = frozenset(split(event.uids))
    for key in [key for key, one in sorted(state.provisioning.items()) if one.uid in uids]:
        one = state.provisioning[key]
        if one.phase not in ENDS and not one.sent_ms:
            _fail(state, one)
        one.uid = one.name = one.phase = one.message = ""
        one.sent_ms, one.is_outdated = 0, False
        _touch(state, one)


def on_provisioning_refused(state: QueueingState, event: ProvisioningRefused) -> None:
    """Note why requests were not written; they are asked for once more after a while."""
    for key, message in zip(event.keys, event.messages, strict=True):
        one = state.provisioning.get(key)
        if one is not None and not one.uid:
            one.error, one.sent_ms = message, 0
            _fail(state, one)
            _touch(state, one)


def _fail(state: QueueingState, one: Provisioning) -> None:
    one.failures += 1
    wait_ms = min(PROVISIONING_RETRY_MS << min(one.failures - 1, 30), PROVISIONING_RETRY_MS_MAX)
    one.until_ms = state.now_ms + wait_ms


def _touch(state: QueueingState, one: Provisioning) -> None:
    gang = state.gangs.get(one.gang)
    if gang is not None:
        touch(state, gang)
    else:
        request_timing.update(state, one.key)


# -------------------------------------------------------------- own events


def on_provisioning_asked(state: QueueingState, event: ProvisioningAsked) -> None:
    """Note that the request is being written."""
    one = state.provisioning[event.request.key]
    one.sent_ms, one.is_outdated = state.now_ms, False
    request_timing.update(state, one.key)


def on_provisioning_withdrawn(state: QueueingState, event: ProvisioningWithdrawn) -> None:
    """Note that the request is being deleted."""
    state.provisioning[event.request.key].sent_ms = state.now_ms
    request_timing.update(state, event.request.key)


# --------------------------------------------------------------- decisions


def decide_provisioning(state: QueueingState) -> Iterator[Event]:
    """Yield the requests to write and to delete, by key."""
    due = [key for key, at_ms in state.provisioning_due.items() if at_ms <= state.now_ms]
    for key in sorted(due):
        one = state.provisioning[key]
        gang = state.gangs.get(one.gang)
        if one.uid or gang is None:
            write = ProvisioningWrite(one.name, key, uid=one.uid)
            yield ProvisioningWithdrawn(NO_GANG if gang is None else gang.gang, write)
        else:
            yield ProvisioningAsked(gang.gang, _request_of(state, gang))


def _request_of(state: QueueingState, gang: Gang) -> ProvisioningWrite:
    """Return the request for the members that the gang needs, by signature."""
    left, counts, samples = needed(gang), dict[SignatureId, int](), dict[SignatureId, PodId]()
    for part in pending_groups(state, gang):
        ids = unpack(part.ids)[:left]
        if len(ids):
            counts[part.sig] = counts.get(part.sig, 0) + len(ids)
            samples.setdefault(part.sig, PodId(ids.item(0)))
            left -= len(ids)
    name, class_name = request_name(gang.key), gang.provisioning
    pods, numbers = tuple(samples.values()), tuple(counts.values())
    return ProvisioningWrite(name, gang.key, class_name, pods, numbers)
