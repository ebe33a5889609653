"""What a workload is made of: scheduler_perf's opcodes, as values; nothing runs here."""

from collections.abc import Callable
from dataclasses import dataclass

from shared.events.observed import PodsSeen
from shared.model.cluster_objects import Namespace, Service
from shared.model.columns import join
from shared.model.objects import CPU, MEMORY, PODS, Node, PodSpec, Taint

MIB, GIB = 1 << 20, 1 << 30
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
COLUMN_PODS_MAX = 4_096


@dataclass(frozen=True)
class CreateNodes:
    """Nodes of 4 cpu, 32Gi and 110 pods unless `amounts` say otherwise, spread over `zones`."""

    count: int
    zones: tuple[str, ...] = ()
    amounts: tuple[tuple[str, int], ...] = ()
    name: str = "node"
    taints: tuple[Taint, ...] = ()

    def nodes(self) -> list[Node]:
        """The nodes, each with its name as host name."""
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
    """Pods of one shape. `measured` ones are what the figure is about; `stays` = they are not meant
    to be bound.
    """

    count: int
    spec: PodSpec
    labels: tuple[tuple[str, str], ...] = ()
    namespace: str = "default"
    measured: bool = False
    stays: bool = False
    gated: bool = False

    def seen(self, first: int) -> list[PodsSeen]:
        """The pods as a cluster shows them, numbered from `first`."""
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
class CreateService:
    """A Service that selects pods of a namespace by their labels; it is there from the start."""

    selector: tuple[tuple[str, str], ...]
    namespace: str = "default"

    def service(self) -> Service:
        """The object."""
        who = {"uid": "uid-service", "name": "service", "namespace": self.namespace}
        return Service(**who, selector=self.selector)


@dataclass(frozen=True)
class CreateNamespaces:
    """Namespaces with these labels, PREFIX-0 and on; they are there from the start."""

    prefix: str
    count: int
    labels: tuple[tuple[str, str], ...]

    def names(self) -> list[str]:
        """Their names."""
        return [f"{self.prefix}-{number}" for number in range(self.count)]

    def namespaces(self) -> list[Namespace]:
        """The objects."""
        return [
            Namespace(uid=f"uid-{name}", name=name, labels=self.labels) for name in self.names()
        ]


@dataclass(frozen=True)
class Barrier:
    """Wait until every pod so far that is meant to be bound is."""


@dataclass(frozen=True)
class Churn:
    """While measured pods are being placed: a pod of this shape comes every `interval_s`, and the
    one before it goes.
    """

    spec: PodSpec
    interval_s: float = 1.0


Op = CreateNodes | CreatePods | CreateService | CreateNamespaces | Barrier | Churn


@dataclass(frozen=True)
class Workload:
    """`floor` = scheduler_perf's published threshold in pods/s, 0 = it has none."""

    ops: Callable[[], list[Op]]
    floor: int
