"""Dumps and loads the true part of the state, and checks the derived part against it.

Equal states give equal bytes: columns hold only used rows, in id order; tables are sorted; caches,
capacities and everything derivable are left out.
"""

from typing import Any

import msgspec
import numpy as np

from services.placement.core.books import remade_nodes
from services.placement.core.books.charges import charge_ledger, define, recount_capacity
from services.placement.core.config import Config
from services.placement.core.gangs import member_volumes
from services.placement.core.placing.work_queue import dump_call, load_call, load_queue
from services.placement.core.preemption import nominations
from services.placement.core.state import Deferred, Nomination, PlacementState
from services.placement.core.transitions import State
from services.placement.core.volumes import other_shards, reservations
from shared.events.observed import ExtendersAnswered
from shared.events.placement import ExtendersAsked, Refused
from shared.model.cluster_objects import StorageObject
from shared.model.columns import pack, unpack
from shared.model.objects import Node, PodSpec
from shared.scheduling.cycle.sampling import load_tree
from shared.scheduling.table.images import Spread
from shared.scheduling.volumes.storage import Storage


def dump(state: PlacementState) -> dict[str, Any]:
    """Return plain values."""
    ledger = state.ledger
    rows = ledger.live()
    # The queue has the queued pods, `gone` the remembered ones.
    derived = np.isin(ledger.kind[rows], (State.QUEUED, State.GONE)) & (ledger.budget[rows] == 0)
    derived &= ledger.latest_sig[rows] == 0
    rows = rows[~derived]
    kinds = ledger.kind[rows]
    kinds = np.where(np.isin(kinds, (State.QUEUED, State.GONE)), 0, kinds).astype(np.int8)
    return {
        "config": msgspec.to_builtins(state.config),
        "namespaces": [[name, labels] for name, labels in sorted(state.namespaces.items())],
        "spread": _spread(state),
        "storage": state.storage.objects(),
        "volume_waits": reservations.dump(state),
        "volumes_over": [[pod, why] for pod, why in sorted(state.volumes_over.items())],
        **_member_volumes(state),
        **({"elsewhere": other_shards.dump(state)} if state.other_shard_volumes else {}),
        "nodes": [[node, state.nodes[node]] for node in sorted(state.nodes)],
        "specs": [[sig, state.specs[sig]] for sig in sorted(state.specs)],
        **({"orders": [list(one) for one in sorted(state.orders.items())]} if state.orders else {}),
        "retired": sorted(state.retired),
        "last_sig": state.last_sig,
        "ids": pack(ledger.ids(rows)),
        "kind": kinds.tobytes(),
        "node": pack(ledger.node[rows].astype(np.int64)),
        "sig": pack(ledger.sig[rows].astype(np.int64)),
        "devices": pack(ledger.devices[rows]),
        "start_ms": pack(ledger.start_ms[rows]),
        "budget": pack(ledger.budget[rows].astype(np.int64)),
        "own_sig": pack(ledger.latest_sig[rows].astype(np.int64)),
        "budgets_more": [[pod, more] for pod, more in sorted(state.budgets_more.items())],
        "gone": pack(state.gone),
        "todo": state.work_queue.dump(),
        **_extending(state),
        **_judging(state),
        "deferred": [
            [pod, one.attempt, one.sig, one.urgent] for pod, one in sorted(state.deferred.items())
        ],
        "failed": sorted(state.failed),
        "holds": _holds(state),
        "nominations": nominations.dump(state),
        "unsettled": remade_nodes.dump_unsettled(state),
        "withheld": [[node, state.withheld[node]] for node in sorted(state.withheld)],
        "refused": sorted(state.refused),
        **({"hopeless": sorted(state.hopeless)} if state.hopeless else {}),
        "better": sorted(state.improved_nodes),
        "looks": sorted(state.reasons_wanted),
        "digest": [*state.digest, state.digest_ms],
        "sampling": [] if state.tree is None else [state.start_index, state.tree.dump()],
    }


def _member_volumes(state: PlacementState) -> dict[str, Any]:
    """Return nothing if no gang has volumes."""
    saved = member_volumes.dump(state)
    return {"member_volumes": saved} if saved else {}


def _extending(state: PlacementState) -> dict[str, Any]:
    """Return nothing before the first extender call."""
    if not state.extender_asks:
        return {}
    call = state.work_queue.extender_call
    found: list[object] = [
        state.extender_asks,
        [list(one) for one in sorted(state.extender_retry_ms.items())],
    ]
    more: dict[str, Any] = {}
    if state.extender_refusals:
        more["told"] = [one for _sig, one in sorted(state.extender_refusals.items())]
    if state.extender_vetoes:
        more["not_left"] = [
            [*key, until_ms] for key, until_ms in sorted(state.extender_vetoes.items())
        ]
    return more | {"extending": found if call is None else [*found, dump_call(call)]}


def _judging(state: PlacementState) -> dict[str, Any]:
    """Return nothing if extenders are not asked about gang members."""
    if state.work_queue.member_call is None and not state.member_answers:
        return {}
    answers = [[*key, sorted(of.items())] for key, of in sorted(state.member_answers.items())]
    return {"judging": [state.work_queue.member_call, answers]}


