"""Messages of parked pods: a lossy lane, one effect at a time, the latest message wins.

It never delays a bind. A message that is lost with its owner is not written again.
"""

from collections.abc import Iterator

from services.binding.core.state import BindingState
from services.binding.core.table import FACT, NAMED
from services.binding.transitions import Phase
from shared.events.base import Event
from shared.events.binding import FencesAsked
from shared.events.queueing import Parked
from shared.model.columns import pack, unpack

LANE_PODS_MAX = 10_000
EFFECT_PODS = 256


def parked(state: BindingState, event: Parked) -> None:
    """Remember the pods' message, if messages are written at all."""
    if not state.config.status_patches:
        return
    for pod in unpack(event.ids).tolist():
        state.patches.pop(pod, None)
        if len(state.patches) < LANE_PODS_MAX and _may_write(state, pod):
            state.patches[pod] = event.message


def _may_write(state: BindingState, pod: int) -> bool:
    table, row = state.table, state.table.row(pod)
    if row < 0 or table.phases.item(row) != Phase.IDLE:
        return False
    return table.flags.item(row) & (NAMED | FACT) == NAMED


def ask_patches(state: BindingState) -> Iterator[Event]:
    """The next messages, when the ones before are written or lost."""
    if not state.patching:
        pods = sorted(state.patches)[:EFFECT_PODS]
        yield FencesAsked(state.next_effect, pack(pods))


def drop_all(state: BindingState) -> None:
    """Forget the lane."""
    for effect in state.patching:
        state.effects.pop(effect, None)
        state.left.pop(effect, None)
    state.patching.clear()
    state.messages.clear()
    state.patches.clear()
