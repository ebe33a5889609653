"""Seven shapes of pods on a real API server, from a backlog: Muster beside kube-scheduler and the
bare limit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from loadtest.cluster.claims import OF_POD, create_claims
from loadtest.cluster.contestants import BARE, Contestant
from loadtest.cluster.load import LABELS, ZONE, Load, plain_node, pod_names
from loadtest.cluster.measure import Figures, Sizes, figure, of_each, on_fresh_cluster
from loadtest.cluster.throughput import bare_backlog, from_backlog
from tests.support.kube_server import KubeServers

PODS_MAX = 2_000
"""kube-scheduler binds some 50 pods/s of the slowest shape."""
ZONES = ("moon-1", "moon-2", "moon-3")
HOSTNAME = "kubernetes.io/hostname"
SELECTOR = {"matchLabels": LABELS}
OF_BARE, TIMES_CLAIMED = 0.6, 5.0


@dataclass(frozen=True)
class Shape:
    """Pods with `rules` in their spec; `served` = a Service selects them, `claimed` = each has a
    claim of its name.
    """

    name: str
    rules: Mapping[str, Any] = field(default_factory=dict)
    served: bool = False
    claimed: bool = False

    @property
    def share(self) -> str:
        """Return the name of Muster's share of the bare limit."""
        return f"{self.name}: of {OF_BARE:g} x bare"

    @property
    def times(self) -> str:
        """Return the name of Muster's factor over kube-scheduler."""
        return f"{self.name}: times kube-scheduler"

    @property
    def judged(self) -> str:
        """Return the name of the figure with a target."""
        return self.times if self.claimed else self.share

    @property
    def least(self) -> float:
        """Return the target."""
        return TIMES_CLAIMED if self.claimed else 1.0


def _term(key: str) -> dict[str, Any]:
    return {"labelSelector": SELECTOR, "topologyKey": key}


def _affinity(kind: str, terms: list[Any], when: str = "required") -> dict[str, Any]:
    return {"affinity": {kind: {f"{when}DuringSchedulingIgnoredDuringExecution": terms}}}


_SPREAD = {
    "maxSkew": 5,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": SELECTOR,
}
SHAPES = (
    Shape("basic"),
    Shape("anti-affinity by host", _affinity("podAntiAffinity", [_term(HOSTNAME)])),
    Shape("affinity by zone", _affinity("podAffinity", [_term(ZONE)])),
    Shape(
        "preferred affinity",
        _affinity("podAffinity", [{"weight": 1, "podAffinityTerm": _term(HOSTNAME)}], "preferred"),
    ),
    Shape("zone spread", {"topologySpreadConstraints": [_SPREAD]}),
    Shape("default spreading", served=True),
    Shape("csi volumes", {"volumes": OF_POD}, claimed=True),
)


def shapes(sizes: Sizes) -> Figures:
    """Measure the bare limit once, then each shape for each scheduler on its own cluster."""
    sizes = replace(sizes, pods=min(sizes.pods, PODS_MAX), node=partial(plain_node, zones=ZONES))
    figures: Figures = []
    if sizes.has(BARE):
        figures += on_fresh_cluster(sizes, lambda servers, load: bare_backlog(servers, load, sizes))
    limit = next((one["value"] for one in figures if one["what"] == "bound"), 0.0)
    for shape in SHAPES:
        if sizes.shapes and shape.name not in sizes.shapes:
            continue
        found = _of(shape, sizes)
        figures += found + _ratios(shape, found, limit)
    return figures


def _of(shape: Shape, sizes: Sizes) -> Figures:
    async def measure(servers: KubeServers, load: Load, one: Contestant, sizes: Sizes) -> Figures:
        if shape.served:
            await load.create_service()
        if shape.claimed:
            await create_claims(load, pod_names(sizes.pods), sizes.nodes)
        return await from_backlog(servers, load, one, sizes, shape.rules)

    found = of_each(sizes, measure)
    return [{**one, "what": f"{shape.name}: {one['what']}"} for one in found]


def _ratios(shape: Shape, found: Figures, limit: float) -> Figures:
    """Return Muster's ratios to the others of the same run."""
    rates = {one["who"]: one["value"] for one in found if one["what"].endswith(": bound")}
    void = any(one["void"] for one in found)
    own, theirs = rates.get("muster", 0.0), rates.get("kube-scheduler", 0.0)
    figures = []
    if own and theirs:
        figures.append(figure("muster", shape.times, own / theirs, "", void))
    if own and limit:
        figures.append(figure("muster", shape.share, own / (OF_BARE * limit), "", void))
    return figures
