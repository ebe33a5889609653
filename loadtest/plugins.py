"""`python -m loadtest.plugins`: what a user's plugin adds to a cycle, by columns and node by node.

Every pod is another signature, so that nothing is remembered: the dearest case. Prints microseconds
a pod and what the plugin adds, in ns a node; least of several rounds, all in one process.
"""

import time

from rich.console import Console
from rich.table import Table

from shared.framework.custom import Plugin
from shared.framework.kernel import Kernel
from shared.framework.profile import Plugins
from shared.framework.signature import Signature
from shared.framework.table import NodeTable
from shared.model.objects import Node, PodSpec
from shared.model.profile import DEFAULT_FILTERS, DEFAULT_SCORES, CustomPlugin, Profile
from shared.testing.custom_plugins import SHA256, ByZone, ByZoneEach, known

NODES, PODS, ROUNDS = 1_000, 200, 5
MEMORY = 1 << 34


def table_of(plugins: Plugins) -> NodeTable:
    """Nodes of three zones and some sizes."""
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
    table.set_nodes(range(1, NODES + 1), nodes)
    return table


def microseconds(plugins: Plugins) -> float:
    """Of one cycle: the least of the rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        table, kernel = table_of(plugins), Kernel()
        sigs = [
            Signature(table, number, PodSpec(requests=(("cpu", number),)), plugins)
            for number in range(1, PODS + 1)
        ]
        began = time.perf_counter()
        for sig in sigs:
            kernel.place_one(table, sig)
        best = min(best, (time.perf_counter() - began) / PODS * 1e6)
    return best


def main() -> None:
    """Print the table."""
    bare = microseconds(Plugins(Profile()))
    table = Table("plugin", "us a pod", "added, ns a node", "x the cycle without")
    table.add_row("none", f"{bare:.0f}", "", "1.0")
    for kind in (ByZone, ByZoneEach):
        found = microseconds(Plugins(_profile(kind)))
        added = 1000 * (found - bare) / NODES
        table.add_row(kind.__name__, f"{found:.0f}", f"{added:.0f}", f"{found / bare:.1f}")
    Console().print(table)


def _profile(kind: type[Plugin]) -> Profile:
    name = kind.__name__
    return Profile(
        filters=(*DEFAULT_FILTERS, name),
        scores=(*DEFAULT_SCORES, (name, 1)),
        custom=(CustomPlugin(name, SHA256),),
    )


if __name__ == "__main__":
    with known(ByZone, ByZoneEach):
        main()
