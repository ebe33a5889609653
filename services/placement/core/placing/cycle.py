"""How pods are picked for: the kernel's batch path, or one uncached single cycle after the other
where batching is off. Both give the same picks (a property test holds them together).
"""

import numpy as np

from services.placement.core.books.charges import compiled
from services.placement.core.state import PlacementState
from shared.scheduling.cycle.inter_pod_rules import alone, refusal
from shared.scheduling.cycle.one_node import one_node
from shared.scheduling.cycle.score_classes import static_of
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.table.layout import Held
from shared.scheduling.table.picks import Picks as Chosen
from shared.scheduling.table.table import NodeTable

__all__ = ["Chosen", "joined", "place", "place_there"]

NO_ROWS = np.zeros(0, np.int64)
NOTHING = Chosen(NO_ROWS, np.zeros(0, np.int16), NO_ROWS, 0, -1)


def place(
    state: PlacementState, table: NodeTable, sig: int, count: int, held: Held | None
) -> Chosen:
    """Up to `count` pods of one signature; the table is as before afterwards."""
    wanted = compiled(state, sig)
    if not (count and table.size):
        return NOTHING
    if state.config.batch:
        return state.kernel.place(table, wanted, count, held)
    if count == 1:
        return state.kernel.place_naive(table, wanted, held)
    assert table.parent is not None, "several cycles at once are only run on a trial"
    found: list[Chosen] = []
    for _ in range(count):
        pick = state.kernel.place_naive(table, wanted, held)
        if not len(pick.rows):
            break
        table.charge(wanted, pick.rows, pick.masks)
        found.append(pick)
    for pick in found:
        table.charge(wanted, pick.rows, pick.masks, -1)
    if not found:
        return state.kernel.place_naive(table, wanted, held)
    return joined(found)


def joined(found: list[Chosen]) -> Chosen:
    """Picks of cycles that came one after the other."""
    return Chosen(
        np.concatenate([pick.rows for pick in found]),
        np.concatenate([pick.totals for pick in found]),
        np.concatenate([pick.masks for pick in found]),
        found[0].feasible,
        found[0].runner_up,
    )


def place_there(table: NodeTable, wanted: Signature, row: int, held: Held) -> Chosen:
    """One pod on this node or nowhere: a single cycle in which no other node is looked at."""
    static = static_of(table, wanted.spec, wanted.plugins)
    node = one_node(table, row, held)
    score = node.local_score(wanted) if static.ok is None or static.ok[row] else -1
    if score < 0 or refusal(table, wanted, node) is not None:
        return NOTHING
    own = 0 if static.class_of is None else int(static.class_of[row])
    counts = [1 if at == own else 0 for at in range(len(static.raws))]
    total = score + static.terms(counts)[own] + alone(table, wanted, row)
    mask = node.pick_devices(wanted)
    return Chosen(
        np.array([row]), np.array([total], wanted.plugins.number), np.array([mask]), 1, -1
    )
