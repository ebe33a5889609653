"""What the volumes of one signature ask of nodes: the plugins that look at volumes, together."""

from collections.abc import Iterator

import numpy as np

from shared.model.objects import PodSpec
from shared.scheduling.plugins import (
    node_volume_limits,
    volume_binding,
    volume_restrictions,
    volume_zone,
)
from shared.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from shared.scheduling.plugins.volume_binding import VolumeBinding
from shared.scheduling.plugins.volume_restrictions import VolumeRestrictions
from shared.scheduling.plugins.volume_zone import VolumeZone
from shared.scheduling.table.counters import Counts
from shared.scheduling.table.layout import Mask
from shared.scheduling.table.table import NodeTable


class VolumeRules:
    """The rules of those of the plugins that run, as claims and volumes are now. `rejected` is the
    plugin and message of a PreFilter that rejects the pod, if one does.
    """

    def __init__(self, table: NodeTable, spec: PodSpec, filters: tuple[str, ...]) -> None:
        self.rejected: tuple[str, str] | None = None
        self._applying: set[str] = set()
        if not spec.volumes:
            return
        self._restrictions = VolumeRestrictions(table, spec)
        self._limits = NodeVolumeLimits(table, spec)
        self._binding = VolumeBinding(table, spec)
        self._zone = VolumeZone(table, spec)
        rejecting = {
            volume_restrictions.NAME: self._restrictions.rejects,
            volume_binding.NAME: self._binding.rejects,
            volume_zone.NAME: self._zone.rejects,
        }
        found = ((name, rejecting.get(name)) for name in filters)
        self.rejected = next(((name, text) for name, text in found if text), None)
        applying = {
            volume_restrictions.NAME: self._restrictions.apply,
            node_volume_limits.NAME: self._limits.apply,
            volume_binding.NAME: self._binding.apply,
            volume_zone.NAME: self._zone.apply,
        }
        self._applying = {name for name in filters if applying.get(name, False)}

    @property
    def apply(self) -> bool:
        """Whether one of the plugins may refuse a node."""
        return bool(self._applying)

    def refusals(
        self, plugin: str, counts: Counts, before: Counts
    ) -> Iterator[tuple[str, Mask, bool]]:
        """What one of the plugins refuses: (message, nodes, whether others could make room).
        `before`: the counts at the beginning of the cycle.
        """
        if self.rejected is not None:
            if self.rejected[0] == plugin:
                yield self.rejected[1], np.ones(counts.nodes, np.bool_), False
        elif plugin not in self._applying:
            return
        elif plugin == volume_restrictions.NAME:
            yield from self._restrictions.refusals(counts, before)
        elif plugin == node_volume_limits.NAME:
            yield from self._limits.refusals(counts)
        elif plugin == volume_binding.NAME:
            yield from self._binding.refusals()
        else:
            yield from self._zone.refusals()
