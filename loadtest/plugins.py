"""`make bench-plugins`: what a user's plugin adds to a cycle, by columns and node by node.

Every pod has another signature, so nothing is cached: the most expensive case. Three rules are
written both ways; each figure is the minimum of several rounds, in turn, all in one process. The
exit code is 1 where a plugin that goes node by node adds more than 10 times what columns add.
"""

import sys
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from shared.model.ids import NodeId, SignatureId
from shared.model.objects import Node, PodSpec
from shared.model.profile import DEFAULT_FILTERS, DEFAULT_SCORES, CustomPlugin, Profile
from shared.scheduling.api.custom.plugin import HIGHER, Nodes, Plugin, Pod
from shared.scheduling.api.custom.plugin import Node as ShownNode
from shared.scheduling.cycle.kernel import Kernel
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.profile import Plugins
from shared.scheduling.table.table import NodeTable
from tests.support.custom_plugins import SHA256, known

NODES, PODS, ROUNDS = 1_000, 200, 9
MEMORY = 1 << 34
LIMIT = 10.0


class Filters(Plugin):
    """Rejects the nodes of a zone."""

    reads = ("requests.cpu",)

    def filter(self, pod: Pod, nodes: Nodes) -> Any:
        return ~nodes.labelled("zone", "x")


class FiltersEach(Plugin):
    """The same, node by node."""

    reads = ("requests.cpu",)

    def filter_node(self, pod: Pod, node: ShownNode) -> Any:
        return node.labels.get("zone") != "x"


class Scores(Plugin):
    """Scores by a number in a label."""

    reads = ("requests.cpu",)
    normalize = HIGHER

    def score(self, pod: Pod, nodes: Nodes) -> Any:
        return nodes.number("size")


class ScoresEach(Plugin):
    """The same, node by node."""

    reads = ("requests.cpu",)
    normalize = HIGHER

    def score_node(self, pod: Pod, node: ShownNode) -> Any:
        return int(node.labels.get("size", "0"))


class CheapScores(Plugin):
    """Scores with one of two numbers."""

    reads = ("requests.cpu",)
    normalize = HIGHER

    def score(self, pod: Pod, nodes: Nodes) -> Any:
        return np.where(nodes.labelled("zone", "x"), 1, 2)


class CheapScoresEach(Plugin):
    """The same, node by node."""

    reads = ("requests.cpu",)
    normalize = HIGHER

    def score_node(self, pod: Pod, node: ShownNode) -> Any:
        return 1 if node.labels.get("zone") == "x" else 2


PAIRS = ((Filters, FiltersEach), (Scores, ScoresEach), (CheapScores, CheapScoresEach))


def table_of(plugins: Plugins) -> NodeTable:
    """Return nodes of three zones and several sizes."""
    table = NodeTable(1)
    table.score_resources(plugins.scored)
    nodes = [
        Node(
            uid=f"u{number}",
            name=f"n{number}",
            allocatable=(("cpu", 32_000), ("memory", MEMORY), ("pods", 110)),
            labels={"zone": "xyz"[number % 3], "size": str(number % 17)},
        )
        for number in range(NODES)
    ]
    table.set_nodes(map(NodeId, range(1, NODES + 1)), nodes)
    return table


def microseconds(plugins: Plugins) -> float:
    """Return the microseconds of one cycle in one round."""
    table, kernel = table_of(plugins), Kernel()
    sigs = [
        Signature(table, SignatureId(number), PodSpec(requests=(("cpu", number),)), plugins)
        for number in range(1, PODS + 1)
    ]
    began = time.perf_counter()
    for sig in sigs:
        kernel.place_one(table, sig)
    return (time.perf_counter() - began) / PODS * 1e6


def measured() -> dict[str, float]:
    """Return the microseconds of a cycle without a plugin (empty name) and with each."""
    kinds = [kind for pair in PAIRS for kind in pair]
    profiles = {"": Profile(), **{kind.__name__: _profile(kind) for kind in kinds}}
    best = dict.fromkeys(profiles, float("inf"))
    for _ in range(ROUNDS):
        for name, profile in profiles.items():
            best[name] = min(best[name], microseconds(Plugins(profile)))
    return best


def _profile(kind: type[Plugin]) -> Profile:
    name, points = kind.__name__, kind.points()
    return Profile(
        filters=(*DEFAULT_FILTERS, *([name] if "filter" in points else ())),
        scores=(*DEFAULT_SCORES, *([(name, 1)] if "score" in points else ())),
        custom=(CustomPlugin(name, SHA256),),
    )


def main() -> int:
    """Print the table, and which plugins keep to the limit; return the exit code."""
    best = measured()
    bare = best[""]
    table = Table("plugin", "us a cycle", "added, ns a node", "x columns")
    table.add_row("none", f"{bare:.0f}", "", "")
    told, slow = [], 0
    for pair in PAIRS:
        took = [best[kind.__name__] for kind in pair]
        added = [one - bare for one in took]
        ratio = added[1] / max(added[0], 0.001)  # a negative value is noise
        for kind, us, more, shown in zip(pair, took, added, ("", f"{ratio:.1f}"), strict=True):
            table.add_row(kind.__name__, f"{us:.0f}", f"{1000 * more / NODES:.0f}", shown)
        slow += ratio > LIMIT
        verdict = "over the limit" if ratio > LIMIT else "within the limit"
        told.append(f"{pair[1].__name__}: {ratio:.1f} x columns, at most {LIMIT:.0f} x: {verdict}")
    Console().print(table)
    print("\n".join(told))
    return int(slow > 0)


if __name__ == "__main__":
    with known(*(kind for pair in PAIRS for kind in pair)):
        sys.exit(main())
