"""Dispatches and their answers: applies the events of queueing and binding and the shard's own
Reserved, Refused and Released.

A pod may be dispatched while the shard still charges it for an older decision, because the outcome
that frees it travels in another journal. Such a pod is deferred until that outcome arrives.
"""

import numpy as np

from services.placement.core.books.charges import charge, charge_one, release
from services.placement.core.books.devices import reserve_devices
from services.placement.core.books.identity import by_latest_sig
from services.placement.core.books.ledger import FEW, I8, IS_CHARGED
from services.placement.core.books.wide_rules import note_refused_during_holds, settle_moved
from services.placement.core.extenders import retries
from services.placement.core.placing import preemption_wakeups, sampling
from services.placement.core.placing.work_queue import Batch, Task
from services.placement.core.preemption import nominations
from services.placement.core.state import Deferred, PlacementState
from services.placement.core.transitions import State
from services.placement.core.volumes import reservations
from shared.events.binding import BindFailed, Bound
from shared.events.placement import Refused, Released, Reserved
from shared.events.queueing import Dispatched
from shared.model.columns import I64, as_numbers, size, unpack
from shared.model.ids import NodeId, PodId, SignatureId
from shared.scheduling.table.layout import FREE


def on_dispatched(state: PlacementState, event: Dispatched) -> None:
    """Queue the pods; drop those that are placed or deleted, defer those that are still charged."""
    if event.shard != state.shard:
        return
    ids = unpack(event.ids)
    ledger = state.ledger
    if len(ids) <= FEW:
        kinds = [ledger.advance_one(ledger.row(pod), "Dispatched") for pod in ids.tolist()]
        if any(kinds):
            ids = _placeable(state, event, ids, np.array(kinds, np.int8))
    else:
        before = ledger.advance(ledger.rows(ids), "Dispatched")
        if before.any():
            ids = _placeable(state, event, ids, before)
    _queue(state, event, ids)


def _placeable(state: PlacementState, event: Dispatched, ids: I64, before: I8) -> I64:
    is_queued = before == State.QUEUED
    if is_queued.any():
        state.work_queue.drop(ids[is_queued])
    held = (before == State.RESERVED) | (before == State.HELD) | (before == State.FAILED)
    for pod in ids[held].tolist():
        state.deferred[pod] = Deferred(
            event.attempt, event.sig, event.urgent, event.claims, event.borrows
        )
    wanted: I64 = ids[is_queued | (before == State.FREE)]
    return wanted


def _queue(state: PlacementState, one: Dispatched | Deferred, ids: I64) -> None:
    if not len(ids):
        return
    state.work_queue.arrivals += 1
    order = state.work_queue.arrivals
    standing = one.claims, one.borrows
    if one.sig > state.last_sig:
        # The dispatch has read more of ingest's journal than this shard, also about these pods.
        batch = Batch(one.attempt, one.sig, ids, one.urgent, 0, order, *standing)
        state.work_queue.unknown.setdefault(one.sig, []).append(batch)
        return
    for latest, part in by_latest_sig(state, one.sig, ids):
        spec = state.specs.get(latest)
        priority = state.orders.get(latest, spec.priority if spec else 0)
        batch = Batch(one.attempt, latest, part, one.urgent, priority, order, *standing)
        state.work_queue.add(batch)


def admit_task(state: PlacementState, task: Task) -> None:
    """Queue a task, or let it wait for its first signature that is not known yet."""
    for sig in task.sigs():
        if sig > state.last_sig:
            state.work_queue.unknown.setdefault(sig, []).append(task)
            return
    state.work_queue.tasks.append(task)


def drop_unwanted(state: PlacementState, ids: I64, before: I8) -> None:
    """Drop pods that have a node or are deleted, wherever they wait."""
    queued = before == State.QUEUED
    if queued.any():
        state.work_queue.drop(ids[queued])
    if state.failed or state.deferred:
        for pod in ids.tolist():
            state.failed.pop(pod, None)
            state.deferred.pop(pod, None)


def resume_deferred(state: PlacementState, ids: I64) -> None:
    """Resume the dispatches of pods whose charges were released."""
    if not (state.failed or state.deferred):
        return
    for pod in ids.tolist():
        state.failed.pop(pod, None)
        waiting = state.deferred.pop(pod, None)
        if waiting is not None:
            row = np.array([state.ledger.row(pod)], np.int64)
            state.ledger.advance(row, "Dispatched")
            pods = np.array([pod], np.int64)
            _queue(state, waiting, pods)


def on_reserved(state: PlacementState, event: Reserved) -> None:
    """Charge the picks."""
    if event.examined:
        sampling.note_search(state, event.examined)
    state.work_queue.pop(event.attempt, event.ids)
    count = size(event.ids)
    if count <= FEW:
        devices = as_numbers(event.devices) if event.devices else (0,) * count
        for pod, node, mask in zip(
            as_numbers(event.ids), as_numbers(event.nodes), devices, strict=True
        ):
            _reserve_one(state, event.sig, pod, node, mask)
        if event.volumes:
            reservations.reserve_volumes(state, event)
        if event.claims:
            reserve_devices(state, event)
        return
    ids, nodes = unpack(event.ids), unpack(event.nodes)
    rows = state.ledger.rows(ids)
    state.ledger.advance(rows, "Reserved")
    masks = unpack(event.devices) if event.devices else None
    assert_not_over(state, event.sig, charge(state, rows, event.sig, nodes, masks))
    if state.nomination_of_pod:
        for pod in ids.tolist():
            nominations.note_placed(state, pod)
        nominations.note_pods_added(state, nodes)


