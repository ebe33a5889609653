"""The life of one ask (one search for victims for one pod) as a table; docs are generated from it.

`all_*` is the last answer of its kind; who asks together with others may be put off by theirs. The
nomination always precedes the evictions.
"""

from enum import IntEnum


class Phase(IntEnum):
    """Where an ask stands. CLOSED asks are forgotten."""

    NEW = 0  # to be tried out by the shards (again)
    DRY_RUN = 1  # every shard looks for candidates
    ANSWERED = 2  # every shard answered: choose
    NOMINATING = 3  # the owning shard re-validates the choice
    NOMINATED = 4  # it charged the nomination: victims may be evicted now
    EVICTING = 5  # evictions asked, not all answered
    WAITING = 6  # all answered: victims are leaving
    READY = 7  # the last victim left: the preemptor is tried there
    CLOSED = 8
    JUDGING = 9  # extenders say which candidates are left


SEARCHING = (Phase.NEW, Phase.DRY_RUN, Phase.ANSWERED, Phase.JUDGING)
LEAVING = (Phase.NOMINATED, Phase.EVICTING, Phase.WAITING)

TRANSITIONS: dict[tuple[Phase, str], Phase] = {
    (Phase.NEW, "dry_run_asked"): Phase.DRY_RUN,
    (Phase.DRY_RUN, "candidates_found"): Phase.DRY_RUN,
    (Phase.DRY_RUN, "all_candidates_found"): Phase.ANSWERED,
    (Phase.DRY_RUN, "put_off"): Phase.NEW,
    (Phase.ANSWERED, "dry_run_asked"): Phase.DRY_RUN,
    (Phase.ANSWERED, "victims_asked"): Phase.JUDGING,
    (Phase.JUDGING, "victims_judged"): Phase.ANSWERED,
    (Phase.ANSWERED, "nominate_asked"): Phase.NOMINATING,
    (Phase.NOMINATING, "nomination_stale"): Phase.NEW,
    (Phase.NOMINATING, "nominated"): Phase.NOMINATED,
    (Phase.NOMINATED, "preemption_opened"): Phase.WAITING,
    (Phase.WAITING, "evict_asked"): Phase.EVICTING,
    (Phase.EVICTING, "all_evicted"): Phase.WAITING,
    **{(phase, "nomination_ready"): Phase.READY for phase in LEAVING},
    (Phase.READY, "preemptor_left"): Phase.CLOSED,
    (Phase.READY, "nomination_lost"): Phase.CLOSED,
    (Phase.READY, "nomination_cleared"): Phase.CLOSED,
    **{(phase, "superseded"): Phase.CLOSED for phase in (*SEARCHING, Phase.NOMINATING, *LEAVING)},
    **{
        (phase, "preemption_closed"): Phase.CLOSED
        for phase in (*SEARCHING, Phase.NOMINATING, *LEAVING)
    },
}


def following(phase: Phase, event: str, story: object) -> Phase:
    """The phase after `event`. Raises AssertionError with the ask's story (its `str`, which is made
    only then) when there is none.
    """
    after = TRANSITIONS.get((phase, event))
    assert after is not None, f"{story}: {event} is not allowed in {phase.name}"
    return after
