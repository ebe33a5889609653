"""The life of one bind, and of one eviction, as tables; docs diagrams are generated from them.

A bind leaves its table only by an answer or a fact that is definite. `unknown` and an unassigned
read never are: the POST may still land, so it is repeated, or fenced off before it is given up.
"""

from enum import IntEnum


class Phase(IntEnum):
    """Where a bind stands. The last five are ends: they are reported, and the pod is IDLE again, so
    that no snapshot has their numbers.
    """

    IDLE = 0  # no bind of ours is open
    WAITING = 1  # reserved, but the pod's name or the node is not known yet
    QUEUED = 2  # to be asked now
    ASKED = 3  # the POST is out
    REPEAT = 4  # the same POST again when it is due
    READ = 5  # to be read back when it is due
    READING = 6  # the GET is out
    FENCE = 7  # given up: its resourceVersion is to be raised when it is due
    FENCING = 8  # the patch is out
    VOLUMES = 9  # the volumes of its claims are to be written when it is due
    WRITING = 10  # the writes are out
    WRITTEN = 11  # the shard says when the claims are bound; written again when it is due
    PRE_BIND = 12  # preBind plugins of users are to run when it is due
    PRE_BINDING = 13  # they run
    PERMIT = 14  # permit plugins of users are to be asked when it is due
    PERMITTING = 15  # they are asked, and may make the pod wait
    BOUND = 16
    GONE = 17
    FOREIGN = 18
    ABANDONED = 19
    REFUSED = 20


FOR_VOLUMES = (Phase.VOLUMES, Phase.WRITING, Phase.WRITTEN)
FOR_PERMIT = (Phase.PERMIT, Phase.PERMITTING)
FOR_PLUGINS = (*FOR_PERMIT, Phase.PRE_BIND, Phase.PRE_BINDING)
UNSENT = (Phase.WAITING, Phase.QUEUED, Phase.REPEAT, *FOR_VOLUMES, *FOR_PLUGINS)
SENT = (Phase.QUEUED, Phase.ASKED, Phase.REPEAT, Phase.READ, Phase.READING)
OPEN = (Phase.WAITING, *SENT, Phase.FENCE, Phase.FENCING, *FOR_VOLUMES, *FOR_PLUGINS)
SLOW = (Phase.REPEAT, Phase.READ, Phase.FENCE, Phase.VOLUMES, Phase.PERMIT, Phase.PRE_BIND)
OUT = (
    *(Phase.ASKED, Phase.READING, Phase.FENCING, Phase.WRITING),
    *(Phase.PRE_BINDING, Phase.PERMITTING),
)

