"""The life of one ask (one search for victims for one pod) and of a gang's ask, as tables; the
docs' diagrams are generated from them.

The asks of a gang's members begin when their places are chosen. `all_*` is the last answer of its
kind. An ask that shares a dry run may be put off to the next one. The nomination always precedes
the evictions.
"""

from enum import IntEnum


class Phase(IntEnum):
    """The phase of an ask. CLOSED asks are forgotten."""

    NEW = 0  # needs a dry run
    DRY_RUN = 1  # every shard searches for candidates
    ANSWERED = 2  # every shard answered: choose
    NOMINATING = 3  # the owning shard validates the choice
    NOMINATED = 4  # the shard charged the nomination: victims may be evicted now
    EVICTING = 5  # evictions are sent, not all answered
    VICTIMS_LEAVING = 6  # all evictions are answered: victims are leaving
    READY = 7  # the last victim left: the preemptor is tried there
    CLOSED = 8
    ASKING_EXTENDERS = 9  # extenders choose among the candidates


SEARCHING = (Phase.NEW, Phase.DRY_RUN, Phase.ANSWERED, Phase.ASKING_EXTENDERS)
LEAVING = (Phase.NOMINATED, Phase.EVICTING, Phase.VICTIMS_LEAVING)

TRANSITIONS: dict[tuple[Phase, str], Phase] = {
    (Phase.NEW, "dry_run_asked"): Phase.DRY_RUN,
    (Phase.DRY_RUN, "candidates_found"): Phase.DRY_RUN,
    (Phase.DRY_RUN, "all_candidates_found"): Phase.ANSWERED,
    (Phase.DRY_RUN, "put_off"): Phase.NEW,
    (Phase.ANSWERED, "dry_run_asked"): Phase.DRY_RUN,
    (Phase.ANSWERED, "victims_asked"): Phase.ASKING_EXTENDERS,
    (Phase.ASKING_EXTENDERS, "victims_judged"): Phase.ANSWERED,
    (Phase.ANSWERED, "nominate_asked"): Phase.NOMINATING,
    (Phase.NOMINATING, "nomination_stale"): Phase.NEW,
    (Phase.NOMINATING, "nominated"): Phase.NOMINATED,
    (Phase.NOMINATED, "preemption_opened"): Phase.VICTIMS_LEAVING,
    (Phase.VICTIMS_LEAVING, "evict_asked"): Phase.EVICTING,
    (Phase.EVICTING, "all_evicted"): Phase.VICTIMS_LEAVING,
    **{(phase, "nomination_ready"): Phase.READY for phase in LEAVING},
    (Phase.READY, "preemptor_left"): Phase.CLOSED,
    (Phase.READY, "nomination_lost"): Phase.CLOSED,
    **{
        (phase, "nomination_cleared"): Phase.CLOSED
        for phase in (Phase.NOMINATING, *LEAVING, Phase.READY)
    },
    **{(phase, "superseded"): Phase.CLOSED for phase in (*SEARCHING, Phase.NOMINATING, *LEAVING)},
    **{
        (phase, "preemption_closed"): Phase.CLOSED
        for phase in (*SEARCHING, Phase.NOMINATING, *LEAVING)
    },
}


class GangPhase(IntEnum):
    """The phase of a gang's ask. CLOSED asks are forgotten."""

    NEW = 0  # needs a dry run, one gang at a time
    DRY_RUN = 1  # every shard searches for places
    ANSWERED = 2  # every shard answered: choose places for all that are needed, or none
    NOMINATING = 3  # the shards validate their parts
    LEAVING = 4  # all of them charged their parts: victims may be evicted
    READY = 5  # the last victim of all members left
    PLACING = 6  # the gang is tried in its places
    CLOSED = 7


ENDING = tuple(phase for phase in GangPhase if phase is not GangPhase.CLOSED)

GANG_TRANSITIONS: dict[tuple[GangPhase, str], GangPhase] = {
    (GangPhase.NEW, "gang_dry_run_asked"): GangPhase.DRY_RUN,
    (GangPhase.DRY_RUN, "places_found"): GangPhase.DRY_RUN,
    (GangPhase.DRY_RUN, "all_places_found"): GangPhase.ANSWERED,
    (GangPhase.ANSWERED, "gang_dry_run_asked"): GangPhase.DRY_RUN,
    (GangPhase.ANSWERED, "gang_nominate_asked"): GangPhase.NOMINATING,
    (GangPhase.NOMINATING, "gang_nominate_asked"): GangPhase.NOMINATING,
    (GangPhase.NOMINATING, "gang_nominated"): GangPhase.NOMINATING,
    (GangPhase.NOMINATING, "all_gang_nominated"): GangPhase.LEAVING,
    (GangPhase.NOMINATING, "given_back"): GangPhase.NEW,
    (GangPhase.LEAVING, "all_ready"): GangPhase.READY,
    (GangPhase.READY, "gang_room_made"): GangPhase.PLACING,
    **{(phase, "gang_preemption_closed"): GangPhase.CLOSED for phase in ENDING},
}


def following(phase: Phase, event: str, story: object) -> Phase:
    """Return the phase after `event`. Raises AssertionError with the ask's story (its `str`, made
    only then) if there is none.
    """
    after = TRANSITIONS.get((phase, event))
    assert after is not None, f"{story}: {event} is not allowed in {phase.name}"
    return after


def gang_following(phase: GangPhase, event: str, story: object) -> GangPhase:
    """Return the phase of a gang's ask after `event`; see `following`."""
    after = GANG_TRANSITIONS.get((phase, event))
    assert after is not None, f"{story}: {event} is not allowed in {phase.name}"
    return after


DIAGRAMS = {
    "A search for victims for one pod": TRANSITIONS,
    "Room for a whole gang": GANG_TRANSITIONS,
}
"""Title -> table, for docs/reference/transitions.md."""
