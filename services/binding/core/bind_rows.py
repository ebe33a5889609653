"""The single path of every change of a bind: the table of transitions, open effects, reports.

Single pods use `move`. Columns use `settle_rows`, which has the same result for pods that are all
in one phase and have the same end.
"""

import numpy as np

from services.binding.core import promises
from services.binding.core.claims.returns import end_claims
from services.binding.core.conditions.status_patches import forget_messages
from services.binding.core.config import Config
from services.binding.core.pod_table import FACT, MAYBE
from services.binding.core.state import BindingState, PostBind
from services.binding.core.transitions import FOR_PERMIT, FOR_VOLUMES, TRANSITIONS, Phase
from services.binding.core.transitions import OUT as PHASES_OUT
from shared.model.columns import I64
from shared.model.ids import EffectId, NodeId, PodId

IDLE, WAITING, QUEUED = int(Phase.IDLE), int(Phase.UNRESOLVED), int(Phase.QUEUED)
BOUND, FOREIGN = int(Phase.BOUND), int(Phase.FOREIGN)
BEFORE_BIND = (Phase.UNRESOLVED, *FOR_PERMIT, *FOR_VOLUMES)
OUT = frozenset(int(phase) for phase in PHASES_OUT)
"""Plain integers, because every bind uses them."""

REPORTS = {
    Phase.BOUND: "bound",
    Phase.GONE: "gone",
    Phase.FOREIGN: "foreign",
    Phase.ABANDONED: "abandoned",
    Phase.REFUSED: "refused",
}


def move(state: BindingState, row: int, event: str) -> Phase:
    """Move one pod to its next phase and return the phase; at an end, report it and
    make it idle.
    """
    table = state.table
    pod = table.pod_at(row)
    before = table.phases.item(row)
    after = TRANSITIONS.get((before, event))  # type: ignore[arg-type]  # ints are faster
    if after is None:
        raise AssertionError(
            f"pod {pod} to node {table.nodes.item(row)}: {event} is not allowed in "
            f"{Phase(before).name}"
        )
    if before in OUT:
        leave_effect(state, EffectId(table.effects.item(row)), 1)
    elif before == WAITING:
        del state.unresolved[pod]
    elif before == IDLE:
        state.open += 1
    if state.volumes and after not in BEFORE_BIND:
        state.volumes.pop(pod, None)
        if state.shards > 1:
            promises.end_promise(state, pod)
    if after >= BOUND:
        if state.claims:
            end_claims(state, row, pod, after)
        _report(state, row, pod, after)
        after = Phase.IDLE
    elif after == WAITING:
        state.unresolved[pod] = True
    table.phases[row] = int(after)
    if before == QUEUED:
        trim(state)
    elif state.due:
        state.due.pop(pod, None)
    return after


def _report(state: BindingState, row: int, pod: PodId, end: Phase) -> None:
    table = state.table
    reason = REPORTS[end]
    if end == Phase.ABANDONED and pod in state.bind_errors:
        reason = "failed"
    column = state.reports[reason]
    column.ids.append(pod)
    column.nodes.append(table.node_at(row))
    state.has_reports = True
    state.open -= 1
    if state.plugin_specs:
        _drop_spec(state, pod, table.node_at(row), end)
    if state.lost_names:
        state.lost_names.pop(pod, None)
    table.tries[row] = 0
    flags = table.flags.item(row) & ~MAYBE
    table.flags[row] = flags | FACT if end == BOUND else flags
    if end == BOUND and state.has_messages:
        forget_messages(state, [pod])
    if end in (BOUND, FOREIGN):
        table.release_name(row)


def has_pre_bind(state: BindingState, pod: PodId) -> bool:
    """Return whether PreBind plugins run for the pod."""
    spec = state.plugin_specs.get(pod)
    return spec is not None and spec.scheduler in state.config.pre_bind


def has_permit(state: BindingState, pod: PodId) -> bool:
    """Return whether Permit plugins run for the pod."""
    spec = state.plugin_specs.get(pod)
    return spec is not None and spec.scheduler in state.config.permit


