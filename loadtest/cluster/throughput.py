"""Throughput in pods/s on a real API server: from a backlog, and while pods are created."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from types import MappingProxyType
from typing import Any

from loadtest.cluster.contestants import BARE, BARE_WIDTHS, Binder, Contestant
from loadtest.cluster.load import NO_SCHEDULER, Load, pod_names
from loadtest.cluster.measure import (
    LIMIT_S,
    Bill,
    Figures,
    Sizes,
    bill,
    end,
    figure,
    of_each,
    on_fresh_cluster,
    ready,
    used,
)
from shared.kubernetes.objects.structs import Meta
from tests.support.kube_server import KubeServers

SETTLE_S = 2.0
"""Events and conditions follow the binds; they are counted too."""
OF_LOAD = "POST pods"
API_WRITES, PER_POD = "API writes", "per pod"
TIMES, OF_BARE = "times kube-scheduler", "of the bare limit"
SHARE = "of min(3 x kube-scheduler, 0.7 x bare)"


def backlog(sizes: Sizes) -> Figures:
    """Measure with all pods created before the scheduler starts, from the first to the
    last bind.
    """
    return beside_bare(sizes, bare_backlog, of_each(sizes, from_backlog))


def creating(sizes: Sizes) -> Figures:
    """Measure from the first created pod to the last bind, created as fast as the server takes."""
    return beside_bare(sizes, _bare_creating, of_each(sizes, _creating))


def beside_bare(sizes: Sizes, bare: Any, figures: Figures) -> Figures:
    """Return the bare limit's figures, those of the schedulers, and Muster's ratios."""
    if sizes.has(BARE):
        figures = (
            on_fresh_cluster(sizes, lambda servers, load: bare(servers, load, sizes)) + figures
        )
    rates = {one["who"]: one["value"] for one in figures if one["what"] == "bound"}
    return figures + (
        _ratios(rates, any(one["void"] for one in figures)) if len(rates) == 3 else []
    )


def _ratios(rates: dict[str, float], void: bool) -> Figures:
    """Return Muster's ratios to the others of the same run."""
    own, theirs, bare = rates["muster"], rates["kube-scheduler"], rates[BARE]
    target = min(3 * theirs, 0.7 * bare)
    return [
        figure("muster", TIMES, own / theirs if theirs else 0.0, "", void),
        figure("muster", OF_BARE, own / bare, "", void),
        figure("muster", SHARE, own / target if target else 0.0, "", void),
    ]


# ---------------------------------------------------------------------------------- schedulers


async def from_backlog(
    servers: KubeServers,
    load: Load,
    one: Contestant,
    sizes: Sizes,
    rules: Mapping[str, Any] = MappingProxyType({}),
) -> Figures:
    """Return one scheduler's figures; `rules` are more fields of the pods' spec."""
    names = pod_names(sizes.pods)
    await load.create_pods(names, one.scheduler, rules=rules)
    return await bind_all(servers, load, one, names)


async def bind_all(
    servers: KubeServers,
    load: Load,
    one: Contestant,
    names: Sequence[str],
    limit_s: float = LIMIT_S,
) -> Figures:
    """Return one scheduler's figures of these pods, which wait for it. A pod that waits longer than
    the limit makes them void.
    """
    writes = await load.writes()
    async with aclosing(load.bound()) as bound:
        await anext(bound)
        process = await asyncio.to_thread(one.start, servers)
        is_whole = await _first(bound)
    first = bill(servers, process)
    is_whole = is_whole and await load.until_bound(names[-1], limit_s)
    last = bill(servers, process)
    took_s = last.time_s - first.time_s if is_whole else 0.0
    figures = await _figures(load, one.name, (first, last), writes, len(names))
    await end(servers, process, is_whole)
    return [_bound(one.name, len(names), took_s), *figures]


async def _first(bound: Any) -> bool:
    """Wait until the first pod is bound; return False when none is."""
    try:
        await asyncio.wait_for(anext(bound), LIMIT_S)
    except TimeoutError:
        return False
    return True


async def _creating(servers: KubeServers, load: Load, one: Contestant, sizes: Sizes) -> Figures:
    process = await ready(servers, load, one)
    names = pod_names(sizes.pods)
    writes, first = await load.writes(), bill(servers, process)
    await load.create_pods(names, one.scheduler)
    is_whole = await load.until_bound(names[-1], LIMIT_S)
    last = bill(servers, process)
    took_s = last.time_s - first.time_s if is_whole else 0.0
    figures = await _figures(load, one.name, (first, last), writes, sizes.pods)
    await end(servers, process, is_whole)
    return [_bound(one.name, sizes.pods, took_s), *figures]


async def _figures(
    load: Load, who: str, bills: tuple[Bill, Bill], before: Counter[str], pods: int
) -> Figures:
    """Return the resources used between two bills, and the number of writes."""
    await asyncio.sleep(SETTLE_S)
    writes = await load.writes() - before
    events = sum(count for what, count in writes.items() if what.endswith(" events"))
    return [
        *used(who, *bills, pods),
        figure(who, API_WRITES, written(writes) / pods, PER_POD),
        figure(who, "events among them", events / pods, PER_POD),
    ]


def written(writes: Counter[str]) -> int:
    """Return the number of writes that are not the load's."""
    return writes.total() - writes[OF_LOAD]


def _bound(who: str, pods: int, took_s: float) -> dict[str, Any]:
    """Return the figure of bound pods; `took_s` 0 = not all were bound."""
    return figure(who, "bound", pods / took_s if took_s else 0.0, "pods/s", not took_s)


# ---------------------------------------------------------------------------------- bare limit


async def bare_backlog(servers: KubeServers, load: Load, sizes: Sizes) -> Figures:
    """Return the figures of the best width."""
    tries = []
    for width in BARE_WIDTHS:
        pods: list[Meta] = []
        await load.create_pods(pod_names(sizes.pods, f"bare-{width}"), NO_SCHEDULER, 0, pods.append)
        before, first = await load.writes(), bill(servers, None)
        await Binder(load, sizes.nodes, width).bind(pods)
        last = bill(servers, None)
        tries.append((first, last, written(await load.writes() - before)))
    return bare_figures(tries, sizes.pods)


async def _bare_creating(servers: KubeServers, load: Load, sizes: Sizes) -> Figures:
    tries = []
    for width in BARE_WIDTHS:
        names = pod_names(sizes.pods, f"bare-{width}")
        coming: asyncio.Queue[Meta] = asyncio.Queue()
        binder = Binder(load, sizes.nodes, width)
        before, first = await load.writes(), bill(servers, None)
        async with asyncio.TaskGroup() as group:
            group.create_task(load.create_pods(names, NO_SCHEDULER, 0, coming.put_nowait))
            group.create_task(binder.bind_coming(coming, len(names)))
        last = bill(servers, None)
        tries.append((first, last, written(await load.writes() - before)))
    return bare_figures(tries, sizes.pods)


def bare_figures(tries: list[tuple[Bill, Bill, int]], pods: int) -> Figures:
    """Return the best width's figures and its writes; the CPU is that of the bench itself."""
    rates = [pods / (last.time_s - first.time_s) for first, last, _ in tries]
    each = [
        figure(BARE, f"{width} at once", rate, "pods/s")
        for width, rate in zip(BARE_WIDTHS, rates, strict=True)
    ]
    first, last, written = tries[rates.index(max(rates))]
    return [
        *each,
        _bound(BARE, pods, pods / max(rates)),
        *used(BARE, first, last, pods),
        figure(BARE, API_WRITES, written / pods, PER_POD),
    ]
