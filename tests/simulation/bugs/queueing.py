"""Bugs in the queue: wake-ups, credits, refusals, counts of gangs, order, time."""

from tests.simulation.planted import Bug, edit

BUGS = (
    Bug(
        "lost-wake-up",
        "services.queueing.core.inputs.answers",
        edit(
            """
            state.set_mask(sig, sig.mask & ~(1 << event.shard), sig.retry_mask)
            members.note_improved(state, number)
""",
            """
            members.note_improved(state, number)
""",
        ),
        by=("no-pod-lost",),
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
        by=("credits taken, owed",),
    ),
    Bug(
        "set-order-output",
        "services.queueing.core.waiting.messages",
        edit(
            """
    return ", ".join(sorted(f"{count} {text}" if count else text for text, count in reasons))
""",
            """
    return ", ".join({f"{count} {text}" if count else text for text, count in reasons})
""",
        ),
        by=("message",),
    ),
    Bug(
        "clock-in-decide",
        "services.queueing.core.decisions",
        edit(
            """
        yield LaneTaken(gang.gang, state.now_ms + LANE_MS)
""",
            """
        late_ms = __import__("time").time_ns() // 1_000 % 50
        yield LaneTaken(gang.gang, state.now_ms + LANE_MS + late_ms)
""",
        ),
        by=("replay",),
    ),
    Bug(
        "gang-member-counted-twice",
        "services.queueing.core.gangs.members",
        edit(
            """
    return gang.waiting + gang.running >= least(gang)
""",
            """
    return 2 * gang.waiting + gang.running >= least(gang)
""",
        ),
        by=("gang-members",),
    ),
    Bug(
        "one-refusal-counts-for-all",
        "services.queueing.core.inputs.answers",
        edit(
            """
        state.set_mask(sig, sig.mask | bit, sig.retry_mask & ~bit)
""",
            """
        state.set_mask(sig, state.all_mask, 0)
""",
        ),
        by=("no-pod-lost",),
    ),
    Bug(
        "preemptor-asks-while-victims-leave",
        "services.queueing.core.inputs.own_events",
        edit(
            """
    if waits.any():
""",
            """
    waits &= False
    if waits.any():
""",
        ),
        by=("victims asked for twice",),
        first=(38,),
    ),
    Bug(
        "nominated-preemptor-forgotten",
        "services.queueing.core.preemption.asks",
        edit(
            """
    state.nominated[pod] = shard
""",
            """
    state.nominated.pop(pod, None)
""",
        ),
        by=("AssertionError: nominated",),
    ),
    Bug(
        "abandoned-bind-not-retried",
        "services.queueing.core.inputs.answers",
        edit(
            """
            moves.back_off(state, np.sort(found), is_error=True)
""",
            """
            pass
""",
        ),
        by=("no-pod-lost",),
    ),
    Bug(
        "pods-of-a-second-popped-together",
        "services.queueing.core.waiting.backoff",
        edit(
            """
    equal = (sigs == sigs[0]) & (failed_ms <= failed_ms[0] + config.reorder_window_ms)
""",
            """
    equal = failed_ms >= 0
""",
        ),
        by=("backoff",),
    ),
    Bug(
        "later-seconds-popped-first",
        "services.queueing.core.waiting.backoff",
        edit(
            """
    return min((end for end in state.backoff if not end % 2), default=None)
""",
            """
    return max((end for end in state.backoff if not end % 2), default=None)
""",
        ),
        by=("backoff",),
    ),
    Bug(
        "timeouts-of-departed-pods-kept",
        "services.queueing.core.pods.moves",
        edit(
            """
    unschedulable_timeout.end(state, sig, rows)
""",
            """
    pass
""",
        ),
        by=("unschedulable pods by time",),
    ),
)
