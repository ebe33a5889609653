"""What a shard says about its nominations: the preemptor can be tried, or its space is lost."""

from collections.abc import Iterator

import numpy as np

from services.placement.core.books.charges import compiled
from services.placement.core.preemption import in_order
from services.placement.core.preemption.nominations import (
    SPACE_LOST,
    TIME_OVER,
    kept,
    leaving_on,
    node_with_nominated,
    of_gang,
    room_for,
)
from services.placement.core.state import Nomination, PlacementState, TableMark
from shared.events.placement import NominationLost, NominationReady, PlaceKept
from shared.model.ids import AskId, GangId
from shared.scheduling.cycle.inter_pod_rules import fits, rules_of


class _Spaces:
    """Whether nominated space still suffices; joint places of a gang are checked once a pass."""

    def __init__(self, state: PlacementState) -> None:
        self._state = state
        self._joint: dict[GangId, bool] = {}

    def still_fits(self, one: Nomination) -> bool:
        """Return whether the space still suffices once the victims are gone."""
        state = self._state
        is_alone = not one.gang or one.until_ms
        places = [] if is_alone else [its for its in of_gang(state, one.gang) if not its.until_ms]
        if not in_order.are_joint(state, (place.sig for place in places)):
            return room_for(state, one.pod, one.sig, one.node, set(one.victims))[0]
        if one.gang not in self._joint:
            self._joint[one.gang] = in_order.still_fit(state, one.gang, places)
        return self._joint[one.gang]


def _fits_now(state: PlacementState, one: Nomination) -> bool:
    """Return whether the pod need not wait for other victims there. Tried too early it would be
    refused and cause needless evictions (kube-scheduler: PodEligibleToPreemptOthers).
    """
    if not leaving_on(state, one.node):
        return True
    scratch = node_with_nominated(state, one.pod, one.sig, one.node, set())
    return fits(state.table, compiled(state, one.sig), scratch)


def _asks_to_check(state: PlacementState) -> list[AskId]:
    """Return the asks, ascending, that may have changed since the last call: on their node, or
    anywhere if inter-pod rules apply.
    """
    table, before = state.table, state.table_mark
    changes, counters = table.changes, table.counters
    state.table_mark = TableMark(
        changes.restarts, table.static_version, changes.position, counters.moves
    )
    changed_nodes, state.changed_nomination_nodes = state.changed_nomination_nodes, set()
    if state.kept_places:
        changed_nodes.update(one.node for one in kept(state) if one.until_ms <= state.now_ms)
    is_known = before.restarts == changes.restarts and before.statics == table.static_version
    changed = changes.since(before.position) if is_known else None
    if changed is None:
        return sorted(state.nominations)
    changed_nodes.update(table.ids[np.unique(changed)].tolist())
    asks = {ask for node in changed_nodes for ask in state.nominations_on.get(node, ())}
    if before.moves != counters.moves:
        asks.update(ask for ask, one in state.nominations.items() if _has_rules(state, one))
    return sorted(asks)


def _has_rules(state: PlacementState, one: Nomination) -> bool:
    return rules_of(state.table, compiled(state, one.sig)) is not None


def decide_nomination_news(
    state: PlacementState,
) -> Iterator[NominationReady | NominationLost | PlaceKept]:
    """Yield the present news about nominations."""
    spaces = _Spaces(state)
    for ask in _asks_to_check(state):
        one = state.nominations[ask]
        reason = one.lost
        if one.is_used and not reason:
            continue  # until permit ends the gang's attempt
        if not reason and not spaces.still_fits(one):
            reason = SPACE_LOST
        if one.until_ms and one.until_ms <= state.now_ms and not reason:
            reason = TIME_OVER
        if reason:
            yield NominationLost(state.shard, ask, one.pod, reason)
        elif one.until_ms:
            if not one.announced:
                place = one.gang, one.pod, one.sig, one.node, one.until_ms
                yield PlaceKept(state.shard, ask, *place)
        elif not one.victims and not one.announced and _fits_now(state, one):
            yield NominationReady(state.shard, ask, one.pod, one.node)
