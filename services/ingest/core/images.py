"""How many nodes of the cluster have the images that pods name, for shards that see a part of it.

With one shard nobody asks: it has all nodes and counts them itself. Images that no live pod names
are not counted, as a node has fifty and a cluster thousands.
"""

from collections import Counter
from collections.abc import Iterable

from services.ingest.core.state import HeldImage, IngestState
from shared.events.ingest import ImagesCounted
from shared.model.columns import ID_BYTES, pack
from shared.model.images import number, size_bytes
from shared.model.objects import Node, PodSpec


def numbers_named(state: IngestState, spec: PodSpec) -> tuple[int, ...]:
    """The images that a signature asks to be counted."""
    if len(state.shard_nodes) == 1 or not spec.images:
        return ()
    return tuple(sorted({number(name) for name in (*spec.images, *spec.image_volumes)}))


def named(state: IngestState, numbers: tuple[int, ...]) -> list[int]:
    """A signature more names these images; returns those that nobody named before."""
    fresh = [one for one in numbers if one not in state.images]
    for one in fresh:
        key = one.to_bytes(ID_BYTES, "little", signed=True)
        state.images[one] = HeldImage(key, 0, _holders(state, key))
    for one in numbers:
        state.images[one].sigs += 1
    return fresh


def _holders(state: IngestState, key: bytes) -> int:
    return sum(size_bytes(held.node.images, key) >= 0 for held in state.nodes.values())


def unnamed(state: IngestState, numbers: tuple[int, ...]) -> list[int]:
    """A signature less names them; returns those that nobody names any more. They are told as if no
    node had them, so that shards forget them as well.
    """
    left = []
    for one in numbers:
        held = state.images[one]
        held.sigs -= 1
        if not held.sigs:
            del state.images[one]
            left.append(one)
    return left


def count(state: IngestState, node: Node, sign: int) -> list[int]:
    """A node comes (1) or goes (-1) with its images; returns those of them that are counted."""
    if not state.images or not node.images:
        return []
    found = [one for one, held in state.images.items() if size_bytes(node.images, held.key) >= 0]
    for one in found:
        state.images[one].nodes += sign
    return found


def tell(state: IngestState, numbers: Iterable[int]) -> None:
    """How many nodes there are now, and how many have these images."""
    chosen = sorted(set(numbers))
    holders = (state.images[one].nodes if one in state.images else 0 for one in chosen)
    state.outbox.append(ImagesCounted(len(state.nodes), pack(chosen), pack(holders)))


def check_images(state: IngestState) -> None:
    """Counted is what signatures name, and as it is."""
    sigs = Counter(one for held in state.sigs.values() for one in held.images)
    assert sigs.keys() == state.images.keys(), "images that are named and those that are counted"
    for one, held in state.images.items():
        assert held.sigs == sigs[one], f"image {one}: {held}, {sigs[one]} signatures name it"
        assert held.nodes == _holders(state, held.key), f"image {one}: {held}"
