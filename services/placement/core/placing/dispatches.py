"""Dispatches come in and are answered: what queueing's and binding's journals do, and the shard's
own Reserved, Refused and Released.

A pod may be dispatched while the shard still charges it for an older decision, because the outcome
that frees it travels in another journal. Such a pod is deferred until that outcome is here.
"""

import numpy as np

from services.placement.core.books.charges import put, put_one, take
from services.placement.core.books.identity import by_own_sig
from services.placement.core.books.ledger import FEW, I8, IS_CHARGED
from services.placement.core.extenders import retries
from services.placement.core.placing import preemption_wakeups, sampling
from services.placement.core.placing.work_queue import Ask, Work
from services.placement.core.preemption import nominations
from services.placement.core.state import Deferred, PlacementState
from services.placement.core.transitions import State
from services.placement.core.volumes import reservations
from shared.events.binding import BindFailed, Bound
from shared.events.placement import Refused, Released, Reserved
from shared.events.queueing import Dispatched
from shared.model.columns import I64, few, size, unpack
from shared.scheduling.table.layout import FREE


def dispatched(state: PlacementState, event: Dispatched) -> None:
    """Queue the pods; leave out those that are placed or gone, defer those that are still held."""
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
    _queue(state, event.attempt, event.sig, event.urgent, ids)


def _placeable(state: PlacementState, event: Dispatched, ids: I64, before: I8) -> I64:
    again = before == State.QUEUED
    if again.any():
        state.todo.drop(ids[again])
    held = (before == State.RESERVED) | (before == State.HELD) | (before == State.FAILED)
    for pod in ids[held].tolist():
        state.deferred[pod] = Deferred(event.attempt, event.sig, event.urgent)
    wanted: I64 = ids[again | (before == State.FREE)]
    return wanted


def _queue(state: PlacementState, attempt: int, sig: int, urgent: bool, ids: I64) -> None:
    if not len(ids):
        return
    state.todo.arrivals += 1
    order = state.todo.arrivals
    if sig > state.last_sig:
        # Newer than all that ingest told us: than what it told of these pods, too.
        work = Work(attempt, sig, ids, urgent, 0, order)
        state.todo.unknown.setdefault(sig, []).append(work)
        return
    for own, part in by_own_sig(state, sig, ids):
        spec = state.specs.get(own)
        priority = state.orders.get(own, spec.priority if spec else 0)
        state.todo.add(Work(attempt, own, part, urgent, priority, order))


def admit_ask(state: PlacementState, ask: Ask) -> None:
    """Queue an ask, or let it wait for the first signature of it that is not known yet."""
    for sig in ask.sigs():
        if sig > state.last_sig:
            state.todo.unknown.setdefault(sig, []).append(ask)
            return
    state.todo.asks.append(ask)


def let_go(state: PlacementState, ids: I64, before: I8) -> None:
    """Pods with a fact, or gone, are not wanted any more wherever they wait."""
    queued = before == State.QUEUED
    if queued.any():
        state.todo.drop(ids[queued])
    if state.failed or state.deferred:
        for pod in ids.tolist():
            state.failed.pop(pod, None)
            state.deferred.pop(pod, None)


def settle(state: PlacementState, ids: I64) -> None:
    """Pods were given back: dispatches that waited for it go on."""
    if not (state.failed or state.deferred):
        return
    for pod in ids.tolist():
        state.failed.pop(pod, None)
        waiting = state.deferred.pop(pod, None)
        if waiting is not None:
            row = np.array([state.ledger.row(pod)], np.int64)
            state.ledger.advance(row, "Dispatched")
            pods = np.array([pod], np.int64)
            _queue(state, waiting.attempt, waiting.sig, waiting.urgent, pods)


def reserved(state: PlacementState, event: Reserved) -> None:
    """Picks become charges."""
    sampling.searched(state, event.examined)
    state.todo.take(event.attempt, event.ids)
    count = size(event.ids)
    if count <= FEW:
        devices = few(event.devices) if event.devices else (0,) * count
        for pod, node, mask in zip(few(event.ids), few(event.nodes), devices, strict=True):
            _reserved_one(state, event.sig, pod, node, mask)
        if event.volumes:
            reservations.reserved(state, event)
        return
    ids, nodes = unpack(event.ids), unpack(event.nodes)
    rows = state.ledger.rows(ids)
    state.ledger.advance(rows, "Reserved")
    masks = unpack(event.devices) if event.devices else None
    assert_not_over(state, event.sig, put(state, rows, event.sig, nodes, masks))
    if state.nominated:
        for pod in ids.tolist():
            nominations.placed(state, pod)
        nominations.pods_came(state, nodes)


