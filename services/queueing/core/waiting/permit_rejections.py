"""Pods rejected by a user's Permit plugin. They wait for an event that the plugin names, for five
minutes at most, and then for the rest of their backoff, as in kube-scheduler.

Such a pod is in a backoff of its own (`pods.PERMIT_REJECTED` in place of errors) until its five
minutes end; it is never cut short. `permit_rejected` has the pods of each plugin. `last_events`
maps each kind of event to the first attempt that began after its last occurrence: an event during
the pod's own attempt may have come too late for the plugin, so the pod need not wait for another.
"""

from collections.abc import Iterator

from services.queueing.core.config import backoff_end_ms
from services.queueing.core.pods.table import PERMIT_REJECTED, Rows
from services.queueing.core.state import QueueingState
from services.queueing.core.waiting import unschedulable_timeout
from shared.events.ingest import Happened
from shared.events.queueing import Woken
from shared.model.columns import I64, pack
from shared.model.ids import NO_POD, AttemptId, PodId, SignatureId


def on_happened(state: QueueingState, event: Happened) -> None:
    """Wake the pods that wait for these kinds of events."""
    for kind in event.kinds:
        note(state, kind)


def note(state: QueueingState, kind: str, but: PodId = NO_POD) -> None:
    """Note one kind of event, for all pods but one."""
    state.last_events[kind] = AttemptId(state.next_attempt)
    for plugin in sorted(state.permit_rejected):
        if kind in state.config.wakes.get(plugin, ()):
            woken = dict.fromkeys(state.permit_rejected[plugin], kind)
            woken.pop(but, None)
            state.woken_by_event = {**woken, **state.woken_by_event}


def add_rejected(state: QueueingState, pod: PodId, plugin: str, attempt: AttemptId) -> None:
    """Let a pod rejected in this attempt wait, unless its event has happened meanwhile."""
    pods, row = state.pods, pod - state.pods.base
    kinds = state.config.wakes[plugin]
    if all(state.last_events.get(kind, 0) <= attempt for kind in kinds):
        end_ms = int(unschedulable_timeout.ends(state, slice(row, row + 1))[0])
        pods.errors[row] = PERMIT_REJECTED
        pods.until_ms[row] = max(end_ms, int(pods.until_ms[row]))
        state.permit_rejected.setdefault(plugin, {})[pod] = None


def on_configured(state: QueueingState) -> None:
    """Wake pods whose Permit plugin was removed from the configuration."""
    for plugin in sorted(state.permit_rejected.keys() - state.config.wakes.keys()):
        state.woken_by_event |= dict.fromkeys(
            state.permit_rejected[plugin], "another configuration"
        )


def decide_wakes(state: QueueingState) -> Iterator[Woken]:
    """Yield the wake-ups: at once, or after the rest of their backoff."""
    groups: dict[tuple[SignatureId, str, int], list[PodId]] = {}
    for pod, kind in sorted(state.woken_by_event.items()):
        row = pod - state.pods.base
        end_ms = _backoff_end_ms(state, row)
        late = end_ms if end_ms > state.now_ms else 0
        groups.setdefault((state.pods.sig_at[row], kind, late), []).append(pod)
    for (sig, kind, end_ms), pods in sorted(groups.items()):
        until_ms = pack([end_ms] * len(pods)) if end_ms else b""
        yield Woken(sig, pack(pods), until_ms, reason=kind)


def is_permit_rejected(state: QueueingState, row: int) -> bool:
    """Return whether a pod in backoff is a permit rejection."""
    return bool(state.pods.errors[row] == PERMIT_REJECTED)


def end(state: QueueingState, ids: I64, rows: Rows) -> None:
    """End the permit rejections among these pods in backoff."""
    pods = state.pods
    for pod in ids[pods.errors[rows] == PERMIT_REJECTED].tolist():
        row = pod - pods.base
        pods.errors[row] = 0
        pods.until_ms[row] = _backoff_end_ms(state, row)
        state.woken_by_event.pop(pod, None)
        plugin = plugin_of(state, pod)
        del state.permit_rejected[plugin][pod]
        if not state.permit_rejected[plugin]:
            del state.permit_rejected[plugin]


def plugin_of(state: QueueingState, pod: PodId) -> str:
    """Return the Permit plugin that rejected the pod."""
    return next(plugin for plugin, pods in state.permit_rejected.items() if pod in pods)


def _backoff_end_ms(state: QueueingState, row: int) -> int:
    pods = state.pods
    failed_ms, refusals = int(pods.order_ms[row]), int(pods.refusals[row])
    return backoff_end_ms(state.config, failed_ms, refusals)
