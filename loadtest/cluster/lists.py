"""Two ways to read pending pods at a start: by a paged list, as Muster does, or by a watch-list.

Both decode and gather in the same way, in turn on one server, so that only the requests differ
(docs/adr/0013-lists-are-paged.md).
"""

import time
from collections.abc import Awaitable, Callable
from statistics import median

import msgspec

from loadtest.cluster.load import Load, pod_names
from loadtest.cluster.measure import Figures, Sizes, bill, figure, on_fresh_cluster
from shared.events.observed import PodsSeen
from shared.kubernetes.objects.structs import Change, RawPod
from shared.kubernetes.watching.lists import list_into
from shared.kubernetes.watching.pod_groups import Groups
from shared.kubernetes.watching.pods import Pods
from shared.kubernetes.watching.refused_pods import Refusals
from shared.kubernetes.watching.resources import PODS_PATH, UNFINISHED, PodReader
from shared.model.columns import split
from shared.ports.cluster import PodRead, PodRef
from tests.support.kube_server import KubeServers

SCHEDULER = "muster"
PAIRS = 10
SILENT_S = 60.0
INITIAL = (
    "watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
)

BOOKMARK, INITIAL_END = b'{"type":"BOOKMARK"', b"k8s.io/initial-events-end"

Ask = Callable[[Load, PodReader], Awaitable[None]]

_change = msgspec.json.Decoder(Change[RawPod])


def lists(sizes: Sizes) -> Figures:
    """Return the time until the last pending pod is known, and its cost."""
    return on_fresh_cluster(sizes, lambda servers, load: _lists(servers, load, sizes))


async def _lists(servers: KubeServers, load: Load, sizes: Sizes) -> Figures:
    await load.create_pods(pod_names(sizes.pods), SCHEDULER)
    kinds: dict[str, Ask] = {"paged list": _paged, "watch-list": _streamed}
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(PAIRS):
        for who, ask in kinds.items():
            for what, value in (await _once(servers, load, ask, sizes.pods)).items():
                found.setdefault((who, what), []).append(value)
    return [figure(who, what, median(all_of), "s") for (who, what), all_of in found.items()]


async def _once(servers: KubeServers, load: Load, ask: Ask, pods: int) -> dict[str, float]:
    reader = PodReader(Pods(frozenset({SCHEDULER}), Groups(), Refusals(_never)))
    first = bill(servers, None)
    began_s = time.perf_counter()
    await ask(load, reader)
    took_s = time.perf_counter() - began_s
    last = bill(servers, None)
    told = sum(len(split(event.uids)) for event in reader.drain() if isinstance(event, PodsSeen))
    if told != pods:
        raise RuntimeError(f"{told} of {pods} pods were listed")
    return {
        "all known after": took_s,
        "CPU of its own": last.own_s - first.own_s,
        "CPU of etcd and API server": last.servers_s - first.servers_s,
    }


async def _never(pod: PodRef, _message: str) -> PodRead:
    raise AssertionError(f"{pod.name} was refused")


async def _paged(load: Load, reader: PodReader) -> None:
    await list_into(load.client, PODS_PATH, UNFINISHED, reader)


async def _streamed(load: Load, reader: PodReader) -> None:
    """Read a watch-list: existing objects as ADDED, then a bookmark that says that was all."""
    path = f"{PODS_PATH}?{INITIAL}&{UNFINISHED}"
    async with load.client.stream(path, SILENT_S) as answer:
        rest = b""
        async for chunk in answer.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if not line.startswith(BOOKMARK):
                    reader.seen(_change.decode(line).object)
                elif INITIAL_END in line:
                    return
    raise ConnectionError(f"{PODS_PATH}: the stream ended before its end was reached")
