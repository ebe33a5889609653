"""The life of one attempt of a gang, as a table; the docs' diagrams are generated from it.

`hold` events come one per chosen shard, so they repeat; `all_*` is the last answer of its kind.
"""

from enum import IntEnum


class Phase(IntEnum):
    """The phase of an attempt. COMMITTED, RELEASED and TIMED_OUT are ends: it is forgotten."""

    NEW = 0  # dispatched, no shard asked yet
    OFFERING = 1  # every shard was asked for an offer
    OFFERED = 2  # every shard answered: make a plan
    HOLDING = 3  # the plan's shards were asked to hold
    ANSWERED = 4  # all of them answered: commit, plan again, or release
    COMMITTED = 5
    RELEASED = 6
    TIMED_OUT = 7
    WAITING = 8  # for its turn, or for what the other shards count (turns.py)


OPEN = (Phase.NEW, Phase.OFFERING, Phase.OFFERED, Phase.HOLDING, Phase.ANSWERED, Phase.WAITING)

TRANSITIONS: dict[tuple[Phase, str], Phase] = {
    (Phase.NEW, "offer_asked"): Phase.OFFERING,
    (Phase.OFFERING, "offered"): Phase.OFFERING,
    (Phase.OFFERING, "all_offered"): Phase.OFFERED,
    (Phase.OFFERING, "all_offered_for_a_turn"): Phase.WAITING,
    (Phase.OFFERED, "hold_asked"): Phase.HOLDING,
    (Phase.WAITING, "counts_asked"): Phase.WAITING,
    (Phase.WAITING, "hold_asked"): Phase.HOLDING,
    (Phase.HOLDING, "hold_asked"): Phase.HOLDING,
    (Phase.HOLDING, "hold_answered"): Phase.HOLDING,
    (Phase.HOLDING, "all_holds_answered"): Phase.ANSWERED,
    (Phase.ANSWERED, "hold_asked"): Phase.HOLDING,
    (Phase.ANSWERED, "counts_asked"): Phase.WAITING,
    (Phase.ANSWERED, "gang_committed"): Phase.COMMITTED,
    **{(phase, "gang_released"): Phase.RELEASED for phase in OPEN},
    **{(phase, "gang_timed_out"): Phase.TIMED_OUT for phase in OPEN},
}


def following(phase: Phase, event: str, story: str) -> Phase:
    """Return the phase after `event`. Raises AssertionError with the attempt's story if there is
    none.
    """
    after = TRANSITIONS.get((phase, event))
    assert after is not None, f"{story}: {event} is not allowed in {phase.name}"
    return after


DIAGRAMS = {"An attempt of a gang": TRANSITIONS}
"""Title -> table, for docs/reference/transitions.md."""
