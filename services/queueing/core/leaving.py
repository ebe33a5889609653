"""Pods whose victims are leaving. They wait like parked ones, and are tried when a shard improves:
whatever takes them first is right. Meanwhile nobody is asked to go for them again.
"""

from collections.abc import Iterable

import numpy as np

from services.queueing.core.state import QueueingState, by_number
from services.queueing.transitions import Pod
from shared.model.columns import I64


def wait(state: QueueingState, event: str, ids: I64) -> None:
    """Pods, taken out before, wait for their victims; they are tried when something improves."""
    pods, rows = state.pods, state.pods.rows(ids)
    pods.move(event, ids, rows)
    for number, part in by_number(pods.sig[rows].astype(np.int64)):
        state.sigs[number].preempting += len(part)
        state.refresh(state.sigs[number])


def waiting(state: QueueingState, sig: int) -> I64:
    """The signature's pods that wait for their victims, by id."""
    pods = state.pods
    ids = np.array(sorted(state.leaving), np.int64)
    rows = ids - pods.base
    there: I64 = ids[(pods.state[rows] == Pod.PREEMPTING) & (pods.sig[rows] == sig)]
    return there


def is_open(state: QueueingState, ids: I64) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """For which of these pods victims are leaving."""
    return np.isin(ids, np.array(list(state.leaving), np.int64))


def forget(state: QueueingState, pods: Iterable[int]) -> None:
    """What was leaving for these pods is none of their business any more."""
    for pod in pods:
        state.leaving.pop(pod, None)
        state.room.pop(pod, None)
