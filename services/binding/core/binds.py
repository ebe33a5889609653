"""Binds: what starts one, what its answers mean, and which requests are due.

Columns of new reservations, requests and DONE answers are handled as columns; everything else goes
pod by pod through the table of transitions.
"""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from services.binding.core.bind_rows import (
    has_permit,
    has_pre_bind,
    move,
    schedule_repeat,
    settle_rows,
    trim,
)
from services.binding.core.conditions import status_patches
from services.binding.core.pod_table import FACT, MAYBE, NAMED, NEEDED
from services.binding.core.state import NODE_GONE, NODE_LIVE, BindingState, EffectAsked
from services.binding.core.transitions import FOR_PLUGINS, FOR_VOLUMES, SLOW, Phase
from shared.events.base import Event
from shared.events.binding import (
    BindsAsked,
    FencesAsked,
    PermitsAsked,
    PreBindsAsked,
    ReadsAsked,
    VolumesAsked,
)
from shared.events.observed import BindAnswers
from shared.model.api_outcome import Answer
from shared.model.columns import I64, pack, unpack
from shared.model.ids import EffectId, NodeId, PodId

ONE = 8  # bytes of a column with one value
FEW = 4
QUEUED, ASKED = int(Phase.QUEUED), int(Phase.ASKED)
UNASSIGNED, OTHER = NodeId(-1), NodeId(-2)
"""Values in an answer's `nodes`: the pod has no node; it has one that is not ours."""
EFFECT_PODS_SLOW = 1_024
DONE_ONE = bytes([Answer.DONE])
WORDS = {answer: answer.name.lower() for answer in Answer}


def reserve(state: BindingState, ids: bytes, nodes: bytes, is_hooked: bool = False) -> None:
    """Start the binds of reserved or committed pods; `is_hooked`: plugins may act at them."""
    if len(ids) == ONE:
        pod, node = PodId(int.from_bytes(ids, "little")), NodeId(int.from_bytes(nodes, "little"))
        _reserve_one(state, pod, node)
        return
    pods, targets = unpack(ids), unpack(nodes)
    if len(pods) > FEW and not is_hooked and _queue_all(state, pods, targets):
        return
    for pod, target in zip(pods.tolist(), targets.tolist(), strict=True):
        _reserve_one(state, pod, target)


def _queue_all(state: BindingState, pods: I64, targets: I64) -> bool:
    """Queue all pods if each is named and idle and each node is known, the usual case; return
    whether they were.
    """
    table = state.table
    rows = table.rows(pods)
    if int(rows.min()) < 0 or int(targets.max()) > state.last_node or state.is_restoring:
        return False
    ready = (table.flags[rows] == (NAMED | NEEDED)) & (table.phases[rows] == Phase.IDLE)
    if not ready.all() or not (state.node_marks[targets] == NODE_LIVE).all():
        return False
    table.phases[rows] = Phase.QUEUED
    table.nodes[rows] = targets
    state.open += len(rows)
    state.queued.append(pods)
    return True


def _reserve_one(state: BindingState, pod: PodId, target: NodeId) -> None:
    table = state.table
    row = table.row(pod)
    if row < 0:
        state.reports["gone"].ids.append(pod)
        state.reports["gone"].nodes.append(target)
        state.has_reports = True
        return
    if (
        table.flags.item(row) == NAMED | NEEDED
        and not table.phases.item(row)
        and state.node_mark(target) == NODE_LIVE
        and pod not in state.volumes
        and pod not in state.claims
        and pod not in state.plugin_specs
        and not state.is_restoring
    ):
        table.phases[row] = QUEUED
        table.nodes[row] = target
        state.open += 1
        state.queued.append(pod)
        return
    fact = table.nodes.item(row) if table.flags.item(row) & FACT else 0
    move(state, row, "reserved")
    table.nodes[row] = target
    if fact:
        move(state, row, "fact_ours" if fact == target else "fact_other")
        table.nodes[row] = fact
    else:
        start_bind(state, row)


def start_bind(state: BindingState, row: int) -> None:
    """Continue an unresolved bind if its pod and node are known by now."""
    table = state.table
    mark = state.node_mark(table.node_at(row))
    if mark == NODE_GONE:
        move(state, row, "node_gone_unsent")
    elif state.is_restoring:
        move(state, row, "restored_unsent")
    elif mark == NODE_LIVE and table.flags.item(row) & NAMED:
        if has_permit(state, table.pod_at(row)):
            move(state, row, "known_to_ask_permit")
            state.due[table.pod_at(row)] = state.now_ms
        else:
            continue_permitted(state, row)


def continue_permitted(state: BindingState, row: int) -> None:
    """Continue a permitted bind: its volumes and claims first, then PreBind plugins."""
    pod = state.table.pod_at(row)
    if pod in state.volumes or pod in state.claims:
        move(state, row, "known_with_volumes")
        state.due[pod] = state.now_ms
    elif has_pre_bind(state, pod):
        move(state, row, "known_with_plugins")
        state.due[pod] = state.now_ms
    else:
        move(state, row, "known")
        state.queued.append(pod)


