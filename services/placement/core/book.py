"""Double entry: a pod's row in the ledger and its charge on a node, always written together.

Everything derived from the ledger is kept here: the node table's sums, pods per signature, pods
per priority and node, the shard's totals. `check` recomputes all of it from the ledger.
"""

import numpy as np
from numpy.typing import NDArray

from services.placement.core.ledger import groups
from services.placement.core.state import PlacementState
from services.placement.transitions import State
from shared.framework.devices import force_devices
from shared.framework.signature import Signature
from shared.model.columns import I64
from shared.model.objects import CPU, MEMORY, PodSpec


def compiled(state: PlacementState, sig: int) -> Signature:
    """The kernel's form of a known signature."""
    return state.sigs[sig]


def define(state: PlacementState, sig: int, spec: PodSpec) -> None:
    """A signature and its compiled form."""
    state.specs[sig] = spec
    state.sigs[sig] = Signature(state.table, sig, spec)


def spec_of(state: PlacementState, sig: int, pod: int) -> PodSpec:
    """The spec of a signature that must be known. Raises AssertionError naming the pod."""
    spec = state.specs.get(sig)
    assert spec is not None, f"pod {pod} has signature {sig}, which ingest has not defined"
    return spec


def put(state: PlacementState, rows: I64, sig: int, nodes: I64, masks: I64 | None) -> None:
    """Charge pods of one signature to nodes that the table has, and write it into their rows."""
    state.ledger.write(rows, sig, nodes, 0 if masks is None else masks, state.now_ms)
    _charge(state, sig, nodes, masks, 1)


def take(state: PlacementState, rows: I64) -> None:
    """Give the charges of these rows back and forget their places. Their nodes got better."""
    ledger = state.ledger
    for sig, part in groups(ledger.sig[rows]):
        chosen = rows[part]
        nodes = ledger.node[chosen].astype(np.int64)
        masks = ledger.devices[chosen] if compiled(state, sig).gpu_count else None
        _charge(state, sig, nodes, masks, -1)
        mark_better(state, nodes)
        if state.retired and sig in state.retired:
            forget_if_unused(state, sig)
    ledger.clear(rows)


def put_facts(state: PlacementState, rows: I64, sig: int, nodes: I64) -> None:
    """Charge pods the cluster shows on known nodes; which devices they have is not known, so those
    are chosen here, by the rule, one pod after the other.
    """
    wanted = compiled(state, sig)
    if not wanted.gpu_count:
        put(state, rows, sig, nodes, None)
        return
    table = state.table
    for at, node in enumerate(nodes.tolist()):
        row = table.row_of(node)
        assert row is not None
        free = table.gpu_free[row].tolist()
        mask = force_devices(wanted, free, int(table.gpu_count[row]))
        put(state, rows[at : at + 1], sig, nodes[at : at + 1], np.array([mask], np.int64))


def mark_better(state: PlacementState, nodes: I64) -> None:
    """Space appeared on these nodes: refused signatures must be tried on them again."""
    if state.refused:
        state.better.update(nodes.tolist())


def forget_if_unused(state: PlacementState, sig: int) -> None:
    """A retired signature leaves with its last charge."""
    nominated = any(one.sig == sig for one in state.nominations.values())
    if not state.sig_pods.get(sig) and not nominated:
        state.retired.discard(sig)
        del state.specs[sig], state.sigs[sig]


def level(state: PlacementState, priority: int, highest: int) -> NDArray[np.int32]:
    """Pods of one priority by node id, long enough for node `highest`."""
    counts = state.levels.get(priority)
    if counts is None or len(counts) <= highest:
        grown = np.zeros(max(1024, 2 * (highest + 1)), np.int32)
        if counts is not None:
            grown[: len(counts)] = counts
        counts = state.levels[priority] = grown
    return counts


def _charge(state: PlacementState, sig: int, nodes: I64, masks: I64 | None, sign: int) -> None:
    count = len(nodes)
    if not count:
        return
    known = state.table.charge_nodes(compiled(state, sig), nodes, masks, sign)
    assert known.all(), f"signature {sig}: charged to nodes that are not there: {nodes[~known]}"
    left = state.sig_pods.get(sig, 0) + sign * count
    assert left >= 0, f"signature {sig}: {-left} pods more given back than were charged"
    if left:
        state.sig_pods[sig] = left
    else:
        del state.sig_pods[sig]
    spec = state.specs[sig]
    if count == 1:
        node = int(nodes[0])
        level(state, spec.priority, node)[node] += sign
    else:
        np.add.at(level(state, spec.priority, int(nodes.max())), nodes, sign)
    used = state.used
    used.cpu_milli += sign * count * spec.request(CPU)
    used.memory_bytes += sign * count * spec.request(MEMORY)
    if spec.gpu is not None:
        used.gpu_milli += sign * count * spec.gpu.milli * spec.gpu.count


def recount_capacity(state: PlacementState) -> None:
    """The shard's capacity, after its nodes changed."""
    table, have = state.table, state.capacity
    cpu, memory = (table.allocatable[row].astype(np.int64) for row in (0, 1))
    have.cpu_milli = int(cpu.sum(dtype=np.int64))
    have.memory_bytes = int(memory.sum(dtype=np.int64))
    have.gpu_milli = int(table.gpu_count.sum(dtype=np.int64)) * 1000


def charge_strays(state: PlacementState, nodes: list[int]) -> None:
    """Pods that were known to be on these nodes before the nodes were known."""
    arrived = [node for node in nodes if state.strays.pop(node, 0)]
    if not arrived:
        return
    ledger = state.ledger
    is_stray = ledger.kind == State.STRAY
    rows = np.flatnonzero(is_stray & np.isin(ledger.node, np.array(arrived, np.int32)))
    ledger.advance(rows, "NodesSet")
    starts = ledger.start_ms[rows]
    for sig, part in groups(ledger.sig[rows]):
        put_facts(state, rows[part], sig, ledger.node[rows[part]].astype(np.int64))
    ledger.start_ms[rows] = starts


def charge_ledger(state: PlacementState) -> None:
    """Everything derived from the ledger, from nothing: what load does."""
    ledger = state.ledger
    rows = ledger.charged()
    for sig, part in groups(ledger.sig[rows]):
        chosen = rows[part]
        masks = ledger.devices[chosen] if compiled(state, sig).gpu_count else None
        _charge(state, sig, ledger.node[chosen].astype(np.int64), masks, 1)
    strays = ledger.node[ledger.kind == State.STRAY]
    for node, part in groups(strays):
        state.strays[node] = len(part)
