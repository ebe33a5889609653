"""Volumes bound before their pods: written by binding, watched by the shard that chose them.
Resource claims are written with them; their pods need not wait for facts.

A write may be repeated, so an unknown answer is followed by another write. A late write does no
harm: it names a volume's claim, and a claim with another volume, or a volume with another claim,
refuses it.
"""

from services.binding.core import promises
from services.binding.core.bind_rows import has_pre_bind, move, schedule_repeat
from services.binding.core.binds import open_effect, start_bind
from services.binding.core.claims.returns import are_written
from services.binding.core.conditions.status_patches import set_message
from services.binding.core.state import BindingState
from services.binding.core.transitions import FOR_PERMIT, FOR_VOLUMES, Phase
from shared.events.binding import VolumesAsked, VolumesTaken
from shared.events.observed import VolumeAnswers
from shared.events.placement import Reserved, VolumesBound, VolumesChosen, VolumesFailed
from shared.model.api_outcome import Answer
from shared.model.columns import unpack
from shared.model.ids import NodeId, PodId

REWRITE_MS = 30_000
"""How often the choice is written again: a provisioner removes the node from a claim after a
failure, and a list shows neither change, so the shard would wait for ever for a claim that nobody
provisions.
"""
WORDS = {Answer.DONE: "done", Answer.UNKNOWN: "unknown", Answer.BUSY: "busy"}
"""All other answers are a definite no."""


def note_choices(state: BindingState, event: Reserved | VolumesChosen) -> None:
    """Keep the volumes to bind before the reserved pods."""
    pod = PodId(int.from_bytes(event.ids, "little"))
    if state.table.row(pod) >= 0:
        state.volumes[pod] = event.volumes
        if state.shards > 1:
            promises.promise_volumes(state, pod, event)


def on_volumes_asked(state: BindingState, event: VolumesAsked) -> None:
    """Note that the writes for one pod are sent."""
    open_effect(state, event.effect, event)
    for pod in unpack(event.ids).tolist():
        row = state.table.row(pod)
        move(state, row, "volumes_asked")
        state.table.effects[row] = event.effect
        if pod in state.claims:
            state.claims[pod].is_sent = True


def on_volume_answers(state: BindingState, event: VolumeAnswers) -> None:
    """Apply the answers to one effect; late and repeated ones are ignored."""
    for at, (pod, code) in enumerate(zip(unpack(event.ids).tolist(), event.codes, strict=True)):
        row = state.table.find(pod)
        if row < 0 or state.table.effects.item(row) != event.effect:
            continue
        if state.table.phases.item(row) == Phase.WRITING:
            word = WORDS.get(Answer(code), "refused")
            if word == "done" and pod in state.claims:
                state.claims[pod].revisions = event.revisions[at]
            if word == "done" and pod not in state.volumes:
                _continue_bind(state, row, "claims_written")
                continue
            after = move(state, row, word)
            if after is Phase.VOLUMES:
                schedule_repeat(state, row)
            elif after is Phase.WRITTEN:
                state.due[pod] = state.now_ms + REWRITE_MS


def on_volumes_bound(state: BindingState, event: VolumesBound) -> None:
    """Continue pods whose claims are all bound."""
    pairs = zip(unpack(event.ids).tolist(), unpack(event.nodes).tolist(), strict=True)
    for pod, node in pairs:
        row = _row(state, pod, node)
        if row < 0:
            continue
        if state.promises:
            promises.end_promise(state, pod, event.world)
        phase = state.table.phases.item(row)
        if phase not in FOR_VOLUMES or not are_written(state, pod):
            del state.volumes[pod]
            if phase == Phase.UNRESOLVED:
                start_bind(state, row)
            continue
        _continue_bind(state, row, "volumes_bound")


def _continue_bind(state: BindingState, row: int, word: str) -> None:
    """Continue with PreBind plugins, or with the bind."""
    pod = state.table.pod_at(row)
    state.table.tries[row] = 0
    if has_pre_bind(state, pod):
        move(state, row, f"{word}_with_plugins")
        state.due[pod] = state.now_ms
    else:
        move(state, row, word)
        state.queued.append(pod)


def on_volumes_failed(state: BindingState, event: VolumesFailed) -> None:
    """Give the pod up, as its claims will not be bound; its message says why."""
    row = _row(state, event.pod, event.node)
    if row >= 0:
        move(state, row, "volumes_failed")
        if state.config.status_patches:
            set_message(state, event.pod, event.reason, is_error=True)


def on_volumes_taken(state: BindingState, event: VolumesTaken) -> None:
    """Give the pod up at once, as nothing was written; its message says why."""
    move(state, state.table.row(event.pod), "volumes_taken")
    if state.config.status_patches:
        set_message(state, event.pod, event.reason)


def _row(state: BindingState, pod: PodId, node: NodeId) -> int:
    """Return the pod's row if it waits for volumes on this node, else -1."""
    row = state.table.find(pod)
    if row < 0 or state.table.nodes.item(row) != node or pod not in state.volumes:
        return -1
    if pod in state.promise_conflicts or pod in state.claim_conflicts:
        return -1
    return (
        row if state.table.phases.item(row) in (Phase.UNRESOLVED, *FOR_PERMIT, *FOR_VOLUMES) else -1
    )
