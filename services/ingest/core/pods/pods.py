"""Pods seen and deleted: whole columns at a time, with a fast path for a single new pod."""

from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from services.ingest.core.cluster_events import note
from services.ingest.core.groups import add_gang_of_pods, publish_ends, publish_unit
from services.ingest.core.nodes import SHARD_BITS
from services.ingest.core.pods.assigned import (
    UNASSIGNED,
    assign,
    publish_assigned,
    publish_unplaceable,
    stop_waiting,
)
from services.ingest.core.pods.columns import Seen, by_node, by_selector
from services.ingest.core.pods.identity import (
    is_ours,
    learn,
    publish_relabelled,
    spec_of,
    spread,
    with_identity,
)
from services.ingest.core.pods.table import I32
from services.ingest.core.signatures import (
    acquire_gang,
    acquire_labels,
    acquire_sig,
    release_gang,
    release_labels,
    release_many,
    release_sig,
    spec_key,
)
from services.ingest.core.state import IngestState
from shared.events.ingest import BudgetCovers, PodsGone, PodsNamed, PodsPending
from shared.events.observed import PodsDeletedSeen, PodsSeen
from shared.model.cluster_event_kinds import POD_ADD, POD_DELETE, POD_UPDATE, POD_UPDATE_LABEL
from shared.model.columns import I64, join, pack, split, unpack
from shared.model.ids import GangId, SignatureId
from shared.model.objects import PodSpec

FEW = 64  # up to this many pods, Python's min is faster than numpy's


def on_pods_seen(state: IngestState, event: PodsSeen) -> None:
    """Admit new pods, update known ones, ignore older views."""
    uids = split(event.uids)
    nodes = split(event.nodes) if event.nodes else None
    seen = Seen(event, uids, None, unpack(event.revisions), nodes)
    count = len(uids)
    names = event.names.count("\n") + 1 if event.names else 0
    assert names == count == len(seen.revisions), f"PodsSeen {event.names}: columns"
    assert nodes is None or len(nodes) == count, f"PodsSeen {event.names}: nodes column"
    bracket = state.brackets.get("pods")
    if bracket is not None:
        bracket.named += count
    for part in by_node(state, seen):
        learn(state, spread(event.spec, part.spread_by), event.namespace)
        _seen_all(state, part)


def _seen_all(state: IngestState, seen: Seen) -> None:
    count = len(seen.uids)
    if count == 1 and seen.uids[0] not in state.pods.slots:
        _admit(state, seen)
        return
    if len(dict.fromkeys(seen.uids)) != count:
        for row in range(count):
            _seen_unique(state, seen.part([row]))
        return
    _seen_unique(state, seen)


def _seen_unique(state: IngestState, seen: Seen) -> None:
    if state.pods.slots.keys().isdisjoint(seen.uids):
        _admit(state, seen)
        return
    slots = state.pods.find(seen.uids)
    known = slots >= 0
    bracket = state.brackets.get("pods")
    if bracket is not None:
        if state.is_restored:
            _forget_old(state, seen, slots)
            known = slots >= 0
        state.pods.marks[slots[known]] = state.mark
        is_older = known & (seen.revisions < state.pods.revisions[slots])
        state.is_rewound = state.is_rewound or (not bracket.stale and bool(is_older.any()))
    newer = known & (seen.revisions > state.pods.revisions[slots])
    if newer.any():
        part = seen if newer.all() else seen.part(np.flatnonzero(newer).tolist())
        for subpart, rows in by_selector(state, part, slots[newer]):
            _update(state, subpart, rows)
    if not known.all():
        _admit(state, seen.part(np.flatnonzero(~known).tolist()))


def _forget_old(state: IngestState, seen: Seen, slots: I64) -> None:
    """Forget pods from before the cluster was restored; they have not finished."""
    rows = np.flatnonzero((slots >= 0) & (state.pods.marks[slots] != state.mark)).tolist()
    forget(state, [state.pods.slots.pop(seen.uids[row]) for row in rows], is_finished=False)
    slots[rows] = -1


