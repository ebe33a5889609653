"""A mix as values: nodes, classes of workloads, and failures. Nothing is drawn or played here."""

import random
from dataclasses import dataclass
from math import log
from typing import Literal

from muster.flood.workload import Arrivals, Template
from shared.kubernetes.objects.labels import ZONE_LABEL
from shared.model.objects import Node
from shared.model.world import World

Shape = Literal["constant", "exponential", "lognormal", "uniform"]


@dataclass(frozen=True)
class Durations:
    """A distribution of times. `constant` and `exponential` have a mean, `lognormal` also a sigma
    (of the logarithm), `uniform` lies within `least_ms`..`most_ms`.
    """

    shape: Shape
    mean_ms: int = 0
    sigma: float = 0.0
    least_ms: int = 0
    most_ms: int = 0

    def draw(self, chance: random.Random) -> int:
        """Return one time, at least 1 ms."""
        if self.shape == "exponential":
            drawn = chance.expovariate(1 / self.mean_ms)
        elif self.shape == "lognormal":
            drawn = chance.lognormvariate(log(self.mean_ms) - self.sigma**2 / 2, self.sigma)
        elif self.shape == "uniform":
            drawn = chance.uniform(self.least_ms, self.most_ms)
        else:
            drawn = self.mean_ms
        return max(1, round(drawn))


@dataclass(frozen=True)
class Nodes:
    """Equal nodes PREFIX-0 and on. `domains`: for each label, the broadest first, how many nodes
    have one value.
    """

    prefix: str
    count: int
    made: Node
    domains: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Jobs:
    """Jobs that come by chance, each with a size drawn by weight. `is_gang` (training): the pods
    start together, in one domain of `topology_key`, end together, and all start anew when one is
    lost. Else (batch) each pod has a duration of its own, and a lost one alone is made anew.
    """

    name: str
    template: Template
    arrivals: Arrivals
    sizes: tuple[tuple[int, int], ...]
    durations: Durations
    is_gang: bool
    topology_key: str = ""


@dataclass(frozen=True)
class Inference:
    """Deployments of equal pods; each has `replicas[h]` of them in hour h, and from the start
    when the hours are over.
    """

    name: str
    template: Template
    count: int
    replicas: tuple[int, ...]


@dataclass(frozen=True)
class Failures:
    """Each node, or each domain of a label, fails at random this long on average after it was
    there, and is back after a repair.
    """

    domain: str
    mean_ms: int
    repairs: Durations


@dataclass(frozen=True)
class Trace:
    """The pods of a world that come and end by its times, each of them a job."""

    name: str
    world: World


@dataclass(frozen=True)
class Mix:
    """What runs on which nodes, for how long. The same seed gives the same mix."""

    name: str
    seed: int
    horizon_ms: int
    nodes: tuple[Nodes, ...]
    jobs: tuple[Jobs, ...]
    inference: tuple[Inference, ...] = ()
    failures: tuple[Failures, ...] = ()
    traces: tuple[Trace, ...] = ()

    @property
    def classes(self) -> tuple[Jobs | Inference | Trace, ...]:
        """Return all classes of workloads."""
        return (*self.jobs, *self.traces, *self.inference)

    @property
    def levels(self) -> tuple[str, ...]:
        """Return the labels of all domains, in order."""
        zones = (ZONE_LABEL,) if self.traces else ()
        domains = (key for group in self.nodes for key, _ in group.domains)
        return tuple(dict.fromkeys((*domains, *zones)))
