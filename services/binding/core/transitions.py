"""The life of one bind and of one eviction, as tables; the docs' diagrams are generated from them.

A bind leaves its table only by a definite answer or fact. `unknown` and an unassigned read are
never definite: the POST may still land, so it is repeated, or fenced before it is given up.
"""

from enum import IntEnum

from shared.model.ids import AskId, PodId


class Phase(IntEnum):
    """The phase of a bind. The last five are ends: they are reported and the pod is IDLE again, so
    no snapshot has their numbers.
    """

    IDLE = 0  # no open bind
    UNRESOLVED = 1  # reserved, but the pod's name or the node is not known yet
    QUEUED = 2  # to be sent now
    ASKED = 3  # the POST is sent
    REPEAT = 4  # the same POST again when due
    READ = 5  # to be read back when due
    READING = 6  # the GET is sent
    FENCE = 7  # given up: its resourceVersion is raised when due
    FENCING = 8  # the patch is sent
    VOLUMES = 9  # its claims, or their volumes, are written when due
    WRITING = 10  # the writes are sent
    WRITTEN = 11  # the shard reports when claims are bound; written again when due
    PRE_BIND = 12  # PreBind plugins run when due
    PRE_BINDING = 13  # PreBind plugins run
    PERMIT = 14  # Permit plugins are asked when due
    PERMITTING = 15  # Permit plugins are asked; they may make the pod wait
    BOUND = 16
    GONE = 17
    FOREIGN = 18
    ABANDONED = 19
    REFUSED = 20


FOR_VOLUMES = (Phase.VOLUMES, Phase.WRITING, Phase.WRITTEN)
FOR_PERMIT = (Phase.PERMIT, Phase.PERMITTING)
FOR_PLUGINS = (*FOR_PERMIT, Phase.PRE_BIND, Phase.PRE_BINDING)
UNSENT = (Phase.UNRESOLVED, Phase.QUEUED, Phase.REPEAT, *FOR_VOLUMES, *FOR_PLUGINS)
SENT = (Phase.QUEUED, Phase.ASKED, Phase.REPEAT, Phase.READ, Phase.READING)
OPEN = (Phase.UNRESOLVED, *SENT, Phase.FENCE, Phase.FENCING, *FOR_VOLUMES, *FOR_PLUGINS)
SLOW = (Phase.REPEAT, Phase.READ, Phase.FENCE, Phase.VOLUMES, Phase.PERMIT, Phase.PRE_BIND)
OUT = (
    *(Phase.ASKED, Phase.READING, Phase.FENCING, Phase.WRITING),
    *(Phase.PRE_BINDING, Phase.PERMITTING),
)

TRANSITIONS: dict[tuple[Phase, str], Phase] = {
    (Phase.IDLE, "reserved"): Phase.UNRESOLVED,
    (Phase.UNRESOLVED, "known_to_ask_permit"): Phase.PERMIT,
    (Phase.PERMIT, "permit_asked"): Phase.PERMITTING,
    (Phase.PERMITTING, "pre_bind_failed"): Phase.REFUSED,
    **{(phase, "known"): Phase.QUEUED for phase in (Phase.UNRESOLVED, Phase.PERMITTING)},
    **{
        (phase, "known_with_volumes"): Phase.VOLUMES
        for phase in (Phase.UNRESOLVED, Phase.PERMITTING)
    },
    **{(phase, "volumes_asked"): Phase.WRITING for phase in (Phase.VOLUMES, Phase.WRITTEN)},
    (Phase.WRITING, "done"): Phase.WRITTEN,
    (Phase.WRITING, "claims_written"): Phase.QUEUED,
    (Phase.WRITING, "claims_written_with_plugins"): Phase.PRE_BIND,
    (Phase.WRITING, "unknown"): Phase.VOLUMES,
    (Phase.WRITING, "busy"): Phase.VOLUMES,
    (Phase.WRITING, "refused"): Phase.ABANDONED,
    **{(phase, "volumes_bound"): Phase.QUEUED for phase in FOR_VOLUMES},
    **{(phase, "volumes_bound_with_plugins"): Phase.PRE_BIND for phase in FOR_VOLUMES},
    **{
        (phase, "volumes_failed"): Phase.ABANDONED
        for phase in (Phase.UNRESOLVED, *FOR_PERMIT, *FOR_VOLUMES)
    },
    **{
        (phase, "volumes_taken"): Phase.REFUSED
        for phase in (Phase.UNRESOLVED, Phase.PERMIT, Phase.VOLUMES)
    },
    **{
        (phase, "known_with_plugins"): Phase.PRE_BIND
        for phase in (Phase.UNRESOLVED, Phase.PERMITTING)
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
    """The phase of one victim. The last two are ends."""

    PENDING = 0  # not sent: not its turn, or its name is unknown
    ASKED = 1  # the DELETE is sent
    REPEAT = 2  # sent again when due
    EVICTED = 3
    FAILED = 4


EVICTIONS: dict[tuple[Evicting, str], Evicting] = {
    (Evicting.PENDING, "evict_asked"): Evicting.ASKED,
    (Evicting.REPEAT, "evict_asked"): Evicting.ASKED,
    (Evicting.ASKED, "done"): Evicting.EVICTED,
    (Evicting.ASKED, "gone"): Evicting.EVICTED,
    (Evicting.ASKED, "unknown"): Evicting.REPEAT,
    (Evicting.ASKED, "busy"): Evicting.REPEAT,
    (Evicting.ASKED, "refused"): Evicting.FAILED,
    (Evicting.PENDING, "recalled"): Evicting.FAILED,
    **{
        (phase, "pod_gone"): Evicting.EVICTED
        for phase in (Evicting.PENDING, Evicting.ASKED, Evicting.REPEAT)
    },
}


def evicting(phase: Evicting, event: str, victim: PodId, ask: AskId) -> Evicting:
    """Return the phase after `event`. Raises AssertionError naming the victim if there is none."""
    after = EVICTIONS.get((phase, event))
    assert after is not None, (
        f"victim {victim} of ask {ask}: {event} is not allowed in {phase.name}"
    )
    return after


DIAGRAMS = {"A bind": TRANSITIONS, "A victim": EVICTIONS}
"""Title -> table, for docs/reference/transitions.md."""
