"""The lists of `muster get` that are read from a run: pods, gangs, queues and nodes."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from muster.cli.commands.get import Asked
from muster.cli.commands.runs import is_live_now
from muster.cli.recorded_run import Recorded, recorded
from muster.cli.table import Listing
from muster.cli.terminal import duration
from muster.explain.lists import (
    GangRow,
    NodeRow,
    PodRow,
    QueueRow,
    list_gangs,
    list_nodes,
    list_pods,
    list_queues,
)
from muster.explain.why.nodes import quantity
from shared.model.objects import CPU, GPU, MEMORY


def read(asked: Asked, run: Path, is_wide: bool) -> Listing:
    """Return the list that was asked for. Raises UsageFault, Fault, BusCorrupt, BusUnavailable."""
    return asyncio.run(_read(asked, run, is_wide))


async def _read(asked: Asked, run: Path, is_wide: bool) -> Listing:
    is_now = bool(asked.bus) or is_live_now(run)
    async with recorded(run, asked.bus, asked.placements) as found:
        now = datetime.now(UTC) if is_now else None
        return await listing(found, asked, is_wide, now)


async def listing(
    run: Recorded, asked: Asked, is_wide: bool, now: datetime | None = None
) -> Listing:
    """Return the list with the cells of its lines; ages count up to `now`, or to the newest record.
    Raises the errors of reading journals.
    """
    if asked.kind == "pods":
        pods, newest = await list_pods(run, asked.namespace)
        shown = [one for one in pods if not (asked.waiting and one.node)]
        cells = [_pod_cells(one, now or newest, asked.waiting, is_wide) for one in shown]
        names = [f"pod/{one.namespace}/{one.name}" for one in shown]
        return Listing(PodRow, shown, cells, names)
    if asked.kind == "gangs":
        gangs, newest = await list_gangs(run, asked.namespace)
        kept = [one for one in gangs if not (asked.waiting and one.state == "committed")]
        cells = [_gang_cells(one, now or newest, is_wide) for one in kept]
        return Listing(GangRow, kept, cells, [f"gang/{one.gang}" for one in kept])
    if asked.kind == "queues":
        queues, newest = await list_queues(run)
        has_guarantees = any(one.guaranteed for one in queues)
        cells = [_queue_cells(one, now or newest, is_wide, has_guarantees) for one in queues]
        return Listing(QueueRow, queues, cells, [f"queue/{one.queue}" for one in queues])
    nodes = await list_nodes(run)
    cells = [_node_cells(one, is_wide) for one in nodes]
    return Listing(NodeRow, nodes, cells, [f"node/{one.node}" for one in nodes])


def _pod_cells(one: PodRow, now: datetime, waiting: bool, is_wide: bool) -> dict[str, str]:
    age = _since(one.seen_time, now)
    cells = {"NAMESPACE": one.namespace, "NAME": one.name, "STATE": one.state}
    cells |= {"WAIT": age} if waiting else {"NODE": one.node, "AGE": age}
    if is_wide:
        cells |= {"GANG": one.gang, "NOMINATED NODE": one.nominated_node}
    return cells | ({"REASON": one.message} if waiting or is_wide else {})


def _gang_cells(one: GangRow, now: datetime, is_wide: bool) -> dict[str, str]:
    cells = {
        "GANG": one.gang,
        "STATE": one.state,
        "MEMBERS": f"{one.members:,}",
        "PLACED": f"{one.placed:,}/{one.min_count:,}",
        "WAIT": _since(one.wait_start_time, now),
        "REASON": one.message,
    }
    return cells | ({"NEXT": one.next} if is_wide else {})


def _queue_cells(
    one: QueueRow, now: datetime, is_wide: bool, has_guarantees: bool
) -> dict[str, str]:
    names = sorted(one.max | one.guaranteed | (one.used if is_wide else {}))
    used = (f"{name} {one.used.get(name, '0')}/{one.max.get(name, '-')}" for name in names)
    cells = {"QUEUE": "  " * one.depth + one.queue, "USED": ", ".join(used)}
    if has_guarantees:
        cells |= {"GUARANTEED": _listed(one.guaranteed), "BORROWED": _listed(one.borrowed)}
    return cells | {"WAITING": f"{one.waiting:,}", "WAIT": _since(one.wait_start_time, now)}


def _listed(amounts: dict[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items())


def _node_cells(one: NodeRow, is_wide: bool) -> dict[str, str]:
    amounts = {
        CPU: (one.cpu_milli, one.cpu_milli_allocatable),
        MEMORY: (one.memory_bytes, one.memory_bytes_allocatable),
        GPU: (one.gpu_milli, one.gpu_milli_allocatable),
    }
    cpu, memory, gpu = (
        "/".join(quantity(name, amount) for amount in pair) if pair[1] else ""
        for name, pair in amounts.items()
    )
    cells = {"NODE": one.node, "STATE": one.state, "PODS": f"{one.pods:,}"}
    cells |= {"CPU": cpu, "MEMORY": memory, "GPU": gpu}
    if is_wide:
        cells["SHARD"] = str(one.shard)
    return cells | {"TAINTS": ", ".join(one.taints)}


def _since(time: datetime | None, now: datetime) -> str:
    return "" if time is None else duration(max(0.0, (now - time).total_seconds()))