def _spread(state: PlacementState) -> list[object]:
    """Return an empty list without image counts."""
    if state.spread is None:
        return []
    holders = sorted(state.spread.holders.items())
    return [state.spread.nodes, pack(image for image, _ in holders), pack(n for _, n in holders)]


def _holds(state: PlacementState) -> list[list[object]]:
    found: list[list[object]] = []
    for (gang, attempt), ids in sorted(state.holds.items()):
        rows = state.ledger.rows(ids)
        held = ids[state.ledger.kind[rows] == State.HELD]
        found.append([gang, attempt, pack(held)])
    return found


def load(shard: int, shards: int, body: dict[str, Any]) -> PlacementState:
    """Restore what `dump` returned."""
    state = PlacementState(shard, shards)
    state.config = msgspec.convert(body["config"], Config)
    state.nodes = {node: msgspec.convert(value, Node) for node, value in body["nodes"]}
    if kept := body.get("spread", ()):
        nodes, images, holders = kept
        pairs = zip(unpack(images).tolist(), unpack(holders).tolist(), strict=True)
        state.spread = Spread(nodes, dict(pairs))
    state.storage = Storage(msgspec.convert(body.get("storage", ()), list[StorageObject]))
    reservations.load(
        state, msgspec.convert(body.get("volume_waits", ()), list[reservations.Saved])
    )
    saved = body.get("member_volumes", ())
    member_volumes.load(state, msgspec.convert(saved, list[member_volumes.Saved]))
    other_shards.load(state, msgspec.convert(body.get("elsewhere", ()), list[other_shards.Saved]))
    state.volumes_over = dict(body.get("volumes_over", ()))
    kept = body.get("namespaces", ())
    state.namespaces.update((name, tuple((k, v) for k, v in labels)) for name, labels in kept)
    state.specs = {sig: msgspec.convert(value, PodSpec) for sig, value in body["specs"]}
    state.orders = dict(body.get("orders", ()))
    state.retired = set(body["retired"])
    state.last_sig = body["last_sig"]
    _load_ledger(state, body)
    state.budgets_more = {pod: tuple(more) for pod, more in body["budgets_more"]}
    state.work_queue = load_queue(body["todo"])
    if kept := body.get("extending", ()):
        state.extender_asks, retries, *asking = kept
        state.extender_retry_ms = dict(retries)
        state.work_queue.extender_call = load_call(asking[0]) if asking else None
    refusals = msgspec.convert(body.get("told", ()), list[Refused])
    state.extender_refusals = {one.sig: one for one in refusals}
    state.extender_vetoes = {
        (sig, node): until_ms for sig, node, until_ms in body.get("not_left", ())
    }
    if kept := body.get("judging", ()):
        state.work_queue.member_call = msgspec.convert(kept[0], ExtendersAsked | None)
        for gang, attempt, said in kept[1]:
            answers = msgspec.convert(said, list[tuple[int, ExtendersAnswered]])
            state.member_answers[gang, attempt] = dict(answers)
    for ids in state.work_queue.queued():
        rows = state.ledger.rows(ids)  # first: may replace the columns
        state.ledger.kind[rows] = State.QUEUED
    state.deferred = {pod: Deferred(*rest) for pod, *rest in body["deferred"]}
    state.failed = dict.fromkeys(body["failed"])
    state.holds = {(gang, attempt): unpack(ids) for gang, attempt, ids in body["holds"]}
    for ask, pod, sig, node, mask, victims, *more in body["nominations"]:
        left = unpack(victims).tolist()
        state.nominations[ask] = Nomination(ask, pod, sig, node, mask, left, *more)
    remade_nodes.load_unsettled(state, body.get("unsettled", ()))
    kept = body.get("withheld", ())
    state.withheld = {node: msgspec.convert(value, Node) for node, value in kept}
    state.refused = set(body["refused"])
    state.hopeless = set(body.get("hopeless", ()))
    state.reasons_wanted = dict.fromkeys(body.get("looks", ()))
    *said, state.digest_ms = body["digest"]
    state.digest = (said[0], said[1], said[2], said[3])
    if kept := body.get("sampling", ()):
        state.start_index, zones = kept
        state.tree = load_tree(zones)
    derive(state)
    state.improved_nodes = set(body["better"])  # last: charges mark nodes
    return state


def derive(state: PlacementState) -> None:
    """Rebuild everything derived."""
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


def _load_ledger(state: PlacementState, body: dict[str, Any]) -> None:
    ledger = state.ledger
    rows = ledger.rows(unpack(body["ids"]))
    ledger.kind[rows] = np.frombuffer(body["kind"], np.int8)
    for name in ("node", "sig", "devices", "start_ms", "budget"):
        getattr(ledger, name)[rows] = unpack(body[name])
    if "own_sig" in body:
        ledger.latest_sig[rows] = unpack(body["own_sig"])
    gone = unpack(body["gone"])
    state.gone.extend(gone.tolist())
    rows = ledger.rows(gone)
    ledger.kind[rows] = State.GONE


def check(state: PlacementState) -> None:
    """Check that everything derived equals what the ledger gives. Raises AssertionError naming the
    part.
    """
    twin = load(
        state.shard, state.shards, msgspec.msgpack.decode(msgspec.msgpack.encode(dump(state)))
    )
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
        assert value.name in state.unsettled_on, f"node {node} is withheld for nobody"
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
