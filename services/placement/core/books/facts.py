"""What ingest's journal does to a shard: facts are absorbed as they are, even where a decision of
ours says otherwise and even where they make a node over-full.
"""

import numpy as np

from services.placement.core.books import remade_nodes
from services.placement.core.books.charges import (
    define,
    forget_if_unused,
    mark_better,
    put_facts,
    recount_capacity,
    set_nodes,
    spec_of,
    take,
)
from services.placement.core.books.ledger import FEW, IS_CHARGED, UNSTARTED_MS, groups
from services.placement.core.extenders import retries
from services.placement.core.placing import dispatches
from services.placement.core.placing.dispatches import admit_ask, let_go, settle
from services.placement.core.placing.work_queue import Work
from services.placement.core.preemption import nominations
from services.placement.core.state import PlacementState
from services.placement.core.transitions import State
from services.placement.core.volumes import other_shards, reservations
from shared.events.binding import BindFailed
from shared.events.ingest import (
    BudgetCovers,
    BudgetGone,
    ImagesCounted,
    NodesGone,
    NodesSet,
    PodsAssigned,
    PodsGone,
    PodsStarted,
    SignatureDefined,
    SignatureRetired,
    SignaturesQueued,
    StorageGone,
    StorageSet,
)
from shared.model.columns import I64, has_repeats, pack, size, split, unpack
from shared.scheduling.table.images import Spread

GONE_REMEMBERED_MAX = 65_536
"""Deleted pods that a dispatch still on its way may name; older ones are past every journal's lag
that matters, and binding answers `gone` for a pod that is placed all the same."""


def signature_defined(state: PlacementState, event: SignatureDefined) -> None:
    """Dispatches and asks that came before their signature can go on."""
    state.retired.discard(event.sig)
    state.last_sig = max(state.last_sig, event.sig)
    if state.specs.get(event.sig) != event.spec:
        assert event.sig not in state.specs, f"signature {event.sig} was given another meaning"
        define(state, event.sig, event.spec)
    for one in state.todo.unknown.pop(event.sig, ()):
        if isinstance(one, Work):
            one.prioritise(event.spec.priority)
            state.todo.add(one)
        else:
            admit_ask(state, one)


def signatures_queued(state: PlacementState, event: SignaturesQueued) -> None:
    """Dispatches are worked off in the order that queueing has."""
    orders = dict(zip(unpack(event.sigs).tolist(), unpack(event.orders).tolist(), strict=True))
    state.orders.update(orders)
    state.todo.reorder(orders)


def signature_retired(state: PlacementState, event: SignatureRetired) -> None:
    """Forget its refusals now, and the spec when the last charge of it is given back."""
    if event.sig in state.specs:
        state.refused.discard(event.sig)
        state.hopeless.discard(event.sig)
        state.looks.pop(event.sig, None)
        retries.forget(state, event.sig)
        if not state.refused:
            state.better.clear()
        state.retired.add(event.sig)
        forget_if_unused(state, event.sig)


def nodes_set(state: PlacementState, event: NodesSet) -> None:
    """Nodes are added or changed, but for those that are withheld."""
    if event.shard != state.shard:
        return
    if state.unsettled:
        set_nodes(state, *remade_nodes.withhold(state, event))
    else:
        set_nodes(state, unpack(event.ids).tolist(), event.nodes)


def images_counted(state: PlacementState, event: ImagesCounted) -> None:
    """How the cluster has the images that pods name."""
    before = {} if state.spread is None else state.spread.holders
    told = zip(unpack(event.images).tolist(), unpack(event.holders).tolist(), strict=True)
    holders = {image: nodes for image, nodes in {**before, **dict(told)}.items() if nodes}
    state.spread = Spread(event.nodes, holders)
    state.table.images.set_spread(state.spread)


def storage_set(state: PlacementState, event: StorageSet) -> None:
    """Claims, volumes and what makes them are new or changed."""
    for one in event.objects:
        state.storage.put(one)
    if state.elsewhere_over:
        other_shards.caught_up(state)
    if state.volume_waits:
        reservations.told(state, event.objects)
    reservations.changed(state)


def storage_gone(state: PlacementState, event: StorageGone) -> None:
    """Some of them are no longer there."""
    for uid in split(event.uids):
        state.storage.remove(uid)
    if state.elsewhere_over:
        other_shards.caught_up(state)
    if state.volume_waits:
        reservations.look(state, sorted(state.volume_waits))
    reservations.changed(state)


def nodes_gone(state: PlacementState, event: NodesGone) -> None:
    """Nodes go with the charges of their pods. The pods may live on: that is for their facts."""
    if event.shard != state.shard:
        return
    ledger = state.ledger
    ids = unpack(event.ids)
    known = [node for node in ids.tolist() if node in state.nodes]
    rows = np.flatnonzero((ledger.node != 0) & np.isin(ledger.node, ids))
    before = ledger.advance(rows, "NodesGone")
    unsettled = remade_nodes.may_land(state, rows, before)
    take(state, rows[IS_CHARGED[before]])
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
    state.better.difference_update(known)
    if state.table.counters and state.nodes:
        # The skew of a spread may be smaller without them: a look at any node is a look at all.
        mark_better(state, state.table.ids[:1])
    nominations.nodes_left(state, set(known))
    reservations.let_go(state, ledger.ids(rows).tolist())
    settle(state, ledger.ids(rows))
    if unsettled:
        remade_nodes.remember(state, unsettled)


def pods_assigned(state: PlacementState, event: PodsAssigned) -> None:
    """The cluster shows these pods on nodes of this shard."""
    if event.shard == state.shard and not _assigned_as_reserved(state, event):
        _assigned(state, event)
    if state.unsettled:
        remade_nodes.settled(state, unpack(event.ids).tolist())


