"""Charges pods to their queues, wherever they move.

A pod is charged while it is being tried or has a node, until it is refused for good, fails or is
gone; so dispatches alone decide, and no queue is ever above its max. Pods without a queue cost
nothing, and without queues nothing here is called.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from services.queueing.core.queues.quota import Quota
from services.queueing.core.state import QueueingState
from services.queueing.core.transitions import Pod
from shared.model.ids import PodId, SignatureId

USED = frozenset(
    map(
        int,
        (Pod.IN_FLIGHT, Pod.LEFTOVER, Pod.GANG_IN_FLIGHT, Pod.RESERVED, Pod.BOUND),
    )
)
NOMINATED = frozenset(map(int, (Pod.ASKING, Pod.PREEMPTING, Pod.NOMINATED)))


def follow(state: QueueingState) -> None:
    """Count what is used again, after the tree or the signatures changed."""
    if not state.queues:
        state.quota, state.pods.watch, state.charged, state.asked_in_vain = None, None, {}, {}
        return
    quota = state.quota = Quota(state.queues)
    for sig, count in sorted(Counter(state.charged.values()).items()):
        quota.charge(state.sigs[sig].queue, state.sigs[sig].amounts, count)
    pods = state.pods
    for code in sorted(NOMINATED):
        ids = pods.in_state(Pod(code))
        _nominate(state, quota, ids.tolist())
    quota.untold = {number: None for number, sig in sorted(state.sigs.items()) if sig.queue}
    quota.freed = {}
    pods.watch = partial(_moved, state, quota)


def _moved(state: QueueingState, quota: Quota, ids: Sequence[PodId], code: int) -> None:
    """Follow pods that moved to a state."""
    if code in USED:
        _charge(state, quota, ids)
    elif state.charged:
        release(state, ids)
    if code in NOMINATED:
        _nominate(state, quota, ids)
    elif quota.nominees:
        _end_nominations(state, quota, ids)


def _charge(state: QueueingState, quota: Quota, ids: Sequence[PodId]) -> None:
    pods, charged, counts = state.pods, state.charged, Counter[SignatureId]()
    for pod in ids:
        if pod not in charged:
            number = pods.sig_at[pod - pods.base]
            sig = state.sigs.get(number)
            if sig is not None and sig.queue:
                charged[pod] = number
                counts[number] += 1
    _charge_counts(state, quota, counts, 1)


def _charge_counts(
    state: QueueingState, quota: Quota, counts: Counter[SignatureId], sign: int
) -> None:
    for number, count in counts.items():
        quota.charge(state.sigs[number].queue, state.sigs[number].amounts, count * sign)
    if state.asked_in_vain and counts:
        state.asked_in_vain = {}


def release(state: QueueingState, ids: Iterable[PodId]) -> None:
    """Charge pods no longer."""
    quota = state.quota
    if quota is None:
        return
    charged, counts = state.charged, Counter[SignatureId]()
    for pod in ids:
        number = charged.pop(pod, None)
        if number is not None:
            counts[number] += 1
    _charge_counts(state, quota, counts, -1)


def _nominate(state: QueueingState, quota: Quota, ids: Iterable[PodId]) -> None:
    pods = state.pods
    for pod in ids:
        sig = state.sigs[pods.sig_at[pod - pods.base]]
        if sig.queue and pod not in quota.nominees:
            quota.nominees[pod] = sig.sig
            quota.nominate(sig.queue, sig.amounts, 1)


def _end_nominations(state: QueueingState, quota: Quota, ids: Iterable[PodId]) -> None:
    for pod in ids:
        number = quota.nominees.pop(pod, None)
        if number is not None:
            quota.nominate(state.sigs[number].queue, state.sigs[number].amounts, -1)


def recharge(state: QueueingState, ids: Iterable[PodId], sigs: Iterable[SignatureId]) -> None:
    """Charge pods with a node, and those being tried, under their latest signatures. A finished pod
    that the table has forgotten has a node.
    """
    quota, pods = state.quota, state.pods
    if quota is None:
        return
    for pod, number in zip(ids, sigs, strict=True):
        if pod in quota.nominees:
            _end_nominations(state, quota, (pod,))
            _nominate(state, quota, (pod,))
        if pod >= pods.base and (pod >= pods.top or pods.state_at[pod - pods.base] not in USED):
            continue
        if state.charged.get(pod) == number:
            continue
        release(state, (pod,))
        sig = state.sigs.get(number)
        if sig is not None and sig.queue:
            state.charged[pod] = number
            _charge_counts(state, quota, Counter({sig.sig: 1}), 1)


def check_charges(state: QueueingState) -> None:
    """Check what is charged against the pods."""
    quota, pods = state.quota, state.pods
    assert (quota is None) == (not state.queues), "a quota without queues"
    if quota is None:
        assert not state.charged, "charged without queues"
        return
    fresh = Quota(state.queues)
    for number, count in Counter(state.charged.values()).items():
        fresh.charge(state.sigs[number].queue, state.sigs[number].amounts, count)
    assert _without_zeros(fresh.used) == _without_zeros(quota.used), "what queues use"
    codes = pods.state[: pods.top - pods.base]
    for row in np.flatnonzero((codes != Pod.UNKNOWN) & (codes < Pod.BOUND)).tolist():
        sig, pod = state.sigs[pods.sig_at[row]], PodId(row + pods.base)
        code = int(codes[row])
        expected = sig.sig if sig.queue and code in USED else None
        assert state.charged.get(pod) == expected, f"pod {pod} in {Pod(code).name}: its charge"
        expected = sig.sig if sig.queue and code in NOMINATED else None
        assert quota.nominees.get(pod) == expected, f"pod {pod} in {Pod(code).name}: its nomination"


def _without_zeros(sums: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    found = {name: {one: n for one, n in total.items() if n} for name, total in sums.items()}
    return {name: total for name, total in found.items() if total}
