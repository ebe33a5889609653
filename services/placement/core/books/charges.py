"""Double entry: a pod's row in the ledger and its charge on a node, always written together.

This module keeps everything derived from the ledger: the node table's sums, pods per signature,
pods per priority and node, the shard's totals. `check` recomputes all of it from the ledger.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.placement.core.books.ledger import UNSTARTED_MS, groups
from services.placement.core.books.wide_rules import note_moved
from services.placement.core.state import PlacementState
from services.placement.core.transitions import State
from shared.model.columns import I64
from shared.model.ids import NO_NODE, NO_SIGNATURE, NodeId, PodId, SignatureId
from shared.model.objects import CPU, MEMORY, Node, PodSpec
from shared.scheduling.cycle.inter_pod_rules import know_others
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.table.devices import force_devices


def compiled(state: PlacementState, sig: SignatureId) -> Signature:
    """Return the kernel's compiled form of a known signature."""
    return state.sigs[sig]


def define(state: PlacementState, sig: SignatureId, spec: PodSpec) -> None:
    """Add a signature and its compiled form."""
    state.specs[sig] = spec
    gpu = spec.gpu.milli * spec.gpu.count if spec.gpu is not None else 0
    state.loads[sig] = (spec.request(CPU), spec.request(MEMORY), gpu)
    compiled_sig = Signature(state.table, sig, spec, state.plugins_of(spec))
    state.sigs[sig] = compiled_sig
    if sig in state.other_counts:
        know_others(compiled_sig, state.other_counts[sig])
    if compiled_sig.is_concerned:
        for counter, matched in state.table.counters.add(compiled_sig):
            count_charged(state, counter, {one.sig_id for one in matched})


def count_charged(state: PlacementState, counter: int, sigs: set[SignatureId]) -> None:
    """Start a new counter with the pods of these signatures that are on nodes already."""
    wanted = sorted(sig for sig in sigs if state.sig_pods.get(sig))
    if wanted:
        ledger = state.ledger
        rows = ledger.charged()
        rows = rows[np.isin(ledger.sig[rows], wanted)]
        nodes = ledger.node[rows].astype(np.int64)
        state.table.counters.count(counter, table_rows(state, nodes))


def spec_of(state: PlacementState, sig: SignatureId, pod: PodId) -> PodSpec:
    """Return the spec of a known signature. Raises AssertionError naming the pod."""
    spec = state.specs.get(sig)
    assert spec is not None, f"pod {pod} has signature {sig}, which ingest has not defined"
    return spec


def charge(
    state: PlacementState, rows: I64, sig: SignatureId, nodes: I64, masks: I64 | None
) -> I64:
    """Charge pods of one signature to nodes of the table and write it into their ledger rows;
    return the nodes' rows in the table.
    """
    state.ledger.write(rows, sig, nodes, 0 if masks is None else masks, UNSTARTED_MS + state.now_ms)
    return _charge(state, sig, nodes, masks, 1)


def charge_one(state: PlacementState, row: int, sig: SignatureId, node: NodeId, mask: int) -> None:
    """`charge` for one pod, with numbers instead of arrays, for unbatched dispatches."""
    state.ledger.write_one(row, sig, node, mask, UNSTARTED_MS + state.now_ms)
    _charge_one(state, sig, node, mask, 1)


def _charge_one(
    state: PlacementState, sig: SignatureId, node: NodeId, mask: int, sign: int
) -> None:
    at = state.table.row_of(node)
    assert at is not None, f"signature {sig}: charged to node {node}, which is not there"
    state.table.charge_one(state.sigs[sig], at, mask, sign)
    one = state.sigs[sig]
    if one.counted and state.refused:
        state.improved_nodes.add(node)  # pods with affinity may fit now
    if one.counted or one.uses:
        note_moved(state, sig)
    level(state, state.specs[sig].priority, node)[node] += sign
    _add_up(state, sig, sign)


def _release_one(state: PlacementState, row: int) -> None:
    ledger = state.ledger
    sig, node = ledger.sig_at(row), ledger.node_at(row)
    _charge_one(state, sig, node, int(ledger.devices[row]), -1)
    ledger.write_one(row, NO_SIGNATURE, NO_NODE, 0, 0)
    if state.refused:
        state.improved_nodes.add(node)
    if sig in state.retired:
        forget_if_unused(state, sig)


