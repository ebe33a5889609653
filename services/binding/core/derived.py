"""The derived part of binding's state, and checks of the whole that are too expensive for every
step.
"""

import numpy as np

from services.binding.core import promises
from services.binding.core.pod_table import FACT, BindTable
from services.binding.core.state import ENDS, NODE_LIVE, BindingState, Column
from services.binding.core.transitions import FOR_PERMIT, FOR_VOLUMES, OUT, SLOW, Phase
from shared.events.binding import ExtendersPreemptAsked
from shared.model.columns import I64, gathered, unpack


def derive(state: BindingState) -> BindingState:
    """Compute the derived fields of a loaded state; return it."""
    phases = state.table.phases[: state.table.used]
    state.open = int(np.count_nonzero(phases != Phase.IDLE))
    state.last_node = max(len(state.node_marks) - 1, 0)
    state.node_ids = {name: node for node, name in state.node_names.items()}
    for end in ENDS:
        state.reports.setdefault(end, Column())
    state.has_reports = any(column.ids for column in state.reports.values())
    state.post_new = {pod: True for pod, one in state.post_binds.items() if not one.effect}
    for pod, promise in state.promises.items():
        promises.index(state, pod, promise)
    state.recent_bytes = sum(len(ids) for _at_ms, ids, _nodes in state.recent)
    return state


def still_queued(state: BindingState) -> I64:
    """Return the pods in `queued` that are still queued, shape (n,)."""
    table, pods = state.table, unpack(gathered(state.queued))
    rows = table.rows(pods)
    pods, rows = pods[rows >= 0], rows[rows >= 0]
    queued: I64 = pods[table.phases[rows] == Phase.QUEUED]
    return queued


def _may_wait(table: BindTable) -> set[int]:
    """Return the pods that are not known to have a node."""
    rows = table.live()
    return set(table.ids[rows[(table.flags[rows] & FACT) == 0]].tolist())


def check(state: BindingState) -> None:
    """Check the table, the effects and the queues against each other."""
    table = state.table
    rows = table.live()
    phases, pods = table.phases[rows], table.ids[rows]
    opened = int(np.count_nonzero(phases != Phase.IDLE))
    assert opened == state.open, f"{opened} open binds, counted {state.open}"
    waiting = pods[phases == Phase.UNRESOLVED].tolist()
    assert waiting == sorted(state.unresolved), "waiting binds"
    before = pods[np.isin(phases, FOR_VOLUMES)].tolist()
    earlier = pods[np.isin(phases, FOR_PERMIT)].tolist()
    assert set(state.volumes) <= {*before, *waiting, *earlier}, "volumes of binds"
    assert set(before) <= {*state.volumes, *state.claims}, "binds that wait for nothing"
    assert set(state.claims) <= set(pods[phases != Phase.IDLE].tolist()), "claims without a bind"
    if state.shards > 1:
        held = {*state.promises, *state.promise_conflicts}
        assert held == set(state.volumes), "volumes without a promise, or promises without volumes"
    queued = still_queued(state)
    expected = pods[phases == Phase.QUEUED].tolist()
    assert sorted(queued.tolist()) == expected, "queued binds"
    written = pods[phases == Phase.WRITTEN].tolist()
    due = sorted(set(state.due).difference(written))  # older snapshots have no second write
    assert pods[np.isin(phases, SLOW)].tolist() == due, "binds that are due"
    given_up = np.isin(phases, (Phase.FENCE, Phase.FENCING))
    fenced = set(pods[given_up].tolist())
    assert set(state.lost_names) <= fenced, "lost nodes' names without a fence"
    of_objects = {state.group_effect, state.provisioning_effect, state.return_effect}
    left = {effect: 0 for effect in state.effects if effect not in of_objects}
    out = np.isin(phases, OUT)
    for effect in table.effects[rows][out].tolist():
        left[effect] += 1
    for eviction in state.evictions.values():
        for effect in eviction.effects.values():
            left[effect] += 1
    for post in state.post_binds.values():
        if post.effect:
            left[post.effect] += 1
    post = unpack(gathered(state.reports["failed"].ids)).tolist()
    assert set(state.bind_errors) <= {*state.plugin_specs, *post}, "binds that failed"
    assert not set(state.plugin_specs).difference(pods[phases != Phase.IDLE].tolist()), (
        "hooked binds"
    )
    for effect, event in state.effects.items():
        if effect not in of_objects:
            left[effect] += isinstance(event, ExtendersPreemptAsked)
    for effect in state.patching:
        left[effect] = state.pods_left[effect]
    assert left == state.pods_left, f"left {left}, counted {state.pods_left}"
    live = np.flatnonzero(state.node_marks == NODE_LIVE).tolist()
    assert live == sorted(state.node_names), "live nodes"
    messages = {*state.patches, *state.refreshes, *state.written, *state.errors}
    assert messages <= _may_wait(table), "messages of pods that do not wait"
    open_facts = (phases != Phase.IDLE) & ((table.flags[rows] & FACT) != 0)
    assert not open_facts.any(), f"open although assigned: {pods[open_facts].tolist()[:9]}"
