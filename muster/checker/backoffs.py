"""Checks which pods leave backoff early: pods of one signature, and the earliest end first.

Queueing's journal shows the backoff of a pod only if the pod was woken before its backoff ended.
"""

from collections.abc import Iterator

from muster.checker.inputs.journals import Journal, Problem
from shared.events.base import Event
from shared.events.queueing import Activated, Woken
from shared.model.columns import unpack

WINDOW_MS = 1_000
RULE = "backoff"


def check(journal: Journal) -> Iterator[Problem]:
    """Yield the violations in queueing's journal."""
    ends: dict[int, tuple[int, int]] = {}  # pod -> the second in which it ends, signature
    for step in journal.steps:
        for _source, _position, event in step.inputs:
            _forget(ends, event)
        for event in step.own:
            if isinstance(event, Activated):
                yield from _left(ends, unpack(event.ids).tolist(), step.record.time_ms)
            _forget(ends, event)
            if isinstance(event, Woken) and event.until_ms:
                seconds = (unpack(event.until_ms) // WINDOW_MS).tolist()
                pods = zip(unpack(event.ids).tolist(), seconds, strict=True)
                ends.update((pod, (second, event.sig)) for pod, second in pods)


def _left(ends: dict[int, tuple[int, int]], pods: list[int], now_ms: int) -> Iterator[Problem]:
    known = {pod: ends[pod] for pod in pods if pod in ends}
    early = [pod for pod in known if known[pod][0] * WINDOW_MS > now_ms]
    if not early:
        return
    if len({known[pod][1] for pod in early}) > 1:
        yield RULE, f"pod {early[0]} and others of other signatures leave backoff early together"
    first = min(ends.items(), key=lambda one: (one[1][0], one[0]))
    if first[1][0] < min(known[pod][0] for pod in early):
        yield RULE, f"pod {early[0]} leaves backoff early before pod {first[0]}, whose ends first"


def _forget(ends: dict[int, tuple[int, int]], event: Event) -> None:
    """Forget the backoff of every pod that the event names."""
    if not ends:
        return
    pod = getattr(event, "pod", None)
    if isinstance(pod, int):
        ends.pop(pod, None)
    ids = getattr(event, "ids", None)
    for one in unpack(ids).tolist() if isinstance(ids, bytes) else ():
        ends.pop(one, None)