def _assigned(state: PlacementState, event: PodsAssigned) -> None:
    ids, sigs, nodes = unpack(event.ids), unpack(event.sigs), unpack(event.nodes)
    if has_repeats(ids):
        last = {pod: at for at, pod in enumerate(ids.tolist())}
        chosen = np.array(sorted(last.values()), np.int64)
        ids, sigs, nodes = ids[chosen], sigs[chosen], nodes[chosen]
    ledger = state.ledger
    rows = ledger.rows(ids)
    kinds = ledger.kind[rows]
    if (kinds == State.GONE).any():
        # Ids are never used twice: whoever is gone stays gone.
        live = kinds != State.GONE
        ids, sigs, nodes, rows, kinds = ids[live], sigs[live], nodes[live], rows[live], kinds[live]
    charged = IS_CHARGED[kinds]
    same = charged & (ledger.node[rows] == nodes) & (ledger.sig[rows] == sigs)
    ledger.advance(rows[same], "PodsAssigned")
    if not same.all():
        moved = ~same
        take(state, rows[moved & charged])
        _place_facts(state, rows[moved], sigs[moved], nodes[moved])
    if state.has_own_sigs:
        told = ledger.own_sig[rows] != 0
        ledger.own_sig[rows[told]] = sigs[told]
    let_go(state, ids, kinds)
    if state.volume_waits:
        reservations.let_go(state, ids.tolist())
    if state.nominated:
        for pod in ids.tolist():
            nominations.drop_of_pod(state, pod)
        nominations.pods_came(state, nodes)


def _assigned_as_reserved(state: PlacementState, event: PodsAssigned) -> bool:
    """A few pods that are shown where they were put: the most frequent fact there is."""
    if state.failed or state.deferred or state.nominated or size(event.ids) > FEW:
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
        if ledger.own_sig[row]:
            ledger.own_sig[row] = ledger.sig[row]
    return True


def _place_facts(state: PlacementState, rows: I64, sigs: I64, nodes: I64) -> None:
    ledger = state.ledger
    old = rows[ledger.kind[rows] == State.STRAY]
    _strays(state, ledger.node[old].astype(np.int64), -1)
    known = np.array([node in state.nodes for node in nodes.tolist()], np.bool_)
    ledger.advance(rows[known], "PodsAssigned")
    for sig, part in groups(sigs[known]):
        spec_of(state, sig, int(ledger.ids(rows[known][part])[0]))
        put_facts(state, rows[known][part], sig, nodes[known][part])
    unknown = ~known
    if unknown.any():
        ledger.advance(rows[unknown], "PodsAssignedUnknownNode")
        ledger.write(rows[unknown], sigs[unknown], nodes[unknown], 0, UNSTARTED_MS + state.now_ms)
        _strays(state, nodes[unknown], 1)


def pods_started(state: PlacementState, event: PodsStarted) -> None:
    """When pods of this shard were started; whose place is another by now is told of again."""
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


def pods_gone(state: PlacementState, event: PodsGone) -> None:
    """Pods left: their space is free, and nothing of them waits here any longer."""
    ids = unpack(event.ids)
    if len(ids) > 1:
        ids = np.unique(ids)
    ledger = state.ledger
    rows = ledger.rows(ids)
    before = ledger.advance(rows, "PodsGone")
    take(state, rows[IS_CHARGED[before]])
    strays = rows[before == State.STRAY]
    if len(strays):
        _strays(state, ledger.node[strays].astype(np.int64), -1)
        ledger.clear(strays)
        reservations.changed(state)
    ledger.budget[rows] = ledger.own_sig[rows] = 0
    fresh = ids[before != State.GONE].tolist()
    if state.budgets_more:
        for pod in fresh:
            state.budgets_more.pop(pod, None)
    if state.nominations:
        nominations.pods_left(state, fresh)
    let_go(state, ids, before)
    reservations.let_go(state, fresh)
    _remember_gone(state, fresh)
    if state.unsettled:
        remade_nodes.settled(state, ids.tolist())


def bind_failed(state: PlacementState, event: BindFailed) -> None:
    """Binding may learn that a pod is gone before the world journal says so: facts that are on
    their way then are older, and must not charge it again.
    """
    nodes = unpack(event.nodes) if event.nodes else None
    if state.unsettled:
        remade_nodes.bind_failed(state, unpack(event.ids), nodes)
    if event.reason == "gone":
        _rows, ids = dispatches.ours(state, unpack(event.ids), nodes)
        pods_gone(state, PodsGone(pack(ids)))
    else:
        dispatches.bind_failed(state, event)


def _remember_gone(state: PlacementState, fresh: list[int]) -> None:
    state.gone.extend(fresh)
    excess = len(state.gone) - GONE_REMEMBERED_MAX
    if excess > 0:
        forgotten = np.array([state.gone.popleft() for _ in range(excess)], np.int64)
        state.ledger.advance(state.ledger.rows(forgotten), "Forgotten")


def budget_covers(state: PlacementState, event: BudgetCovers) -> None:
    """More pods of a budget; nearly every pod has at most one, which is a column."""
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


def budget_gone(state: PlacementState, event: BudgetGone) -> None:
    """The budget covers nobody any more."""
    for pod, budgets in sorted(state.budgets_more.items()):
        left = tuple(budget for budget in budgets if budget != event.budget)
        if left:
            state.budgets_more[pod] = left
        else:
            del state.budgets_more[pod]
    ledger = state.ledger
    for row in np.flatnonzero(ledger.budget == event.budget).tolist():
        more = state.budgets_more.pop(row + ledger.base, ())
        ledger.budget[row] = more[0] if more else 0
        if len(more) > 1:
            state.budgets_more[row + ledger.base] = more[1:]
