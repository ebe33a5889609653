"""VolumeZone: zone and region labels of a bound volume must be those of the node."""

from collections.abc import Iterator

import numpy as np

from shared.model.cluster_objects import PersistentVolume
from shared.model.objects import PodSpec
from shared.model.volumes import ClaimUse
from shared.scheduling.table.layout import Mask
from shared.scheduling.table.table import NodeTable
from shared.scheduling.volumes.migration import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONES_BETWEEN

NAME = "VolumeZone"
CONFLICT = "node(s) had no available volume zone"
TODAYS = {BETA_ZONE: ZONE, BETA_REGION: REGION}
LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)


class VolumeZone:
    """The rule for one pod; `rejects`: its PreFilter's message if it rejects the pod."""

    def __init__(self, table: NodeTable, spec: PodSpec) -> None:
        self._needs: list[tuple[str, tuple[str, ...]]] = []
        self.rejects: str | None = None
        for use in spec.volumes:
            if isinstance(use, ClaimUse) and not use.pod:
                self.rejects = self._read(table, spec.namespace, use)
                if self.rejects:
                    return
        self._refused = self._refuses(table)

    @property
    def apply(self) -> bool:
        """Return whether a node is refused."""
        return bool(self.rejects) or bool(self._needs and self._refused.any())

    def refusals(self) -> Iterator[tuple[str, Mask, bool]]:
        """Yield the nodes in other zones: (message, nodes, resolvable)."""
        yield CONFLICT, self._refused, False

    def _read(self, table: NodeTable, namespace: str, use: ClaimUse) -> str | None:
        """Store the zones of the claim's volume; return what is wrong with the claim."""
        storage = table.storage
        claim = storage.claim_of(namespace, use)
        if claim is None:
            return f'persistentvolumeclaim "{use.name}" not found'
        if not claim.volume:
            if not claim.storage_class:
                return "PersistentVolumeClaim had no pv name and storageClass name"
            storage_class = storage.classes.get(claim.storage_class)
            if storage_class is None:
                return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
            return None if storage_class.waits_for_consumer else "PersistentVolume had no name"
        volume = storage.volumes.get(claim.volume)
        if volume is None:
            return f'persistentvolume "{claim.volume}" not found'
        self._needs += _needs(volume)
        return None

    def _refuses(self, table: NodeTable) -> Mask:
        refused = np.zeros(table.size, np.bool_)
        for key, values in self._needs:
            column, todays = table.labels(key), table.labels(TODAYS.get(key, key))
            there = np.where(column.present(), column.among(values), todays.among(values))
            refused |= ~there
        if self._needs:
            # Nodes without zone and region labels are in every zone.
            refused &= np.logical_or.reduce([table.labels(key).present() for key in LABELS])
        return refused


def _needs(volume: PersistentVolume) -> Iterator[tuple[str, tuple[str, ...]]]:
    labels = dict(volume.labels)
    for key in LABELS:
        values = tuple(part.strip() for part in labels.get(key, "").split(ZONES_BETWEEN))
        if all(values):  # an empty zone in the label is ignored
            yield key, values
