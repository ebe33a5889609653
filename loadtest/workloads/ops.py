"""The parts of a workload: scheduler_perf's opcodes as values; nothing runs here."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from shared.events.observed import PodsSeen
from shared.model.cluster_objects import (
    ClaimRef,
    CSINode,
    Namespace,
    NodeDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    Service,
    StorageObject,
)
from shared.model.columns import join
from shared.model.objects import CPU, MEMORY, PODS, Node, PodSpec, Taint
from shared.model.volumes import ClaimUse

MIB, GIB = 1 << 20, 1 << 30
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
COLUMN_PODS_MAX = 4_096
OBJECTS_TOGETHER = 100
"""The number of pods whose claims and volumes are made before them, as in a busy cluster."""


@dataclass(frozen=True)
class CreateNodes:
    """Nodes of 4 cpu, 32Gi and 110 pods unless `amounts` say otherwise, spread over `zones`."""

    count: int
    zones: tuple[str, ...] = ()
    amounts: tuple[tuple[str, int], ...] = ()
    name: str = "node"
    taints: tuple[Taint, ...] = ()
    drivers: tuple[NodeDriver, ...] = ()
    migrated: tuple[str, ...] = ()

    def csi_nodes(self) -> list[CSINode]:
        """Return the CSINodes of the nodes' volume drivers, if there are any."""
        names = [node.name for node in self.nodes()] if self.drivers else []
        return [
            CSINode(uid=f"uid-csi-{name}", name=name, drivers=self.drivers, migrated=self.migrated)
            for name in names
        ]

    def nodes(self) -> list[Node]:
        """Return the nodes; each has its name as host name."""
        amounts = {CPU: 4_000, MEMORY: 32 * GIB, PODS: 110} | dict(self.amounts)
        return [
            Node(
                uid=f"uid-{name}",
                name=name,
                allocatable=tuple(sorted(amounts.items())),
                labels=self._labels(name, row),
                taints=self.taints,
            )
            for row in range(self.count)
            if (name := self.name if self.count == 1 else f"{self.name}-{row:05d}")
        ]

    def _labels(self, name: str, row: int) -> dict[str, str]:
        zone = {ZONE: self.zones[row % len(self.zones)]} if self.zones else {}
        return {HOSTNAME: name, **zone}


@dataclass(frozen=True)
class CreatePods:
    """Pods of one shape. `measured`: they are the figure; `stays`: they are not meant to be bound;
    from the next barrier on `deletes_per_s` of them are deleted.
    """

    count: int
    spec: PodSpec
    labels: tuple[tuple[str, str], ...] = ()
    namespace: str = "default"
    measured: bool = False
    stays: bool = False
    gated: bool = False
    deletes_per_s: int = 0

    def seen(self, first: int) -> list[PodsSeen]:
        """Return the pods as a cluster shows them, numbered from `first`."""
        return [
            self._column(range(start, min(start + COLUMN_PODS_MAX, first + self.count)))
            for start in range(first, first + self.count, COLUMN_PODS_MAX)
        ]

    def _column(self, numbers: range) -> PodsSeen:
        return PodsSeen(
            spec=self.spec,
            uids=join(f"uid-{number}" for number in numbers),
            names=join(f"pod-{number}" for number in numbers),
            revisions=b"",
            namespace=self.namespace,
            labels=self.labels,
            gated=self.gated,
        )


@dataclass(frozen=True)
class CreateClaimedPods:
    """Pods of one shape, each with its own claim, which has this volume."""

    count: int
    spec: PodSpec
    volume: PersistentVolume
    namespace: str = "default"
    measured: bool = False

    def seen(self, first: int) -> Iterator[tuple[list[StorageObject], list[PodsSeen]]]:
        """Yield some objects and then their pods, in turn, numbered from `first`."""
        numbers = range(first, first + self.count)
        for start in range(0, self.count, OBJECTS_TOGETHER):
            some = numbers[start : start + OBJECTS_TOGETHER]
            objects = [one for number in some for one in self._bound(number)]
            yield objects, [self._pod(number) for number in some]

    def _bound(self, number: int) -> Iterator[StorageObject]:
        name, modes = f"pv-{number}", ("ReadOnlyMany",)
        claim = PersistentVolumeClaim(
            uid=f"uid-pvc-{number}",
            name=f"pvc-{number}",
            namespace=self.namespace,
            volume=name,
            access_modes=modes,
            request_bytes=GIB,
            phase="Bound",
            is_bind_completed=True,
        )
        yield replace(
            self.volume,
            uid=f"uid-{name}",
            name=name,
            handle=name,
            capacity_bytes=GIB,
            access_modes=modes,
            claim=ClaimRef(claim.namespace, claim.name, claim.uid),
            phase="Bound",
        )
        yield claim

    def _pod(self, number: int) -> PodsSeen:
        return PodsSeen(
            spec=replace(self.spec, volumes=(ClaimUse(f"pvc-{number}"),)),
            uids=f"uid-{number}",
            names=f"pod-{number}",
            revisions=b"",
            namespace=self.namespace,
        )


@dataclass(frozen=True)
class CreateService:
    """A Service that selects pods of a namespace by their labels; it exists from the start."""

    selector: tuple[tuple[str, str], ...]
    namespace: str = "default"

    def service(self) -> Service:
        """Return the object."""
        who = {"uid": "uid-service", "name": "service", "namespace": self.namespace}
        return Service(**who, selector=self.selector)


@dataclass(frozen=True)
class CreateNamespaces:
    """Namespaces with these labels, PREFIX-0 and on; they exist from the start."""

    prefix: str
    count: int
    labels: tuple[tuple[str, str], ...]

    def names(self) -> list[str]:
        """Return their names."""
        return [f"{self.prefix}-{number}" for number in range(self.count)]

    def namespaces(self) -> list[Namespace]:
        """Return the objects."""
        return [
            Namespace(uid=f"uid-{name}", name=name, labels=self.labels) for name in self.names()
        ]


@dataclass(frozen=True)
class Barrier:
    """Wait until every pod so far that is meant to be bound is bound."""


@dataclass(frozen=True)
class Churn:
    """While measured pods are placed, a node, a pod and a Service are created, deleted and created
    again; one change of each every `interval_s`.
    """

    nodes: CreateNodes
    spec: PodSpec
    services: CreateService
    interval_s: float


Op = (
    CreateNodes
    | CreatePods
    | CreateClaimedPods
    | CreateService
    | CreateNamespaces
    | Barrier
    | Churn
)


@dataclass(frozen=True)
class Workload:
    """`floor` = scheduler_perf's published threshold in pods/s, 0 = it has none."""

    ops: Callable[[], list[Op]]
    floor: int
