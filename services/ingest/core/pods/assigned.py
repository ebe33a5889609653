"""Pods on nodes, bound by us or by others, and pods that wait for the node they name."""

from itertools import repeat

import numpy as np

from services.ingest.core.cluster_events import note
from services.ingest.core.nodes import SHARD_BITS, SHARD_MASK, waiting_code
from services.ingest.core.pods.start_times import publish_started
from services.ingest.core.pods.table import I32
from services.ingest.core.state import IngestState
from shared.events.ingest import PodsAssigned, PodsPending
from shared.events.observed import PodsBoundSeen
from shared.model.cluster_event_kinds import POD_ADD
from shared.model.columns import I64, pack, split, unpack
from shared.model.ids import GangId, PodId, SignatureId

UNASSIGNED = "-"


def on_pods_bound_seen(state: IngestState, event: PodsBoundSeen) -> None:
    """Assign known pods that have a node now, bound by us or by others."""
    if "\n" not in event.uids and _apply_bound_one(state, event):
        return
    uids, names = split(event.uids), split(event.nodes)
    revisions = unpack(event.revisions)
    assert len(uids) == len(names) == len(revisions), f"PodsBoundSeen {event.uids}: columns"
    slots = state.pods.find(uids)
    newer = (slots >= 0) & (revisions > state.pods.revisions[slots])
    if not newer.all():
        rows = np.flatnonzero(newer).tolist()
        if not rows:
            return
        slots, revisions = slots[rows], revisions[rows]
        names = [names[row] for row in rows]
    state.pods.revisions[slots] = revisions
    assign(state, slots, names)


def _apply_bound_one(state: IngestState, event: PodsBoundSeen) -> bool:
    """Assign one pod that had no node to a known node, the usual case; return False in any other
    case.
    """
    table = state.pods
    slot = table.slots.get(event.uids)
    if slot is None:
        return True
    key = state.node_names.get(event.nodes, -1)
    if key < 0 or table.nodes.item(slot):
        return False
    revision = int.from_bytes(event.revisions, "little")
    if revision > table.revisions.item(slot):
        node = key >> SHARD_BITS
        table.revisions[slot] = revision
        table.nodes[slot] = node
        table.is_published[slot] = 1
        columns = (table.ids.item(slot), table.sigs.item(slot), node)
        packed = [value.to_bytes(8, "little") for value in columns]
        state.outbox.append(PodsAssigned(key & SHARD_MASK, *packed))
        if state.config.wakes:
            note(state, POD_ADD)
    return True


def assign(state: IngestState, slots: I64, names: list[str]) -> None:
    """Assign pods to node names ("-": none) and publish it to the nodes' shards; pods of unknown
    nodes wait for the node.
    """
    table = state.pods
    keys = np.fromiter(map(state.node_names.get, names, repeat(-1)), np.int64, len(names))
    unknown = np.flatnonzero(keys < 0).tolist()
    codes = keys >> SHARD_BITS
    for row in unknown:
        codes[row] = 0 if names[row] == UNASSIGNED else waiting_code(state, names[row])
    before = table.nodes[slots]
    changed = (codes != before) & (codes != 0)
    if before.any():
        stop_waiting(state, before[changed])
    table.nodes[slots[changed]] = codes[changed]
    if state.config.wakes and changed.any():
        note(state, POD_ADD)
    if unknown:
        overflow = slots[codes == -1]
        table.revisions[overflow] = 0
        state.rejected += len(overflow)
        _count_waiting(state, codes[changed])
        publish_unplaceable(state, slots[changed & (codes < 0)])
    to_publish = changed & (keys >= 0)
    if to_publish.all():
        publish_assigned(state, slots, keys)
    elif to_publish.any():
        publish_assigned(state, slots[to_publish], keys[to_publish])


def publish_assigned(state: IngestState, slots: I64, keys: I64) -> None:
    """Publish PodsAssigned for each affected shard, ascending, rows in the given order."""
    table = state.pods
    table.is_published[slots] = 1
    ids, sigs, nodes = table.ids[slots], table.sigs[slots], keys >> SHARD_BITS
    shards = keys & SHARD_MASK
    first = int(shards[0])
    if len(state.shard_nodes) == 1 or (shards == first).all():
        state.outbox.append(PodsAssigned(first, pack(ids), pack(sigs), pack(nodes)))
        publish_started(state, slots)
        return
    for shard in np.unique(shards).tolist():
        rows = shards == shard
        state.outbox.append(
            PodsAssigned(shard, pack(ids[rows]), pack(sigs[rows]), pack(nodes[rows]))
        )
    publish_started(state, slots)


def publish_unplaceable(state: IngestState, slots: I64) -> None:
    """Withdraw pending pods that are on a node that is not known yet."""
    table = state.pods
    held = slots[table.is_published[slots] == 0]
    pairs = zip(table.sigs[held].tolist(), table.gangs[held].tolist(), strict=True)
    groups: dict[tuple[SignatureId, GangId], list[PodId]] = {}
    for pair, pod in zip(pairs, table.ids[held].tolist(), strict=True):
        groups.setdefault(pair, []).append(pod)
    for (sig, gang), pods in groups.items():
        state.outbox.append(PodsPending(sig, pack(pods), gang, gated=True))


def _count_waiting(state: IngestState, codes: I64) -> None:
    """Count pods that wait for a node's name."""
    by_code = {held.code: held for held in state.waiting.values()}
    values, counts = np.unique(codes[codes < 0], return_counts=True)
    for code, count in zip(values.tolist(), counts.tolist(), strict=True):
        by_code[code].pods += count


def stop_waiting(state: IngestState, codes: I32) -> None:
    """Count pods that no longer wait for the names of these codes."""
    values, counts = np.unique(codes[codes < 0], return_counts=True)
    if not len(values):
        return
    names = {held.code: name for name, held in state.waiting.items()}
    for code, count in zip(values.tolist(), counts.tolist(), strict=True):
        held = state.waiting[names[code]]
        held.pods -= count
        if held.pods == 0:
            del state.waiting[names[code]]
