"""Handlers of ingest's events: signatures, pending pods, and pods that need nothing any more."""

import numpy as np

from services.queueing.core.derived import reindex
from services.queueing.core.gangs import kept_places, members
from services.queueing.core.pods import moves
from services.queueing.core.pods.table import SMALL, backoff_ends
from services.queueing.core.queues import charges
from services.queueing.core.scheduling_queue import enqueue, enqueue_few
from services.queueing.core.state import QueueingState, Sig
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting import permit_rejections
from shared.events.ingest import PodsPending, SignatureDefined, SignatureRetired, SignaturesQueued
from shared.model.columns import I64, as_numbers, size, unpack
from shared.model.ids import PodId
from shared.model.objects import CPU, MEMORY
from shared.model.queues import amounts

INT64_MAX = (1 << 63) - 1
UNKNOWN = int(Pod.UNKNOWN)  # comparing an array with an enum member costs microseconds
# States in which a new signature or gang of a pod takes effect at once.
AT_REST = (Pod.GATED, Pod.READY, Pod.LEFTOVER, Pod.PARKED, Pod.PREEMPTING, Pod.GANG_PENDING)
REFUSED = (Pod.PARKED, Pod.PREEMPTING, Pod.ASKING)


def on_signature_defined(state: QueueingState, event: SignatureDefined) -> None:
    """Store what ordering and routing need of the spec."""
    if event.sig in state.sigs:
        return
    spec = event.spec
    sig = Sig(event.sig, spec.priority, spec.never_preempts, spec.scheduler)
    sig.pod_priority = spec.priority
    sig.cpu_milli, sig.memory_bytes = spec.request(CPU), spec.request(MEMORY)
    if spec.gpu is not None:
        sig.gpu_milli = min(spec.gpu.milli * spec.gpu.count, INT64_MAX)
    sig.part = spec.part
    if spec.queue:
        sig.queue, sig.amounts = spec.queue, tuple(sorted(amounts(spec).items()))
    state.sigs[event.sig] = sig


def on_signatures_queued(state: QueueingState, event: SignaturesQueued) -> None:
    """Store the queue plugins' answers about signatures; pods whose gate changes arrive
    as pending.
    """
    columns = (unpack(event.sigs).tolist(), unpack(event.orders).tolist(), event.gates)
    for number, order, gate in zip(*columns, strict=True):
        state.sigs[number].priority = order
        if gate:
            state.gates[number] = gate
        else:
            state.gates.pop(number, None)
    if event.again:
        members.reorder(state)
        reindex(state)


def on_signature_retired(state: QueueingState, event: SignatureRetired) -> None:
    """Retire a signature without live pods. A pod that asked preemption under it may have another
    one by now.
    """
    sig = state.sigs.get(event.sig)
    if sig is None:
        return
    assert not sig.fifo.live, f"signature {event.sig} retired with ready pods"
    assert not sig.parked_live, f"signature {event.sig} retired with parked pods"
    assert not sig.leftovers, f"signature {event.sig} retired with leftovers"
    for number in sorted(state.gangs_by_sig.pop(event.sig, {})):
        gang = state.gangs[number]
        gang.sigs = tuple(other for other in gang.sigs if other != event.sig)
    sig.is_refreshed = False
    state.refreshed.pop(event.sig, None)
    state.gates.pop(event.sig, None)
    state.retired[event.sig] = None
    state.drop_retired(sig)


def on_pods_pending(state: QueueingState, event: PodsPending) -> None:
    """Add new pods to the queue, their gang or the gated pods; update known ones."""
    count = size(event.ids)
    if not count:
        return
    assert event.sig in state.sigs, f"pods of signature {event.sig}, which was never defined"
    pods = state.pods
    is_gated = event.gated or event.sig in state.gates
    if count <= SMALL and not event.gang and not is_gated:
        handful = as_numbers(event.ids)
        pods.cover(max(handful))
        base, state_at = pods.base, pods.state_at
        if min(handful) >= base and not any(state_at[pod - base] for pod in handful):
            for pod in handful:
                pods.sig_at[pod - base] = event.sig
            enqueue_few(state, "queued", state.sigs[event.sig], handful)
            return
    ids = unpack(event.ids)
    if pods.cover_next(ids):
        _add_pods(state, event, ids)
        return
    ids = pods.known(ids)
    if not len(ids):
        return
    pods.cover(int(ids.max()))
    new = pods.state[pods.rows(ids)] == UNKNOWN
    if np.count_nonzero(new) == len(ids):
        _add_pods(state, event, ids)
        return
    if np.count_nonzero(new):
        _add_pods(state, event, ids[new])
    for pod in ids[~new].tolist():
        _update_pod(state, event, pod)


def _add_pods(state: QueueingState, event: PodsPending, ids: I64) -> None:
    pods = state.pods
    rows = pods.rows(ids)
    pods.sig[rows] = event.sig
    if event.gang:
        pods.gang[rows] = event.gang
        members.join(state, members.ensure_gang(state, event.gang, event.key), ids)
    if event.gated or event.sig in state.gates:
        state.assign_order(rows, len(ids))
        pods.move("gated", ids, rows)
    elif event.gang:
        moves.requeue(state, ids)
        if state.kept_places:
            kept_places.give_to(state, ids)
    else:
        enqueue(state, "queued", state.sigs[event.sig], ids)


def _update_pod(state: QueueingState, event: PodsPending, pod: PodId) -> None:
    """Update a known pod. In flight only its signature is noted: the answer decides the rest."""
    pods = state.pods
    row = pod - pods.base
    code = pods.state_of(pod)
    same = int(pods.sig[row]) == event.sig and int(pods.gang[row]) == event.gang
    is_gated = event.gated or event.sig in state.gates
    if code >= Pod.BOUND or (same and is_gated == (code is Pod.GATED)):
        return
    one = np.array([pod], np.int64)
    is_held = code is Pod.BACKOFF and permit_rejections.is_permit_rejected(state, row)
    if code is Pod.BACKOFF and not is_held:
        pods.sig[row] = event.sig
        state.backoff[int(backoff_ends(pods, slice(row, row + 1))[0])].line = None
        return
    if code not in AT_REST and not is_held and pod not in state.closed_asks:
        if not same:
            pods.sig[row] = event.sig
            charges.recharge(state, (pod,), (event.sig,))
        return
    moves.leave(state, one, pods.rows(one))
    pods.sig[row] = event.sig
    if int(pods.gang[row]) != event.gang:
        pods.gang[row] = event.gang
        if event.gang:
            members.join(state, members.ensure_gang(state, event.gang, event.key), one)
    if is_gated:
        if code is not Pod.GATED:
            pods.move("gated", one, pods.rows(one))
    elif code in REFUSED or is_held:
        moves.rejoin(state, one)
    else:
        moves.requeue(state, one)
        if state.kept_places:
            kept_places.give_to(state, one)
