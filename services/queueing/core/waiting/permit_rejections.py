"""Pods that a permit plugin of a user refused. They wait for an event that the plugin names, for
five minutes at most, and then for what is left of their backoff, as in kube-scheduler.

Such a pod is in a backoff of its own, `pods.HELD` in place of errors, until its five minutes end;
that is never cut short. `held` has the pods of each plugin, `happened` up to which attempt the last
event of each kind came too early: what came after the pod's own began may have been too late for
the plugin, so the pod need not wait for another.
"""

from collections.abc import Iterator

from services.queueing.core.config import backoff_end_ms
from services.queueing.core.pods.table import HELD, Rows
from services.queueing.core.state import QueueingState
from services.queueing.core.waiting import unschedulable_timeout
from shared.events.ingest import Happened
from shared.events.queueing import Woken
from shared.model.columns import I64, pack


def happened(state: QueueingState, event: Happened) -> None:
    """Those are tried again that wait for such."""
    for kind in event.kinds:
        note(state, kind)


def note(state: QueueingState, kind: str, but: int = 0) -> None:
    """The same of one kind of event, which tells nothing to one pod."""
    state.happened[kind] = state.next_attempt
    for plugin in sorted(state.held):
        if kind in state.config.wakes.get(plugin, ()):
            roused = dict.fromkeys(state.held[plugin], kind)
            roused.pop(but, None)
            state.roused = {**roused, **state.roused}


def hold(state: QueueingState, pod: int, plugin: str, attempt: int) -> None:
    """A pod that was refused just now, in this attempt, waits, unless something has happened."""
    pods, row = state.pods, pod - state.pods.base
    kinds = state.config.wakes[plugin]
    if all(state.happened.get(kind, 0) <= attempt for kind in kinds):
        end_ms = int(unschedulable_timeout.ends(state, slice(row, row + 1))[0])
        pods.errors[row] = HELD
        pods.until_ms[row] = max(end_ms, int(pods.until_ms[row]))
        state.held.setdefault(plugin, {})[pod] = None


def configured(state: QueueingState) -> None:
    """Nobody knows what pods of a plugin wait for that is not there any more."""
    for plugin in sorted(state.held.keys() - state.config.wakes.keys()):
        state.roused |= dict.fromkeys(state.held[plugin], "another configuration")


def wakes(state: QueueingState) -> Iterator[Woken]:
    """Those that are tried again: at once, or after what is left of their backoff."""
    groups: dict[tuple[int, str, int], list[int]] = {}
    for pod, kind in sorted(state.roused.items()):
        row = pod - state.pods.base
        end_ms = _backoff_end_ms(state, row)
        late = end_ms if end_ms > state.now_ms else 0
        groups.setdefault((int(state.pods.sig[row]), kind, late), []).append(pod)
    for (sig, kind, end_ms), pods in sorted(groups.items()):
        until_ms = pack([end_ms] * len(pods)) if end_ms else b""
        yield Woken(sig, pack(pods), until_ms, reason=kind)


def is_held(state: QueueingState, row: int) -> bool:
    """Whether a pod in backoff is one of them."""
    return bool(state.pods.errors[row] == HELD)


def end(state: QueueingState, ids: I64, rows: Rows) -> None:
    """Those of pods in backoff that are such wait no longer, or as any other."""
    pods = state.pods
    for pod in ids[pods.errors[rows] == HELD].tolist():
        row = pod - pods.base
        pods.errors[row] = 0
        pods.until_ms[row] = _backoff_end_ms(state, row)
        state.roused.pop(pod, None)
        plugin = plugin_of(state, pod)
        del state.held[plugin][pod]
        if not state.held[plugin]:
            del state.held[plugin]


def plugin_of(state: QueueingState, pod: int) -> str:
    """Who refused it."""
    return next(plugin for plugin, pods in state.held.items() if pod in pods)


def _backoff_end_ms(state: QueueingState, row: int) -> int:
    pods = state.pods
    failed_ms, refusals = int(pods.order_ms[row]), int(pods.refusals[row])
    return backoff_end_ms(state.config, failed_ms, refusals)
