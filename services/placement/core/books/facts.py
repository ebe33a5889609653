"""Applies ingest's journal to a shard.

Facts are absorbed as they are, even where one contradicts a decision of ours or makes a node
over-full.
"""

import numpy as np

from services.placement.core.books import remade_nodes
from services.placement.core.books.charges import (
    charge_observed,
    define,
    forget_if_unused,
    mark_improved,
    recount_capacity,
    release,
    set_nodes,
    spec_of,
)
from services.placement.core.books.ledger import FEW, IS_CHARGED, UNSTARTED_MS, groups
from services.placement.core.extenders import retries
from services.placement.core.placing import dispatches
from services.placement.core.placing.dispatches import admit_task, drop_unwanted, resume_deferred
from services.placement.core.placing.work_queue import Batch
from services.placement.core.preemption import nominations
from services.placement.core.state import PlacementState
from services.placement.core.transitions import State
from services.placement.core.volumes import other_shards, reservations
from shared.events.binding import BindFailed
from shared.events.ingest import (
    BudgetCovers,
    BudgetGone,
    ImagesCounted,
    MinimumRunTime,
    NodesGone,
    NodesSet,
    PodsAssigned,
    PodsGone,
    PodsStarted,
    QueuesSet,
    SignatureDefined,
    SignatureRetired,
    SignaturesQueued,
    StorageGone,
    StorageSet,
    UnitJoined,
)
from shared.model.columns import I64, has_repeats, pack, size, split, unpack
from shared.model.ids import PodId
from shared.model.preemption.queue_limits import Guarantees
from shared.scheduling.table.images import Spread

GONE_REMEMBERED_MAX = 65_536
"""How many deleted pods to remember, because a dispatch under way may name them. Older ones are
beyond every journal's usual lag, and binding answers `gone` for a deleted pod that is placed
anyway.
"""


def on_signature_defined(state: PlacementState, event: SignatureDefined) -> None:
    """Define a signature and resume the dispatches and tasks that waited for it."""
    state.retired.discard(event.sig)
    state.last_sig = max(state.last_sig, event.sig)
    if state.specs.get(event.sig) != event.spec:
        assert event.sig not in state.specs, f"signature {event.sig} was given another meaning"
        define(state, event.sig, event.spec)
    for one in state.work_queue.unknown.pop(event.sig, ()):
        if isinstance(one, Batch):
            one.prioritise(event.spec.priority)
            state.work_queue.add(one)
        else:
            admit_task(state, one)


def on_signatures_queued(state: PlacementState, event: SignaturesQueued) -> None:
    """Reorder the queued dispatches by queueing's priorities."""
    orders = dict(zip(unpack(event.sigs).tolist(), unpack(event.orders).tolist(), strict=True))
    state.orders.update(orders)
    state.work_queue.reorder(orders)


def on_signature_retired(state: PlacementState, event: SignatureRetired) -> None:
    """Forget the signature's refusals now, and its spec once its last charge is released."""
    if event.sig in state.specs:
        state.refused.discard(event.sig)
        state.hopeless.discard(event.sig)
        state.maybe_allowed.discard(event.sig)
        state.reasons_wanted.pop(event.sig, None)
        retries.forget(state, event.sig)
        if not state.refused:
            state.improved_nodes.clear()
        state.retired.add(event.sig)
        forget_if_unused(state, event.sig)


def on_nodes_set(state: PlacementState, event: NodesSet) -> None:
    """Add or change nodes, except those that are withheld."""
    if event.shard != state.shard:
        return
    if state.unsettled:
        set_nodes(state, *remade_nodes.withhold(state, event))
    else:
        set_nodes(state, unpack(event.ids).tolist(), event.nodes)


def on_images_counted(state: PlacementState, event: ImagesCounted) -> None:
    """Update how the cluster's nodes have the images that pods name."""
    before = {} if state.spread is None else state.spread.holders
    counts = zip(unpack(event.images).tolist(), unpack(event.holders).tolist(), strict=True)
    holders = {image: nodes for image, nodes in {**before, **dict(counts)}.items() if nodes}
    state.spread = Spread(event.nodes, holders)
    state.table.images.set_spread(state.spread)


def on_storage_set(state: PlacementState, event: StorageSet) -> None:
    """Add or change claims, volumes, classes and the other storage objects."""
    for one in event.objects:
        state.storage.put(one)
    if state.ended_other_shard_volumes:
        other_shards.release_ended(state)
    if state.volume_waits:
        reservations.note_storage(state, event.objects)
    reservations.wake_volume_users(state)


def on_storage_gone(state: PlacementState, event: StorageGone) -> None:
    """Remove storage objects."""
    for uid in split(event.uids):
        state.storage.remove(uid)
    if state.ended_other_shard_volumes:
        other_shards.release_ended(state)
    if state.volume_waits:
        reservations.check_claims(state, sorted(state.volume_waits))
    reservations.wake_volume_users(state)


