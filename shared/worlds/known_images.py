"""The images that can affect scores in a world whose nodes never get others."""

from collections.abc import Iterable

import msgspec

from shared.model.columns import unpack
from shared.model.images import number, numbers_of
from shared.model.objects import Node, PodSpec


class KnownImages:
    """The images that some node has."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        """`nodes` are all nodes: no other will come."""
        columns = (unpack(numbers_of(node.images)) for node in nodes if node.images)
        self._numbers = frozenset(one for column in columns for one in column.tolist())

    def relevant(self, spec: PodSpec) -> PodSpec:
        """Return the spec without its images if no node has one of them: pods that differ only in
        such images are equal.
        """
        if any(number(name) in self._numbers for name in (*spec.images, *spec.image_volumes)):
            return spec
        return msgspec.structs.replace(spec, images=(), image_volumes=())
