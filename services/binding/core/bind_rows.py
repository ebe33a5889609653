"""What every change of a bind goes through: the table of transitions, open effects, reports.

Singles go through `move`; columns through `settle_rows`, which is the same for pods that all stand
in one phase and all come to the same end.
"""

import numpy as np

from services.binding.core import promises
from services.binding.core.config import Config
from services.binding.core.pod_table import FACT, MAYBE
from services.binding.core.state import BindingState, PostBind
from services.binding.core.status_patches import waits_no_more
from services.binding.core.transitions import FOR_PERMIT, FOR_VOLUMES, TRANSITIONS, Phase
from services.binding.core.transitions import OUT as PHASES_OUT
from shared.model.columns import I64

IDLE, WAITING, QUEUED = int(Phase.IDLE), int(Phase.WAITING), int(Phase.QUEUED)
BOUND, FOREIGN = int(Phase.BOUND), int(Phase.FOREIGN)
BEFORE_BIND = (Phase.WAITING, *FOR_PERMIT, *FOR_VOLUMES)
OUT = frozenset(int(phase) for phase in PHASES_OUT)
"""Plain numbers, because every bind goes through here."""

REPORTS = {
    Phase.BOUND: "bound",
    Phase.GONE: "gone",
    Phase.FOREIGN: "foreign",
    Phase.ABANDONED: "abandoned",
    Phase.REFUSED: "refused",
}


def move(state: BindingState, row: int, event: str) -> Phase:
    """One pod's next phase; at an end it is reported and the pod is idle."""
    table = state.table
    pod = table.ids.item(row)
    before = table.phases.item(row)
    after = TRANSITIONS.get((before, event))  # type: ignore[arg-type]  # ints are faster
    if after is None:
        raise AssertionError(
            f"pod {pod} to node {table.nodes.item(row)}: {event} is not allowed in "
            f"{Phase(before).name}"
        )
    if before in OUT:
        leave_effect(state, table.effects.item(row), 1)
    elif before == WAITING:
        del state.waiting[pod]
    elif before == IDLE:
        state.open += 1
    if state.volumes and after not in BEFORE_BIND:
        state.volumes.pop(pod, None)
        if state.shards > 1:
            promises.over(state, pod)
    if after >= BOUND:
        _report(state, row, pod, after)
        after = Phase.IDLE
    elif after == WAITING:
        state.waiting[pod] = True
    table.phases[row] = int(after)
    if before == QUEUED:
        trim(state)
    elif state.due:
        state.due.pop(pod, None)
    return after


def _report(state: BindingState, row: int, pod: int, end: Phase) -> None:
    table = state.table
    reason = REPORTS[end]
    if end == Phase.ABANDONED and pod in state.bind_no:
        reason = "failed"
    column = state.reports[reason]
    column.ids.append(pod)
    column.nodes.append(table.nodes.item(row))
    state.has_reports = True
    state.open -= 1
    if state.hooked:
        _unhook(state, pod, table.nodes.item(row), end)
    if state.lost_names:
        state.lost_names.pop(pod, None)
    table.tries[row] = 0
    flags = table.flags.item(row) & ~MAYBE
    table.flags[row] = flags | FACT if end == BOUND else flags
    if end == BOUND and state.has_messages:
        waits_no_more(state, [pod])
    if end in (BOUND, FOREIGN):
        table.unneeded_one(row)


def has_pre_bind(state: BindingState, pod: int) -> bool:
    """Whether plugins of users run before the pod is bound."""
    spec = state.hooked.get(pod)
    return spec is not None and spec.scheduler in state.config.pre_bind


def has_permit(state: BindingState, pod: int) -> bool:
    """Whether plugins of users are asked before anything is done for the pod."""
    spec = state.hooked.get(pod)
    return spec is not None and spec.scheduler in state.config.permit


def _unhook(state: BindingState, pod: int, node: int, end: Phase) -> None:
    """The pod's bind is over; plugins of users may want to know that it is bound."""
    state.pre_bind_no.pop(pod, None)
    state.pre_bind_by.pop(pod, None)
    if end is not Phase.ABANDONED:
        state.bind_no.pop(pod, None)
    spec = state.hooked.pop(pod, None)
    if end is Phase.BOUND and spec is not None and spec.scheduler in state.config.post_bind:
        state.post_binds[pod] = PostBind(spec, node)
        state.post_new[pod] = True


def settle_rows(state: BindingState, rows: I64, end: Phase) -> None:
    """Many pods, all in one phase of which none is due, come to one end."""
    table = state.table
    before = Phase(table.phases.item(rows[0]))
    if before in OUT:
        effects = table.effects[rows]
        first = int(effects[0])
        if (effects == first).all():
            leave_effect(state, first, len(rows))
        else:
            values, counts = np.unique(effects, return_counts=True)
            for effect, count in zip(values.tolist(), counts.tolist(), strict=True):
                leave_effect(state, effect, count)
    column = state.reports[REPORTS[end]]
    column.ids.append(table.ids[rows])
    column.nodes.append(table.nodes[rows].astype(np.int64))
    state.has_reports = True
    state.open -= len(rows)
    if state.hooked:
        for pod, node in zip(table.ids[rows].tolist(), table.nodes[rows].tolist(), strict=True):
            _unhook(state, pod, node, end)
    table.tries[rows] = 0
    table.flags[rows] &= ~MAYBE
    table.phases[rows] = Phase.IDLE
    if end is Phase.BOUND:
        table.flags[rows] |= FACT
        if state.has_messages:
            waits_no_more(state, table.ids[rows].tolist())
    if end is Phase.BOUND or end is Phase.FOREIGN:
        table.unneeded(rows)


def is_where_sent(state: BindingState, row: int, node: int) -> bool:
    """Whether a node is the one that the pod's bind names: the node that was chosen, or one that
    was made again under its name. A bind is sent by name, so it may land on either.
    """
    table = state.table
    if table.nodes.item(row) == node:
        return True
    name = state.lost_names.get(table.ids.item(row)) if state.lost_names else None
    return name is not None and state.node_names.get(node) == name


def leave_effect(state: BindingState, effect: int, pods: int) -> None:
    """So many pods of an effect wait for its answer no longer; the last one closes it."""
    left = state.left[effect] - pods
    assert left >= 0, f"effect {effect}: {left} pods left"
    if left:
        state.left[effect] = left
    else:
        del state.left[effect], state.effects[effect]


def later(state: BindingState, row: int, is_first_free: bool = False) -> None:
    """Set when the pod goes on: the more often it did not work, the later."""
    table, config = state.table, state.config
    tries = table.tries.item(row)
    table.tries[row] = min(tries + 1, 30)
    delay_ms = 0 if is_first_free and not tries else backoff_ms(config, tries)
    state.due[table.ids.item(row)] = state.now_ms + delay_ms


def backoff_ms(config: Config, tries: int) -> int:
    """How long to wait after so many tries that told nothing definite."""
    return min(config.repeat_max_ms, config.repeat_initial_ms << min(tries, 20))


def trim(state: BindingState) -> None:
    """Drop the first entries of `todo` that hold no queued pod any more."""
    table, todo = state.table, state.todo
    while todo:
        entry = todo[0]
        if isinstance(entry, np.ndarray):
            rows = table.rows(entry)
            if (table.phases[rows[rows >= 0]] == QUEUED).any():
                return
        else:
            row = table.row(entry)
            if row >= 0 and table.phases.item(row) == QUEUED:
                return
        todo.popleft()
