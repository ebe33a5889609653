"""Which volumes and claims are promised, where several shards choose them.

A shard chooses with what it knows, and others may have chosen meanwhile. So what it chose counts
from here on only: whoever comes first is granted it, and all shards are told; who contradicts an
open promise is refused, and finds the promise known when it is tried again. One volume is for one
claim, a claim gets one volume, and one that is to be made for it is made for one node.
"""

from collections.abc import Iterator

from services.binding.core.state import BindingState, Promise
from shared.events.base import Event
from shared.events.binding import VolumesGranted, VolumesOver, VolumesTaken
from shared.events.placement import Reserved, VolumesChosen
from shared.model.columns import pack
from shared.model.volumes import Choice

PRE_BIND = 'running PreBind plugin "VolumeBinding": '


def chosen(state: BindingState, pod: int, event: Reserved | VolumesChosen) -> None:
    """A shard chose volumes for a pod: they are promised, unless they are already."""
    node = int.from_bytes(event.nodes, "little")
    why = _contradiction(state, node, event.volumes)
    if why:
        state.taken[pod] = why
        return
    state.last_promise += 1
    hold(state, pod, Promise(state.last_promise, event.shard, node, event.volumes))


def _contradiction(state: BindingState, node: int, choices: tuple[Choice, ...]) -> str:
    """Why these choices go against an open promise; empty = they do not."""
    for choice in choices:
        claim = choice.namespace, choice.claim
        for promise, other in state.promised.get(claim, ()):
            if other != choice or (not choice.volume and promise.node != node):
                return f'PVC "{choice.claim}" is promised another volume or node'
        for _promise, other in state.promised.get(("", choice.volume), ()):
            if (other.namespace, other.claim) != claim:
                return f'pv "{choice.volume}" is promised to another claim'
    return ""


def hold(state: BindingState, pod: int, promise: Promise) -> None:
    """Nobody is promised anything else."""
    state.promises[pod] = promise
    if not promise.is_told:
        state.untold[pod] = True
    for choice in promise.choices:
        for what in _about(choice):
            state.promised.setdefault(what, []).append((promise, choice))


def _about(choice: Choice) -> list[tuple[str, str]]:
    """The claim, and the volume, which is of no namespace."""
    claim = choice.namespace, choice.claim
    return [claim, ("", choice.volume)] if choice.volume else [claim]


def over(state: BindingState, pod: int, world: int = 0) -> None:
    """The pod waits for no volumes any more; from `world` on facts say that it has them."""
    state.taken.pop(pod, None)
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
    state.untold.pop(pod, None)
    if promise.is_told:
        state.promises_over.append((promise.number, world))


def tell(state: BindingState) -> Iterator[Event]:
    """What counts no longer, what is promised since, and who comes too late."""
    if state.promises_over:
        numbers, worlds = zip(*state.promises_over, strict=True)
        yield VolumesOver(pack(numbers), pack(worlds))
    for pod in list(state.untold):
        one = state.promises[pod]
        name = state.node_names.get(one.node)
        if name is not None:
            yield VolumesGranted(one.number, one.shard, pod, name, one.choices)
    for pod, why in sorted(state.taken.items()):
        yield VolumesTaken(pod, state.table.nodes.item(state.table.row(pod)), PRE_BIND + why)


def told(state: BindingState, event: VolumesGranted) -> None:
    """All shards know of the promise."""
    state.promises[event.pod].is_told = True
    del state.untold[event.pod]


def over_told(state: BindingState, _event: VolumesOver) -> None:
    """All shards know that these are none any more."""
    state.promises_over.clear()
