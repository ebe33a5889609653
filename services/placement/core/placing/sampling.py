"""Searches that end early (percentageOfNodesToScore): the order of nodes and the start of the next
search.

If one profile of a shard samples, all its profiles use single cycles, because they share one start
index. Gangs, dry runs and wake-up checks still examine every node: they are not searches for one
pod.
"""

import numpy as np

from services.placement.core.books.charges import compiled, table_rows
from services.placement.core.state import PlacementState
from shared.model.ids import SignatureId
from shared.scheduling.cycle.sampling import NodeTree, samples
from shared.scheduling.table.layout import NominatedPods
from shared.scheduling.table.picks import Sampled


def configure(state: PlacementState) -> None:
    """Start or stop keeping the order of nodes. Existing nodes are ordered by their ids."""
    if not any(map(samples, state.config.profiles)):
        state.tree, state.start_index = None, 0
    elif state.tree is None:
        state.tree = NodeTree()
        ids = sorted(state.nodes)
        state.tree.set(ids, [state.nodes[one] for one in ids])


def place(
    state: PlacementState,
    sig: SignatureId,
    nominated_pods: NominatedPods | None,
    nominated: int | None = None,
) -> Sampled:
    """Pick a node for one pod; the row of its nominated node is tried alone first, as in
    kube-scheduler.
    """
    assert state.tree is not None
    wanted = compiled(state, sig)
    if nominated is not None:
        pick = state.kernel.place_on(state.table, wanted, nominated, nominated_pods)
        if pick is not None:
            row = np.array([nominated], np.int64)
            return Sampled(pick, row, row, 0)
    order = table_rows(state, state.tree.listed())
    return state.kernel.place_sampled(
        state.table, wanted, nominated_pods, order, state.start_index, nominated
    )


def note_search(state: PlacementState, examined: int) -> None:
    """Start the next search after these nodes."""
    if examined:
        state.start_index = (state.start_index + examined) % len(state.nodes)