def _admit(state: IngestState, seen: Seen) -> None:
    """Give new pods their ids. Outside a list, a pod that is not newer than the last list is one
    that the list showed to be deleted.
    """
    bracket = state.brackets.get("pods")
    if bracket is not None:
        if bracket.stale:
            return
    elif _oldest(seen) <= state.listed_pods:
        newer = np.flatnonzero(seen.revisions > state.listed_pods).tolist()
        if not newer:
            return
        seen = seen.part(newer)
    if state.config.wakes:
        note(state, POD_ADD)
    event, count = seen.event, len(seen.uids)
    first = state.next_pod
    state.next_pod += count
    spec = _identified(state, seen)
    sig = acquire_sig(state, spec, spec_key(spec), count)
    labels = acquire_labels(state, event.namespace, event.labels, event.owner, count)
    gang = acquire_gang(state, event.gang, count)
    if event.gang_count:
        add_gang_of_pods(state, event.gang, event.gang_count)
    table = state.pods
    slots: int | slice | I64
    revisions: int | I64 = seen.revisions
    if count == 1:
        revisions = seen.revisions.item(0)
        slot = slots = table.allocate_one()
        table.slots[seen.uids[0]] = slot
        table.ids[slot] = first
        ids = first.to_bytes(8, "little")
    else:
        slots = table.allocate(seen.uids)
        numbers = np.arange(first, first + count, dtype=np.int64)
        table.ids[slots] = numbers
        ids = numbers.tobytes()
    table.revisions[slots] = revisions
    table.sigs[slots] = sig
    table.labelsets[slots] = labels.number
    table.gangs[slots] = gang
    table.gated[slots] = event.gated
    table.terminating[slots] = event.terminating
    table.nodes[slots] = 0
    is_our_pod = is_ours(state, event.spec)
    table.is_published[slots] = not is_our_pod
    table.marks[slots] = state.mark if bracket is not None else 0
    _publish_new(state, seen, ids)
    for budget in labels.budgets:
        state.outbox.append(BudgetCovers(budget, ids))
    publish_unit(state, gang, ids, spec)
    if seen.nodes is not None:
        slots = np.fromiter(map(table.slots.__getitem__, seen.uids), np.int64, count)
        if is_our_pod:
            table.is_published[slots] = [name != UNASSIGNED and not gang for name in seen.nodes]
        if is_our_pod and gang:
            # Running members count for minCount: queueing needs to know their gang.
            known = [row for row, name in enumerate(seen.nodes) if name in state.node_names]
            publish_unplaceable(state, slots[known])
        assign(state, slots, seen.nodes)
        ids = pack(table.ids[slots[table.nodes[slots] == 0]])
    _publish_pending(state, event, sig, gang, ids)


def _oldest(seen: Seen) -> int:
    """Return the lowest revision; for a few pods numpy's min costs more than all the rest."""
    return min(seen.revisions.tolist()) if len(seen.uids) <= FEW else int(seen.revisions.min())


def _publish_new(state: IngestState, seen: Seen, ids: bytes) -> None:
    event, names = seen.event, seen.names
    if names is None:
        named = PodsNamed(ids, event.uids, event.names, event.revisions, event.namespace)
    else:
        revisions = pack(seen.revisions)
        named = PodsNamed(ids, join(seen.uids), join(names), revisions, event.namespace)
    state.outbox.append(named)


def _identified(state: IngestState, seen: Seen) -> PodSpec:
    event = seen.event
    spec = spread(event.spec, seen.spread_by)
    return with_identity(state, spec, event.namespace, event.labels, event.terminating)


def _publish_pending(
    state: IngestState, event: PodsSeen, sig: SignatureId, gang: GangId, ids: bytes
) -> None:
    if ids and is_ours(state, event.spec):
        key = event.gang if gang and state.gangs[event.gang].gang is None else ""
        state.outbox.append(PodsPending(sig, ids, gang, event.ordered_ms, event.gated, key))


def _update(state: IngestState, seen: Seen, slots: I64) -> None:
    """Apply newer views of known pods: signature, gang, gates, labels, node and revision may
    differ.
    """
    event, table = seen.event, state.pods
    spec = _identified(state, seen)
    key = spec_key(spec)
    held_sig = state.sigs.get(key)
    held_gang = state.gangs.get(event.gang)
    held_labels = state.labelsets.get((event.namespace, event.labels, event.owner))
    table.revisions[slots] = seen.revisions
    other_sig = table.sigs[slots] != (held_sig.sig if held_sig else 0)
    gang = held_gang.id if held_gang else (-1 if event.gang else 0)
    other_gang = table.gangs[slots] != gang
    other_labels = table.labelsets[slots] != (held_labels.number if held_labels else 0)
    pending = table.nodes[slots] == 0
    if seen.nodes is not None:
        pending &= np.fromiter((name == UNASSIGNED for name in seen.nodes), bool, len(slots))
    newly = (table.nodes[slots] == 0) & ~pending
    changed = other_sig | other_gang | (table.gated[slots] != event.gated)
    old_sigs, old_gangs = table.sigs[slots[other_sig]], table.gangs[slots[other_gang]]
    if state.config.wakes:
        _note_update(state, event, slots, changed, other_labels)
    table.gated[slots] = event.gated
    table.terminating[slots] = event.terminating
    other_identity = np.zeros(len(slots), bool)
    if other_sig.any():
        other_identity[other_sig] = _differs_in_identity(state, old_sigs, spec)
        table.sigs[slots[other_sig]] = acquire_sig(state, spec, key, len(old_sigs))
    if other_gang.any():
        table.gangs[slots[other_gang]] = acquire_gang(state, event.gang, len(old_gangs))
        if event.gang_count:
            add_gang_of_pods(state, event.gang, event.gang_count)
        joined = slots[other_gang]
        publish_unit(state, GangId(int(table.gangs[joined[0]])), pack(table.ids[joined]), spec)
    if pending.any():
        rows = np.flatnonzero(pending).tolist()
        part = seen if len(rows) == len(slots) else seen.part(rows)
        _publish_new(state, part, pack(table.ids[slots[pending]]))
    old_labels = _relabel(state, event, slots[other_labels])
    moved = other_sig & ~other_identity & (table.nodes[slots] > 0)
    if moved.any():
        publish_assigned(state, slots[moved], _keys(state, slots[moved]))
    if seen.nodes is not None:
        assign(state, slots, seen.nodes)
    publish_unplaceable(state, slots[changed & (table.nodes[slots] < 0) & ~newly])
    ids = pack(table.ids[slots[changed & pending]])
    sig, gang = SignatureId(int(table.sigs[slots[0]])), GangId(int(table.gangs[slots[0]]))
    _publish_pending(state, event, sig, gang, ids)
    if state.interest or state.queues:
        publish_relabelled(state, slots[other_identity | (other_sig & pending)])
    release_many(state, old_sigs, old_labels, old_gangs)