TRANSITIONS: dict[tuple[Phase, str], Phase] = {
    (Phase.IDLE, "reserved"): Phase.WAITING,
    (Phase.WAITING, "known_to_ask_permit"): Phase.PERMIT,
    (Phase.PERMIT, "permit_asked"): Phase.PERMITTING,
    (Phase.PERMITTING, "pre_bind_failed"): Phase.REFUSED,
    **{(phase, "known"): Phase.QUEUED for phase in (Phase.WAITING, Phase.PERMITTING)},
    **{(phase, "known_with_volumes"): Phase.VOLUMES for phase in (Phase.WAITING, Phase.PERMITTING)},
    **{(phase, "volumes_asked"): Phase.WRITING for phase in (Phase.VOLUMES, Phase.WRITTEN)},
    (Phase.WRITING, "done"): Phase.WRITTEN,
    (Phase.WRITING, "unknown"): Phase.VOLUMES,
    (Phase.WRITING, "busy"): Phase.VOLUMES,
    (Phase.WRITING, "refused"): Phase.ABANDONED,
    **{(phase, "volumes_bound"): Phase.QUEUED for phase in FOR_VOLUMES},
    **{(phase, "volumes_bound_with_plugins"): Phase.PRE_BIND for phase in FOR_VOLUMES},
    **{
        (phase, "volumes_failed"): Phase.ABANDONED
        for phase in (Phase.WAITING, *FOR_PERMIT, *FOR_VOLUMES)
    },
    **{
        (phase, "volumes_taken"): Phase.REFUSED
        for phase in (Phase.WAITING, Phase.PERMIT, Phase.VOLUMES)
    },
    **{
        (phase, "known_with_plugins"): Phase.PRE_BIND for phase in (Phase.WAITING, Phase.PERMITTING)
    },
    (Phase.PRE_BIND, "pre_bind_asked"): Phase.PRE_BINDING,
    (Phase.PRE_BINDING, "pre_bound"): Phase.QUEUED,
    (Phase.PRE_BINDING, "pre_bind_failed"): Phase.REFUSED,
    (Phase.QUEUED, "bind_asked"): Phase.ASKED,
    (Phase.REPEAT, "bind_asked"): Phase.ASKED,
    (Phase.ASKED, "done"): Phase.BOUND,
    (Phase.ASKED, "unknown"): Phase.REPEAT,
    (Phase.ASKED, "busy"): Phase.REPEAT,
    (Phase.ASKED, "assigned"): Phase.READ,
    (Phase.ASKED, "stale"): Phase.READ,
    (Phase.ASKED, "gone"): Phase.GONE,
    (Phase.ASKED, "refused"): Phase.FENCE,
    (Phase.READ, "read_asked"): Phase.READING,
    (Phase.READING, "shown_ours"): Phase.BOUND,
    (Phase.READING, "shown_other"): Phase.FOREIGN,
    (Phase.READING, "shown_unassigned"): Phase.REPEAT,
    (Phase.READING, "gone"): Phase.GONE,
    (Phase.READING, "unknown"): Phase.READ,
    (Phase.READING, "busy"): Phase.READ,
    (Phase.READING, "refused"): Phase.READ,
    (Phase.FENCE, "fence_asked"): Phase.FENCING,
    (Phase.FENCING, "shown_ours"): Phase.BOUND,
    (Phase.FENCING, "shown_other"): Phase.FOREIGN,
    (Phase.FENCING, "shown_unassigned"): Phase.ABANDONED,
    (Phase.FENCING, "gone"): Phase.GONE,
    (Phase.FENCING, "unknown"): Phase.FENCE,
    (Phase.FENCING, "busy"): Phase.FENCE,
    (Phase.FENCING, "refused"): Phase.FENCE,
    **{(phase, "node_gone_unsent"): Phase.ABANDONED for phase in UNSENT},
    **{(phase, "node_gone"): Phase.FENCE for phase in SENT},
    **{(phase, "restored_unsent"): Phase.ABANDONED for phase in UNSENT},
    **{(phase, "restored"): Phase.FENCE for phase in SENT},
    **{(phase, "fact_ours"): Phase.BOUND for phase in OPEN},
    **{(phase, "fact_other"): Phase.FOREIGN for phase in OPEN},
    **{(phase, "pod_gone"): Phase.GONE for phase in OPEN},
}


class Evicting(IntEnum):
    """Where one victim stands. The last two are ends."""

    HELD = 0  # not sent: its turn has not come, or its name is not known yet
    ASKED = 1  # the DELETE is out
    REPEAT = 2  # again when it is due
    EVICTED = 3
    FAILED = 4


EVICTIONS: dict[tuple[Evicting, str], Evicting] = {
    (Evicting.HELD, "evict_asked"): Evicting.ASKED,
    (Evicting.REPEAT, "evict_asked"): Evicting.ASKED,
    (Evicting.ASKED, "done"): Evicting.EVICTED,
    (Evicting.ASKED, "gone"): Evicting.EVICTED,
    (Evicting.ASKED, "unknown"): Evicting.REPEAT,
    (Evicting.ASKED, "busy"): Evicting.REPEAT,
    (Evicting.ASKED, "refused"): Evicting.FAILED,
    (Evicting.HELD, "recalled"): Evicting.FAILED,
    **{
        (phase, "pod_gone"): Evicting.EVICTED
        for phase in (Evicting.HELD, Evicting.ASKED, Evicting.REPEAT)
    },
}


def evicting(phase: Evicting, event: str, victim: int, ask: int) -> Evicting:
    """The phase after `event`; raises AssertionError naming the victim if there is none."""
    after = EVICTIONS.get((phase, event))
    assert after is not None, (
        f"victim {victim} of ask {ask}: {event} is not allowed in {phase.name}"
    )
    return after
