"""Joins consecutive observations of one kind into one event: columns are cheaper than single pods.

The order of observations of any one object never changes, and no event grows beyond what fits one
record well.
"""

from collections.abc import Iterable, Iterator

import msgspec

from shared.events.base import Event
from shared.events.observed import (
    NodesSeen,
    ObjectsSeen,
    PodsBoundSeen,
    PodsDeletedSeen,
    PodsSeen,
    PodsStartedSeen,
)
from shared.model.cluster_objects import ClusterObject, SliceObject
from shared.model.columns import join, split

PODS_PER_EVENT = 16_384
NODES_PER_EVENT = 2_000
NODE_IN_PODS = 4
DEVICE_IN_PODS = 2
POD_BYTES = 150

_SAME = (  # most often different first
    *("spec", "namespace", "gang", "ordered_ms", "gated", "labels", "terminating", "owner"),
    "gang_count",
)


def pods_of(event: Event) -> int:
    """Return the approximate size of an event, in pods."""
    if isinstance(event, NodesSeen):
        return sum(NODE_IN_PODS + len(node.images) // POD_BYTES for node in event.nodes)
    if isinstance(event, ObjectsSeen):
        return sum(map(_object_in_pods, event.objects))
    uids: str = getattr(event, "uids", "")
    return uids.count("\n") + 1


def _object_in_pods(one: ClusterObject) -> int:
    """Return the approximate size of an object, in pods: a slice may have many devices."""
    devices = len(one.value.devices) if isinstance(one, SliceObject) else 0
    return NODE_IN_PODS + DEVICE_IN_PODS * devices


def _cut_objects(objects: Iterable[ClusterObject]) -> Iterator[ObjectsSeen]:
    found: list[ClusterObject] = []
    size = 0
    for one in objects:
        if found and (len(found) == NODES_PER_EVENT or size >= PODS_PER_EVENT):
            yield ObjectsSeen(tuple(found))
            found, size = [], 0
        found.append(one)
        size += _object_in_pods(one)
    if found:
        yield ObjectsSeen(tuple(found))


def grouped(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the same observations in fewer events, none of them too large."""
    run: list[Event] = []
    size = 0
    for event in events:
        if run and (size >= PODS_PER_EVENT or not _joins(run[-1], event)):
            yield from _parts(run)
            run, size = [], 0
        run.append(event)
        size += pods_of(event)
    if run:
        yield from _parts(run)


def _joins(last: Event, event: Event) -> bool:
    if type(last) is not type(event):
        return False
    if isinstance(event, PodsSeen):
        return all(getattr(last, name) == getattr(event, name) for name in _SAME)
    if isinstance(event, PodsDeletedSeen):
        same = getattr(last, "finished", None) == event.finished
        return same and getattr(last, "lost", None) == event.lost
    joined = PodsBoundSeen | PodsStartedSeen | NodesSeen | ObjectsSeen
    return isinstance(event, joined)


def _parts(run: list[Event]) -> Iterator[Event]:
    first = run[0]
    if isinstance(first, PodsSeen):
        yield from _cut(_join_seen(run) if len(run) > 1 else [first])
    elif len(run) > 1 and isinstance(first, PodsBoundSeen):
        yield PodsBoundSeen(
            _joined(run, "uids"), _joined(run, "nodes"), b"".join(_column(run, "revisions"))
        )
    elif len(run) > 1 and isinstance(first, PodsStartedSeen):
        yield PodsStartedSeen(_joined(run, "uids"), b"".join(_column(run, "starts_ms")))
    elif len(run) > 1 and isinstance(first, PodsDeletedSeen):
        yield PodsDeletedSeen(_joined(run, "uids"), first.finished, first.lost)
    elif isinstance(first, NodesSeen):
        seen = [event for event in run if isinstance(event, NodesSeen)]
        nodes = tuple(node for event in seen for node in event.nodes)
        for start in range(0, len(nodes), NODES_PER_EVENT):
            yield NodesSeen(nodes[start : start + NODES_PER_EVENT])
    elif isinstance(first, ObjectsSeen):
        objects = tuple(
            one for event in run if isinstance(event, ObjectsSeen) for one in event.objects
        )
        yield from _cut_objects(objects)
    else:
        yield first


def _column(run: list[Event], name: str) -> list[bytes]:
    return [getattr(event, name) for event in run]


def _joined(run: list[Event], name: str) -> str:
    return join(getattr(event, name) for event in run)


def _join_seen(run: list[Event]) -> list[PodsSeen]:
    """Return one event for a run of one kind, or the run itself if a pod occurs twice in it."""
    events = [event for event in run if isinstance(event, PodsSeen)]
    uids = [uid for event in events for uid in split(event.uids)]
    if len(dict.fromkeys(uids)) != len(uids):
        return events
    nodes = ""
    if any(event.nodes for event in events):
        blank = [event.nodes or join("-" for _ in split(event.uids)) for event in events]
        nodes = join(blank)
    return [
        msgspec.structs.replace(
            events[0],
            uids=join(uids),
            names=_joined(run, "names"),
            revisions=b"".join(event.revisions for event in events),
            nodes=nodes,
        )
    ]


def _cut(events: list[PodsSeen]) -> Iterator[PodsSeen]:
    for event in events:
        if len(event.revisions) // 8 <= PODS_PER_EVENT:
            yield event
            continue
        uids, names, nodes = split(event.uids), split(event.names), split(event.nodes)
        for start in range(0, len(uids), PODS_PER_EVENT):
            stop = start + PODS_PER_EVENT
            yield msgspec.structs.replace(
                event,
                uids=join(uids[start:stop]),
                names=join(names[start:stop]),
                revisions=event.revisions[8 * start : 8 * stop],
                nodes=join(nodes[start:stop]),
            )
