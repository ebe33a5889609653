"""Binds: what makes one start, what the answers say, and which requests are due.

A column of new reservations, asks or DONE answers is handled as a column; everything else goes pod
by pod through the table of transitions.
"""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from services.binding.core import status_patches
from services.binding.core.bind_rows import has_permit, has_pre_bind, later, move, settle_rows, trim
from services.binding.core.pod_table import FACT, MAYBE, NAMED, NEEDED
from services.binding.core.state import NODE_GONE, NODE_LIVE, BindingState
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

ONE = 8  # bytes of a column of one
FEW = 4
QUEUED, ASKED = int(Phase.QUEUED), int(Phase.ASKED)
UNASSIGNED, OTHER = -1, -2
"""In an answer's `nodes`: the pod has no node; it has one that is not ours."""
EFFECT_PODS_SLOW = 1_024
DONE_ONE = bytes([Answer.DONE])
WORDS = {answer: answer.name.lower() for answer in Answer}


def reserved(state: BindingState, ids: bytes, nodes: bytes, is_hooked: bool = False) -> None:
    """Pods that a shard or a gang's commit wants bound; plugins of users may act then."""
    if len(ids) == ONE:
        _reserve_one(state, int.from_bytes(ids, "little"), int.from_bytes(nodes, "little"))
        return
    pods, targets = unpack(ids), unpack(nodes)
    if len(pods) > FEW and not is_hooked and _queue_all(state, pods, targets):
        return
    for pod, target in zip(pods.tolist(), targets.tolist(), strict=True):
        _reserve_one(state, pod, target)


def _queue_all(state: BindingState, pods: I64, targets: I64) -> bool:
    """The usual case: every pod is named and idle, every node known."""
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
    state.todo.append(pods)
    return True


def _reserve_one(state: BindingState, pod: int, target: int) -> None:
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
        and pod not in state.hooked
        and not state.is_restoring
    ):
        table.phases[row] = QUEUED
        table.nodes[row] = target
        state.open += 1
        state.todo.append(pod)
        return
    fact = table.nodes.item(row) if table.flags.item(row) & FACT else 0
    move(state, row, "reserved")
    table.nodes[row] = target
    if fact:
        move(state, row, "fact_ours" if fact == target else "fact_other")
        table.nodes[row] = fact
    else:
        known(state, row)


def known(state: BindingState, row: int) -> None:
    """Go on with a waiting bind if its pod and its node are known by now."""
    table = state.table
    mark = state.node_mark(table.nodes.item(row))
    if mark == NODE_GONE:
        move(state, row, "node_gone_unsent")
    elif state.is_restoring:
        move(state, row, "restored_unsent")
    elif mark == NODE_LIVE and table.flags.item(row) & NAMED:
        if has_permit(state, table.ids.item(row)):
            move(state, row, "known_to_ask_permit")
            state.due[table.ids.item(row)] = state.now_ms
        else:
            permitted(state, row)


def permitted(state: BindingState, row: int) -> None:
    """Nobody is against the bind: its volumes come first, then plugins of users, then itself."""
    pod = state.table.ids.item(row)
    if pod in state.volumes:
        move(state, row, "known_with_volumes")
        state.due[pod] = state.now_ms
    elif has_pre_bind(state, pod):
        move(state, row, "known_with_plugins")
        state.due[pod] = state.now_ms
    else:
        move(state, row, "known")
        state.todo.append(pod)


def recheck(state: BindingState, pods: list[int]) -> None:
    """Names of these pods, or nodes of some, became known."""
    for pod in pods:
        if pod in state.waiting:
            known(state, state.table.row(pod))


# ------------------------------------------------------------------------------------ asking


def ask_binds(state: BindingState) -> Iterator[Event]:
    """Queued binds in the order of decision, then the repeats that are due."""
    while state.todo:
        singles = [entry for entry in islice(state.todo, FEW + 1) if isinstance(entry, int)]
        if len(singles) == len(state.todo) <= state.config.effect_pods:
            yield _few_asked(state, singles)
            continue
        pods, size = [], 0
        for entry in state.todo:
            pods.append(entry if isinstance(entry, np.ndarray) else np.array([entry], np.int64))
            size += len(pods[-1])
            if size >= state.config.effect_pods:
                break
        yield _binds_asked(state, pods[0] if len(pods) == 1 else np.concatenate(pods))


def _few_asked(state: BindingState, pods: list[int]) -> BindsAsked:
    table = state.table
    rows = [row for row in map(table.row, pods) if row >= 0 and table.phases.item(row) == QUEUED]
    columns = (table.ids, table.nodes, table.revisions)
    return BindsAsked(
        state.next_effect, *(pack([column.item(row) for row in rows]) for column in columns)
    )


def _binds_asked(state: BindingState, pods: I64) -> BindsAsked:
    table = state.table
    rows = table.rows(pods)
    rows = rows[rows >= 0]
    rows = rows[table.phases[rows] == Phase.QUEUED]
    return BindsAsked(
        state.next_effect,
        pack(table.ids[rows]),
        pack(table.nodes[rows]),
        pack(table.revisions[rows]),
    )


