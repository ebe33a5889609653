"""Pods whose victims are leaving. They wait like parked ones, and are tried when a shard improves:
whatever takes them first is right. Meanwhile nobody is asked to go for them again.
"""

from collections.abc import Iterable

import numpy as np

from services.queueing.core.state import QueueingState, by_number, put
from services.queueing.core.waiting import unschedulable_timeout
from shared.model.columns import I64


def wait(state: QueueingState, event: str, ids: I64) -> None:
    """Pods, taken out before, wait for their victims; they are tried when something improves."""
    pods, rows = state.pods, state.pods.rows(ids)
    pods.move(event, ids, rows)
    for number, part in by_number(pods.sig[rows].astype(np.int64)):
        put(state.preempting, number, ids[part].tolist())
        unschedulable_timeout.begin(state, state.sigs[number], pods.rows(ids[part]))
        state.refresh(state.sigs[number])


def is_open(state: QueueingState, ids: I64) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """For which of these pods victims are leaving."""
    return np.fromiter(map(state.leaving.__contains__, ids.tolist()), np.bool_, len(ids))


def forget(state: QueueingState, pods: Iterable[int]) -> None:
    """What was leaving for these pods is none of their business any more."""
    for pod in pods:
        state.leaving.pop(pod, None)
        state.room.pop(pod, None)
