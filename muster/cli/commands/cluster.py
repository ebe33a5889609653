"""`muster cluster`: a simulated cluster for services in other processes."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

from muster.app.event_loop import loop_factory
from muster.cli.addresses.cluster import parse_cluster
from muster.cli.errors import Fault
from muster.cli.options.services import parse_settings, sim_config
from shared.ports.cluster import NO_MARKS, Marks, Watched
from shared.simulated.cluster import SimCluster
from shared.simulated.history import write_history
from shared.simulated.server import SimClusterServer
from shared.worlds.settings import Choice, load_world


class PlaysWhenWatched(SimCluster):
    """A cluster whose world begins with the first watch: nothing arrives before."""

    _is_playing = False

    def watch(self, since: int, marks: Marks = NO_MARKS) -> AsyncIterator[Watched]:
        """Start the world, then watch; see Cluster.watch."""
        if not self._is_playing:
            self._is_playing = True
            self.start()
            print(f"plays since {time.time_ns() // 1_000_000} ms", flush=True)
        return super().watch(since, marks)


def serve_cluster(
    words: list[str], choice: Choice, listen: str, history: Path | None, settings: list[str]
) -> None:
    """Serve until SIGTERM or SIGINT, then write the history. Raises Fault."""
    parse_cluster("--listen", listen)
    config = sim_config(parse_settings(settings), choice.seed)
    cluster = PlaysWhenWatched(load_world(words, choice).world, config)
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as loop:
            loop.run(_until_stopped(cluster, listen))
    finally:
        if history is not None:
            write_history(history, cluster.history)


async def _until_stopped(cluster: SimCluster, listen: str) -> None:
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    server = SimClusterServer(cluster)
    try:
        address = await server.start(listen)
    except OSError as error:
        raise Fault(f"--listen {listen}: {error.strerror or error}") from error
    print(f"listening on {address}", flush=True)
    await told.wait()
    cluster.stop()
    await server.stop()
