"""A workload as values: templates of pods, and steps that are taken in turn.

The opcodes and their fields are scheduler_perf's where it has them. Nothing runs here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from shared.model.cluster_objects import ClusterObject
from shared.model.objects import Node, PodSpec

Process = Literal["burst", "even", "poisson", "diurnal"]
COLUMN_PODS_MAX = 4_096


@dataclass(frozen=True)
class Arrivals:
    """When the things of one step come. `burst`: `size` together (0 = all), the next `every_ms`
    later; `even` and `poisson`: `per_second`; `diurnal`: Poisson whose rate swings around
    `per_second` by this part, once in `period_ms`.
    """

    process: Process = "burst"
    per_second: float = 0.0
    size: int = 0
    every_ms: int = 0
    swing: float = 0.0
    period_ms: int = 0


@dataclass(frozen=True)
class Template:
    """What all pods of a template have in common, read and as it was written. `is_numbered`: the
    numbers of pods stand in their specs, so no two are alike.
    """

    name: str
    spec: PodSpec
    labels: tuple[tuple[str, str], ...]
    is_gated: bool
    is_numbered: bool
    written: Mapping[str, Any]


@dataclass(frozen=True)
class CreateNodes:
    """Equal nodes PREFIX-0 and on, in the zones in turn. `made` has a name that is replaced. Each
    fails `runs_for_ms` after it came (0: never).
    """

    prefix: str
    count: int
    made: Node
    zones: tuple[str, ...]
    arrivals: Arrivals
    runs_for_ms: int = 0


@dataclass(frozen=True)
class DeleteNodes:
    """Nodes fail: this many of those with the prefix, picked by chance."""

    prefix: str
    count: int
    arrivals: Arrivals


@dataclass(frozen=True)
class CreatePods:
    """Pods of templates by weight. `gang_size` > 0: `count` is that of gangs, and a gang comes as
    one, on nodes with one value of the label `topology_key`. `is_distinct`: each requests another
    amount of memory. `is_measured`: they are the figures. `stays`: barriers do not wait for them.
    They are deleted `runs_for_ms` after their bind (0: never). `replaces`: as many of the
    namespace's older pods are deleted as come.
    """

    count: int
    mix: tuple[tuple[Template, int], ...]
    namespace: str
    arrivals: Arrivals
    is_measured: bool = True
    stays: bool = False
    is_distinct: bool = False
    runs_for_ms: int = 0
    replaces: bool = False
    gang_size: int = 0
    min_count: int = 0
    timeout_ms: int = 0
    topology_key: str = ""

    @property
    def pods(self) -> int:
        """Return the number of pods."""
        return self.count * (self.gang_size or 1)


@dataclass(frozen=True)
class DeletePods:
    """This many pods of a namespace (0 = all so far), the oldest first."""

    namespace: str
    count: int
    arrivals: Arrivals


@dataclass(frozen=True)
class CreateObjects:
    """Objects that exist from the start: namespaces, Services, volumes and claims."""

    objects: tuple[ClusterObject, ...]
    written: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Barrier:
    """Wait until every pod so far is bound or gone."""


@dataclass(frozen=True)
class Sleep:
    """The next steps begin this much later."""

    duration_ms: int


Step = CreateNodes | DeleteNodes | CreatePods | DeletePods | CreateObjects | Barrier | Sleep


@dataclass(frozen=True)
class Workload:
    """Steps in turn; the same seed gives the same flood."""

    name: str
    seed: int
    steps: tuple[Step, ...]
