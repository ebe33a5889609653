"""The contestants on a real cluster: kube-scheduler and Muster with their defaults, and the bare
limit: binding POSTs from Muster's own client, without decisions and watches.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from loadtest.cluster.load import PODS, Load, node_name
from muster.flood.targets.kube import each
from shared.kubernetes.client.client import ApiError
from shared.kubernetes.objects.structs import Meta
from shared.kubernetes.writing.bodies import binding
from shared.model.release import V1_35
from shared.ports.cluster import BindRequest
from tests.support.kube_options import LOAD_TEST
from tests.support.kube_server import KubeServers
from tests.support.server_process import ServerProcess

BARE, BARE_WIDTHS = "bare", (8, 32, 128)
# Only defaults: alpha features would cost kube-scheduler time. The figures of performance.md are
# of this release.
OPTIONS = replace(LOAD_TEST, version=V1_35, feature_gates=(), runtime_config=())


@dataclass(frozen=True)
class Contestant:
    """A scheduler, and the schedulerName of its pods. `start` returns when the process runs, not
    when it is ready.
    """

    name: str
    scheduler: str
    start: Callable[[KubeServers], ServerProcess]


def _kube_scheduler(servers: KubeServers) -> ServerProcess:
    return servers.start_scheduler()


def _muster(servers: KubeServers) -> ServerProcess:
    command = [sys.executable, "-m", "muster", "run", "--output", "json"]
    command += ["--kubeconfig", str(servers.kubeconfig), "--run-dir", str(servers.folder / "run")]
    process = ServerProcess("muster", command, servers.folder / "muster.log", lambda: True)
    process.start()
    return process


KUBE_SCHEDULER = Contestant("kube-scheduler", "default-scheduler", _kube_scheduler)
MUSTER = Contestant("muster", "muster", _muster)
CONTESTANTS = (KUBE_SCHEDULER, MUSTER)


def _batching(is_on: bool, servers: KubeServers) -> ServerProcess:
    args = {"name": "PodTopologySpread", "args": {"defaultingType": "List"}}
    gate = f"OpportunisticBatching={str(is_on).lower()}"
    profile = {"schedulerName": "default-scheduler", "pluginConfig": [args]}
    return servers.start_scheduler(gates=[gate], profiles=[profile])


SINGLE, BATCHING = (
    Contestant(f"kube-scheduler, {what}", "default-scheduler", partial(_batching, is_on))
    for what, is_on in (("single cycles", False), ("batching", True))
)
"""kube-scheduler without its default spreading, with which it forms no batch of any pod."""


class Binder:
    """Binds pods to nodes in turn, `width` at once. `bound` counts successful binds."""

    def __init__(self, load: Load, nodes: int, width: int) -> None:
        """Send nothing yet."""
        self._load, self._nodes, self._width = load, nodes, width
        self.bound = 0

    async def bind(self, pods: Sequence[Meta]) -> None:
        """Bind these pods."""
        await each(pods, self.bind_one, self._width)

    async def bind_coming(self, pods: "asyncio.Queue[Meta]", count: int) -> None:
        """Bind `count` pods as they arrive."""

        async def one(_number: int) -> None:
            await self.bind_one(await pods.get())

        await each(range(count), one, self._width)

    async def bind_one(self, meta: Meta) -> None:
        """Bind one pod to the next node."""
        node = node_name(self.bound % self._nodes)
        self.bound += 1
        revision = int(meta.resourceVersion)
        body = binding(BindRequest(meta.uid, meta.namespace, meta.name, node, revision))
        answer = await self._load.client.request("POST", f"{PODS}/{meta.name}/binding", body)
        if not answer.ok:
            raise ApiError(answer.status, answer.message())


def log_end(servers: KubeServers, process: ServerProcess) -> str:
    """Return the last line that a scheduler wrote, for a failed run."""
    path: Path = process.log_path
    lines = path.read_text(errors="replace").splitlines() if servers.folder.exists() else []
    return lines[-1] if lines else ""
