"""Messages of waiting pods: a lossy lane, one effect at a time, the latest message wins.

A message is written when it is new. One that was only confirmed is written again, too, so that its
time tells how old it is, but no more than `REFRESHES_PER_S` of them. It never delays a bind. What
is lost is written when the pod's message is confirmed next. All that is kept is kept of pods that
wait: there is one entry for each of them at most, and it goes when the pod has a node or is gone.
"""

from collections.abc import Iterator
from heapq import nsmallest

from services.binding.core.pod_table import FACT, NAMED
from services.binding.core.state import BindingState
from services.binding.core.transitions import Phase
from shared.events.base import Event
from shared.events.binding import FencesAsked
from shared.events.queueing import Confirmed, Parked, TryFailed
from shared.model.columns import pack, unpack

EFFECT_PODS = 256
REFRESHES_PER_S = 40


def waits(state: BindingState, event: Parked | Confirmed | TryFailed) -> None:
    """Remember the pods' message, if messages are written at all."""
    if not state.config.status_patches:
        return
    is_new, is_error = not isinstance(event, Confirmed), isinstance(event, TryFailed)
    for pod in unpack(event.ids).tolist():
        waits_for(state, pod, event.message, is_new, is_error)


def waits_for(
    state: BindingState, pod: int, message: str, is_new: bool = True, is_error: bool = False
) -> None:
    """The pod waits, and this is to be written: at once where it is another message than before, or
    the first. Where nobody knows the one before, a message that is only confirmed is no first one:
    a new owner has forgotten it.
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


def may_write(state: BindingState, pod: int) -> bool:
    """Whether the pod waits, as far as is known here."""
    table, row = state.table, state.table.find(pod)
    if row < 0 or table.phases.item(row) != Phase.IDLE:
        return False
    return table.flags.item(row) & (NAMED | FACT) == NAMED


def ask_patches(state: BindingState) -> Iterator[Event]:
    """The next messages, when the ones before are written or lost: new ones first."""
    if state.patching:
        return
    if state.patches:
        yield FencesAsked(state.next_effect, pack(sorted(state.patches)[:EFFECT_PODS]))
    elif state.refreshes and state.refresh_ms <= state.now_ms:
        # Who was written longest ago goes first.
        ages = ((state.written.get(pod, ("", 0))[1], pod) for pod in state.refreshes)
        oldest = nsmallest(REFRESHES_PER_S, ages)
        yield FencesAsked(state.next_effect, pack(sorted(pod for _ms, pod in oldest)))


def due_ms(state: BindingState) -> int | None:
    """When the lane goes on by itself."""
    if state.patching:
        return None
    if state.patches:
        return state.now_ms
    return max(state.refresh_ms, state.now_ms) if state.refreshes else None


def asked(state: BindingState, effect: int, pod: int) -> None:
    """The pod's message is on its way. Older journals ask for pods that are in no lane any more."""
    known, _written_ms = state.written.get(pod, ("", 0))
    message = state.patches.pop(pod, None)
    again = state.refreshes.pop(pod, known)
    if message is None:
        state.refresh_ms = state.now_ms + 1_000
    state.messages[pod] = again if message is None else message
    state.patching[effect] = True


def written(state: BindingState, pod: int, message: str) -> None:
    """The cluster shows it, perhaps of a pod that has a node by now."""
    row = state.table.find(pod)
    if row >= 0 and not state.table.flags.item(row) & FACT:
        state.written[pod] = (message, state.now_ms)


def waits_no_more(state: BindingState, pods: list[int]) -> None:
    """They have nodes, or are gone."""
    for column in (state.patches, state.refreshes, state.written, state.errors):
        if column:
            for pod in pods:
                column.pop(pod, None)


def drop_all(state: BindingState) -> None:
    """Forget the lane."""
    for effect in state.patching:
        state.effects.pop(effect, None)
        state.left.pop(effect, None)
    for column in (state.patching, state.messages, state.patches, state.refreshes, state.written):
        column.clear()
    state.errors.clear()
    state.refresh_ms = 0
