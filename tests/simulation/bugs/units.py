"""Bugs in the eviction of groups, found in worlds that are full of them."""

from tests.simulation.planted import Bug

BUGS = (
    Bug(
        "pods-elsewhere-stay",
        "services.preemption.core.core",
        ("    victims = [*ask.victims, *mates]\n", "    victims = list(ask.victims)\n"),
        by=("unit-whole",),
        first=(0, 1, 2, 3),
    ),
    Bug(
        "pods-of-a-unit-put-back-one-by-one",
        "services.placement.core.preemption.unit_parts",
        ("    if not units:\n", "    if units is not None:\n"),
        by=("unit-whole", "victims-needed"),
        first=(0, 1, 2, 3, 4, 5),
    ),
)

ELASTIC_BUGS = (
    Bug(
        "the-rest-below-the-minimum-stays",
        "shared.model.preemption.units",
        ("            elif len(rest := ", "            elif 1 < len(rest := "),
        by=("minimum-kept",),
        first=(0, 1, 2, 3),
    ),
    Bug(
        "one-more-than-a-group-can-spare",
        "services.placement.core.preemption.unit_parts",
        ("    return spare.get(gang, pods) if", "    return spare.get(gang, pods) + 1 if"),
        by=("minimum-kept",),
        first=(0, 1, 2, 3),
    ),
)

FALLING_BUGS = (
    Bug(
        "evicted-before-the-grace-is-over",
        "services.queueing.core.gangs.below_minimum",
        ("    return gang.below_ms + gang.below_minimum.grace_ms", "    return gang.below_ms"),
        by=("below-minimum",),
        first=(0, 1, 2, 3),
    ),
    Bug(
        "the-rest-stays-for-ever",
        "services.queueing.core.gangs.below_minimum",
        ("        if gang.below_minimum.rule == EVICT:", "        if not gang.running:"),
        by=("below-minimum",),
        first=(0, 1, 2, 3),
    ),
    Bug(
        "one-of-the-rest-stays",
        "services.preemption.core.gang_evictions",
        (
            "        yield EvictAsked(ask, NO_POD, NO_NODE, pack(pods),",
            "        yield EvictAsked(ask, NO_POD, NO_NODE, pack(pods[-1:]),",
        ),
        by=("below-minimum",),
        first=(0, 1, 2, 3, 4, 5),
    ),
)

PROTECTED_BUGS = (
    Bug(
        "protected-pods-among-the-victims-of-one-node",
        "services.placement.core.preemption.dry_run",
        ("elif victim.pod not in self.protected:", "else:"),
        by=("minimum-run-time",),
        first=(0, 1, 2, 3, 4, 5),
    ),
    Bug(
        "protected-pods-among-the-victims-of-many-nodes",
        "services.placement.core.preemption.reprieve",
        ("            lower &= ~np.isin(ids, protected)\n", "            pass\n"),
        by=("minimum-run-time",),
        first=(0, 1, 2, 3, 4, 5),
    ),
)

GROWING_BUGS = (
    Bug(
        "one-gang-takes-more-than-its-minimum",
        "services.permit.core.core",
        (
            "(plan, needed, attempt.minimums_rule) if",
            "(plan, needed + 1, attempt.minimums_rule) if",
        ),
        by=("minimums-first",),
        first=(0, 1, 2, 3, 4, 5),
    ),
    Bug(
        "no-gang-waits-for-the-minimum-of-another",
        "services.queueing.core.gangs.growth",
        ("one.priority >= gang.priority and", "one.priority > gang.priority and"),
        by=("minimums-first",),
        first=(0, 1, 2, 3, 4, 5),
    ),
    Bug(
        "new-members-pass-minimums",
        "services.queueing.core.pods.moves",
        ("(not gang.committed or growth.must_wait(state, gang))", "not gang.committed"),
        by=("minimums-first",),
        first=(0, 1, 2, 3, 4, 5),
    ),
    Bug(
        "members-that-waited-never-grow",
        "services.queueing.core.gangs.growth",
        ("if gang.committed and not must_wait(state, gang)]", "if not gang.gang]"),
        by=("no-pod-lost", "preempts"),
        first=(1, 2, 3, 4),
    ),
)

HOLDING_BUGS = (
    Bug(
        "places-of-lost-members-are-free-at-once",
        "services.placement.core.gangs.kept_places",
        ("        if not IS_VICTIM[ledger.kind_of(pod)]:", "        if pod:"),
        by=("kept-places",),
        first=(0, 1, 2),
    ),
    Bug(
        "a-place-is-kept-for-twice-as-long",
        "services.placement.core.gangs.kept_places",
        ("state.now_ms + event.hold_ms", "state.now_ms + 2 * event.hold_ms"),
        by=("kept-places",),
        first=(0, 1, 2),
    ),
    Bug(
        "any-pod-takes-a-kept-place",
        "services.placement.core.preemption.nominations",
        ("        if gang and one.until_ms and one.gang == gang:", "        if one.until_ms:"),
        by=("nominated-space",),
        first=(0, 1, 2, 3, 4, 5),
    ),
    Bug(
        "a-waiting-member-gets-no-place",
        "services.queueing.core.gangs.kept_places",
        ("    if not (places and gang.committed):", "    if places:"),
        by=("kept-places",),
        first=(0, 4, 6),
    ),
)
