"""One level of the sweep in numpy: all its nodes side by side, one round for each pod a node takes.

See sweep.py for why a level may be worked on like this. For signatures without host ports, and
where no score class can run empty within the level.
"""

from typing import NamedTuple

import numpy as np

from shared.scheduling.cycle.node_scores import local_columns
from shared.scheduling.cycle.score_classes import with_terms
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.table.devices import derived, take_devices
from shared.scheduling.table.layout import F64, GPU_EMPTY, GPU_LARGEST, I32, I64, Totals


class Level(NamedTuple):
    """What a level came to: for each of its nodes the pods it took and its total afterwards, and
    total and device mask of each pick in order. `taken` and `after` are only complete if pods are
    left; the picks always are.
    """

    taken: I64
    after: Totals
    totals: Totals
    masks: I64


class Round(NamedTuple):
    """One pod for each of the nodes (positions on the level) that were still on it."""

    active: I64
    totals: Totals
    masks: I64


def add_pods(sig: Signature, cols: F64, count: I64 | float) -> None:
    """Charge `count` pods to each of the gathered nodes, devices aside."""
    for column, amount in sig.delta:
        if amount:
            cols[column] += amount * count


def wide_level(
    sig: Signature, cols: F64, free: I32, terms: Totals, level: int, left: int, whole: bool
) -> Level:
    """Fill the gathered nodes, all of total `level` and in the order of rows, until each is below
    the level or `left` pods are placed. `cols` and `free` (devices, shape (devices, m)) are
    used up.
    """
    # Each node takes at least one pod, so at most `left` of them matter; those behind the one
    # that takes the last pod are dropped round by round.
    active = np.arange(len(terms))
    totals = np.full(len(terms), level, terms.dtype)
    taken = np.zeros(len(terms), np.int64)
    after = np.zeros(len(terms), terms.dtype)
    rounds: list[Round] = []
    while len(active):
        rounds.append(Round(active, totals, _take(sig, cols, free, active)))
        taken[active] += 1
        totals = with_terms(local_columns(sig, cols, whole), terms[active])
        after[active] = totals
        last = int(np.cumsum(taken).searchsorted(left))
        stay = (totals >= level) & (active <= last)
        active, totals, cols = active[stay], totals[stay], cols[:, stay]
    return Level(taken, after, *_in_order(rounds, left))


def _take(sig: Signature, cols: F64, free: I32, active: I64) -> I64:
    """One pod for each active node: charge it and return the device masks."""
    add_pods(sig, cols, 1.0)
    if not sig.gpu_count:
        return active  # as good as any column: nobody reads it
    devices = free[:, active]
    masks = take_devices(sig, devices)
    free[:, active] = devices
    cols[GPU_LARGEST], cols[GPU_EMPTY] = derived(devices)
    return masks


def _in_order(rounds: list[Round], left: int) -> tuple[Totals, I64]:
    """Totals and masks of the picks, node by node and within a node round by round."""
    if len(rounds) == 1:
        return rounds[0].totals[:left], rounds[0].masks[:left]
    order = np.concatenate([each.active for each in rounds]).argsort(kind="stable")[:left]
    totals = np.concatenate([each.totals for each in rounds])
    masks = np.concatenate([each.masks for each in rounds])
    return totals[order], masks[order]
