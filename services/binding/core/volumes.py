"""Volumes that are bound before their pods: written here, waited for by the shard that chose them.

What is written may be written again, so an unknown answer is followed by another write, and a write
that lands late does no harm: it says for which claim a volume is, and a claim that has another one
by then, or a volume that has another claim, refuses it.
"""

from services.binding.core import promises
from services.binding.core.bind_rows import has_pre_bind, later, move
from services.binding.core.binds import known, open_effect
from services.binding.core.state import BindingState
from services.binding.core.status_patches import waits_for
from services.binding.core.transitions import FOR_PERMIT, FOR_VOLUMES, Phase
from shared.events.binding import VolumesAsked, VolumesTaken
from shared.events.observed import VolumeAnswers
from shared.events.placement import Reserved, VolumesBound, VolumesChosen, VolumesFailed
from shared.model.api_outcome import Answer
from shared.model.columns import unpack

AGAIN_MS = 30_000
"""Whoever makes volumes takes the node off a claim again when that came to nothing. Of both changes
a list shows none, so the shard would wait for ever for a claim that nobody is at work on.
"""
WORDS = {Answer.DONE: "done", Answer.UNKNOWN: "unknown", Answer.BUSY: "busy"}
"""Everything else is a definite no."""


def chosen(state: BindingState, event: Reserved | VolumesChosen) -> None:
    """The pod is reserved; before it is bound its volumes are."""
    pod = int.from_bytes(event.ids, "little")
    if state.table.row(pod) >= 0:
        state.volumes[pod] = event.volumes
        if state.shards > 1:
            promises.chosen(state, pod, event)


def asked(state: BindingState, event: VolumesAsked) -> None:
    """The writes for one pod are out."""
    open_effect(state, event.effect, event)
    for pod in unpack(event.ids).tolist():
        row = state.table.row(pod)
        move(state, row, "volumes_asked")
        state.table.effects[row] = event.effect


def answers(state: BindingState, event: VolumeAnswers) -> None:
    """Answers to one effect; those that come late or twice concern nobody."""
    for pod, code in zip(unpack(event.ids).tolist(), event.codes, strict=True):
        row = state.table.find(pod)
        if row < 0 or state.table.effects.item(row) != event.effect:
            continue
        if state.table.phases.item(row) == Phase.WRITING:
            word = WORDS.get(Answer(code), "refused")
            after = move(state, row, word)
            if after is Phase.VOLUMES:
                later(state, row)
            elif after is Phase.WRITTEN:
                state.due[pod] = state.now_ms + AGAIN_MS


def bound(state: BindingState, event: VolumesBound) -> None:
    """The shard sees that all claims are bound: the pods go on."""
    pairs = zip(unpack(event.ids).tolist(), unpack(event.nodes).tolist(), strict=True)
    for pod, node in pairs:
        row = _row(state, pod, node)
        if row < 0:
            continue
        if state.promises:
            promises.over(state, pod, event.world)
        phase = state.table.phases.item(row)
        if phase not in FOR_VOLUMES:
            del state.volumes[pod]
            if phase == Phase.WAITING:
                known(state, row)
            continue
        state.table.tries[row] = 0
        if has_pre_bind(state, pod):
            move(state, row, "volumes_bound_with_plugins")
            state.due[pod] = state.now_ms
        else:
            move(state, row, "volumes_bound")
            state.todo.append(pod)


def failed(state: BindingState, event: VolumesFailed) -> None:
    """They will not be bound: the pod is given up, shows why, and may be tried elsewhere."""
    row = _row(state, event.pod, event.node)
    if row >= 0:
        move(state, row, "volumes_failed")
        if state.config.status_patches:
            waits_for(state, event.pod, event.reason, is_error=True)


def taken(state: BindingState, event: VolumesTaken) -> None:
    """Nothing was written: the pod is given up at once, and shows why."""
    move(state, state.table.row(event.pod), "volumes_taken")
    if state.config.status_patches:
        waits_for(state, event.pod, event.reason)


def _row(state: BindingState, pod: int, node: int) -> int:
    """The pod's row if it waits for volumes on this node; else -1."""
    row = state.table.find(pod)
    if row < 0 or state.table.nodes.item(row) != node or pod not in state.volumes:
        return -1
    if pod in state.taken:
        return -1
    return row if state.table.phases.item(row) in (Phase.WAITING, *FOR_PERMIT, *FOR_VOLUMES) else -1
