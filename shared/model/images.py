"""Container images as scores see them: names are numbers, and what a node has is one packed column.

A node names some fifty images two or three times each. As text that is ten times the rest of the
node, so a name becomes the first 64 bits of its hash: the same number in every process, and no
table to keep. Two names with one number would cost a wrong score and no more.
"""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from shared.model.columns import ID_BYTES, INT64

SIZE_MAX = 1 << 50
NAMES_KEPT = 65_536


def canonical(name: str) -> str:
    """Return an image name with its default tag: kube-scheduler's normalizedImageName. A digest
    counts as a tag, and the registry is not completed.
    """
    return f"{name}:latest" if name.rfind(":") <= name.rfind("/") else name


@lru_cache(NAMES_KEPT)
def number(name: str) -> int:
    """Return the number of an image name. Cached: the nodes of a cluster have mostly the same
    images.
    """
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little", signed=True)


def packed(images: Iterable[tuple[str, int]]) -> bytes:
    """Return the images of a node, given as (name, bytes), as a column: all numbers, ascending,
    then their sizes. Of two sizes for one name the last counts.
    """
    sizes = {number(name): size_bytes for name, size_bytes in images}
    numbers = np.fromiter(sizes, INT64, len(sizes))
    values = np.fromiter(sizes.values(), INT64, len(sizes))
    order = np.argsort(numbers)
    return numbers[order].tobytes() + np.minimum(values[order], SIZE_MAX).tobytes()


def numbers_of(images: bytes) -> bytes:
    """Return the numbers of a node's images, packed."""
    return images[: len(images) // 2]


def size_bytes(images: bytes, wanted: bytes) -> int:
    """Return the size of the image with this number (8 bytes, as in the column), -1 if missing. A
    search through bytes costs a twentieth of unpacking.
    """
    half = len(images) // 2
    at = images.find(wanted, 0, half)
    while at >= 0 and at % ID_BYTES:  # the end of one number and the start of another
        at = images.find(wanted, at + 1, half)
    return -1 if at < 0 else int.from_bytes(images[half + at : half + at + ID_BYTES], "little")
