"""Counts the nodes that have the images that pods name, for shards that see only some nodes.

A single shard has all nodes and counts them itself. Images that no live pod names are not counted,
as a node has fifty and a cluster thousands.
"""

from collections import Counter
from collections.abc import Iterable

from services.ingest.core.state import ImageRecord, IngestState
from shared.events.ingest import ImagesCounted
from shared.model.columns import ID_BYTES, pack
from shared.model.images import number, size_bytes
from shared.model.objects import Node, PodSpec


def numbers_named(state: IngestState, spec: PodSpec) -> tuple[int, ...]:
    """Return the images of a signature that must be counted."""
    if len(state.shard_nodes) == 1 or not spec.images:
        return ()
    return tuple(sorted({number(name) for name in (*spec.images, *spec.image_volumes)}))


def add_named(state: IngestState, numbers: tuple[int, ...]) -> list[int]:
    """Count one more signature that names these images; return the newly named ones."""
    fresh = [one for one in numbers if one not in state.images]
    for one in fresh:
        key = one.to_bytes(ID_BYTES, "little", signed=True)
        state.images[one] = ImageRecord(key, 0, _holders(state, key))
    for one in numbers:
        state.images[one].sigs += 1
    return fresh


def _holders(state: IngestState, key: bytes) -> int:
    return sum(size_bytes(known.node.images, key) >= 0 for known in state.nodes.values())


def remove_named(state: IngestState, numbers: tuple[int, ...]) -> list[int]:
    """Count one signature less; return the images that none names any more. They are published with
    no nodes, so that shards forget them.
    """
    left = []
    for one in numbers:
        known = state.images[one]
        known.sigs -= 1
        if not known.sigs:
            del state.images[one]
            left.append(one)
    return left


def count(state: IngestState, node: Node, sign: int) -> list[int]:
    """Count the images of a node that was added (1) or deleted (-1); return those of them that are
    counted.
    """
    if not state.images or not node.images:
        return []
    found = [one for one, known in state.images.items() if size_bytes(node.images, known.key) >= 0]
    for one in found:
        state.images[one].nodes += sign
    return found


def publish_counts(state: IngestState, numbers: Iterable[int]) -> None:
    """Publish the number of nodes and how many have these images."""
    chosen = sorted(set(numbers))
    holders = (state.images[one].nodes if one in state.images else 0 for one in chosen)
    state.outbox.append(ImagesCounted(len(state.nodes), pack(chosen), pack(holders)))


def check_images(state: IngestState) -> None:
    """Check that exactly the named images are counted, with the right numbers."""
    sigs = Counter(one for held in state.sigs.values() for one in held.images)
    assert sigs.keys() == state.images.keys(), "images that are named and those that are counted"
    for one, known in state.images.items():
        assert known.sigs == sigs[one], f"image {one}: {known}, {sigs[one]} signatures name it"
        assert known.nodes == _holders(state, known.key), f"image {one}: {known}"
