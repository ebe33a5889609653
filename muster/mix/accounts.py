"""What became of the jobs of each class, counted while the mix is played."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["training", "batch", "inference"]
HOUR_MS = 3_600_000


@dataclass
class SizeAccount:
    """Jobs of one size. Times in ms: a gang, a pod of an array and a replica wait for a node since
    they came; a job is complete when its last pod has ended.
    """

    came: int = 0
    ended: int = 0
    waits_ms: list[float] = field(default_factory=list)
    completions_ms: list[float] = field(default_factory=list)


@dataclass
class SpreadAccount:
    """Over how many domains of one label jobs spread, and which share their fullest one has, summed
    over the looks.
    """

    looks: int = 0
    domains: int = 0
    fullest: float = 0.0

    def look(self, domains: Iterable[str]) -> None:
        """Count the domains of a job's running pods."""
        pods = Counter(domains)
        if pods:
            self.looks += 1
            self.domains += len(pods)
            self.fullest += max(pods.values()) / pods.total()


@dataclass
class Account:
    """One class. `waiting`: pods without a node now. `lost`: what its lost pods had used for
    nothing, amounts times ms.
    """

    name: str
    kind: Kind
    levels: Sequence[Mapping[str, str]]
    """For each label of domains, the domain of each node that has one."""
    sizes: dict[int, SizeAccount] = field(default_factory=dict)
    spreads: list[SpreadAccount] = field(init=False)
    waiting: int = 0
    restarts: int = 0
    evicted: int = 0
    failed: int = 0
    lost: list[int] = field(default_factory=lambda: [0, 0, 0])

    def __post_init__(self) -> None:
        """Begin with nothing seen."""
        self.spreads = [SpreadAccount() for _ in self.levels]

    def of(self, size: int) -> SizeAccount:
        """Return the account of a size."""
        return self.sizes.setdefault(size, SizeAccount())

    def look(self, nodes: Sequence[str]) -> None:
        """Count over how many domains a job on these nodes spreads."""
        for spread, domain_of in zip(self.spreads, self.levels, strict=True):
            spread.look(domain_of[node] for node in nodes if node in domain_of)

    def lose(self, amounts: Sequence[int], ran_ms: float) -> None:
        """Count work that must be done anew."""
        for place, amount in enumerate(amounts):
            self.lost[place] += amount * max(0, int(ran_ms))
