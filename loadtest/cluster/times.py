"""Times on a real API server: a start, and a bind at a steady rate."""

import asyncio
import time
from contextlib import aclosing

from loadtest.cluster.contestants import Contestant
from loadtest.cluster.load import Load, pod_names
from loadtest.cluster.measure import (
    LIMIT_S,
    Figures,
    Sizes,
    bill,
    end,
    figure,
    of_each,
    ready,
    used,
)
from tests.support.kube_server import KubeServers

RATE_PER_S = 200.0
LAST_S = 2.0
"""The maximal delay of the watch behind what the API server says already."""


def startup(sizes: Sizes) -> Figures:
    """Measure from the start of the process to the first bind, with many pods bound already."""
    return of_each(sizes, _startup)


async def _startup(servers: KubeServers, load: Load, one: Contestant, sizes: Sizes) -> Figures:
    await load.create_pods(pod_names(sizes.bound, "bound"), one.scheduler, nodes=sizes.nodes)
    await load.create_pods(["first"], one.scheduler)
    began_s = time.monotonic()
    # A waiting loop would add the time it sleeps.
    starting = asyncio.create_task(asyncio.to_thread(one.start, servers))
    is_whole = await load.until_bound("first", LIMIT_S)
    took_s = time.monotonic() - began_s
    process = await starting
    await end(servers, process, is_whole)
    return [figure(one.name, "first bind after", took_s, "s", not is_whole)]


def latency(sizes: Sizes) -> Figures:
    """Measure 200 pods/s, open loop: from the intended create to the watch event with the node."""
    return of_each(sizes, _latency)


async def _latency(servers: KubeServers, load: Load, one: Contestant, sizes: Sizes) -> Figures:
    process = await ready(servers, load, one)
    names = pod_names(round(RATE_PER_S * sizes.seconds))
    seen_s: dict[str, float] = {}
    looking = asyncio.create_task(_look(load, seen_s))
    while not seen_s:  # noqa: ASYNC110 (asked a few times, once)
        await asyncio.sleep(0.01)
    first = bill(servers, process)
    meant_s = await load.create_pods_at(names, one.scheduler, RATE_PER_S)
    is_whole = await load.until_bound(names[-1], LIMIT_S)
    last = bill(servers, process)
    await asyncio.sleep(LAST_S)
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
    await end(servers, process, is_whole)
    took_ms = sorted(1000 * (seen_s[name] - meant_s[name]) for name in names if name in seen_s)
    void = len(took_ms) < len(names)
    at = {p: took_ms[int(p * (len(took_ms) - 1))] for p in (0.5, 0.99)} if took_ms else {}
    return [
        figure(one.name, "p50", at.get(0.5, 0.0), "ms", void),
        figure(one.name, "p99", at.get(0.99, 0.0), "ms", void),
        *used(one.name, first, last, len(names)),
    ]


async def _look(load: Load, seen_s: dict[str, float]) -> None:
    """Record when pods were first seen with a node, and under an empty name when the
    watch began.
    """
    loop = asyncio.get_running_loop()
    while True:
        # A loaded server ends watches early; the next one begins with every pod that has a node.
        async with aclosing(load.bound()) as bound:
            async for name in bound:
                seen_s.setdefault(name, loop.time())
