"""Facts from ingest: names, nodes, assignments, deletions. A fact overrides an outcome."""

import numpy as np

from services.binding.core import binds
from services.binding.core.bind_rows import is_where_sent, move, settle_rows
from services.binding.core.binds import raise_revision, recheck
from services.binding.core.conditions.status_patches import forget_messages
from services.binding.core.evictions import note_victims_gone
from services.binding.core.pod_table import FACT, MAYBE, NAMED, NEEDED
from services.binding.core.state import NODE_GONE, NODE_LIVE, BindingState
from services.binding.core.transitions import UNSENT, Phase
from shared.events.ingest import (
    NodesGone,
    NodesSet,
    PodsAssigned,
    PodsGone,
    PodsNamed,
    WorldRestored,
)
from shared.model.columns import I64, join, split, unpack
from shared.model.ids import NodeId, PodId


def on_pods_named(state: BindingState, event: PodsNamed) -> None:
    """Add the names of new pods and newer revisions of known ones."""
    table = state.table
    if len(event.ids) == binds.ONE:
        pod = PodId(int.from_bytes(event.ids, "little"))
        row, revision = table.row(pod), int.from_bytes(event.revisions, "little")
        if row < 0:
            return
        if table.flags.item(row) & NAMED:
            raise_revision(state, row, revision)
            return
        table.name_one(row, event.namespace, event.uids, event.names)
        table.revisions[row] = revision
        if state.unresolved:
            recheck(state, [pod])
        return
    pods, revisions = unpack(event.ids), unpack(event.revisions)
    rows = table.follow(pods)
    if rows is None:
        _name_many(state, event, table.rows(pods), revisions)
    else:
        table.name(rows, event.namespace, event.uids, event.names, len(pods))
        table.revisions[rows] = revisions
    if state.unresolved:
        recheck(state, pods.tolist())


def _name_many(state: BindingState, event: PodsNamed, rows: I64, revisions: I64) -> None:
    """Add names of pods of which some may be known already."""
    table = state.table
    live = rows >= 0
    named = live & ((table.flags[rows] & NAMED) != 0)
    fresh = live & ~named
    if np.count_nonzero(fresh) == len(rows):
        table.name(rows, event.namespace, event.uids, event.names, len(rows))
        table.revisions[rows] = revisions
        return
    uids, names = split(event.uids), split(event.names)
    for place in np.flatnonzero(named).tolist():
        raise_revision(state, int(rows[place]), int(revisions[place]))
    places = np.flatnonzero(fresh).tolist()
    if places:
        table.name(
            rows[places],
            event.namespace,
            join([uids[place] for place in places]),
            join([names[place] for place in places]),
            len(places),
        )
        table.revisions[rows[places]] = revisions[places]


def on_pods_assigned(state: BindingState, event: PodsAssigned) -> None:
    """Note the nodes on which the cluster shows these pods."""
    table = state.table
    if len(event.ids) == binds.ONE:
        row = table.row(PodId(int.from_bytes(event.ids, "little")))
        if row >= 0:
            _settle_assigned_one(state, row, NodeId(int.from_bytes(event.nodes, "little")))
        return
    pods, nodes = unpack(event.ids), unpack(event.nodes)
    if len(pods) <= binds.FEW:
        for pod, node in zip(pods.tolist(), nodes.tolist(), strict=True):
            row = table.row(pod)
            if row >= 0:
                _settle_assigned_one(state, row, node)
        return
    rows = table.rows(pods)
    live = rows >= 0
    if not live.all():
        rows, nodes = rows[live], nodes[live]
    phases = table.phases[rows]
    if phases.any():
        rows, nodes = _settle_assigned(state, rows, nodes, phases)
    table.nodes[rows] = nodes
    table.flags[rows] |= FACT
    table.release_names(rows)
    if state.has_messages:
        forget_messages(state, table.ids[rows].tolist())


