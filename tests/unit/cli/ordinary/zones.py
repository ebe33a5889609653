"""Scores zones by tier: columns, arguments, constants of the file."""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from muster.plugin import HIGHER, Nodes, Plugin, Pod

ALLOWED = {"gold": {"a", "b"}, "silver": {"c"}}
ORDER = {tier: at for at, tier in enumerate(("gold", "silver", "bronze"))}


@dataclass(frozen=True)
class Settings:
    zones: dict[str, list[str]] = field(default_factory=dict)
    default: str = "bronze"
    banned: frozenset[str] = frozenset()

    def __post_init__(self):
        unknown = set(self.zones) - set(ORDER)
        if unknown:
            raise ValueError(f"unknown tiers: {', '.join(sorted(unknown))}")

    def of(self, tier: str | None) -> list[str]:
        return self.zones.get(tier or self.default, [])


class Zones(Plugin):
    args: Settings
    reads = ("labels.tier", "namespace", "requests.cpu", "nodeSelector")
    normalize = HIGHER

    def __init__(self):
        self._weights = {
            zone: len(self.args.zones) - at for at, zone in enumerate(sorted(self.args.zones))
        }
        self.all = sorted({zone for zones in self.args.zones.values() for zone in zones})

    def pre_filter(self, pod: Pod):
        tier = pod["labels.tier"]
        if tier in self.args.banned:
            return f"tier {tier!r} is banned"
        wanted = ALLOWED.get(tier, set())
        if pod["nodeSelector"].keys() & {"zone", "rack"} and not wanted:
            return f"nobody has {sorted(wanted)}"
        return None

    def filter(self, pod: Pod, nodes: Nodes):
        zones = self.args.of(pod["labels.tier"])
        ok = nodes.labelled("zone", *zones)
        ok |= nodes.labelled("any")
        return ok & ~nodes.tainted("drain")

    def score(self, pod: Pod, nodes: Nodes):
        total = np.zeros(len(nodes), np.int64)
        for zone, weight in self._weights.items():
            total += weight * nodes.labelled("zone", zone)
        size = nodes.number("size", default=1)
        total[size > 3] += 5
        total = np.clip(total, 0, 100)
        by = defaultdict(list)
        for at, node in enumerate(nodes.each()):
            by[node.labels.get("zone", "")].append(at)
        for _zone, rows in sorted(by.items()):
            total[rows] -= len(rows) // 10
        return total
