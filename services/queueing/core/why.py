"""One line that explains where a pod stands, from the state alone."""

from typing import assert_never

from services.queueing.core.gangs import group_trees
from services.queueing.core.queues.guarantees import why_borrower_waits, why_borrowing_gang_waits
from services.queueing.core.queues.held import why_held
from services.queueing.core.state import QueueingState, Sig
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting import permit_rejections
from services.queueing.core.waiting.messages import (
    GATED,
    gang_message,
    parked_message,
    sorted_counts,
)
from shared.model.ids import GangId, PodId


def why(state: QueueingState, pod: PodId) -> str:
    """Return why this pod is where it is, with the numbers."""
    pods = state.pods
    code = pods.state_of(pod)
    if code is Pod.UNKNOWN:
        return "not known to queueing"
    if code is Pod.BOUND:
        return "bound"
    if code is Pod.GONE:
        return "bound or gone"
    row = pod - pods.base
    attempt = pods.attempt_at[row]
    match code:
        case Pod.GATED:
            return f"gated: {gated_message(state, pod)}"
        case Pod.READY:
            return f"ready: {_dispatch_wait(state, state.sigs[pods.sig_at[row]])}"
        case Pod.IN_FLIGHT:
            return f"in flight: attempt {attempt} at shard {state.attempts[attempt].shard}"
        case Pod.LEFTOVER:
            sig = state.sigs[pods.sig_at[row]]
            return f"left over by attempt {attempt}: {_dispatch_wait(state, sig)}; {_refusals(sig)}"
        case Pod.PARKED:
            sig = state.sigs[pods.sig_at[row]]
            return f"unschedulable: {parked_message(sig, state.config)} {_refusals(sig)}"
        case Pod.ASKING:
            return f"unschedulable: preemption looks for victims (after attempt {attempt})"
        case Pod.PREEMPTING:
            return "waiting for the preemption for this pod to be finished"
        case Pod.NOMINATED if pod in state.places_given:
            return f"takes the place of a lost member at shard {state.nominated[pod]}"
        case Pod.NOMINATED:
            return f"its victims are gone: to be tried at shard {state.nominated[pod]}"
        case Pod.BACKOFF if permit_rejections.is_permit_rejected(state, row):
            return _permit_wait(state, pod)
        case Pod.BACKOFF:
            errors = int(pods.errors[row])
            return (
                f"backoff for {_left(state, int(pods.until_ms[row]))}, "
                f"refused {int(pods.refusals[row])} times"
                + (f", then failed {errors} times" if errors else "")
            )
        case Pod.GANG_PENDING:
            return _gang(state, pods.gang_at[row])
        case Pod.GANG_IN_FLIGHT:
            return f"gang {_name(state, pods.gang_at[row])} is being tried: attempt {attempt}"
        case Pod.RESERVED:
            return "reserved: waits for its bind"
        case _:
            assert_never(code)


def _permit_wait(state: QueueingState, pod: PodId) -> str:
    """Return what a rejected pod waits for."""
    plugin = permit_rejections.plugin_of(state, pod)
    kinds = state.config.wakes.get(plugin, ())
    until_ms = int(state.pods.until_ms[pod - state.pods.base])
    for_what = f"waits for {', '.join(kinds)} in the cluster, or" if kinds else "waits"
    return (
        f"unschedulable: refused by permit plugin {plugin}, {for_what} for {_left(state, until_ms)}"
    )


def gated_message(state: QueueingState, pod: PodId) -> str:
    """Return what keeps a pod out of the queue: a user's plugin, or its own gates."""
    sig = state.pods.sig_at[pod - state.pods.base]
    return state.gates.get(sig, GATED)


def _dispatch_wait(state: QueueingState, sig: Sig) -> str:
    """Return what a ready signature waits for."""
    if held := why_held(state, sig):
        return held
    if behind := why_borrower_waits(state, sig):
        return behind
    if state.is_bind_limited():
        limit = max(state.config.unbound_max, state.rate.per_second())
        return f"{state.pods.counts[Pod.RESERVED]} reserved pods wait for binds, limit {limit}"
    lane = state.lane
    if lane.gang and sig.priority <= lane.priority:
        left = _left(state, lane.until_ms)
        return f"gang {_name(state, lane.gang)} goes first, for {left} at most"
    free = state.free_mask()
    if not free & ~sig.blocked_mask():
        units = ", ".join(str(shard.units) for shard in state.shards)
        return f"no credits: work in flight by shard {units} of {state.config.credit_units}"
    return "waits for its turn by priority and age"


def _left(state: QueueingState, until_ms: int) -> str:
    """Return the time until then, from the last step on."""
    return f"another {max(0, until_ms - state.now_ms) / 1_000:.1f} s"


def _name(state: QueueingState, number: GangId) -> str:
    """Return a gang's key, or its number before it is known."""
    gang = state.gangs.get(number)
    gang = group_trees.root_of(state, gang) if gang is not None else None
    return gang.key if gang is not None and gang.key else str(number)


def _refusals(sig: Sig) -> str:
    """Return each shard's last refusal."""
    texts = []
    for shard in sorted(sig.refusals):
        refusal = sig.refusals[shard]
        reasons = sorted_counts(refusal.reasons) or "no reason"
        stands = "" if sig.mask >> shard & 1 else ", improved since"
        texts.append(f"shard {shard} ({refusal.nodes} nodes{stands}): {reasons}")
    return f"[{'; '.join(texts)}]"


def _gang(state: QueueingState, number: GangId) -> str:
    gang = group_trees.root_of(state, state.gangs[number])
    if gang.committed:
        return gang_message(gang)
    start = f"gang {gang.key or number}: "
    message = gang_message(gang)
    failed = f" (failed {gang.failures} times)" if message and message == gang.outcome else ""
    text = message.removeprefix(start) or why_borrowing_gang_waits(state, gang)
    text = text or "waits for its turn by priority and age"
    return f"{start}{text}{failed}"
