"""`muster cluster`: a simulated cluster for services in other processes."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from muster.app.event_loop import loop_factory
from muster.cli.cluster_address import parse_cluster
from muster.cli.errors import Fault
from muster.cli.service_options import parse_settings, sim_config
from shared.model.api_outcome import Answer
from shared.ports.cluster import (
    NO_MARKS,
    BindRequest,
    Cluster,
    Marks,
    PastBind,
    PodRead,
    PodRef,
    VolumeRequest,
    Watched,
)
from shared.simulated.cluster import SimCluster
from shared.simulated.history import write_history
from shared.simulated.server import SimClusterServer
from shared.worlds.settings import Choice, load_world


class PlaysWhenWatched:
    """A cluster whose world begins with the first watch: nothing arrives before somebody looks."""

    def __init__(self, cluster: SimCluster) -> None:
        """The world stands still."""
        self.kinds = cluster.kinds
        self._cluster: Cluster = cluster
        self._start = cluster.start
        self._is_playing = False

    async def identity(self) -> str:
        """See Cluster.identity."""
        return await self._cluster.identity()

    async def newest_revision(self) -> int:
        """See Cluster.newest_revision."""
        return await self._cluster.newest_revision()

    async def list_all(self, kind: str) -> Watched:
        """See Cluster.list_all."""
        return await self._cluster.list_all(kind)

    def watch(self, since: int, marks: Marks = NO_MARKS) -> AsyncIterator[Watched]:
        """See Cluster.watch."""
        if not self._is_playing:
            self._is_playing = True
            self._start()
            print(f"plays since {time.time_ns() // 1_000_000} ms", flush=True)
        return self._cluster.watch(since, marks)

    async def bind(self, requests: Sequence[BindRequest]) -> list[PodRead]:
        """See Cluster.bind."""
        return await self._cluster.bind(requests)

    async def bind_volumes(self, requests: Sequence[VolumeRequest]) -> list[Answer]:
        """See Cluster.bind_volumes."""
        return await self._cluster.bind_volumes(requests)

    async def read(self, pods: Sequence[PodRef]) -> list[PodRead]:
        """See Cluster.read."""
        return await self._cluster.read(pods)

    async def touch(
        self, pods: Sequence[PodRef], messages: Sequence[str], reasons: Sequence[str] = ()
    ) -> list[PodRead]:
        """See Cluster.touch."""
        return await self._cluster.touch(pods, messages, reasons)

    async def evict(self, pods: Sequence[PodRef], by: PodRef | None = None) -> list[Answer]:
        """See Cluster.evict."""
        return await self._cluster.evict(pods, by)

    def tell_of(self, binds: Sequence[PastBind], are_new: bool = False) -> None:
        """See Cluster.tell_of."""
        self._cluster.tell_of(binds, are_new)


def serve_cluster(
    words: list[str], choice: Choice, listen: str, history: Path | None, settings: list[str]
) -> None:
    """Serve until SIGTERM or SIGINT, then write the history. Raises Fault."""
    parse_cluster("--listen", listen)
    config = sim_config(parse_settings(settings), choice.seed)
    cluster = SimCluster(load_world(words, choice).world, config)
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as loop:
            loop.run(_until_told(cluster, listen))
    finally:
        if history is not None:
            write_history(history, cluster.history)


async def _until_told(cluster: SimCluster, listen: str) -> None:
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    server = SimClusterServer(PlaysWhenWatched(cluster))
    try:
        address = await server.start(listen)
    except OSError as error:
        raise Fault(f"--listen {listen}: {error.strerror or error}") from error
    print(f"listening on {address}", flush=True)
    await told.wait()
    cluster.stop()
    await server.stop()
