"""Planted bugs in the allocation of devices; each shows in a few cases about claims."""

from shared.model.release import V1_35, V1_36, V1_37
from tests.simulation.planted import Bug

ROOM = "shared.scheduling.claims"
ALLOCATOR, TABLE = f"{ROOM}.allocator", f"{ROOM}.device_table"
COUNTERS, CAPACITY = f"{ROOM}.counters", f"{ROOM}.capacity"
CONSTRAINTS, RESULTS, PODS = f"{ROOM}.constraints", f"{ROOM}.results", f"{ROOM}.pod_claims"


def _bug(name: str, module: str, old: str, new: str) -> Bug:
    return Bug(name, module, (old, new))


V1_37_BUGS = (
    _bug(
        "device-given-twice",
        ALLOCATOR,
        "return device not in self._in_use and not self._taken.get(device)",
        "return True",
    ),
    _bug(
        "device-kept-when-given-back", ALLOCATOR, "self._taken[candidate.id].discard(claim)", "pass"
    ),
    _bug("rules-without-selector", TABLE, "if rule.selects and", "if"),
    _bug("rules-of-other-pools", TABLE, " and rule.pool in (None, one.pool)", ""),
    _bug("taints-forgotten", ALLOCATOR, "taint.effect in REJECTING and", "False and"),
    _bug(
        "first-alternative-only",
        ALLOCATOR,
        "            all_too_many = False\n",
        "            break\n",
    ),
    _bug("count-not-limited", ALLOCATOR, "if fewest > RESULTS_MAX - least", "if False"),
    _bug(
        "all-without-any",
        ALLOCATOR,
        "if plan.wanted.count is None and not plan.devices:",
        "if False:",
    ),
    _bug("incomplete-pool-used", TABLE, "return Pool(key, is_incomplete=True)", "pass"),
    _bug(
        "older-generation-kept", TABLE, "one.slice.generation > held[0].slice.generation", "False"
    ),
    _bug("obsolete-pool-used", TABLE, "one.slice.generation > newest", "False"),
    _bug("duplicates-passed-over", TABLE, "return len(set(names)) < len(names)", "return False"),
    _bug("slices-in-any-order", TABLE, "reached.sort(key=lambda one: one.slice.name)", ""),
    _bug("match-is-distinct", CONSTRAINTS, "if self._must_match:", "if not self._must_match:"),
    _bug("constraint-not-undone", CONSTRAINTS, "self._values.pop()", "pass"),
    _bug("class-parameters-for-all", RESULTS, "requests=tuple(requests[name])", "requests=()"),
    _bug(
        "allocated-reached-everywhere",
        PODS,
        "return among(claim.allocation.nodes, node)",
        "return True",
    ),
    _bug("score-counts-back", RESULTS, "most - number", "number"),
    _bug("counters-forgotten", COUNTERS, "if min(left.values()) >= 0:", "if True:"),
    _bug("counters-kept", COUNTERS, "left[counter] += amount", "pass"),
    _bug(
        "counters-of-used-devices",
        COUNTERS,
        "if any(device in some for some in in_use):",
        "if False:",
    ),
    _bug("shares-without-end", CAPACITY, "<= self._has[name]", "<= 2**90"),
    _bug("shares-forgotten", CAPACITY, "return self._consumed.get(device, NONE)", "return NONE"),
    _bug("default-forgotten", CAPACITY, "if self._default is None else self._default", ""),
    _bug("counters-of-each-share", ALLOCATOR, "charged and device.is_shared and", "False and"),
    _bug("counter-sets-of-one-name", COUNTERS, "if one.name in sets:", "if False:"),
)
V1_36_BUGS = (
    _bug("distinct-from-all", ALLOCATOR, "one.distinct and self._version < V1_37", "False"),
    _bug("parameters-once", RESULTS, '[AllocatedConfig("FromClaim", one)] * times', "[]"),
    _bug("device-named", ALLOCATOR, 'at_device = hint = ""', "pass"),
    _bug(
        "counters-on-their-nodes",
        TABLE,
        "return self._version == V1_36 and bool(one.counters)",
        "return False",
    ),
    _bug("limit-by-request", ALLOCATOR, "and self._version >= V1_37", ""),
)
V1_35_BUGS = (
    _bug("taints-count", ALLOCATOR, "self._version >= V1_36 and _is", "_is"),
    _bug("distinct-taken", ALLOCATOR, "one.distinct and self._version < V1_36", "False"),
    _bug("devices-have-places", TABLE, "self._version >= V1_36 and any", "any"),
    _bug("pod-written-large", PODS, 'if self.version >= V1_36 else "pod"', ""),
)
BUGS = {V1_35: V1_35_BUGS, V1_36: V1_36_BUGS, V1_37: V1_37_BUGS}
