"""Bugs in the queue: wake-ups, credits, refusals, gangs' counting, order, time."""

from tests.simulation.planted import Bug, edit

BUGS = (
    Bug(
        "lost-wake-up",
        "services.queueing.core.answers",
        edit(
            """
            state.set_mask(sig, sig.mask & ~(1 << event.shard))
            members.improved(state, number)
""",
            """
            members.improved(state, number)
""",
        ),
    ),
    Bug(
        "leaked-credit",
        "services.queueing.core.state",
        edit(
            """
        shard.units -= count
""",
            """
        shard.units -= max(0, count - 1)
""",
        ),
    ),
    Bug(
        "set-order-output",
        "services.queueing.core.messages",
        edit(
            """
    texts = sorted(f"{count} {reason}" for reason, count in pairs)
""",
            """
    texts = list({f"{count} {reason}" for reason, count in pairs})
""",
        ),
    ),
    Bug(
        "clock-in-decide",
        "services.queueing.core.deciding",
        edit(
            """
        yield LaneTaken(gang.gang, state.now_ms + LANE_MS)
""",
            """
        late_ms = __import__("time").time_ns() // 1_000 % 50
        yield LaneTaken(gang.gang, state.now_ms + LANE_MS + late_ms)
""",
        ),
    ),
    Bug(
        "gang-member-counted-twice",
        "services.queueing.core.members",
        edit(
            """
    return gang.waiting + gang.running >= gang.min_count
""",
            """
    return 2 * gang.waiting + gang.running >= gang.min_count
""",
        ),
    ),
    Bug(
        "one-refusal-counts-for-all",
        "services.queueing.core.answers",
        edit(
            """
        state.set_mask(sig, sig.mask | 1 << event.shard)
""",
            """
        state.set_mask(sig, state.all_mask)
""",
        ),
    ),
    Bug(
        "nominated-preemptor-forgotten",
        "services.queueing.core.preempting",
        edit(
            """
        state.nominated[event.pod] = event.shard
""",
            """
        state.nominated.pop(event.pod, None)
""",
        ),
    ),
    Bug(
        "abandoned-bind-not-retried",
        "services.queueing.core.answers",
        edit(
            """
            moves.back_off(state, np.sort(found))
""",
            """
            found.sort()
""",
        ),
    ),
)
