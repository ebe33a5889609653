"""The story of one pod: all events, POSTs and the cluster's final state."""

from collections.abc import Iterator, Mapping

import msgspec

from muster.checker.inputs.facts import Facts
from muster.checker.inputs.history import ClusterHistory
from muster.checker.inputs.journals import Journal
from shared.events.base import Event
from shared.events.queueing import GangDispatched
from shared.model.columns import split, unpack

COLUMNS = ("ids", "victims")


def story(
    pod: int, journals: Mapping[str, Journal], facts: Facts, history: ClusterHistory
) -> list[str]:
    """Return lines in order of recorded time. Clocks of different services may differ a little."""
    lines: list[tuple[int, int, str]] = []
    for name, journal in journals.items():
        for step in journal.steps:
            for event in (*step.received, *step.own):
                if _concerns(event, pod, facts):
                    at = (step.record.time_ms, len(lines))
                    text = f"{step.record.time_ms} {name}@{step.position}: {_brief(event, pod)}"
                    lines.append((*at, text))
    uid = facts.uid_of.get(pod, "?")
    posts = [
        f"POST {post.node} r{post.revision} by {post.sender} at {post.sent_s:.3f} s, {post.way}, "
        f"landed {post.landed_s}, {post.answer!r}"
        for post in history.posts
        if post.uid == uid
    ]
    return (
        [text for _time, _row, text in sorted(lines)] + posts + [f"cluster: {_truth(history, uid)}"]
    )


def _truth(history: ClusterHistory, uid: str) -> str:
    pod = history.pods.get(uid)
    return "unknown" if pod is None else f"node {pod.node!r} deleted {pod.deleted}"


def _concerns(event: Event, pod: int, facts: Facts) -> bool:
    if getattr(event, "pod", None) == pod:
        return True
    if isinstance(event, GangDispatched):
        return any(pod in unpack(part.ids) for part in event.members)
    gang = getattr(event, "gang", 0)
    if gang and gang == facts.gang_of.get(pod) and not hasattr(event, "ids"):
        return True
    for column in COLUMNS:
        value = getattr(event, column, None)
        if isinstance(value, bytes) and value and pod in unpack(value):
            return True
    uids = getattr(event, "uids", "")
    return bool(uids) and facts.uid_of.get(pod, "?") in split(uids)


def _brief(event: Event, pod: int) -> str:
    parts = [type(event).__name__]
    for name, value in _fields(event):
        if name == "spec" or value in (b"", "", (), 0, None):
            continue
        if isinstance(value, bytes):
            value = _cell(event, name, value, pod)
        text = str(value)
        parts.append(f"{name}={text if len(text) < 90 else text[:87] + '...'}")
    return " ".join(parts)


def _fields(event: Event) -> Iterator[tuple[str, object]]:
    for item in msgspec.structs.fields(event):
        yield item.name, getattr(event, item.name)


def _cell(event: Event, name: str, column: bytes, pod: int) -> str:
    """Return the pod's value in a column that runs parallel to `ids`."""
    ids = getattr(event, "ids", b"")
    if len(column) % 8 or not ids:
        return f"{len(column)} bytes"
    values, rows = unpack(column).tolist(), unpack(ids).tolist()
    if name == "ids":
        return f"{len(values)} pods"
    if len(values) == len(rows) and pod in rows:
        return str(values[rows.index(pod)])
    return str(values[:8])
