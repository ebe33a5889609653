"""One scheduling cycle: from the head of the work queue to Reserved or Refused.

    Dispatched (dispatches.py)    the pods wait in the work queue
    decide_cycle
        preFilter                 can this shard decide about these pods at all?
        filter, score, pick       in one of the ways below
        reserve                   Reserved, with a node for each pod; or
        reject                    Refused, with the reasons of all nodes
    Reserved (dispatches.py)      the pods are charged to their nodes

Every way filters, scores and picks, and differs in the nodes that it looks at:

    way            nodes                           pods
    on_nominated   the pod's nominated node        one; if it does not fit there, one_pod follows
    one_sampled    until enough are feasible       one; the nominated node first
    one_pod        all                             one
    one_uncached   all                             one, if batching is off
    whole_batch    all                             many, each on the node that one_pod would pick
    ask            all, or the nominated node      one; HTTP extenders must judge the nodes first
    answered       those that extenders left       one, with their scores

Inter-pod rules and volumes are filters, which the kernel applies in every way.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from services.placement.core.books import devices as claimed_devices
from services.placement.core.extenders import questions
from services.placement.core.placing import sampling
from services.placement.core.placing.unsupported import unsupported_reason
from services.placement.core.placing.work_queue import Batch
from services.placement.core.preemption import nominations, pre_check
from services.placement.core.state import PlacementState
from services.placement.core.volumes import reservations
from shared.events.placement import ExtendersAsked, Refused, Reserved
from shared.model.columns import I64, ID_BYTES, pack, pack_totals
from shared.model.ids import AttemptId, EffectId, PodId, SignatureId
from shared.model.objects import PodSpec
from shared.scheduling.cycle.report import ended_early
from shared.scheduling.table.layout import NominatedPods
from shared.scheduling.table.picks import Pick, Picks, Reasons


class Cycle(NamedTuple):
    """What is to be placed: up to `pods_max` of the pods `ids`. They must leave room for
    `nominated_pods`; `nominated_row` is the nominated node of the first one.
    """

    batch: Batch
    ids: I64
    pods_max: int
    nominated_pods: NominatedPods | None
    nominated_row: int | None


class Found(NamedTuple):
    """The nodes of the first pods; None: no node fits. `examined`, `extended` as in Reserved."""

    picks: Pick | Picks | None
    examined: int = 0
    extended: int = 0


Way = Callable[[PlacementState, Cycle], Found | ExtendersAsked | Refused]


def decide_cycle(state: PlacementState, pods_max: int) -> Reserved | Refused | ExtendersAsked:
    """Place or refuse the next pods, at most `pods_max`, or ask extenders about the next one."""
    call = state.work_queue.extender_call
    batch = state.work_queue.head() if call is None else call.work
    ids = batch.left()
    # preFilter
    if batch.sig not in state.specs or unsupported_reason(state, batch.sig):
        return reject(state, batch.attempt, batch.sig, ids, None)
    cycle = Cycle(batch, ids, min(len(ids), pods_max), None, None)
    if state.nominations:
        cycle = _beside_nominations(state, cycle)
    # filter, score, pick
    way = _way(state, cycle)
    if way not in WITH_EQUALS:
        cycle = cycle._replace(ids=cycle.ids[:1])
    found = way(state, cycle)
    if not isinstance(found, Found):
        return found
    # reserve or reject
    if found.picks is not None:
        return reserve(state, cycle, found)
    pods = cycle.nominated_pods
    return reject(state, batch.attempt, batch.sig, cycle.ids, pods, found.examined)


def _beside_nominations(state: PlacementState, cycle: Cycle) -> Cycle:
    """Return the cycle with the nominations that count for it. A nominated pod is tried alone."""
    ids, pod, row = cycle.ids, PodId(cycle.ids.item(0)), None
    if pod in state.nomination_of_pod:
        ids = ids[:1]
        row = state.table.row_of(state.nominations[state.nomination_of_pod[pod]].node)
    elif state.nomination_of_pod:
        is_nominated = np.isin(ids, np.array(sorted(state.nomination_of_pod), np.int64))
        if is_nominated.any():
            ids = ids[: int(np.argmax(is_nominated))]
    spec = state.specs[cycle.batch.sig]
    nominated_pods = nominations.nominated_pods_for(state, spec.priority, pod, queue=spec.queue)
    return Cycle(cycle.batch, ids, min(len(ids), cycle.pods_max), nominated_pods, row)


def _way(state: PlacementState, cycle: Cycle) -> Way:
    """Return the way of this cycle."""
    if state.work_queue.extender_call is not None:
        return answered
    if state.config.extenders and questions.is_interested(state, cycle.batch.sig):
        return ask
    if state.tree is not None:
        return one_sampled
    if cycle.nominated_row is not None:
        return on_nominated
    if not state.config.batch:
        return one_uncached
    if cycle.pods_max == 1 or _chooses(state, cycle.batch.sig):
        return one_pod  # each pod changes what the next one finds
    return whole_batch


def _chooses(state: PlacementState, sig: SignatureId) -> bool:
    """Return whether volumes or devices are chosen together with the node."""
    return reservations.chooses(state, sig) or claimed_devices.chooses(state, sig)


# ------------------------------------------------------------------ filter, score, pick


def on_nominated(state: PlacementState, cycle: Cycle) -> Found:
    """Try the nominated node alone first, as kube-scheduler does, then all nodes."""
    sig, row = state.sigs[cycle.batch.sig], cycle.nominated_row
    assert row is not None
    pick = state.kernel.place_on(state.table, sig, row, cycle.nominated_pods)
    if pick is not None:
        return Found(pick)
    return one_pod(state, cycle) if state.config.batch else one_uncached(state, cycle)


def one_sampled(state: PlacementState, cycle: Cycle) -> Found:
    """Search for one pod until enough nodes are feasible (percentageOfNodesToScore)."""
    sig, nominated_pods = cycle.batch.sig, cycle.nominated_pods
    found = sampling.place(state, sig, nominated_pods, cycle.nominated_row)
    return Found(found.pick, found.examined)


def one_pod(state: PlacementState, cycle: Cycle) -> Found:
    """Place one pod on the best node."""
    sig = state.sigs[cycle.batch.sig]
    return Found(state.kernel.place_one(state.table, sig, cycle.nominated_pods))


def one_uncached(state: PlacementState, cycle: Cycle) -> Found:
    """Place one pod by the reference for all other ways: a property test compares them."""
    sig = state.sigs[cycle.batch.sig]
    picks = state.kernel.place_naive(state.table, sig, cycle.nominated_pods)
    return Found(picks if len(picks.rows) else None)


def whole_batch(state: PlacementState, cycle: Cycle) -> Found:
    """Place many pods at once."""
    sig = state.sigs[cycle.batch.sig]
    picks = state.kernel.place(state.table, sig, cycle.pods_max, cycle.nominated_pods)
    return Found(picks if len(picks.rows) else None)


def ask(
    state: PlacementState, cycle: Cycle, tries_nominated: bool = True
) -> Found | ExtendersAsked:
    """Return the question to extenders about the feasible nodes. If the pod fits its nominated
    node, they are asked about that node alone first, as in kube-scheduler.
    """
    sig, nominated_pods = cycle.batch.sig, cycle.nominated_pods
    table, compiled, row, examined = state.table, state.sigs[sig], cycle.nominated_row, 0
    alone = (
        tries_nominated
        and row is not None
        and state.kernel.place_on(table, compiled, row, nominated_pods) is not None
    )
    if alone:
        rows = np.array([row], np.int64)
    elif state.tree is not None:
        sampled = sampling.place(state, sig, nominated_pods)
        rows, examined = sampled.found, sampled.examined
    else:
        rows = state.kernel.fitting(table, compiled, nominated_pods)
    if not len(rows):
        return Found(None, examined)
    effect, nodes = EffectId(state.extender_asks + 1), pack(table.ids[rows])
    pod = PodId(cycle.ids.item(0))
    return ExtendersAsked(effect, cycle.batch.attempt, sig, pod, nodes, examined, alone)


def answered(state: PlacementState, cycle: Cycle) -> Found | ExtendersAsked | Refused:
    """Pick among the nodes that extenders left, filtered again as they are now. If none fits any
    more, extenders are asked again.
    """
    call, sig = state.work_queue.extender_call, cycle.batch.sig
    assert call is not None
    assert call.answer is not None, f"no answer yet to {call.asked}"
    if call.answer.error and not call.asked.alone:
        return questions.refused_by_error(state, cycle.batch, call.answer.error)
    rows, scores = questions.existing_nodes(state.table, call.answer)
    nominated_pods = cycle.nominated_pods
    picked = state.kernel.place_among(state.table, state.sigs[sig], nominated_pods, rows, scores)
    if picked is not None:
        return Found(picked[0], extended=picked[1])
    if call.answer.nodes or call.asked.alone:
        return ask(state, cycle, tries_nominated=False)
    refused = reject(state, cycle.batch.attempt, sig, cycle.ids, nominated_pods)
    return questions.with_extender_reasons(state, refused, call.asked, call.answer)


WITH_EQUALS: tuple[Way, ...] = (one_pod, whole_batch)
"""If such a way finds no node for a pod, all pods of the batch are refused, for they are equal."""


# ------------------------------------------------------------------ reserve, reject


def reserve(state: PlacementState, cycle: Cycle, found: Found) -> Reserved:
    """Return the event for these picks; it charges them."""
    picks, batch, table = found.picks, cycle.batch, state.table
    sig = state.sigs[batch.sig]
    if isinstance(picks, Pick):  # without arrays
        count, row = 1, picks.row
        nodes = table.node_id_at(row).to_bytes(ID_BYTES, "little")
        totals = picks.total.to_bytes(sig.plugins.total_bytes, "little", signed=True)
        devices = picks.mask.to_bytes(ID_BYTES, "little") if sig.gpu_count else b""
    else:
        assert picks is not None
        count, row = len(picks.rows), int(picks.rows[0])
        nodes = table.ids[picks.rows].tobytes()
        totals = pack_totals(picks.totals)
        devices = pack(picks.masks) if sig.gpu_count else b""
    return Reserved(
        shard=state.shard,
        attempt=batch.attempt,
        sig=batch.sig,
        ids=cycle.ids[:count].tobytes(),
        nodes=nodes,
        totals=totals,
        devices=devices,
        feasible=picks.feasible,
        world=state.world,
        runner_up=picks.runner_up,
        examined=found.examined,
        volumes=reservations.choices_on(state, batch.sig, row),
        spec=spec_for_bind_plugins(state, batch.sig),
        extended=found.extended,
        claims=claimed_devices.choices_on(state, batch.sig, row),
    )


def spec_for_bind_plugins(state: PlacementState, sig: SignatureId) -> PodSpec | None:
    """Return the spec for pods at whose bind users' plugins act or which an extender binds; None
    for other pods. Binding gets it with their nodes.
    """
    spec = state.specs[sig]
    plugins_act = state.sigs[sig].plugins.profile.acts_at_bind
    extender_binds = any(one.binds(spec) for one in state.config.extenders)
    return spec if plugins_act or extender_binds else None


def reject(
    state: PlacementState,
    attempt: AttemptId,
    sig: SignatureId,
    ids: I64,
    nominated_pods: NominatedPods | None,
    examined: int = 0,
) -> Refused:
    """Return the event with the reasons why no node fits. A retired signature has no reasons."""
    nodes = len(state.nodes)
    if sig not in state.specs:
        return Refused(state.shard, attempt, sig, ids.tobytes(), (), nodes, state.world)
    compiled, why_not = state.sigs[sig], unsupported_reason(state, sig)
    found = Reasons(((why_not, nodes),), 0)
    if not why_not:
        found = state.kernel.reasons(state.table, compiled, nominated_pods)
    about_pod = any(not count for _text, count in found.messages)
    return Refused(
        shard=state.shard,
        attempt=attempt,
        sig=sig,
        ids=ids.tobytes(),
        reasons=found.messages,
        nodes=nodes,
        world=state.world,
        resolvable=found.resolvable,
        preemptible=pre_check.may_help(state, sig, nominated_pods, found.resolvable),
        examined=examined,
        rejected=about_pod and ended_early(state.table, compiled),
    )
