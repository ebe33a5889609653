"""Pods whose victims are leaving. They wait like parked ones and are tried when a shard improves:
any node that fits first is right. Meanwhile they do not ask again.
"""

from collections.abc import Iterable

import numpy as np

from services.queueing.core.state import QueueingState, add_pods, by_number
from services.queueing.core.waiting import unschedulable_timeout
from shared.model.columns import I64
from shared.model.ids import PodId


def wait(state: QueueingState, event: str, ids: I64) -> None:
    """Let removed pods wait for their victims; an improvement wakes them."""
    pods, rows = state.pods, state.pods.rows(ids)
    pods.move(event, ids, rows)
    for number, part in by_number(pods.sig[rows].astype(np.int64)):
        add_pods(state.preempting, number, ids[part].tolist())
        unschedulable_timeout.begin(state, state.sigs[number], pods.rows(ids[part]))
        state.refresh(state.sigs[number])


def is_open(state: QueueingState, ids: I64) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Return a mask of the pods whose victims are leaving."""
    return np.fromiter(map(state.leaving.__contains__, ids.tolist()), np.bool_, len(ids))


def forget(state: QueueingState, pods: Iterable[PodId]) -> None:
    """Forget the leaving victims of these pods."""
    for pod in pods:
        state.leaving.pop(pod, None)
        state.room.pop(pod, None)
        forget_text(state, pod)


def forget_text(state: QueueingState, pod: PodId) -> None:
    """Forget the text about a pod's victims."""
    state.victims_texts.pop(pod, None)
    state.untold.pop(pod, None)
