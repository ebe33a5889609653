"""What the running pods of each queue use, and what a preemptor may take of it.

Only pods that the cluster shows on a node count. So a queue never uses less than is counted here,
except for pods that have just ended.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from services.preemption.core.gang_ask import GangAsk
from services.preemption.core.state import Ask, PreemptionState, QueueSig
from shared.events.ingest import (
    PodsAssigned,
    PodsRelabelled,
    QueuesSet,
    SignatureDefined,
    SignatureRetired,
)
from shared.events.preemption import QueueUse
from shared.model.columns import unpack
from shared.model.ids import PodId, SignatureId
from shared.model.preemption.queue_limits import Guarantees, QueueLimits, Sums, is_system
from shared.model.queues import amounts


def on_world(
    state: PreemptionState,
    event: QueuesSet | SignatureDefined | SignatureRetired | PodsRelabelled,
) -> None:
    """Follow the tree, the signatures, and the signatures of pods."""
    match event:
        case QueuesSet():
            state.queues = event.queues
            count(state)
        case SignatureDefined():
            if event.spec.queue:
                found = tuple(sorted(amounts(event.spec).items()))
                state.queue_sigs[event.sig] = QueueSig(event.spec.queue, found)
        case SignatureRetired():
            state.queue_sigs.pop(event.sig, None)
        case PodsRelabelled():
            ids, sigs = unpack(event.ids).tolist(), unpack(event.sigs).tolist()
            if state.queue_sigs:
                pairs = zip(ids, sigs, strict=True)
                _charge(state, ((pod, sig) for pod, sig in pairs if pod in state.placed))


def count(state: PreemptionState) -> None:
    """Count what is used again, after the tree changed or the state was loaded."""
    state.guarantees, state.used = Guarantees(state.queues), {}
    if state.guarantees:
        for pod in state.queue_pods:
            _add(state, state.used, pod, 1)


def on_pods_assigned(state: PreemptionState, event: PodsAssigned) -> None:
    """Count pods on nodes."""
    pairs = zip(unpack(event.ids).tolist(), unpack(event.sigs).tolist(), strict=True)
    _charge(state, ((pod, sig) for pod, sig in pairs if pod not in state.gone))


def _charge(state: PreemptionState, pairs: Iterable[tuple[PodId, SignatureId]]) -> None:
    for pod, sig in pairs:
        if state.queue_pods.get(pod) == sig:
            continue
        release(state, (pod,))
        if sig in state.queue_sigs:
            state.queue_pods[pod] = sig
            _add(state, state.used, pod, 1)


def release(state: PreemptionState, pods: Iterable[PodId]) -> None:
    """Count pods no longer."""
    for pod in pods:
        if pod in state.queue_pods:
            _add(state, state.used, pod, -1)
            del state.queue_pods[pod]


def _add(state: PreemptionState, sums: Sums, pod: PodId, sign: int) -> None:
    sig = state.queue_sigs.get(state.queue_pods[pod])
    if sig is not None and state.guarantees:
        state.guarantees.add(sums, sig.queue, sig.amounts, sign)


def used(state: PreemptionState, ask: Ask | GangAsk) -> tuple[QueueUse, ...]:
    """Return what queues use without the victims, if the preemptor is limited by it."""
    if not _is_limited(state, ask):
        return ()
    found = _without_victims(state)
    return tuple(QueueUse(name, tuple(sorted(found[name].items()))) for name in sorted(found))


def _is_limited(state: PreemptionState, ask: Ask | GangAsk) -> bool:
    is_of_system = isinstance(ask, Ask) and is_system(ask.queue, ask.priority)
    return bool(state.guarantees) and not is_of_system


def _without_victims(state: PreemptionState) -> Sums:
    found = {name: dict(total) for name, total in state.used.items()}
    for pod in state.taken():
        if pod in state.queue_pods:
            _add(state, found, pod, -1)
    return found


def limits(state: PreemptionState, ask: Ask | GangAsk) -> QueueLimits | None:
    """Return what a preemptor may take from other queues now; None without limits."""
    if not _is_limited(state, ask):
        return None
    amounts, claims = (ask.amounts, ask.claims) if isinstance(ask, Ask) else ((), False)
    return QueueLimits(state.guarantees, _without_victims(state), ask.queue, amounts, claims)


def allows(state: PreemptionState, limits: QueueLimits | None, victims: Sequence[PodId]) -> bool:
    """Return whether all queues keep their guarantees without these pods."""
    if limits is None:
        return True
    found = [sig for pod in victims if (sig := _sig(state, pod)) is not None]
    done = [sig for sig in found if limits.take(sig.queue, sig.amounts)]
    for sig in done:
        limits.give_back(sig.queue, sig.amounts)
    return len(done) == len(found)


def borrowed(state: PreemptionState, limits: QueueLimits | None, victims: Sequence[PodId]) -> int:
    """Return how much the queues of these victims borrow, at least (QueueLimits.borrows)."""
    if limits is None:
        return 0
    sigs = [_sig(state, pod) for pod in victims]
    return min((0 if sig is None else limits.borrows(sig.queue) for sig in sigs), default=0)


def _sig(state: PreemptionState, pod: PodId) -> QueueSig | None:
    return state.queue_sigs.get(state.queue_pods.get(pod, SignatureId(0)))


def check(state: PreemptionState) -> None:
    """Check what is counted as used against the pods."""
    fresh: Sums = {}
    for pod in state.queue_pods if state.guarantees else ():
        _add(state, fresh, pod, 1)
    every = sorted(fresh.keys() | state.used.keys())
    for name in every:
        here, there = Counter(state.used.get(name, {})), Counter(fresh.get(name, {}))
        assert here == there, f"queue {name} uses {there}, and {here} is counted"