def on_nodes_gone(state: PlacementState, event: NodesGone) -> None:
    """Remove nodes and the charges on them. The pods may live on: their own facts decide that."""
    if event.shard != state.shard:
        return
    ledger = state.ledger
    ids = unpack(event.ids)
    known = [node for node in ids.tolist() if node in state.nodes]
    rows = np.flatnonzero((ledger.node != 0) & np.isin(ledger.node, ids))
    before = ledger.advance(rows, "NodesGone")
    unsettled = remade_nodes.may_land(state, rows, before)
    release(state, rows[IS_CHARGED[before]])
    ledger.clear(rows)
    for node in ids.tolist():
        state.strays.pop(node, None)
        state.withheld.pop(node, None)
    state.table.remove_nodes(known)
    for node in known:
        del state.nodes[node]
    if state.tree is not None:
        state.tree.remove(known)
    recount_capacity(state)
    state.improved_nodes.difference_update(known)
    if state.table.counters and state.nodes:
        # The skew of a spread may be smaller without them: one changed node makes all nodes
        # checked.
        mark_improved(state, state.table.ids[:1])
    nominations.note_nodes_gone(state, set(known))
    reservations.end_waits(state, ledger.ids(rows).tolist())
    resume_deferred(state, ledger.ids(rows))
    if unsettled:
        remade_nodes.remember(state, unsettled)


def on_pods_assigned(state: PlacementState, event: PodsAssigned) -> None:
    """Charge pods that the cluster shows on nodes of this shard."""
    if event.shard == state.shard and not _assign_as_reserved(state, event):
        _assign(state, event)
    if state.unsettled:
        remade_nodes.settle(state, unpack(event.ids).tolist())


def _assign(state: PlacementState, event: PodsAssigned) -> None:
    ids, sigs, nodes = unpack(event.ids), unpack(event.sigs), unpack(event.nodes)
    if has_repeats(ids):
        last = {pod: at for at, pod in enumerate(ids.tolist())}
        chosen = np.array(sorted(last.values()), np.int64)
        ids, sigs, nodes = ids[chosen], sigs[chosen], nodes[chosen]
    ledger = state.ledger
    rows = ledger.rows(ids)
    kinds = ledger.kind[rows]
    if (kinds == State.GONE).any():
        # Ids are never reused: a deleted pod stays deleted.
        live = kinds != State.GONE
        ids, sigs, nodes, rows, kinds = ids[live], sigs[live], nodes[live], rows[live], kinds[live]
    charged = IS_CHARGED[kinds]
    same = charged & (ledger.node[rows] == nodes) & (ledger.sig[rows] == sigs)
    ledger.advance(rows[same], "PodsAssigned")
    if not same.all():
        moved = ~same
        release(state, rows[moved & charged])
        _place_facts(state, rows[moved], sigs[moved], nodes[moved])
    if state.has_latest_sigs:
        has_latest = ledger.latest_sig[rows] != 0
        ledger.latest_sig[rows[has_latest]] = sigs[has_latest]
    drop_unwanted(state, ids, kinds)
    if state.volume_waits:
        reservations.end_waits(state, ids.tolist())
    if state.nomination_of_pod:
        for pod in ids.tolist():
            nominations.drop_of_pod(state, pod)
        nominations.note_pods_added(state, nodes)


def _assign_as_reserved(state: PlacementState, event: PodsAssigned) -> bool:
    """Apply the most frequent fact: a few pods shown where this shard reserved them."""
    if state.failed or state.deferred or state.nomination_of_pod or size(event.ids) > FEW:
        return False
    if state.volume_waits:
        return False
    ledger, rows = state.ledger, []
    columns = (unpack(column).tolist() for column in (event.ids, event.sigs, event.nodes))
    for pod, sig, node in zip(*columns, strict=True):
        row = ledger.placed_row(pod, node)
        if row is None or int(ledger.sig[row]) != sig:
            return False
        rows.append(row)
    for row in rows:
        ledger.advance_one(row, "PodsAssigned")
        if ledger.latest_sig[row]:
            ledger.latest_sig[row] = ledger.sig[row]
    return True


def _place_facts(state: PlacementState, rows: I64, sigs: I64, nodes: I64) -> None:
    ledger = state.ledger
    old = rows[ledger.kind[rows] == State.STRAY]
    _strays(state, ledger.node[old].astype(np.int64), -1)
    known = np.array([node in state.nodes for node in nodes.tolist()], np.bool_)
    ledger.advance(rows[known], "PodsAssigned")
    for sig, part in groups(sigs[known]):
        spec_of(state, sig, ledger.pod_at(rows[known][part].item(0)))
        charge_observed(state, rows[known][part], sig, nodes[known][part])
    unknown = ~known
    if unknown.any():
        ledger.advance(rows[unknown], "PodsAssignedUnknownNode")
        ledger.write(rows[unknown], sigs[unknown], nodes[unknown], 0, UNSTARTED_MS + state.now_ms)
        _strays(state, nodes[unknown], 1)


def on_pods_started(state: PlacementState, event: PodsStarted) -> None:
    """Set the start times of this shard's pods. A pod that has moved by now gets its time with a
    later event.
    """
    if event.shard != state.shard:
        return
    ledger = state.ledger
    rows = ledger.rows(unpack(event.ids))
    kinds = ledger.kind[rows]
    there = IS_CHARGED[kinds] | (kinds == State.STRAY)
    ledger.start_ms[rows[there]] = unpack(event.starts_ms)[there]


