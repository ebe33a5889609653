"""Messages of waiting pods: a lossy lane, one effect at a time, the latest message wins.

A message is written when it is new. One that was only confirmed is written again, too, so that its
time tells how old it is, but no more than `REFRESHES_PER_S` of them. It never delays a bind. What
is lost is written when the pod's message is confirmed next.
"""

from collections.abc import Iterator
from heapq import nsmallest

from services.binding.core.state import BindingState
from services.binding.core.table import FACT, NAMED
from services.binding.transitions import Phase
from shared.events.base import Event
from shared.events.binding import FencesAsked
from shared.events.queueing import Confirmed, Parked
from shared.model.columns import pack, unpack

LANE_PODS_MAX = 10_000
EFFECT_PODS = 256
REFRESHES_PER_S = 50


def waits(state: BindingState, event: Parked | Confirmed) -> None:
    """Remember the pods' message, if messages are written at all."""
    if not state.config.status_patches:
        return
    for pod in unpack(event.ids).tolist():
        waits_for(state, pod, event.message)


def waits_for(state: BindingState, pod: int, message: str) -> None:
    """The pod waits, and this is to be written."""
    state.patches.pop(pod, None)
    known, written_ms = state.written.get(pod, ("", 0))
    lane = state.patches if known != message else state.refreshes
    if lane is state.refreshes and state.now_ms < written_ms + state.config.fresh_ms:
        return
    state.refreshes.pop(pod, None)
    if len(lane) < LANE_PODS_MAX and may_write(state, pod):
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
    """The pod's message is on its way."""
    message = state.patches.pop(pod, None)
    if message is None:
        message = state.refreshes[pod]
        state.refresh_ms = state.now_ms + 1_000
    state.refreshes.pop(pod, None)
    state.messages[pod] = message
    state.patching[effect] = True


def written(state: BindingState, pod: int, message: str) -> None:
    """The cluster shows it."""
    if len(state.written) >= LANE_PODS_MAX and pod not in state.written:
        known = state.written.items()
        state.written = {other: value for other, value in known if may_write(state, other)}
    if len(state.written) < LANE_PODS_MAX or pod in state.written:
        state.written[pod] = (message, state.now_ms)


def drop_all(state: BindingState) -> None:
    """Forget the lane."""
    for effect in state.patching:
        state.effects.pop(effect, None)
        state.left.pop(effect, None)
    for column in (state.patching, state.messages, state.patches, state.refreshes, state.written):
        column.clear()
    state.refresh_ms = 0
