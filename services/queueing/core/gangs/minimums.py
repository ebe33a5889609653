"""The minimums of a gang's parts: how many members of each must start, besides minCount in all.

A pod's part is in its signature. Once a member runs, the gang has started, and its parts have no
minimums any more.
"""

from collections.abc import Iterator

import numpy as np

from services.queueing.core.state import Gang, QueueingState, by_number
from services.queueing.core.transitions import Pod
from shared.events.queueing import Minimum
from shared.model.columns import I64
from shared.model.ids import SignatureId
from shared.model.objects import PartMinimum
from shared.model.text import counted

Parts = dict[str, dict[SignatureId, int]]
"""part -> signature -> pending members"""


def lacking(state: QueueingState, gang: Gang) -> str:
    """Return why a part has too few members; empty if all have enough."""
    if gang.attempt or gang.running or not gang.waiting:
        return ""
    parts = _parts(state, _pending(state, gang))
    for one in gang.minimums:
        if not list(_minimums(parts, one)):
            pods = counted(one.members, "pod")
            what = f"{counted(one.parts, 'sub-group')} of {pods} each" if one.parts else pods
            return f'waiting for {what} of "{one.name}" to appear in scheduling queue'
    return ""


def of_attempt(state: QueueingState, gang: Gang) -> tuple[Minimum, ...]:
    """Return what the next attempt must hold of its parts. Of more parts than it needs those with
    most members are chosen.
    """
    if not gang.minimums or gang.running:
        return ()
    parts = _parts(state, _pending(state, gang))
    return tuple(one for minimum in gang.minimums for one in _minimums(parts, minimum))


def first_and_rest(state: QueueingState, gang: Gang, ids: I64) -> tuple[I64, ...]:
    """Split pending members, in order, into those that its parts need and all others, if any."""
    pods, is_first = state.pods, np.zeros(len(ids), np.bool_)
    sigs = pods.sig[pods.rows(ids)]
    for one in of_attempt(state, gang):
        is_first[np.flatnonzero(np.isin(sigs, one.sigs))[: one.least]] = True
    return tuple(filter(len, (ids[is_first], ids[~is_first])))


def _pending(state: QueueingState, gang: Gang) -> I64:
    """Return the pending members, by id."""
    pods = state.pods
    ids = pods.known(np.unique(np.frombuffer(gang.members, np.int64).copy()))
    rows = ids - pods.base
    there: I64 = ids[(pods.state[rows] == Pod.GANG_PENDING) & (pods.gang[rows] == gang.gang)]
    return there


def _parts(state: QueueingState, ids: I64) -> Parts:
    found: Parts = {}
    for sig, rows in by_number(state.pods.sig[state.pods.rows(ids)].astype(np.int64)):
        part = state.sigs[sig].part
        if part:
            found.setdefault(part, {})[sig] = len(rows)
    return found


def _minimums(parts: Parts, one: PartMinimum) -> Iterator[Minimum]:
    """Yield what must be held of a part, or of each of the chosen parts below it; nothing if there
    are too few members.
    """
    inside = {
        part: sigs
        for part, sigs in parts.items()
        if part == one.name or part.startswith(f"{one.name}/")
    }
    if not one.parts:
        sigs = [sig for part in sorted(inside) for sig in inside[part]]
        if sum(sum(counts.values()) for counts in inside.values()) >= one.members:
            yield Minimum(one.members, tuple(sorted(sigs)))
        return
    sizes = {part: sum(counts.values()) for part, counts in inside.items()}
    full = [part for part in sorted(sizes) if sizes[part] >= one.members]
    full.sort(key=lambda part: -sizes[part])
    if len(full) >= one.parts:
        for part in full[: one.parts]:
            yield Minimum(one.members, tuple(sorted(inside[part])))
