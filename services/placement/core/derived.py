"""The derived part of a shard's state, and checks of it that are too expensive for every step."""

import numpy as np

from services.placement.core.books.charges import charge_ledger, define, recount_capacity
from services.placement.core.preemption import nominations
from services.placement.core.state import PlacementState
from services.placement.core.transitions import State
from services.placement.core.volumes import other_shards, reservations
from shared.model.columns import I64
from shared.model.ids import GangAttempt


def held(state: PlacementState) -> dict[GangAttempt, I64]:
    """Return the pods of each hold that are still held."""
    found = {}
    for key, ids in state.holds.items():
        found[key] = ids[state.ledger.kind[state.ledger.rows(ids)] == State.HELD]
    return found


def derive_loaded(state: PlacementState) -> PlacementState:
    """Compute the derived fields of a loaded state; return it."""
    improved = set(state.improved_nodes)
    rules_moved, counts_changed = state.rules_moved, state.counts_changed
    turn_moved = state.work_queue.turn is not None and state.work_queue.turn.moved
    ledger = state.ledger
    for ids in state.work_queue.queued():
        rows = ledger.rows(ids)  # first: may replace the columns
        ledger.kind[rows] = State.QUEUED
    rows = ledger.rows(np.array(state.gone, np.int64))
    ledger.kind[rows] = State.GONE
    for pod, wait in list(state.volume_waits.items()):
        reservations.assume_volumes(state, pod, wait)
    for number, promise in list(state.other_shard_volumes.items()):
        other_shards.assume_theirs(state, number, promise)
        if promise.world >= 0:
            state.ended_other_shard_volumes.append(number)
    derive(state)
    state.improved_nodes = improved  # charges mark nodes, and that pods moved
    state.rules_moved, state.counts_changed = rules_moved, counts_changed
    if state.work_queue.turn is not None:
        state.work_queue.turn.moved = turn_moved
    return state


def derive(state: PlacementState) -> None:
    """Compute what depends on nodes, signatures, charges and options."""
    state.init_derived()
    state.table.set_nodes(state.nodes, list(state.nodes.values()))
    for sig, spec in sorted(state.specs.items(), key=lambda item: item[0]):
        define(state, sig, spec)
    for _, one in sorted(state.unsettled.items()):
        state.unsettled_on[one.name] = state.unsettled_on.get(one.name, 0) + 1
    state.has_latest_sigs = bool(state.ledger.latest_sig.any())
    for _, nomination in sorted(state.nominations.items()):
        nominations.add(state, nomination)
    recount_capacity(state)
    charge_ledger(state)


def check(state: PlacementState, twin: PlacementState) -> None:
    """Check that everything derived equals that of the same state, loaded. Raises AssertionError
    naming the part.
    """
    state.claims.check()
    table, other = state.table, twin.table
    order = other.rows_of(table.ids.tolist())
    assert table.size == other.size == len(order), "the table lost or invented a node"
    for name, index in sorted(table.resources.items()):
        amounts = table.requested[index]
        other_amounts = other.requested[other.resources[name]] if name in other.resources else 0.0
        wrong = np.flatnonzero(amounts != other_amounts)
        assert not len(wrong), (
            f"node {table.ids[wrong[0]]}: {name} charged is {amounts[wrong[0]]}, "
            f"the ledger gives {np.broadcast_to(other_amounts, amounts.shape)[wrong[0]]}"
        )
    width = min(table.gpu_free.shape[1], other.gpu_free.shape[1])
    assert (table.gpu_free[:, :width] == other.gpu_free[:, :width]).all(), "GPU devices differ"
    for row, node in enumerate(table.ids.tolist()):
        assert table.ports.used(node) == other.ports.used(node), f"ports of node {node}, row {row}"
    counts, others = table.counters, other.counters
    assert counts.index.keys() == others.index.keys(), "counters differ from the signatures"
    for counter, at in counts.index.items():
        other_amounts = others.counts[others.index[counter], order]
        assert np.array_equal(counts.counts[at], other_amounts), f"{counter}: counts differ by node"
    assert state.sig_pods == twin.sig_pods, "pods per signature differ from the ledger"
    assert state.strays == twin.strays, "strays differ from the ledger"
    assert state.unsettled_on == twin.unsettled_on, "unsettled pods by name differ from the pods"
    for node, value in sorted(state.withheld.items()):
        assert node not in state.nodes, f"node {node} is withheld and there"
        assert value.name in state.unsettled_on, f"node {node} is withheld without unsettled binds"
    if state.tree is not None:
        assert sorted(state.tree.listed().tolist()) == sorted(state.nodes), "the order of nodes"
    assert state.used == twin.used, f"used is {state.used}, the ledger gives {twin.used}"
    assert state.capacity == twin.capacity, "capacity differs from the nodes"
    assert state.nomination_of_pod == twin.nomination_of_pod, (
        "nominated pods differ from the nominations"
    )
    for priority in sorted({*state.levels, *twin.levels}):
        amounts, other_amounts = (
            np.trim_zeros(s.levels.get(priority, np.zeros(0, np.int32)), "b") for s in (state, twin)
        )
        assert np.array_equal(amounts, other_amounts), f"pods of priority {priority} by node differ"
