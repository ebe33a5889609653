"""The cost of pods that fit nowhere, each of its own shape, beside the same nodes without pods.
Runs longer than five minutes include the periodic retries.
"""

import asyncio
import json
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from loadtest.cluster.contestants import Contestant
from loadtest.cluster.load import PODS, Load, pod_body, pod_names
from loadtest.cluster.measure import LIMIT_S, Figures, Sizes, end, figure, of_each, ready
from muster.flood.targets.kube import each
from tests.support.kube_server import KubeServers
from tests.support.server_process import ServerProcess

NODES_MAX = 63
TOO_MUCH_MILLI = 1_000_000
LOOK_S = 5.0
SETTLE_MAX_S = 20.0
"""Before each measurement the cluster settles for four times its length, but no longer."""
TOLD = "PATCH pods/status"
CPU, JOURNALS = "CPU while they wait", "journals while they wait"


@dataclass
class Spent:
    """CPU seconds, stored bytes of journals and snapshots, and answered writes within a number of
    seconds.
    """

    cpu_s: float
    journals: int
    snapshots: int
    writes: int
    seconds: float


def waiting(sizes: Sizes) -> Figures:
    """Measure for `seconds` without waiting pods, and again when every pod has its condition."""
    return of_each(replace(sizes, nodes=min(sizes.nodes, NODES_MAX)), _waiting)


async def _waiting(servers: KubeServers, load: Load, one: Contestant, sizes: Sizes) -> Figures:
    settle_s = min(SETTLE_MAX_S, 4 * sizes.seconds)
    process = await ready(servers, load, one)
    await asyncio.sleep(settle_s)
    before = await _spent(servers, load, process, sizes.seconds)
    told = (await load.writes())[TOLD]
    await _create(load, one.scheduler, sizes.pods)
    is_whole = await _until_told(load, told + sizes.pods)
    await asyncio.sleep(settle_s)
    after = await _spent(servers, load, process, sizes.seconds)
    await end(servers, process, is_whole)
    idle, busy = (100 * one.cpu_s / one.seconds for one in (before, after))
    a_minute = 60e-6 / after.seconds
    found = (
        ("CPU while none waits", idle, "%"),
        (CPU, busy, "%"),
        ("writes while they wait", after.writes / after.seconds, "1/s"),
        (JOURNALS, after.journals * a_minute, "MB/min"),
        ("snapshots while they wait", after.snapshots * a_minute, "MB/min"),
    )
    return [figure(one.name, what, value, unit, not is_whole) for what, value, unit in found]


async def _create(load: Load, scheduler: str, pods: int) -> None:
    """Create pods that are larger than any node, no two alike."""
    body = pod_body(scheduler)

    async def create(numbered: tuple[int, str]) -> None:
        number, name = numbered
        pod = json.loads(body.replace(b"NAME", name.encode()))
        (container,) = pod["spec"]["containers"]
        container["resources"]["requests"]["cpu"] = f"{TOO_MUCH_MILLI + number}m"
        await load.create(PODS, json.dumps(pod).encode())

    await each(enumerate(pod_names(pods)), create)


async def _until_told(load: Load, writes: int) -> bool:
    """Wait until this many conditions were written."""
    end_s = time.monotonic() + LIMIT_S
    while (await load.writes())[TOLD] < writes:
        if time.monotonic() > end_s:
            return False
        await asyncio.sleep(1.0)
    return True


async def _spent(servers: KubeServers, load: Load, process: ServerProcess, seconds: float) -> Spent:
    """Return what is spent in the next `seconds`."""
    run = servers.folder / "run"
    known, snapshots = _snapshots(run), dict[str, int]()
    journals, writes = _stored(run), (await load.writes()).total()
    cpu_s, began_s = process.cpu_seconds(), time.monotonic()
    while (left_s := began_s + seconds - time.monotonic()) > 0:
        await asyncio.sleep(min(left_s, LOOK_S))
        snapshots |= _snapshots(run)  # few of them are kept
    took_s, cpu_s = time.monotonic() - began_s, process.cpu_seconds() - cpu_s
    journals, writes = _stored(run) - journals, (await load.writes()).total() - writes
    new = sum(size for name, size in snapshots.items() if name not in known)
    return Spent(cpu_s, journals, new, writes, took_s)


def _stored(run: Path) -> int:
    """Return the stored bytes of all records."""
    path = run / "journals.db"
    if not path.exists():
        return 0
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
        numbers = [number for (number,) in file.execute("SELECT id FROM journals")]
        sizes = (
            file.execute(f"SELECT total(length(payload)) FROM journal_{number}").fetchone()[0]
            for number in numbers
        )
        return int(sum(sizes))


def _snapshots(run: Path) -> dict[str, int]:
    """Return the present snapshots with their sizes."""
    found = {}
    for path in (run / "snapshots").rglob("*.body"):
        try:
            found[str(path)] = path.stat().st_size
        except FileNotFoundError:
            continue
    return found