def _reserve_one(
    state: PlacementState, sig: SignatureId, pod: PodId, node: NodeId, mask: int
) -> None:
    ledger, table = state.ledger, state.table
    row = ledger.row(pod)
    ledger.advance_one(row, "Reserved")
    charge_one(state, row, sig, node, mask)
    at = table.row_of(node)
    assert at is not None
    free = table.cols[:, at].tolist()
    for column, _amount in state.sigs[sig].amount_checks:
        assert free[column] >= 0.0, over_story(state, at)
    if state.nomination_of_pod:
        nominations.note_placed(state, pod)
        nominations.note_pods_added(state, np.array([node], np.int64))


def assert_not_over(state: PlacementState, sig: SignatureId, rows: I64) -> None:
    """Check that no node (by table row) is over-full in an amount that our charge took and the
    filters checked. Only facts over-fill nodes, and no pod is ever added to such a node.
    """
    table = state.table
    for column, _amount in state.sigs[sig].amount_checks:
        free = table.cols[column].take(rows)
        if free.min(initial=0.0) < 0.0:
            raise AssertionError(over_story(state, int(rows[int(np.argmin(free))])))


def over_story(state: PlacementState, row: int) -> str:
    """Return a node's amounts and pods as text."""
    table, ledger = state.table, state.ledger
    node = table.node_id_at(row)
    rows = np.flatnonzero((ledger.node == node) & IS_CHARGED[ledger.kind])
    free = {name: table.cols[FREE + at, row] for name, at in sorted(table.resources.items())}
    pods = [
        f"{at + ledger.base}:{State(int(ledger.kind[at])).name}:sig {ledger.sig[at]}"
        for at in rows.tolist()
    ]
    return f"node {node} is over-full after our own charge: free {free}, pods {pods}"


def on_refused(state: PlacementState, event: Refused) -> None:
    """Release the pods to other shards and remember the refused signature."""
    if not event.attempt:
        del state.reasons_wanted[event.sig]
        preemption_wakeups.note_whether_preemption_helps(state, event.sig, event.preemptible)
        return
    sampling.note_search(state, event.examined)
    state.ledger.advance(state.ledger.rows(unpack(event.ids)), "Refused")
    if not event.error:
        remember_refused(state, event.sig)
        preemption_wakeups.note_whether_preemption_helps(state, event.sig, event.preemptible)
        retries.note_refused(state, event)
    state.work_queue.pop(event.attempt, event.ids)


def remember_refused(state: PlacementState, sig: SignatureId) -> None:
    """Check this signature on every improved node from now on."""
    if sig in state.specs and sig not in state.retired:
        settle_moved(state)
        state.maybe_allowed.discard(sig)
        state.refused.add(sig)
        note_refused_during_holds(state, sig)


def on_bound(state: PlacementState, event: Bound) -> None:
    """Note that our bind succeeded: the pod is where we put it."""
    if size(event.ids) <= FEW and not state.deferred and not state.failed:
        for pod, node in zip(as_numbers(event.ids), as_numbers(event.nodes), strict=True):
            row = state.ledger.placed_row(pod, node)
            if row is not None:
                state.ledger.advance_one(row, "Bound")
        return
    rows, ids = charged_here(state, unpack(event.ids), unpack(event.nodes))
    before = state.ledger.advance(rows, "Bound")
    drop_unwanted(state, ids, before)


def fail_reservations(state: PlacementState, event: BindFailed) -> None:
    """Mark failed reservations, which `decide` releases (Released). A pod placed again meanwhile is
    not meant, and a fact stays.
    """
    nodes = unpack(event.nodes) if event.nodes else None
    rows, ids = charged_here(state, unpack(event.ids), nodes)
    state.ledger.advance(rows, "BindFailed")
    failed = state.ledger.kind[rows] == State.FAILED
    for pod in ids[failed].tolist():
        state.failed[pod] = None


def charged_here(state: PlacementState, ids: I64, nodes: I64 | None) -> tuple[I64, I64]:
    """Return rows and ids of the pods that this shard charges (to these nodes); never grows the
    ledger.
    """
    ledger = state.ledger
    rows = ids - ledger.base
    inside = (rows >= 0) & (rows < len(ledger.kind))
    if not inside.all():
        ids, rows = ids[inside], rows[inside]
        nodes = None if nodes is None else nodes[inside]
    charged = IS_CHARGED[ledger.kind[rows]]
    if nodes is not None:
        charged &= ledger.node[rows] == nodes
    return (rows, ids) if charged.all() else (rows[charged], ids[charged])


def on_released(state: PlacementState, event: Released) -> None:
    """Release the reservations."""
    ids = unpack(event.ids)
    rows = state.ledger.rows(ids)
    state.ledger.advance(rows, "Released")
    release(state, rows)
    reservations.end_waits(state, ids.tolist())
    resume_deferred(state, ids)