def _reserved_one(state: PlacementState, sig: int, pod: int, node: int, mask: int) -> None:
    ledger, table = state.ledger, state.table
    row = ledger.row(pod)
    ledger.advance_one(row, "Reserved")
    put_one(state, row, sig, node, mask)
    at = table.row_of(node)
    assert at is not None
    free = table.cols[:, at].tolist()
    for column, _amount in state.sigs[sig].amount_checks:
        assert free[column] >= 0.0, over_story(state, at)
    if state.nominated:
        nominations.placed(state, pod)
        nominations.pods_came(state, np.array([node], np.int64))


def assert_not_over(state: PlacementState, sig: int, rows: I64) -> None:
    """No node (by row in the table) is over-full in anything that our own charge took from it and
    that was looked at: over-full nodes come from facts alone, and nothing is ever added to them.
    """
    table = state.table
    for column, _amount in state.sigs[sig].amount_checks:
        free = table.cols[column].take(rows)
        if free.min(initial=0.0) < 0.0:
            raise AssertionError(over_story(state, int(rows[int(np.argmin(free))])))


def over_story(state: PlacementState, row: int) -> str:
    """What a node has, and who is on it."""
    table, ledger = state.table, state.ledger
    node = table.node_id_at(row)
    rows = np.flatnonzero((ledger.node == node) & IS_CHARGED[ledger.kind])
    free = {name: table.cols[FREE + at, row] for name, at in sorted(table.resources.items())}
    pods = [
        f"{at + ledger.base}:{State(int(ledger.kind[at])).name}:sig {ledger.sig[at]}"
        for at in rows.tolist()
    ]
    return f"node {node} is over-full after our own charge: free {free}, pods {pods}"


def refused(state: PlacementState, event: Refused) -> None:
    """The pods are free for other shards; the signature is remembered."""
    if not event.attempt:
        del state.looks[event.sig]
        preemption_wakeups.told(state, event.sig, event.preemptible)
        return
    sampling.searched(state, event.examined)
    state.ledger.advance(state.ledger.rows(unpack(event.ids)), "Refused")
    if not event.error:
        remember_refused(state, event.sig)
        preemption_wakeups.told(state, event.sig, event.preemptible)
        retries.refused(state, event)
    state.todo.take(event.attempt, event.ids)


def remember_refused(state: PlacementState, sig: int) -> None:
    """Changes for the better are checked for this signature from now on."""
    if sig in state.specs and sig not in state.retired:
        state.refused.add(sig)


def bound(state: PlacementState, event: Bound) -> None:
    """Our bind is definite: the pod is where we put it."""
    if size(event.ids) <= FEW and not state.deferred and not state.failed:
        for pod, node in zip(few(event.ids), few(event.nodes), strict=True):
            row = state.ledger.placed_row(pod, node)
            if row is not None:
                state.ledger.advance_one(row, "Bound")
        return
    rows, ids = ours(state, unpack(event.ids), unpack(event.nodes))
    before = state.ledger.advance(rows, "Bound")
    let_go(state, ids, before)


def bind_failed(state: PlacementState, event: BindFailed) -> None:
    """A reservation of ours came to nothing: `decide` gives it back (Released). A pod that was
    placed anew meanwhile is not meant, and a fact stays.
    """
    nodes = unpack(event.nodes) if event.nodes else None
    rows, ids = ours(state, unpack(event.ids), nodes)
    state.ledger.advance(rows, "BindFailed")
    failed = state.ledger.kind[rows] == State.FAILED
    for pod in ids[failed].tolist():
        state.failed[pod] = None


def ours(state: PlacementState, ids: I64, nodes: I64 | None) -> tuple[I64, I64]:
    """Rows and ids of those that this shard charges (to these nodes); never grows the ledger."""
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


def released(state: PlacementState, event: Released) -> None:
    """Reservations are given back."""
    ids = unpack(event.ids)
    rows = state.ledger.rows(ids)
    state.ledger.advance(rows, "Released")
    take(state, rows)
    reservations.let_go(state, ids.tolist())
    settle(state, ids)