def recheck(state: BindingState, pods: list[PodId]) -> None:
    """Continue unresolved binds of these pods after names or nodes became known."""
    for pod in pods:
        if pod in state.unresolved:
            start_bind(state, state.table.row(pod))


# ------------------------------------------------------------------------------------ asking


def decide_binds(state: BindingState) -> Iterator[Event]:
    """Yield the queued binds in the order of decision, then the repeats that are due."""
    while state.queued:
        singles = [entry for entry in islice(state.queued, FEW + 1) if isinstance(entry, int)]
        if len(singles) == len(state.queued) <= state.config.effect_pods:
            yield _decide_few_binds(state, singles)
            continue
        pods, size = [], 0
        for entry in state.queued:
            pods.append(entry if isinstance(entry, np.ndarray) else np.array([entry], np.int64))
            size += len(pods[-1])
            if size >= state.config.effect_pods:
                break
        yield _decide_many_binds(state, pods[0] if len(pods) == 1 else np.concatenate(pods))


def _decide_few_binds(state: BindingState, pods: list[PodId]) -> BindsAsked:
    table = state.table
    rows = [row for row in map(table.row, pods) if row >= 0 and table.phases.item(row) == QUEUED]
    columns = (table.ids, table.nodes, table.revisions)
    return BindsAsked(
        EffectId(state.next_effect),
        *(pack([column.item(row) for row in rows]) for column in columns),
    )


def _decide_many_binds(state: BindingState, pods: I64) -> BindsAsked:
    table = state.table
    rows = table.rows(pods)
    rows = rows[rows >= 0]
    rows = rows[table.phases[rows] == Phase.QUEUED]
    return BindsAsked(
        EffectId(state.next_effect),
        pack(table.ids[rows]),
        pack(table.nodes[rows]),
        pack(table.revisions[rows]),
    )


def decide_due(state: BindingState) -> Iterator[Event]:
    """Yield the repeats, reads, fences, volume writes and plugin calls that are due, by pod id."""
    table = state.table
    groups: dict[Phase, list[PodId]] = {phase: [] for phase in (*SLOW, Phase.WRITTEN)}
    for pod in state.due.until(state.now_ms):
        row = table.row(pod)
        phase = Phase(table.phases.item(row))
        assert phase in groups, f"pod {pod} to node {table.nodes.item(row)}: due in {phase.name}"
        groups[phase].append(pod)
    for phase, pods in groups.items():
        for start in range(0, len(pods), EFFECT_PODS_SLOW):
            part = np.array(pods[start : start + EFFECT_PODS_SLOW], np.int64)
            rows = table.rows(part)
            ids, effect = pack(part), EffectId(state.next_effect)
            if phase is Phase.REPEAT:
                yield BindsAsked(effect, ids, pack(table.nodes[rows]), pack(table.revisions[rows]))
            elif phase is Phase.READ:
                yield ReadsAsked(effect, ids)
            elif phase in (Phase.VOLUMES, Phase.WRITTEN):
                yield VolumesAsked(effect, ids)
            elif phase is Phase.PRE_BIND:
                yield PreBindsAsked(effect, ids)
            elif phase is Phase.PERMIT:
                yield PermitsAsked(effect, ids)
            else:
                yield FencesAsked(effect, ids)


def on_binds_asked(state: BindingState, event: BindsAsked) -> None:
    """Note that the binds of one effect are sent."""
    open_effect(state, event.effect, event)
    table = state.table
    if len(event.ids) == ONE:
        row = table.row(PodId(int.from_bytes(event.ids, "little")))
        move(state, row, "bind_asked")
        table.effects[row] = event.effect
        return
    pods = unpack(event.ids)
    if len(pods) <= FEW:
        for pod in pods.tolist():
            row = table.row(pod)
            move(state, row, "bind_asked")
            table.effects[row] = event.effect
    else:
        rows = table.rows(pods)
        for pod in pods.tolist() if state.due else ():
            state.due.pop(pod, None)
        before = table.phases[rows]
        legal = (before == Phase.QUEUED) | (before == Phase.REPEAT)
        assert legal.all(), f"effect {event.effect}: pods {pods[~legal].tolist()[:9]} not queued"
        table.phases[rows] = Phase.ASKED
        table.effects[rows] = event.effect
    trim(state)


def on_reads_asked(state: BindingState, event: ReadsAsked) -> None:
    """Note that the reads of one effect are sent."""
    open_effect(state, event.effect, event)
    for pod in unpack(event.ids).tolist():
        row = state.table.row(pod)
        move(state, row, "read_asked")
        state.table.effects[row] = event.effect


