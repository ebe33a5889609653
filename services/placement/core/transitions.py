"""The legal transitions of one pod in a shard's ledger, as plain data.

The ledger applies events to whole columns through `NEXT`, made from this table; the docs' diagram
is drawn from it. Pairs that change nothing are listed too: late, duplicate and overtaken facts are
normal between journals. A missing pair is a bug and raises with the pod's story.
"""

from enum import IntEnum

import numpy as np


class State(IntEnum):
    """The state of a pod in this shard. A pod that the shard never saw is FREE."""

    FREE = 0  # not here
    QUEUED = 1  # dispatched to this shard, not answered yet
    RESERVED = 2  # decided here, bind not definite
    HELD = 3  # held for a gang attempt
    BOUND = 4  # our bind is definite
    ASSIGNED = 5  # the cluster shows it on the node: a fact
    STRAY = 6  # a fact about a node that is not known yet: charged when the node comes
    FAILED = 7  # its bind failed; charged until Released
    GONE = 8  # deleted; remembered so that a late dispatch is not placed


CHARGED = (State.RESERVED, State.HELD, State.BOUND, State.ASSIGNED, State.FAILED)
"""States whose pods are charged to their node."""

VICTIMS = (State.BOUND, State.ASSIGNED)
"""States in which a pod may be a victim: it runs, or certainly will."""

_S = State
_ALL = tuple(State)
_LIVE = tuple(state for state in State if state != State.GONE)


def _same(event: str, *states: State) -> dict[tuple[State, str], State]:
    return {(state, event): state for state in states}


def _to(event: str, target: State, *states: State) -> dict[tuple[State, str], State]:
    return {(state, event): target for state in states}


TRANSITIONS: dict[tuple[State, str], State] = {
    **_same("Dispatched", *_ALL),
    **_to("Dispatched", _S.QUEUED, _S.FREE, _S.QUEUED),
    **_to("Reserved", _S.RESERVED, _S.QUEUED),
    **_to("Refused", _S.FREE, _S.QUEUED),
    **_to("GangHeld", _S.HELD, _S.FREE),
    **_same("GangCommitted", *_ALL),
    **_to("GangCommitted", _S.RESERVED, _S.HELD),
    **_same("GangReleased", *_ALL),
    **_to("GangReleased", _S.FREE, _S.HELD),
    **_to("PodsAssigned", _S.ASSIGNED, *_LIVE),
    **_to("PodsAssignedUnknownNode", _S.STRAY, *_LIVE),
    **_to("PodsGone", _S.GONE, *_ALL),
    **_to("Forgotten", _S.FREE, _S.GONE),
    **_same("Bound", *_ALL),
    **_to("Bound", _S.BOUND, _S.RESERVED, _S.HELD),
    **_same("BindFailed", *_ALL),
    **_to("BindFailed", _S.FAILED, _S.RESERVED, _S.HELD),
    **_to("Released", _S.FREE, _S.FAILED),
    **_same("NodesGone", *_ALL),
    **_to("NodesGone", _S.FREE, *CHARGED, _S.STRAY),
    **_to("NodesSet", _S.ASSIGNED, _S.STRAY),
}
"""(state, event) -> state. `PodsAssignedUnknownNode` is PodsAssigned for an unknown node,
`Forgotten` the end of remembering a deleted pod; GangTimedOut acts as GangReleased.
"""

ILLEGAL = -1


def _columns() -> dict[str, "np.ndarray[tuple[int], np.dtype[np.int8]]"]:
    tables: dict[str, np.ndarray[tuple[int], np.dtype[np.int8]]] = {}
    for (state, event), target in TRANSITIONS.items():
        table = tables.setdefault(event, np.full(len(State), ILLEGAL, np.int8))
        table[state] = target
    return tables


NEXT = _columns()
"""Event -> next state, as a lookup column by state (ILLEGAL if the table has no pair)."""


DIAGRAMS = {"A pod in a shard's ledger": TRANSITIONS}
"""Title -> table, for docs/reference/transitions.md."""