def _note_update(
    state: IngestState,
    event: PodsSeen,
    slots: I64,
    changed: NDArray[np.bool_],
    other_labels: NDArray[np.bool_],
) -> None:
    if other_labels.any():
        note(state, POD_UPDATE, POD_UPDATE_LABEL)
    if changed.any() or (state.pods.terminating[slots] != event.terminating).any():
        note(state, POD_UPDATE)


def _differs_in_identity(state: IngestState, sigs: I32, spec: PodSpec) -> NDArray[np.bool_]:
    """Return, for each old signature, whether the new spec differs only in the pod's identity."""
    same = spec.anonymous()
    alike = [sig for sig in np.unique(sigs).tolist() if spec_of(state, sig).anonymous() == same]
    return np.isin(sigs, np.array(alike, sigs.dtype))


def _keys(state: IngestState, slots: I64) -> I64:
    """Return node and shard of assigned pods, packed as in `node_names`."""
    nodes = state.pods.nodes[slots].tolist()
    shards = [state.node_by_id[node].shard for node in nodes]
    return (np.array(nodes, np.int64) << SHARD_BITS) | np.array(shards, np.int64)


def _relabel(state: IngestState, event: PodsSeen, slots: I64) -> I32:
    """Give pods the event's label set; return the old ones. Budgets may newly cover them."""
    table = state.pods
    old = table.labelsets[slots]
    if len(slots):
        labels = acquire_labels(state, event.namespace, event.labels, event.owner, len(slots))
        table.labelsets[slots] = labels.number
        for budget in labels.budgets:
            state.outbox.append(BudgetCovers(budget, pack(table.ids[slots])))
    return old


def on_pods_deleted_seen(state: IngestState, event: PodsDeletedSeen) -> None:
    """Delete pods."""
    found = map(state.pods.slots.pop, split(event.uids), repeat(-1))
    slots = [slot for slot in found if slot >= 0]
    if state.keeping and slots:
        publish_ends(state, slots, event.lost)
    forget(state, slots, is_finished=event.finished)


def forget(state: IngestState, slots: list[int], is_finished: bool = True) -> None:
    """Forget pods whose uids are already removed from the table, and publish it. Pods that were
    terminating were deleted in any case.
    """
    if not slots:
        return
    if state.config.wakes:
        note(state, POD_DELETE)
    table = state.pods
    if len(slots) == 1:
        slot = slots[0]
        node, gang = int(table.nodes[slot]), GangId(int(table.gangs[slot]))
        one = int(table.ids[slot]).to_bytes(8, "little")
        is_deleted = gang and (not is_finished or table.terminating[slot])
        state.outbox.append(PodsGone(one, one if is_deleted else b""))
        sig, labels = SignatureId(int(table.sigs[slot])), int(table.labelsets[slot])
        if node < 0:
            stop_waiting(state, np.array([node], np.int32))
        table.forget(slots)
        release_labels(state, labels, 1)
        if gang:
            release_gang(state, gang, 1)
        release_sig(state, sig, 1)
        return
    rows = np.array(slots, np.int64)
    deleted = rows[table.gangs[rows] != 0]
    if is_finished:
        deleted = deleted[table.terminating[deleted] != 0]
    state.outbox.append(PodsGone(pack(table.ids[rows]), pack(table.ids[deleted])))
    nodes, sigs = table.nodes[rows], table.sigs[rows]
    labelsets, gangs = table.labelsets[rows], table.gangs[rows]
    stop_waiting(state, nodes)
    table.forget(slots)
    release_many(state, sigs, labelsets, gangs)