def _settle_assigned(
    state: BindingState, rows: I64, nodes: I64, phases: np.ndarray
) -> tuple[I64, I64]:
    """Settle open binds by facts: binds seen before their answers, and binds by others. Return the
    idle rest.
    """
    table = state.table
    echo = (phases == Phase.ASKED) & (table.nodes[rows] == nodes)
    if echo.any():
        settle_rows(state, rows[echo], Phase.BOUND)
    rest = (phases != Phase.IDLE) & ~echo
    for row, node in zip(rows[rest].tolist(), nodes[rest].tolist(), strict=True):
        _settle_assigned_one(state, row, node)
    idle = phases == Phase.IDLE
    return rows[idle], nodes[idle]


def _settle_assigned_one(state: BindingState, row: int, node: NodeId) -> None:
    table = state.table
    if table.phases.item(row) != Phase.IDLE:
        move(state, row, "fact_ours" if is_where_sent(state, row, node) else "fact_other")
    table.nodes[row] = node
    flags = table.flags.item(row)
    table.flags[row] = flags | FACT
    if flags & NEEDED:
        table.release_name(row)
    if state.has_messages:
        forget_messages(state, [table.pod_at(row)])


def on_pods_gone(state: BindingState, event: PodsGone) -> None:
    """End the binds of deleted pods and drop their names."""
    pods, table = unpack(event.ids), state.table
    rows = table.rows(pods)
    rows = rows[rows >= 0]
    for row in rows[table.phases[rows] != Phase.IDLE].tolist():
        move(state, row, "pod_gone")
    table.forget(rows)
    if state.has_messages:
        forget_messages(state, pods.tolist())
    if state.victims:
        note_victims_gone(state, pods.tolist())


def on_nodes_set(state: BindingState, event: NodesSet) -> None:
    """Add the names of nodes."""
    ids = unpack(event.ids)
    top = int(ids.max())
    if top >= len(state.node_marks):
        grown = np.zeros(2 * top, np.int8)
        grown[: len(state.node_marks)] = state.node_marks
        state.node_marks = grown
    state.last_node = max(state.last_node, top)
    state.node_marks[ids] = NODE_LIVE
    for id_, node in zip(ids.tolist(), event.nodes, strict=True):
        state.node_names[id_] = node.name
        state.node_ids[node.name] = id_
    if state.unresolved:
        recheck(state, sorted(state.unresolved))


def on_nodes_gone(state: BindingState, event: NodesGone) -> None:
    """Give up binds to deleted nodes: at once if none was sent, else by a fence."""
    ids = unpack(event.ids)
    ids = ids[ids <= state.last_node]
    state.node_marks[ids] = NODE_GONE
    names: dict[NodeId, str] = {}
    for node in ids.tolist():
        names[node] = name = state.node_names.pop(node, "")
        if state.node_ids.get(name) == node:
            del state.node_ids[name]
    if not state.open:
        return
    table, used = state.table, state.table.used
    lost = (table.phases[:used] != Phase.IDLE) & np.isin(table.nodes[:used], ids)
    for row in np.flatnonzero(lost).tolist():
        _drop_node(state, row, names[table.node_at(row)])


def _drop_node(state: BindingState, row: int, name: str) -> None:
    pod = state.table.pod_at(row)
    _give_up(state, row, "node_gone")
    if state.table.phases.item(row):
        state.lost_names[pod] = name


def _give_up(state: BindingState, row: int, event: str) -> None:
    """End the bind at once if none was sent, else by a fence."""
    table = state.table
    phase = Phase(table.phases.item(row))
    if phase in UNSENT and not table.flags.item(row) & MAYBE:
        move(state, row, f"{event}_unsent")
    elif phase not in (Phase.FENCE, Phase.FENCING):
        move(state, row, event)
        table.flags[row] |= MAYBE
        state.due[table.pod_at(row)] = state.now_ms


def on_world_restored(state: BindingState, event: WorldRestored) -> None:
    """Give up all binds, as they were decided from undone facts, and those decided until the
    restored cluster is known. Its revisions start lower, so none is kept.
    """
    state.is_restoring = not event.listed
    if event.listed:
        return
    table = state.table
    table.revisions[: table.used] = 0
    state.written.clear()
    for row in np.flatnonzero(table.phases[: table.used]).tolist():
        _give_up(state, row, "restored")
