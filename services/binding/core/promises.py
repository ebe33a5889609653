"""Promises of volumes and claims when several shards choose them.

A shard chooses with what it knows, and others may have chosen meanwhile. So a choice only counts
from here on: the first one is granted and announced to all shards; one that contradicts an open
promise is refused and knows the promise when its pod is tried again. One volume is for one claim, a
claim gets one volume, and a volume to be provisioned is for one node.
"""

from collections.abc import Iterator

from services.binding.core.state import BindingState, Promise
from shared.events.base import Event
from shared.events.binding import VolumesGranted, VolumesOver, VolumesTaken
from shared.events.placement import Reserved, VolumesChosen
from shared.model.columns import pack
from shared.model.ids import START, NodeId, PodId, Position
from shared.model.volumes import Choice

PRE_BIND = 'running PreBind plugin "VolumeBinding": '


def promise_volumes(state: BindingState, pod: PodId, event: Reserved | VolumesChosen) -> None:
    """Promise the volumes that a shard chose for a pod, unless they are promised already."""
    node = NodeId(int.from_bytes(event.nodes, "little"))
    why = _contradiction(state, node, event.volumes)
    if why:
        state.promise_conflicts[pod] = why
        return
    state.last_promise += 1
    promise = Promise(state.last_promise, event.shard, node, event.volumes)
    state.promises[pod] = promise
    index(state, pod, promise)


def _contradiction(state: BindingState, node: NodeId, choices: tuple[Choice, ...]) -> str:
    """Return why these choices contradict an open promise; empty if they do not."""
    for choice in choices:
        claim = choice.namespace, choice.claim
        for promise, other in state.promised.get(claim, ()):
            if other != choice or (not choice.volume and promise.node != node):
                return f'PVC "{choice.claim}" is promised another volume or node'
        for _promise, other in state.promised.get(("", choice.volume), ()):
            if (other.namespace, other.claim) != claim:
                return f'pv "{choice.volume}" is promised to another claim'
    return ""


def index(state: BindingState, pod: PodId, promise: Promise) -> None:
    """Index a promise by its claims and volumes."""
    if not promise.is_announced:
        state.unannounced[pod] = True
    for choice in promise.choices:
        for what in _about(choice):
            state.promised.setdefault(what, []).append((promise, choice))


def _about(choice: Choice) -> list[tuple[str, str]]:
    """Return the keys (namespace, name) of the claim and the volume; a volume has no namespace."""
    claim = choice.namespace, choice.claim
    return [claim, ("", choice.volume)] if choice.volume else [claim]


def end_promise(state: BindingState, pod: PodId, world: Position = START) -> None:
    """End a promise; from position `world` on, facts show that the pod has its volumes."""
    state.promise_conflicts.pop(pod, None)
    promise = state.promises.pop(pod, None)
    if promise is None:
        return
    for choice in promise.choices:
        for what in _about(choice):
            left = [one for one in state.promised[what] if one[0] is not promise]
            if left:
                state.promised[what] = left
            else:
                del state.promised[what]
    state.unannounced.pop(pod, None)
    if promise.is_announced:
        state.promises_over.append((promise.number, world))


def decide_promises(state: BindingState) -> Iterator[Event]:
    """Yield ended promises, new promises, and conflicts."""
    if state.promises_over:
        numbers, worlds = zip(*state.promises_over, strict=True)
        yield VolumesOver(pack(numbers), pack(worlds))
    for pod in list(state.unannounced):
        one = state.promises[pod]
        name = state.node_names.get(one.node)
        if name is not None:
            yield VolumesGranted(one.number, one.shard, pod, name, one.choices)
    for pod, why in sorted(state.promise_conflicts.items()):
        yield VolumesTaken(pod, state.table.node_at(state.table.row(pod)), PRE_BIND + why)


def on_volumes_granted(state: BindingState, event: VolumesGranted) -> None:
    """Mark the promise as announced."""
    state.promises[event.pod].is_announced = True
    del state.unannounced[event.pod]


def on_volumes_over(state: BindingState, _event: VolumesOver) -> None:
    """Drop the ended promises, which all shards know now."""
    state.promises_over.clear()
