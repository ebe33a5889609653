"""Status messages of waiting pods: lossy, one effect at a time, the latest message wins.

A new message is written. A message that was only confirmed is written again too, so that its time
shows how old it is, but at most `REFRESHES_PER_S` a second. Messages never delay a bind. A lost
message is written when it is confirmed next. There is at most one entry for each waiting pod,
dropped when the pod has a node or is deleted.
"""

from collections.abc import Iterator
from heapq import nsmallest

from services.binding.core.pod_table import FACT, NAMED
from services.binding.core.state import BindingState
from services.binding.core.transitions import Phase
from shared.events.base import Event
from shared.events.binding import FencesAsked
from shared.events.queueing import Confirmed, Parked, QuotaReached, TryFailed
from shared.model.columns import pack, unpack
from shared.model.ids import EffectId, PodId

EFFECT_PODS = 256
REFRESHES_PER_S = 40


def on_message(state: BindingState, event: Parked | Confirmed | TryFailed | QuotaReached) -> None:
    """Remember the pods' message, if messages are written."""
    if not state.config.status_patches:
        return
    is_new, is_error = not isinstance(event, Confirmed), isinstance(event, TryFailed)
    for pod in unpack(event.ids).tolist():
        set_message(state, pod, event.message, is_new, is_error)


def set_message(
    state: BindingState, pod: PodId, message: str, is_new: bool = True, is_error: bool = False
) -> None:
    """Queue a waiting pod's message: at once if it is new or the first one. A confirmed message
    whose predecessor is unknown is not new: a new owner has only forgotten it.
    """
    if is_error and may_write(state, pod):
        state.errors[pod] = message
    is_new = state.patches.pop(pod, None) is not None or is_new
    known, written_ms = state.written.get(pod, ("", 0))
    lane = state.refreshes if known == message or not (known or is_new) else state.patches
    if known == message and state.now_ms < written_ms + state.config.fresh_ms:
        return
    state.refreshes.pop(pod, None)
    if may_write(state, pod):
        lane[pod] = message


def may_write(state: BindingState, pod: PodId) -> bool:
    """Return whether the pod waits, as far as binding knows."""
    table, row = state.table, state.table.find(pod)
    if row < 0 or table.phases.item(row) != Phase.IDLE:
        return False
    return table.flags.item(row) & (NAMED | FACT) == NAMED


def decide_patches(state: BindingState) -> Iterator[Event]:
    """Yield the next messages once the earlier ones are written or lost: new messages first."""
    if state.patching:
        return
    if state.patches:
        yield FencesAsked(EffectId(state.next_effect), pack(sorted(state.patches)[:EFFECT_PODS]))
    elif state.refreshes and state.refresh_ms <= state.now_ms:
        # The pod written longest ago comes first.
        ages = ((state.written.get(pod, ("", 0))[1], pod) for pod in state.refreshes)
        oldest = nsmallest(REFRESHES_PER_S, ages)
        yield FencesAsked(EffectId(state.next_effect), pack(sorted(pod for _ms, pod in oldest)))


def due_ms(state: BindingState) -> int | None:
    """Return when the next message can be written, ms."""
    if state.patching:
        return None
    if state.patches:
        return state.now_ms
    return max(state.refresh_ms, state.now_ms) if state.refreshes else None


def note_patch_asked(state: BindingState, effect: EffectId, pod: PodId) -> None:
    """Note that the pod's message is sent. Older journals send messages of pods that no longer
    wait.
    """
    known, _written_ms = state.written.get(pod, ("", 0))
    message = state.patches.pop(pod, None)
    refreshed_ms = state.refreshes.pop(pod, known)
    if message is None:
        state.refresh_ms = state.now_ms + 1_000
    state.messages[pod] = refreshed_ms if message is None else message
    state.patching[effect] = True


def note_written(state: BindingState, pod: PodId, message: str) -> None:
    """Note that the message was written, possibly for a pod that has a node by now."""
    row = state.table.find(pod)
    if row >= 0 and not state.table.flags.item(row) & FACT:
        state.written[pod] = (message, state.now_ms)


def forget_messages(state: BindingState, pods: list[PodId]) -> None:
    """Forget the messages of pods that have nodes or are deleted."""
    for column in (state.patches, state.refreshes, state.written, state.errors):
        if column:
            for pod in pods:
                column.pop(pod, None)


def drop_all(state: BindingState) -> None:
    """Forget all messages."""
    for effect in state.patching:
        state.effects.pop(effect, None)
        state.pods_left.pop(effect, None)
    for column in (state.patching, state.messages, state.patches, state.refreshes, state.written):
        column.clear()
    state.errors.clear()
    state.refresh_ms = 0
