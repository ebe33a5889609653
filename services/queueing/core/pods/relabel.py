"""Pods get other signatures where they stand, because who they are matters now.

They keep their place, age, attempts and backoff. A new signature starts with what the old one was
told: whoever refused that refuses this. A shard may say so, or take it back, of the old one for as
long as it has not read that there is a new one; `heirs` has whom such answers concern, too.
"""

from collections.abc import Iterable

import numpy as np

from services.queueing.core.snapshot import reindex
from services.queueing.core.state import Left, QueueingState, Sig, by_number
from services.queueing.core.transitions import Pod
from shared.events.ingest import PodsRelabelled
from shared.model.columns import I64, unpack
from shared.model.ids import INGEST

UNKNOWN, BOUND = int(Pod.UNKNOWN), int(Pod.BOUND)


def relabelled(state: QueueingState, event: PodsRelabelled) -> None:
    """Known pods whose signature is another: rare, so all indexes are made again."""
    pods = state.pods
    ids, sigs = unpack(event.ids), unpack(event.sigs)
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
    _tell_gangs(state, rows, sigs)
    pods.sig[rows] = sigs
    asking = np.isin(ids, np.array(list(state.asks), np.int64))
    for pod, sig in zip(ids[asking].tolist(), sigs[asking].tolist(), strict=True):
        state.asks[pod].sig = sig
    reindex(state)


def _inherit(state: QueueingState, old: Sig, new: Sig) -> None:
    """What was said of the old signature holds for a new one, unless that was told otherwise."""
    state.heirs.append((state.cursors[INGEST].next, old.sig, new.sig))
    if new.sent or new.mask or new.fifo.live or new.parked_live or new.left:
        return
    new.mask, new.refusals, new.note = old.mask, dict(old.refusals), old.note
    new.again, new.ask_ms, new.look_ms = old.again, old.ask_ms, old.look_ms


def _move_leftovers(state: QueueingState, rows: I64, sigs: I64) -> None:
    pods = state.pods
    over = pods.state[rows] == int(Pod.LEFT)
    for row, new in zip(rows[over].tolist(), sigs[over].tolist(), strict=True):
        attempt = int(pods.attempt[row])
        left = state.sigs[int(pods.sig[row])].left[attempt]
        state.sigs[new].left.setdefault(attempt, Left(left.tried, left.rounds))


def _tell_gangs(state: QueueingState, rows: I64, sigs: I64) -> None:
    """Gangs hear of improvements for the new signatures of those that were tried."""
    pods = state.pods
    members = pods.gang[rows] != 0
    rows, sigs = rows[members], sigs[members]
    columns = (pods.gang[rows].tolist(), pods.sig[rows].tolist(), sigs.tolist())
    for number, old, new in dict.fromkeys(zip(*columns, strict=True)):
        gang = state.gangs.get(number)
        if gang is not None and old in gang.sigs and new not in gang.sigs:
            gang.sigs = tuple(sorted((*gang.sigs, new)))


def concerned(state: QueueingState, sigs: Iterable[int], world: int) -> list[int]:
    """Signatures that an answer is about: those that it names, and those that came of them after
    what the shard had read of ingest's journal when it spoke.
    """
    found = dict.fromkeys(sigs)
    if state.heirs:
        state.heirs = [heir for heir in state.heirs if heir[0] > world]
        for _position, old, new in state.heirs:
            if old in found:
                found[new] = None
    return list(found)
