"""A shard's offer to a tree of CompositePodGroups: how many members of which PodGroup fit.

With several shards other ones may have what a group lacks here, so members are also counted
with infeasible groups.
"""

from services.placement.core.books.identity import expanded
from services.placement.core.gangs.tree_trials import TreeTrial
from services.placement.core.state import PlacementState
from shared.events.permit import OfferAsked
from shared.events.placement import GangOffered
from shared.model.columns import size


def decide_offer(state: PlacementState, event: OfferAsked) -> GangOffered:
    """Return the offer."""
    members = [
        [(part.sig, size(part.ids)) for part in expanded(state, (group,))]
        for group in event.members
    ]
    whole = TreeTrial(state, event, members)
    key, nodes = (state.shard, event.gang, event.attempt), len(state.nodes)
    homes = whole.homes()
    if state.shards == 1 or not whole.why:
        return GangOffered(*key, whole.counts, whole.why, nodes, whole.may_help, homes=homes)
    every = TreeTrial(state, event, members, gives_room=False)
    counts, fit = every.counts, whole.counts
    return GangOffered(*key, counts, every.why, nodes, every.may_help, homes=homes, whole=fit)
