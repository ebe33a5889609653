"""Shared parts of the bench on a real cluster: sizes, figures, and resources used."""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadtest.cluster.contestants import CONTESTANTS, OPTIONS, Contestant, log_end
from loadtest.cluster.load import Load, NodeBody, plain_node
from muster.app.event_loop import loop_factory
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import KubeServers
from tests.support.server_process import ServerProcess

LIMIT_S = 300.0
"""A pod that waits longer makes a figure void."""

Figures = list[dict[str, Any]]
Measure = Callable[[KubeServers, Load, Contestant, "Sizes"], Awaitable[Figures]]


@dataclass(frozen=True)
class Sizes:
    """Sizes of a bench. `seconds` is the duration of the steady rate; `only` selects contestants
    and `shapes` shapes of pods, none = all.
    """

    nodes: int
    pods: int
    bound: int
    seconds: float
    only: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    node: NodeBody = plain_node
    options: KubeOptions = OPTIONS

    def has(self, name: str) -> bool:
        """Return whether this contestant is measured."""
        return not self.only or name in self.only


@dataclass
class Bill:
    """Resources used so far: CPU seconds of a scheduler, of etcd with the API server, and of
    everything outside the bench; the machine's clock.
    """

    own_s: float
    servers_s: float
    others_s: float
    time_s: float


def figure(who: str, what: str, value: float, unit: str, void: bool = False) -> dict[str, Any]:
    """Return one figure of one run."""
    return {"who": who, "what": what, "value": round(value, 3), "unit": unit, "void": void}


def on_fresh_cluster(
    sizes: Sizes, measure: Callable[[KubeServers, Load], Awaitable[Figures]]
) -> Figures:
    """Measure on a cluster with nothing but the nodes."""

    async def go(servers: KubeServers) -> Figures:
        async with Load(servers.kubeconfig) as load:
            await load.create_nodes(sizes.nodes, sizes.node)
            return await measure(servers, load)

    with (
        KubeServers(sizes.options) as servers,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        return runner.run(go(servers))


def of_each(
    sizes: Sizes, measure: Measure, contestants: Sequence[Contestant] = CONTESTANTS
) -> Figures:
    """Return the figures of every scheduler, each on its own cluster."""
    figures: Figures = []
    for one in contestants:
        if sizes.has(one.name):
            figures += _of(one, sizes, measure)
    return figures


def _of(one: Contestant, sizes: Sizes, measure: Measure) -> Figures:
    return on_fresh_cluster(sizes, lambda servers, load: measure(servers, load, one, sizes))


def bill(servers: KubeServers, process: ServerProcess | None) -> Bill:
    """Return the resources used so far; without a scheduler the bench itself is measured."""
    own_s = process.cpu_seconds() if process else time.process_time()
    servers_s = servers.etcd.cpu_seconds() + servers.api_server.cpu_seconds()
    # user, nice, system, idle, waiting, interrupts, ...
    ticks = [int(one) for one in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    busy_s = (sum(ticks[:8]) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
    others_s = busy_s - servers_s - time.process_time() - (own_s if process else 0.0)
    return Bill(own_s, servers_s, others_s, time.monotonic())


def used(who: str, first: Bill, last: Bill, pods: int) -> Figures:
    """Return the figures of the resources used between two bills."""
    own_us = 1e6 * (last.own_s - first.own_s) / pods
    servers_us = 1e6 * (last.servers_s - first.servers_s) / pods
    # The kernel samples ticks, so the result can be slightly negative.
    others = max(0.0, (last.others_s - first.others_s) / (last.time_s - first.time_s))
    return [
        figure(who, "CPU of its own", own_us, "us/pod"),
        figure(who, "CPU of etcd and API server", servers_us, "us/pod"),
        figure(who, "CPU that others took meanwhile", others, "cores"),
    ]


async def ready(servers: KubeServers, load: Load, one: Contestant) -> ServerProcess:
    """Return a scheduler that has bound a pod already."""
    await load.create_pods(["first"], one.scheduler)
    process = await asyncio.to_thread(one.start, servers)
    if not await load.until_bound("first", LIMIT_S):
        raise RuntimeError(f"{one.name} binds nothing: {log_end(servers, process)}")
    return process


async def end(servers: KubeServers, process: ServerProcess, is_whole: bool) -> None:
    """End a scheduler; print its last output if it left something undone."""
    await asyncio.to_thread(process.terminate)
    if not is_whole:
        print(f"{process.name} left pods unbound: {log_end(servers, process)}", file=sys.stderr)
