"""VolumeRestrictions: disks that one pod of a node may write to, and ReadWriteOncePod claims."""

from collections.abc import Iterator

import numpy as np

from shared.model.objects import PodSpec
from shared.model.pod_rules import rule_counts
from shared.model.pod_rules.rule_counts import RuleCount
from shared.model.volumes import AWS, GCE, ISCSI, RBD, ClaimUse, Disk
from shared.scheduling.table.counters import Counts
from shared.scheduling.table.layout import Mask
from shared.scheduling.table.other_shards import NO_OTHERS, OtherShards
from shared.scheduling.table.table import NodeTable
from shared.scheduling.volumes.volume_uses import Use, Uses, same_disk

NAME = "VolumeRestrictions"
DISK_CONFLICT = "node(s) had no available disk"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)
ONE_POD = "ReadWriteOncePod"
GUARDED = (AWS, GCE, ISCSI, RBD)


class VolumeRestrictions:
    """The rule for one pod; `rejects`: its PreFilter's message if it rejects the pod."""

    def __init__(self, table: NodeTable, spec: PodSpec, others: OtherShards = NO_OTHERS) -> None:
        self.rejects: str | None = None
        self._others = others
        self._named = sorted({one.name for one in spec.volumes if isinstance(one, ClaimUse)})
        namespace, storage = spec.namespace, table.storage
        self._namespace = namespace
        self._disks: list[Use] = []
        self._claims: set[str] = set()
        for volume in spec.volumes:
            if isinstance(volume, Disk):
                if volume.kind in GUARDED:
                    self._disks.append((namespace, volume))
            elif not volume.pod:
                claim = storage.claim_of(namespace, volume)
                if claim is None:
                    self.rejects = f'persistentvolumeclaim "{volume.name}" not found'
                    return
                if ONE_POD in claim.access_modes:
                    self._claims.add(volume.name)

    @property
    def apply(self) -> bool:
        """Return whether there is something to check."""
        return bool(self.rejects or self._disks or self._claims)

    def refusals(self, counts: Counts, before: Counts) -> Iterator[tuple[str, Mask, bool]]:
        """Yield (message, nodes, resolvable): nodes with a disk in use, then all for a claim in
        use.

        `before`: the counts at the beginning of the cycle: if no claim was in use then, and there
        are no disks, kube-scheduler does not check again.
        """
        in_use = self._in_use(before)
        if not self._disks and not in_use:
            return
        taken = np.zeros(counts.nodes, np.bool_)
        for disk in self._disks:
            for row in counts.rows_using(disk):
                taken[row] |= _conflicts(disk, counts.uses(row))
        yield DISK_CONFLICT, taken, True
        # Claims of pods added or removed meanwhile count by name, whatever their namespace.
        in_use += sum(counts.claim_moves(name) - before.claim_moves(name) for name in self._claims)
        yield IN_USE, ~taken & (in_use > 0), True

    def _in_use(self, counts: Counts) -> int:
        """Return how many of the claims are in use, on any shard."""
        others = self._others
        elsewhere = sum(others.find(rule_counts.IN_USE, 0, name).total > 0 for name in self._claims)
        return elsewhere + sum(self._users(counts, name) > 0 for name in self._claims)

    def _users(self, counts: Counts, name: str) -> int:
        """Return the number of nodes whose pods use a claim."""
        use = self._namespace, ClaimUse(name)
        return sum(use in counts.uses(row) for row in counts.rows_using(use))

    def counted(self, counts: Counts) -> list[RuleCount]:
        """Return on how many nodes of this table each claim of the pod is in use; of any mode, as
        this shard may not know a new claim yet.
        """
        return [
            RuleCount(rule_counts.IN_USE, 0, name, total=self._users(counts, name))
            for name in self._named
        ]


def _conflicts(wanted: Use, uses: Uses) -> bool:
    disk = wanted[1]
    assert isinstance(disk, Disk)
    return any(
        isinstance(other, Disk)
        and same_disk(disk, other)
        and (disk.kind == AWS or not (disk.read_only and other.read_only))
        for _, other in uses
    )