def on_fences_asked(state: BindingState, event: FencesAsked) -> None:
    """Note that the fences of one effect are sent; for idle pods the patch only carries their
    message.
    """
    open_effect(state, event.effect, event)
    for pod in unpack(event.ids).tolist():
        row = state.table.row(pod)
        if row >= 0 and state.table.phases.item(row) == Phase.FENCE:
            move(state, row, "fence_asked")
            # The fence writes another message.
            state.written.pop(pod, None)
            state.table.effects[row] = event.effect
        else:
            status_patches.note_patch_asked(state, event.effect, pod)


def open_effect(state: BindingState, effect: EffectId, event: EffectAsked) -> None:
    """Open a new effect; its pods wait for answers."""
    assert effect >= state.next_effect, f"effect {effect} was used before"
    state.next_effect = effect + 1
    state.effects[effect] = event
    state.pods_left[effect] = len(event.ids) >> 3  # type: ignore[union-attr]


# ----------------------------------------------------------------------------------- answers


def on_bind_answers(state: BindingState, event: BindAnswers) -> None:
    """Apply the answers to one effect; late and repeated ones are ignored."""
    effect = state.effects.get(event.effect)
    if effect is None:
        return
    if event.codes == DONE_ONE and isinstance(effect, BindsAsked):
        row = state.table.row(PodId(int.from_bytes(event.ids, "little")))
        if row >= 0 and state.table.effects.item(row) == event.effect:
            _apply_answer(state, row, Answer.DONE, 0, UNASSIGNED)
        return
    pods = unpack(event.ids)
    if len(pods) > FEW and isinstance(effect, BindsAsked) and not any(event.codes):
        _finish_all(state, event.effect, pods)
        return
    revisions = unpack(event.revisions).tolist() if event.revisions else [0] * len(pods)
    nodes = unpack(event.nodes).tolist() if event.nodes else [UNASSIGNED] * len(pods)
    answers = zip(pods.tolist(), event.codes, revisions, nodes, strict=True)
    for at, (pod, code, revision, node) in enumerate(answers):
        row = state.table.row(pod)
        if event.effect in state.patching:
            _finish_patch(state, event.effect, pod, row, revision if code == Answer.DONE else 0)
        elif row >= 0 and state.table.effects.item(row) == event.effect:
            if event.texts and state.table.phases.item(row) == ASKED:
                state.bind_errors[pod] = event.texts[at]
            _apply_answer(state, row, Answer(code), revision, node)


def _finish_all(state: BindingState, effect: EffectId, pods: I64) -> None:
    table = state.table
    rows = table.rows(pods)
    rows = rows[rows >= 0]
    is_waiting = (table.effects[rows] == effect) & (table.phases[rows] == Phase.ASKED)
    if not is_waiting.all():
        rows = rows[is_waiting]
    if len(rows):
        settle_rows(state, rows, Phase.BOUND)


def _apply_answer(
    state: BindingState, row: int, answer: Answer, revision: int, node: NodeId
) -> None:
    table = state.table
    phase = table.phases.item(row)
    if phase == ASKED:
        if answer is Answer.DONE:
            move(state, row, "done")
            return
        if answer is Answer.UNKNOWN:
            table.flags[row] |= MAYBE
        after = move(state, row, WORDS[answer])
    elif phase in (Phase.READING, Phase.FENCING):
        word = WORDS[answer]
        if answer is Answer.DONE:
            table.revisions[row] = max(table.revisions.item(row), revision)
            word = _shown_event(table.nodes.item(row), node)
        elif answer not in (Answer.GONE, Answer.BUSY, Answer.REFUSED):
            word = "unknown"
        after = move(state, row, word)
    else:
        return
    if after in (Phase.READ, Phase.FENCE) and phase == Phase.ASKED:
        state.due[table.pod_at(row)] = state.now_ms
    elif after is Phase.REPEAT:
        schedule_repeat(state, row, is_first_free=phase == Phase.READING)
    elif after in (Phase.READ, Phase.FENCE):
        schedule_repeat(state, row)


def _shown_event(target: int, node: NodeId) -> str:
    if node == UNASSIGNED:
        return "shown_unassigned"
    return "shown_ours" if node == target else "shown_other"


def _finish_patch(
    state: BindingState, effect: EffectId, pod: PodId, row: int, revision: int
) -> None:
    """Note that a parked pod's message was written or lost; either way the next one may follow."""
    message = state.messages.pop(pod, None)
    if message is None:
        return
    if row >= 0 and revision:
        raise_revision(state, row, revision)
        status_patches.note_written(state, pod, message)
    state.pods_left[effect] -= 1
    if not state.pods_left[effect]:
        del state.pods_left[effect], state.effects[effect], state.patching[effect]


def raise_revision(state: BindingState, row: int, revision: int) -> None:
    """Store a newer resourceVersion, unless a POST with the present one may be under way."""
    table = state.table
    if revision <= table.revisions.item(row):
        return
    phase = table.phases.item(row)
    unsent = phase == Phase.QUEUED and not table.flags.item(row) & MAYBE
    if phase in (Phase.IDLE, Phase.UNRESOLVED, *FOR_VOLUMES, *FOR_PLUGINS) or unsent:
        table.revisions[row] = revision