def _strays(state: PlacementState, nodes: I64, sign: int) -> None:
    for node in nodes.tolist():
        left = state.strays.get(node, 0) + sign
        if left:
            state.strays[node] = left
        else:
            state.strays.pop(node, None)


def on_pods_gone(state: PlacementState, event: PodsGone) -> None:
    """Remove deleted pods: release their charges, and drop them wherever they wait."""
    ids = unpack(event.ids)
    if len(ids) > 1:
        ids = np.unique(ids)
    ledger = state.ledger
    rows = ledger.rows(ids)
    before = ledger.advance(rows, "PodsGone")
    release(state, rows[IS_CHARGED[before]])
    strays = rows[before == State.STRAY]
    if len(strays):
        _strays(state, ledger.node[strays].astype(np.int64), -1)
        ledger.clear(strays)
        reservations.wake_volume_users(state)
    ledger.budget[rows] = ledger.latest_sig[rows] = 0
    fresh = ids[before != State.GONE].tolist()
    if state.budgets_more:
        for pod in fresh:
            state.budgets_more.pop(pod, None)
    if state.units:
        state.units.forget(fresh)
    if state.minimum_run_ms:
        for pod in fresh:
            state.minimum_run_ms.pop(pod, None)
    if state.nominations:
        nominations.note_pods_gone(state, fresh)
    drop_unwanted(state, ids, before)
    reservations.end_waits(state, fresh)
    _remember_gone(state, fresh)
    if state.unsettled:
        remade_nodes.settle(state, ids.tolist())


def on_bind_failed(state: PlacementState, event: BindFailed) -> None:
    """Mark pods of failed binds. Binding may learn that a pod is deleted before the world journal
    says so: older facts still under way must not charge it again.
    """
    nodes = unpack(event.nodes) if event.nodes else None
    if state.unsettled:
        remade_nodes.settle_failed_binds(state, unpack(event.ids), nodes)
    if event.reason == "gone":
        _rows, ids = dispatches.charged_here(state, unpack(event.ids), nodes)
        on_pods_gone(state, PodsGone(pack(ids)))
    else:
        dispatches.fail_reservations(state, event)


def _remember_gone(state: PlacementState, fresh: list[PodId]) -> None:
    state.gone.extend(fresh)
    excess = len(state.gone) - GONE_REMEMBERED_MAX
    if excess > 0:
        forgotten = np.array([state.gone.popleft() for _ in range(excess)], np.int64)
        state.ledger.advance(state.ledger.rows(forgotten), "Forgotten")


def on_unit_joined(state: PlacementState, event: UnitJoined) -> None:
    """Add pods to a preemption unit."""
    state.units.join(event.gang, event.priority, unpack(event.ids).tolist(), event.least)


def on_minimum_run_time(state: PlacementState, event: MinimumRunTime) -> None:
    """Note for how long pods run before they may be victims."""
    for pod in unpack(event.ids).tolist():
        if event.run_ms:
            state.minimum_run_ms[pod] = event.run_ms
        else:
            state.minimum_run_ms.pop(pod, None)


def on_budget_covers(state: PlacementState, event: BudgetCovers) -> None:
    """Add pods to a budget. Nearly every pod has at most one budget, which is a column."""
    ledger = state.ledger
    ids = np.unique(unpack(event.ids))
    rows = ledger.rows(ids)
    gone = ledger.kind[rows] == State.GONE
    first = (ledger.budget[rows] == 0) & ~gone
    ledger.budget[rows[first]] = event.budget
    others = ~first & ~gone & (ledger.budget[rows] != event.budget)
    for pod in ids[others].tolist():
        more = {*state.budgets_more.get(pod, ()), event.budget}
        state.budgets_more[pod] = tuple(sorted(more))


def on_budget_gone(state: PlacementState, event: BudgetGone) -> None:
    """Remove a budget from all pods."""
    for pod, budgets in sorted(state.budgets_more.items()):
        left = tuple(budget for budget in budgets if budget != event.budget)
        if left:
            state.budgets_more[pod] = left
        else:
            del state.budgets_more[pod]
    ledger = state.ledger
    for row in np.flatnonzero(ledger.budget == event.budget).tolist():
        pod = ledger.pod_at(row)
        more = state.budgets_more.pop(pod, ())
        ledger.budget[row] = more[0] if more else 0
        if len(more) > 1:
            state.budgets_more[pod] = more[1:]


def on_queues_set(state: PlacementState, event: QueuesSet) -> None:
    """Take a new tree. Refused pods that may claim now are tried again."""
    state.queues, state.guarantees = event.queues, Guarantees(event.queues)
    if state.guarantees:
        may_claim = state.guarantees.may_claim
        queues = {sig: state.specs[sig].queue for sig in state.refused if sig in state.specs}
        state.maybe_allowed.update(sig for sig, queue in queues.items() if may_claim(queue))
