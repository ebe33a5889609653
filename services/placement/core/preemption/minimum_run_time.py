"""Pods that are no victims yet, as they have not run for the minimum run time of their group.

A pod runs from its start on the node, or, until that is reported, from when it got the node. Pods
of a preemption unit on this shard are protected together, until the last of them has run for long
enough.
"""

from services.placement.core.books.ledger import IS_VICTIM, UNSTARTED_MS
from services.placement.core.state import PlacementState
from shared.model.ids import NO_GANG, GangId, PodId

SECOND_MS, MINUTE_S, HOUR_S, HOURS = 1_000, 60, 3_600, 24


def protected_pods(state: PlacementState) -> dict[PodId, int]:
    """Return when the pods that are protected now are not any more, ms."""
    ends: dict[PodId, int] = {}
    units: dict[GangId, int] = {}
    for pod, run_ms in state.minimum_run_ms.items():
        if not IS_VICTIM[state.ledger.kind_of(pod)]:
            continue
        end_ms = int(state.ledger.start_ms[state.ledger.row(pod)]) % UNSTARTED_MS + run_ms
        if end_ms > state.now_ms:
            ends[pod] = end_ms
            unit = state.units.of(pod)
            if unit:
                units[unit] = max(units.get(unit, 0), end_ms)
    if units:
        for pod in state.units.pods():
            unit = state.units.of(pod)
            if unit != NO_GANG and unit in units:
                ends[pod] = units[unit]
    return ends


def protected_message(end_ms: int) -> str:
    """Return the reason of a node on which all pods of lower priority are protected."""
    second = -(-end_ms // SECOND_MS)
    hour, minute = second // HOUR_S % HOURS, second // MINUTE_S % MINUTE_S
    at = f"{hour:02}:{minute:02}:{second % MINUTE_S:02}Z"
    return f"node(s) have only pods that their minimum run time protects until {at}"