def release(state: PlacementState, rows: I64) -> None:
    """Release the charges of these rows, clear their places and mark their nodes as improved."""
    ledger = state.ledger
    if len(rows) == 1:
        _release_one(state, int(rows[0]))
        return
    for sig, part in groups(ledger.sig[rows]):
        chosen = rows[part]
        nodes = ledger.node[chosen].astype(np.int64)
        masks = ledger.devices[chosen] if compiled(state, sig).gpu_count else None
        _charge(state, sig, nodes, masks, -1)
        mark_improved(state, nodes)
        if state.retired and sig in state.retired:
            forget_if_unused(state, sig)
    ledger.clear(rows)


def charge_observed(state: PlacementState, rows: I64, sig: SignatureId, nodes: I64) -> None:
    """Charge pods that the cluster shows on known nodes. Their devices are unknown, so the rule
    picks them, pod by pod.
    """
    wanted = compiled(state, sig)
    if not wanted.gpu_count:
        charge(state, rows, sig, nodes, None)
        return
    table = state.table
    for at, node in enumerate(nodes.tolist()):
        row = table.row_of(node)
        assert row is not None
        free = table.gpu_free[row].tolist()
        mask = force_devices(wanted, free, int(table.gpu_count[row]))
        charge(state, rows[at : at + 1], sig, nodes[at : at + 1], np.array([mask], np.int64))


def mark_improved(state: PlacementState, nodes: I64) -> None:
    """Mark nodes with new space: refused signatures must be tried on them again."""
    if state.refused:
        state.improved_nodes.update(nodes.tolist())


def forget_if_unused(state: PlacementState, sig: SignatureId) -> None:
    """Forget a retired signature once its last charge is released."""
    nominated = any(one.sig == sig for one in state.nominations.values())
    if not state.sig_pods.get(sig) and not nominated:
        state.retired.discard(sig)
        state.orders.pop(sig, None)
        if state.sigs[sig].is_concerned:
            state.table.counters.drop(state.sigs[sig])
        del state.specs[sig], state.sigs[sig], state.loads[sig]
        state.other_counts.pop(sig, None)


def level(state: PlacementState, priority: int, highest: int) -> NDArray[np.int32]:
    """Return the counts of pods of one priority by node id, long enough for node `highest`."""
    counts = state.levels.get(priority)
    if counts is None or len(counts) <= highest:
        grown = np.zeros(max(1024, 2 * (highest + 1)), np.int32)
        if counts is not None:
            grown[: len(counts)] = counts
        counts = state.levels[priority] = grown
    return counts


def _charge(
    state: PlacementState, sig: SignatureId, nodes: I64, masks: I64 | None, sign: int
) -> I64:
    count = len(nodes)
    if not count:
        return nodes
    rows = table_rows(state, nodes)
    assert rows.min() >= 0, f"signature {sig}: charged to nodes that are not there: {nodes}"
    state.table.charge(state.sigs[sig], rows, masks, sign)
    _announce(state, sig, nodes)
    priority = state.specs[sig].priority
    if count == 1:
        node = int(nodes[0])
        level(state, priority, node)[node] += sign
    else:
        np.add.at(level(state, priority, int(nodes.max())), nodes, sign)
    _add_up(state, sig, sign * count)
    return rows


def announce(state: PlacementState, rows: I64) -> None:
    """Wake pods that may fit beside these charged ones, as if they were charged now."""
    for sig, part in groups(state.ledger.sig[rows]):
        _announce(state, SignatureId(sig), state.ledger.node[rows[part]].astype(np.int64))


def _announce(state: PlacementState, sig: SignatureId, nodes: I64) -> None:
    one = state.sigs[sig]
    if one.counted:
        mark_improved(state, nodes)
    if one.counted or one.uses:
        note_moved(state, sig)


def _add_up(state: PlacementState, sig: SignatureId, count: int) -> None:
    left = state.sig_pods.get(sig, 0) + count
    assert left >= 0, f"signature {sig}: {-left} pods more given back than were charged"
    if left:
        state.sig_pods[sig] = left
    else:
        del state.sig_pods[sig]
    cpu_milli, memory_bytes, gpu_milli = state.loads[sig]
    used = state.used
    used.cpu_milli += count * cpu_milli
    used.memory_bytes += count * memory_bytes
    used.gpu_milli += count * gpu_milli