def ask_due(state: BindingState) -> Iterator[Event]:
    """Repeats, reads, fences, writes of volumes and plugins whose time has come, by id."""
    table = state.table
    groups: dict[Phase, list[int]] = {phase: [] for phase in (*SLOW, Phase.WRITTEN)}
    for pod in state.due.until(state.now_ms):
        row = table.row(pod)
        phase = Phase(table.phases.item(row))
        assert phase in groups, f"pod {pod} to node {table.nodes.item(row)}: due in {phase.name}"
        groups[phase].append(pod)
    for phase, pods in groups.items():
        for start in range(0, len(pods), EFFECT_PODS_SLOW):
            part = np.array(pods[start : start + EFFECT_PODS_SLOW], np.int64)
            rows = table.rows(part)
            ids, effect = pack(part), state.next_effect
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


def binds_asked(state: BindingState, event: BindsAsked) -> None:
    """The binds of one effect are out."""
    open_effect(state, event.effect, event)
    table = state.table
    if len(event.ids) == ONE:
        row = table.row(int.from_bytes(event.ids, "little"))
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


def reads_asked(state: BindingState, event: ReadsAsked) -> None:
    """The reads of one effect are out."""
    open_effect(state, event.effect, event)
    for pod in unpack(event.ids).tolist():
        row = state.table.row(pod)
        move(state, row, "read_asked")
        state.table.effects[row] = event.effect


def fences_asked(state: BindingState, event: FencesAsked) -> None:
    """The fences of one effect are out; for idle pods it only carries their messages."""
    open_effect(state, event.effect, event)
    for pod in unpack(event.ids).tolist():
        row = state.table.row(pod)
        if row >= 0 and state.table.phases.item(row) == Phase.FENCE:
            move(state, row, "fence_asked")
            # The fence says something else.
            state.written.pop(pod, None)
            state.table.effects[row] = event.effect
        else:
            status_patches.asked(state, event.effect, pod)


def open_effect(state: BindingState, effect: int, event: Event) -> None:
    """An effect that is used for the first time; its pods wait for answers."""
    assert effect >= state.next_effect, f"effect {effect} was used before"
    state.next_effect = effect + 1
    state.effects[effect] = event
    state.left[effect] = len(event.ids) >> 3  # type: ignore[attr-defined]


# ----------------------------------------------------------------------------------- answers


def bind_answers(state: BindingState, event: BindAnswers) -> None:
    """Answers to one effect; those that come late or twice concern nobody."""
    effect = state.effects.get(event.effect)
    if effect is None:
        return
    if event.codes == DONE_ONE and isinstance(effect, BindsAsked):
        row = state.table.row(int.from_bytes(event.ids, "little"))
        if row >= 0 and state.table.effects.item(row) == event.effect:
            _answered(state, row, Answer.DONE, 0, UNASSIGNED)
        return
    pods = unpack(event.ids)
    if len(pods) > FEW and isinstance(effect, BindsAsked) and not any(event.codes):
        _all_done(state, event.effect, pods)
        return
    revisions = unpack(event.revisions).tolist() if event.revisions else [0] * len(pods)
    nodes = unpack(event.nodes).tolist() if event.nodes else [UNASSIGNED] * len(pods)
    answers = zip(pods.tolist(), event.codes, revisions, nodes, strict=True)
    for at, (pod, code, revision, node) in enumerate(answers):
        row = state.table.row(pod)
        if event.effect in state.patching:
            _patched(state, event.effect, pod, row, revision if code == Answer.DONE else 0)
        elif row >= 0 and state.table.effects.item(row) == event.effect:
            if event.texts and state.table.phases.item(row) == ASKED:
                state.bind_no[pod] = event.texts[at]
            _answered(state, row, Answer(code), revision, node)


def _all_done(state: BindingState, effect: int, pods: I64) -> None:
    table = state.table
    rows = table.rows(pods)
    rows = rows[rows >= 0]
    ours = (table.effects[rows] == effect) & (table.phases[rows] == Phase.ASKED)
    if not ours.all():
        rows = rows[ours]
    if len(rows):
        settle_rows(state, rows, Phase.BOUND)


def _answered(state: BindingState, row: int, answer: Answer, revision: int, node: int) -> None:
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
            word = _shown(table.nodes.item(row), node)
        elif answer not in (Answer.GONE, Answer.BUSY, Answer.REFUSED):
            word = "unknown"
        after = move(state, row, word)
    else:
        return
    if after in (Phase.READ, Phase.FENCE) and phase == Phase.ASKED:
        state.due[table.ids.item(row)] = state.now_ms
    elif after is Phase.REPEAT:
        later(state, row, is_first_free=phase == Phase.READING)
    elif after in (Phase.READ, Phase.FENCE):
        later(state, row)


def _shown(target: int, node: int) -> str:
    if node == UNASSIGNED:
        return "shown_unassigned"
    return "shown_ours" if node == target else "shown_other"


def _patched(state: BindingState, effect: int, pod: int, row: int, revision: int) -> None:
    """A parked pod's message was written, or was lost; either way the lane goes on."""
    message = state.messages.pop(pod, None)
    if message is None:
        return
    if row >= 0 and revision:
        raise_revision(state, row, revision)
        status_patches.written(state, pod, message)
    state.left[effect] -= 1
    if not state.left[effect]:
        del state.left[effect], state.effects[effect], state.patching[effect]


def raise_revision(state: BindingState, row: int, revision: int) -> None:
    """Take a newer resourceVersion, unless a POST with the held one may be out."""
    table = state.table
    if revision <= table.revisions.item(row):
        return
    phase = table.phases.item(row)
    unsent = phase == Phase.QUEUED and not table.flags.item(row) & MAYBE
    if phase in (Phase.IDLE, Phase.WAITING, *FOR_VOLUMES, *FOR_PLUGINS) or unsent:
        table.revisions[row] = revision
