"""Preemption in a shard: the validation of the chosen candidate, and its nomination."""

from msgspec.structs import replace

from services.placement.core.books.charges import compiled
from services.placement.core.books.ledger import IS_CHARGED, IS_VICTIM
from services.placement.core.preemption import nominations
from services.placement.core.state import PlacementState
from services.placement.core.transitions import State
from shared.events.placement import Nominated, NominationStale
from shared.events.preemption import NominateAsked
from shared.model.columns import I64, unpack
from shared.model.ids import NodeId
from shared.model.release import V1_37


def decide_nomination(
    state: PlacementState, event: NominateAsked, void: bool
) -> Nominated | NominationStale:
    """Validate the chosen candidate against the present state."""
    stale = NominationStale(state.shard, event.ask, event.pod)
    if void or event.sig not in state.specs or event.shard != state.shard:
        return stale
    kind, wanted = state.ledger.kind_of(event.pod), compiled(state, event.sig)
    if IS_CHARGED[kind] or kind in (State.GONE, State.STRAY):
        return stale
    victims = unpack(event.victims)
    if not len(victims) or not _still_there(state, event, victims):
        return replace(stale, freed=_is_freed(state, event.node, victims))
    there, mask = nominations.room_for(
        state, event.pod, event.sig, event.node, set(victims.tolist())
    )
    if not there:
        return stale
    if nominations.is_in_the_way(state, event.sig, event.node, mask):
        return stale
    tells = state.config.compatibility >= V1_37 and not wanted.plugins.post_filters
    name = state.nodes[event.node].name if tells else ""
    place = event.ask, event.pod, event.sig, event.node, event.victims
    return Nominated(state.shard, *place, name, event.claims)


def _is_freed(state: PlacementState, node: NodeId, victims: I64) -> bool:
    """Return whether a victim has left an existing node."""
    placed = (state.ledger.placed_row(pod, node) for pod in victims.tolist())
    return state.table.row_of(node) is not None and any(row is None for row in placed)


def _still_there(state: PlacementState, event: NominateAsked, victims: I64) -> bool:
    """Return whether all victims run on the node, have lower priority or are claimed from another
    queue, and leave for no other preemptor.
    """
    ledger, priority = state.ledger, state.specs[event.sig].priority
    pods = victims.tolist()
    for pod in pods:
        row = ledger.placed_row(pod, event.node)
        if row is None or not IS_VICTIM[ledger.kind[row]]:
            return False
        spec = state.specs[ledger.sig_at(row)]
        if spec.priority >= priority and not (event.claims and spec.queue):
            return False
    return nominations.leaving_on(state, event.node).isdisjoint(pods)
