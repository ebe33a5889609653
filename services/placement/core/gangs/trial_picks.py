"""Picks for several members of a gang on a trial table, where each is charged before the next."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from services.placement.core.state import PlacementState
from shared.model.ids import SignatureId
from shared.scheduling.table.layout import NominatedPods
from shared.scheduling.table.picks import Picks
from shared.scheduling.table.table import NodeTable

NO_ROWS = np.zeros(0, np.int64)
NOTHING = Picks(NO_ROWS, np.zeros(0, np.int16), NO_ROWS, 0, -1)


def place(
    state: PlacementState,
    trial: NodeTable,
    sig: SignatureId,
    count: int,
    nominated_pods: NominatedPods | None,
) -> Picks:
    """Pick nodes for up to `count` pods of one signature. The trial is unchanged afterwards."""
    wanted = state.sigs[sig]
    if not (count and trial.size):
        return NOTHING
    if state.config.batch:
        return state.kernel.place(trial, wanted, count, nominated_pods)
    found: list[Picks] = []
    while len(found) < count:
        pick = state.kernel.place_naive(trial, wanted, nominated_pods)
        if not len(pick.rows):
            break
        trial.charge(wanted, pick.rows, pick.masks)
        found.append(pick)
    for pick in found:
        trial.charge(wanted, pick.rows, pick.masks, -1)
    return joined(found) if found else NOTHING


def joined(found: list[Picks]) -> Picks:
    """Return the picks of consecutive cycles as one."""
    return Picks(
        np.concatenate([pick.rows for pick in found]),
        np.concatenate([pick.totals for pick in found]),
        np.concatenate([pick.masks for pick in found]),
        found[0].feasible,
        found[0].runner_up,
    )


@contextmanager
def with_nominated_pods(trial: NodeTable, nominated_pods: NominatedPods) -> Iterator[None]:
    """Charge nominations on the trial for a while: a trial cannot have trials of its own."""
    known = [node for node in sorted(nominated_pods) if trial.row_of(node) is not None]
    pods = [(trial.rows_of([node]), *one) for node in known for one in nominated_pods[node]]
    for row, other, mask in pods:
        trial.charge(other, row, np.array([mask], np.int64))
    yield
    for row, other, mask in pods:
        trial.charge(other, row, np.array([mask], np.int64), -1)