def _drop_spec(state: BindingState, pod: PodId, node: NodeId, end: Phase) -> None:
    """Drop the spec of a finished bind; PostBind plugins may want a bound pod."""
    state.pre_bind_rejections.pop(pod, None)
    state.pre_bind_rejectors.pop(pod, None)
    if end is not Phase.ABANDONED:
        state.bind_errors.pop(pod, None)
    spec = state.plugin_specs.pop(pod, None)
    if end is Phase.BOUND and spec is not None and spec.scheduler in state.config.post_bind:
        state.post_binds[pod] = PostBind(spec, node)
        state.post_new[pod] = True


def settle_rows(state: BindingState, rows: I64, end: Phase) -> None:
    """Settle many pods, all in one phase and none of them due, with one end."""
    table = state.table
    before = Phase(table.phases.item(rows[0]))
    if before in OUT:
        effects = table.effects[rows]
        first = EffectId(effects.item(0))
        if (effects == first).all():
            leave_effect(state, first, len(rows))
        else:
            values, counts = np.unique(effects, return_counts=True)
            for effect, count in zip(values.tolist(), counts.tolist(), strict=True):
                leave_effect(state, effect, count)
    if state.claims:
        for row in rows.tolist():
            end_claims(state, row, table.pod_at(row), end)
    column = state.reports[REPORTS[end]]
    column.ids.append(table.ids[rows])
    column.nodes.append(table.nodes[rows].astype(np.int64))
    state.has_reports = True
    state.open -= len(rows)
    if state.plugin_specs:
        for pod, node in zip(table.ids[rows].tolist(), table.nodes[rows].tolist(), strict=True):
            _drop_spec(state, pod, node, end)
    table.tries[rows] = 0
    table.flags[rows] &= ~MAYBE
    table.phases[rows] = Phase.IDLE
    if end is Phase.BOUND:
        table.flags[rows] |= FACT
        if state.has_messages:
            forget_messages(state, table.ids[rows].tolist())
    if end is Phase.BOUND or end is Phase.FOREIGN:
        table.release_names(rows)


def is_where_sent(state: BindingState, row: int, node: NodeId) -> bool:
    """Return whether a node is the one that the pod's bind names: the chosen node, or a new one of
    its name. A bind names its node, so it may land on either.
    """
    table = state.table
    if table.nodes.item(row) == node:
        return True
    name = state.lost_names.get(table.pod_at(row)) if state.lost_names else None
    return name is not None and state.node_names.get(node) == name


def leave_effect(state: BindingState, effect: EffectId, pods: int) -> None:
    """Count pods of an effect that no longer wait for its answer; the last one closes
    the effect.
    """
    left = state.pods_left[effect] - pods
    assert left >= 0, f"effect {effect}: {left} pods left"
    if left:
        state.pods_left[effect] = left
    else:
        del state.pods_left[effect], state.effects[effect]


def schedule_repeat(state: BindingState, row: int, is_first_free: bool = False) -> None:
    """Set when the pod continues; each try without an outcome doubles the wait."""
    table, config = state.table, state.config
    tries = table.tries.item(row)
    table.tries[row] = min(tries + 1, 30)
    delay_ms = 0 if is_first_free and not tries else backoff_ms(config, tries)
    state.due[table.pod_at(row)] = state.now_ms + delay_ms


def backoff_ms(config: Config, tries: int) -> int:
    """Return the wait after this many tries without a definite answer, ms."""
    return min(config.repeat_max_ms, config.repeat_initial_ms << min(tries, 20))


def trim(state: BindingState) -> None:
    """Drop the first entries of `queued` whose pods are no longer queued."""
    table, queued = state.table, state.queued
    while queued:
        entry = queued[0]
        if isinstance(entry, np.ndarray):
            rows = table.rows(entry)
            if (table.phases[rows[rows >= 0]] == QUEUED).any():
                return
        else:
            row = table.row(entry)
            if row >= 0 and table.phases.item(row) == QUEUED:
                return
        queued.popleft()
