"""Searches that end early: which nodes they go through, and where the next one begins.

Every profile of a shard goes through single cycles as soon as one of them samples, because all of
them share one start index. Gangs, dry runs and looks for wake-ups see every node all the same: they
are no searches of one pod.
"""

from services.placement.core.books.charges import compiled, table_rows
from services.placement.core.placing.cycle import place_there
from services.placement.core.state import PlacementState
from shared.scheduling.cycle.sampling import NodeTree, samples
from shared.scheduling.table.layout import Held
from shared.scheduling.table.picks import Pick, Sampled


def configured(state: PlacementState) -> None:
    """Keep the order of nodes from now on, or no longer. Of nodes that are there already their ids
    tell who came first.
    """
    if not any(map(samples, state.config.profiles)):
        state.tree, state.start_index = None, 0
    elif state.tree is None:
        state.tree = NodeTree()
        ids = sorted(state.nodes)
        state.tree.set(ids, [state.nodes[one] for one in ids])


def place(
    state: PlacementState, sig: int, held: Held | None, nominated: int | None = None
) -> Sampled:
    """One pod; the row of its nominated node is tried alone first, as kube-scheduler does."""
    assert state.tree is not None
    wanted = compiled(state, sig)
    if nominated is not None:
        there = place_there(state.table, wanted, nominated, held or {})
        if len(there.rows):
            pick = Pick(nominated, int(there.totals[0]), int(there.masks[0]), 1, -1)
            return Sampled(pick, there.rows, there.rows, 0)
    order = table_rows(state, state.tree.listed())
    return state.kernel.place_sampled(
        state.table, wanted, held, order, state.start_index, nominated
    )


def searched(state: PlacementState, examined: int) -> None:
    """The next search begins behind these nodes."""
    if examined:
        state.start_index = (state.start_index + examined) % len(state.nodes)
