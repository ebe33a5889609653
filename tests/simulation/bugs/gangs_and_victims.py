"""Bugs in permit and preemption: gangs as a whole, and the choice of victims."""

from tests.simulation.planted import Bug, edit

BUGS = (
    Bug(
        "partial-gang",
        "services.permit.core.core",
        edit(
            """
max(1, event.min_count), groups)
""",
            """
max(1, event.min_count - 1), groups)
""",
        ),
        by=("gang-whole",),
    ),
    Bug(
        "gone-member-committed",
        "services.permit.core.core",
        edit(
            """
            attempt.drop(pod)
""",
            """

""",
        ),
        by=("gang-whole", "has a settled member"),
    ),
    Bug(
        "eviction-before-nomination",
        "services.preemption.core.core",
        edit(
            """
        yield from _decide_choice(state, ask)
""",
            """
        for chosen in _decide_choice(state, ask):
            yield chosen
            if isinstance(chosen, NominateAsked):
                yield EvictAsked(ask.ask, ask.pod, chosen.node, chosen.victims)
""",
        ),
        by=("evict_asked is not allowed in NOMINATING",),
    ),
    Bug(
        "own-evictions-not-counted",
        "services.preemption.core.budgets",
        edit(
            """
        return max(0, self.allowed.get(budget, 0) - len(self.charges.get(budget, ())))
""",
            """
        return max(0, self.allowed.get(budget, 0))
""",
        ),
        by=("budget",),
        first=(8,),
    ),
    Bug(
        "stale-answer-ends-nothing",
        "services.preemption.core.answers",
        edit(
            """
            ask.follow("nomination_stale")
""",
            """
            return
""",
        ),
        by=("preempts", "no-pod-lost"),
        first=(13,),
    ),
    Bug(
        "evictions-for-a-part-of-a-gang",
        "services.preemption.core.state",
        edit(
            """
        is_early = ask.gang_ask and self.gang_asks[ask.gang_ask].phase is GangPhase.NOMINATING
""",
            """
        is_early = False
""",
        ),
        by=("gang-victims-whole",),
    ),
    Bug(
        "one-place-too-few-for-a-gang",
        "services.preemption.core.gang_preemption",
        edit(
            """
    if len(chosen) < gang_ask.needed:
""",
            """
    if len(chosen) < gang_ask.needed - 1 or not chosen:
""",
        ),
        by=("gang-victims-whole", "not as many as are needed"),
        first=(57, 87),
    ),
    Bug(
        "fallen-gang-stays-committed",
        "services.queueing.core.pods.moves",
        ("    gang.committed = False\n", "    gang.committed = True\n"),
        by=("gang-whole",),
        first=(32,),
    ),
    Bug(
        "victims-that-a-gang-could-do-without",
        "services.placement.core.gangs.places",
        edit(
            """
        if _all_fit(state, gang, node, nominees, leave - together):
""",
            """
        if not pod:
""",
        ),
        by=("victims-needed",),
        first=(58, 64),
    ),
    Bug(
        "gang-forgets-its-places-with-a-hold",
        "services.placement.core.preemption.nominations",
        edit(
            """
        one.is_used = False
""",
            """
        one.is_used = one.is_used
""",
        ),
        by=("nominated-space",),
        first=(63, 90),
    ),
    Bug(
        "gang-waits-for-ever-for-its-room",
        "services.queueing.core.gangs.preemption",
        edit(
            """
        _become(state, gang, ASK_WANTED)
""",
            """
        pass
""",
        ),
        by=("preempts",),
    ),
    Bug(
        "no-preemption-for-leftover-members",
        "services.queueing.core.inputs.own_events",
        edit(
            """
    return is_single | state.config.gang_preemption
""",
            """
    return is_single
""",
        ),
        by=("preempts",),
        first=(4, 8),
    ),
)
