"""Gives pods new signatures in place, because their identity matters now.

They keep their place, age, attempts and backoff. A new signature starts with the refusals of the
old one: a shard that refused that refuses this. A shard may still refuse, or improve, the old one
until it has read that there is a new one; `relabelled` has the signatures that such answers concern
too.
"""

from collections.abc import Iterable

import numpy as np

from services.queueing.core.derived import reindex
from services.queueing.core.gangs import group_trees
from services.queueing.core.queues import charges
from services.queueing.core.state import Leftovers, QueueingState, Sig, by_number
from services.queueing.core.transitions import Pod
from shared.events.ingest import PodsRelabelled
from shared.model.columns import I64, unpack
from shared.model.ids import INGEST, Position, SignatureId

UNKNOWN, BOUND = int(Pod.UNKNOWN), int(Pod.BOUND)


def on_pods_relabelled(state: QueueingState, event: PodsRelabelled) -> None:
    """Give known pods their new signatures. It is rare, so all indexes are rebuilt."""
    ids, sigs = unpack(event.ids), unpack(event.sigs)
    _relabel(state, ids, sigs)
    charges.recharge(state, ids.tolist(), sigs.tolist())


def _relabel(state: QueueingState, ids: I64, sigs: I64) -> None:
    pods = state.pods
    known = (ids >= pods.base) & (ids < pods.top)
    ids, sigs = ids[known], sigs[known]
    rows = ids - pods.base
    codes = pods.state[rows]
    changed = (codes != UNKNOWN) & (codes < BOUND) & (pods.sig[rows] != sigs)
    if not changed.any():
        return
    ids, sigs, rows = ids[changed], sigs[changed], rows[changed]
    for new, part in by_number(sigs):
        for old, _inner in by_number(pods.sig[rows[part]].astype(np.int64)):
            _inherit(state, state.sigs[old], state.sigs[new])
    _move_leftovers(state, rows, sigs)
    _reindex_gangs(state, rows, sigs)
    pods.sig[rows] = sigs
    asking = np.isin(ids, np.array(list(state.asks), np.int64))
    for pod, sig in zip(ids[asking].tolist(), sigs[asking].tolist(), strict=True):
        state.asks[pod].sig = sig
    reindex(state)


def _inherit(state: QueueingState, old: Sig, new: Sig) -> None:
    """Copy the old signature's refusals to a new one that has none of its own."""
    state.relabelled.append((state.cursors[INGEST].next, old.sig, new.sig))
    if new.sent or new.mask or new.fifo.live or new.parked_live or new.leftovers:
        return
    new.mask, new.refusals, new.note = old.mask, dict(old.refusals), old.note
    new.retry_mask, new.ask_ms, new.refresh_ms = old.retry_mask, old.ask_ms, old.refresh_ms


def _move_leftovers(state: QueueingState, rows: I64, sigs: I64) -> None:
    pods = state.pods
    over = pods.state[rows] == int(Pod.LEFTOVER)
    for row, new in zip(rows[over].tolist(), sigs[over].tolist(), strict=True):
        attempt = pods.attempt_at[row]
        leftovers = state.sigs[pods.sig_at[row]].leftovers[attempt]
        state.sigs[new].leftovers.setdefault(attempt, Leftovers(leftovers.tried, leftovers.rounds))


def _reindex_gangs(state: QueueingState, rows: I64, sigs: I64) -> None:
    """Register gangs for improvements of the new signatures of tried members."""
    pods = state.pods
    members = pods.gang[rows] != 0
    rows, sigs = rows[members], sigs[members]
    columns = (pods.gang[rows].tolist(), pods.sig[rows].tolist(), sigs.tolist())
    for number, old, new in dict.fromkeys(zip(*columns, strict=True)):
        gang = state.gangs.get(number)
        gang = group_trees.root_of(state, gang) if gang is not None else None
        if gang is not None and old in gang.sigs and new not in gang.sigs:
            gang.sigs = tuple(sorted((*gang.sigs, new)))


def affected_signatures(
    state: QueueingState, sigs: Iterable[SignatureId], world: Position
) -> list[SignatureId]:
    """Return the signatures that an answer is about: those it names, and those made of them after
    the shard's position in ingest's journal.
    """
    found = dict.fromkeys(sigs)
    if state.relabelled:
        state.relabelled = [one for one in state.relabelled if one[0] > world]
        for _position, old, new in state.relabelled:
            if old in found:
                found[new] = None
    return list(found)