def table_rows(state: PlacementState, nodes: I64) -> I64:
    """Return the table rows of node ids, -1 for unknown nodes: one gather over a map by node id."""
    table = state.table
    if state.row_by_node_of != table.changes.restarts:
        highest = int(table.ids.max(initial=0))
        state.row_by_node = np.full(highest + 1, -1, np.int64)
        state.row_by_node[table.ids] = np.arange(table.size)
        state.row_by_node_of = table.changes.restarts
    if nodes.max(initial=0) < len(state.row_by_node):
        return state.row_by_node[nodes]
    return np.array([state.row_by_node[n] if n < len(state.row_by_node) else -1 for n in nodes])


def set_nodes(state: PlacementState, ids: list[NodeId], nodes: Sequence[Node]) -> None:
    """Add or change nodes; their charges stay."""
    state.table.set_nodes(ids, nodes)
    state.nodes.update(zip(ids, nodes, strict=True))
    if state.tree is not None:
        state.tree.set(ids, nodes)
    recount_capacity(state)
    charge_strays(state, ids)
    mark_improved(state, np.array(ids, np.int64))


def recount_capacity(state: PlacementState) -> None:
    """Recompute the shard's capacity after its nodes changed."""
    table, have = state.table, state.capacity
    cpu, memory = (table.allocatable[row].astype(np.int64) for row in (0, 1))
    have.cpu_milli = int(cpu.sum(dtype=np.int64))
    have.memory_bytes = int(memory.sum(dtype=np.int64))
    have.gpu_milli = int(table.gpu_count.sum(dtype=np.int64)) * 1000


def charge_strays(state: PlacementState, nodes: list[NodeId]) -> None:
    """Charge the strays: pods that were on these nodes before the nodes were known."""
    arrived = [node for node in nodes if state.strays.pop(node, 0)]
    if not arrived:
        return
    ledger = state.ledger
    is_stray = ledger.kind == State.STRAY
    rows = np.flatnonzero(is_stray & np.isin(ledger.node, np.array(arrived, np.int32)))
    ledger.advance(rows, "NodesSet")
    starts = ledger.start_ms[rows]
    for sig, part in groups(ledger.sig[rows]):
        charge_observed(state, rows[part], sig, ledger.node[rows[part]].astype(np.int64))
    ledger.start_ms[rows] = starts


def charge_ledger(state: PlacementState) -> None:
    """Rebuild everything derived from the ledger, as `load` does."""
    ledger = state.ledger
    rows = ledger.charged()
    for sig, part in groups(ledger.sig[rows]):
        chosen = rows[part]
        masks = ledger.devices[chosen] if compiled(state, sig).gpu_count else None
        _charge(state, sig, ledger.node[chosen].astype(np.int64), masks, 1)
    strays = ledger.node[ledger.kind == State.STRAY]
    for node, part in groups(strays):
        state.strays[node] = len(part)


def swap(state: PlacementState, rows: I64, old: SignatureId, new: SignatureId) -> None:
    """Charge pods in place under another signature with the same load. Inter-pod rules may select
    them differently now, so their nodes count as improved.
    """
    ledger = state.ledger
    nodes = ledger.node[rows].astype(np.int64)
    masks = ledger.devices[rows] if compiled(state, old).gpu_count else None
    _charge(state, old, nodes, masks, -1)
    _charge(state, new, nodes, masks, 1)
    ledger.sig[rows] = new
    mark_improved(state, nodes)
    if old in state.retired:
        forget_if_unused(state, old)


def namespaces_changed(state: PlacementState) -> None:
    """Recount all pods: rules that select namespaces by label may select others now."""
    counters, ledger = state.table.counters, state.ledger
    counters.rematch(state.namespaces)
    rows = ledger.charged()
    for sig, part in groups(ledger.sig[rows]):
        if state.sigs[sig].counted:
            nodes = ledger.node[rows[part]].astype(np.int64)
            counters.charge(state.sigs[sig], table_rows(state, nodes), 1)
    mark_improved(state, state.table.ids[:1])  # one changed node makes all nodes checked
