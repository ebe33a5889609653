"""One line that explains where a pod stands, from the state alone; for people."""

from services.queueing.core.state import QueueingState, Sig
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting import permit_rejections
from services.queueing.core.waiting.messages import GATED, gang_message, listed, parked_message


def why(state: QueueingState, pod: int) -> str:
    """Why this pod is where it is, with the numbers that say so."""
    pods = state.pods
    code = pods.state_of(pod)
    if code is Pod.UNKNOWN:
        return "not known to queueing"
    if code in (Pod.BOUND, Pod.GONE):
        return "bound" if code is Pod.BOUND else "bound or gone"
    row = pod - pods.base
    attempt = int(pods.attempt[row])
    match code:
        case Pod.GATED:
            return f"gated: {gated_message(state, pod)}"
        case Pod.READY:
            return f"ready: {_held_back(state, state.sigs[int(pods.sig[row])])}"
        case Pod.IN_FLIGHT:
            return f"in flight: attempt {attempt} at shard {state.attempts[attempt].shard}"
        case Pod.LEFT:
            sig = state.sigs[int(pods.sig[row])]
            return f"left over by attempt {attempt}: {_held_back(state, sig)}; {_refusals(sig)}"
        case Pod.PARKED:
            sig = state.sigs[int(pods.sig[row])]
            return f"unschedulable: {parked_message(sig, state.config)} {_refusals(sig)}"
        case Pod.ASKING:
            return f"unschedulable: preemption looks for victims (after attempt {attempt})"
        case Pod.PREEMPTING:
            return "waiting for the preemption for this pod to be finished"
        case Pod.NOMINATED:
            return f"its victims are gone: to be tried at shard {state.nominated[pod]}"
        case Pod.BACKOFF if permit_rejections.is_held(state, row):
            return _held(state, pod)
        case Pod.BACKOFF:
            errors = int(pods.errors[row])
            return (
                f"backoff until {int(pods.until_ms[row])} ms (now {state.now_ms} ms), "
                f"refused {int(pods.refusals[row])} times"
                + (f", then failed {errors} times" if errors else "")
            )
        case Pod.WAITING:
            return _gang(state, int(pods.gang[row]))
        case Pod.TRYING:
            return f"gang {int(pods.gang[row])} is being tried: attempt {attempt}"
        case _:
            return "reserved: waits for its bind"


def _held(state: QueueingState, pod: int) -> str:
    """What it waits for."""
    plugin = permit_rejections.plugin_of(state, pod)
    kinds = state.config.wakes.get(plugin, ())
    until_ms = int(state.pods.until_ms[pod - state.pods.base])
    for_what = f"waits for {', '.join(kinds)} in the cluster, or" if kinds else "waits"
    return f"unschedulable: refused by permit plugin {plugin}, {for_what} until {until_ms} ms"


def gated_message(state: QueueingState, pod: int) -> str:
    """What keeps a pod out of the queue: a plugin of a user, or gates of its own."""
    sig = int(state.pods.sig[pod - state.pods.base])
    return state.gates.get(sig, GATED)


def _held_back(state: QueueingState, sig: Sig) -> str:
    """What a ready signature waits for."""
    if state.blocked():
        limit = max(state.config.unbound_max, state.rate.per_second())
        return f"{state.pods.counts[Pod.RESERVED]} reserved pods wait for binds, limit {limit}"
    lane = state.lane
    if lane.gang and sig.priority <= lane.priority:
        return f"gang {lane.gang} has the lane until {lane.until_ms} ms"
    free = state.free_mask()
    if not free & ~sig.shut():
        units = ", ".join(str(shard.units) for shard in state.shards)
        return f"no credits: work in flight by shard {units} of {state.config.credit_units}"
    return "waits for its turn by priority and age"


def _refusals(sig: Sig) -> str:
    """What each shard said last."""
    texts = []
    for shard in sorted(sig.refusals):
        refusal = sig.refusals[shard]
        reasons = listed(refusal.reasons) or "no reason"
        stands = "" if sig.mask >> shard & 1 else ", improved since"
        texts.append(f"shard {shard} ({refusal.nodes} nodes{stands}): {reasons}")
    return f"[{'; '.join(texts)}]"


def _gang(state: QueueingState, number: int) -> str:
    gang = state.gangs[number]
    message = gang_message(gang)
    if message and message == gang.verdict:
        return f"gang {gang.key}: {message} (failed {gang.failures} times)"
    return f"gang {gang.key or number}: {message or 'waits for its turn by priority and age'}"
