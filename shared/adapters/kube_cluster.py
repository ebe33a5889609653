"""A live Kubernetes API as the port `Cluster`: lists, watches, and what binding writes.

One object serves one process. It decides nothing about pods, and remembers nothing that a new
process would miss.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence

import msgspec

from shared.adapters.kube_client import ApiError, KubeClient
from shared.adapters.kube_events import KubeEvents
from shared.adapters.kube_groups import Groups
from shared.adapters.kube_lists import list_into
from shared.adapters.kube_merge import MergedWatch
from shared.adapters.kube_objects import ListMeta, Meta
from shared.adapters.kube_pods import Pods
from shared.adapters.kube_resources import (
    BUDGETS_PATH,
    NODES_PATH,
    PODS_PATH,
    UNFINISHED,
    PodReader,
    Reader,
    WorkloadReader,
    budget_reader,
    node_reader,
)
from shared.adapters.kube_watch import SILENT_S, ResourceWatch, Source
from shared.adapters.kube_writes import KubeWrites
from shared.model.answers import Answer
from shared.ports.cluster import BindRequest, PodRead, PodRef, Watched

KUBE_SYSTEM = "/api/v1/namespaces/kube-system"
GROUP = "/apis/scheduling.k8s.io"
WORKLOADS = f"{GROUP}/v1alpha1/workloads"
NOT_FOUND = 404
SAID_MAX = 10_000
QUIET_S = (8, 12)
"""A watch's last bookmark comes just before its end, so short watches of what seldom changes keep
the joint revision close behind.
"""

log = logging.getLogger("muster.kube")


class _Object(msgspec.Struct):
    metadata: Meta


class _Collection(msgspec.Struct):
    metadata: ListMeta


class _Resource(msgspec.Struct):
    name: str


class _Resources(msgspec.Struct):
    resources: list[_Resource] = []


class KubeCluster:
    """Implements the port `Cluster`."""

    def __init__(
        self, client: KubeClient, schedulers: Sequence[str] = (), silent_s: float = SILENT_S
    ) -> None:
        """`schedulers` are the names that pods of ours carry; empty = all pods are ours."""
        self._client = client
        self._silent_s = silent_s
        self._groups = Groups()
        self._schedulers = frozenset(schedulers)
        self.events = KubeEvents(client, (*schedulers, "muster")[0])
        self.writes = KubeWrites(client, self.events)
        self._sources = {
            "nodes": Source(NODES_PATH, timeout_s=QUIET_S, is_quiet=True),
            "budgets": Source(BUDGETS_PATH, timeout_s=QUIET_S, is_quiet=True),
            "gangs": Source(WORKLOADS, timeout_s=QUIET_S, is_quiet=True),
            "pods": Source(PODS_PATH, UNFINISHED),
        }
        self._has_workloads: bool | None = None
        self._knows_groups = False
        self._said: dict[str, str] = {}
        self._saying: dict[asyncio.Task[list[PodRead]], bool] = {}

    @property
    def client(self) -> KubeClient:
        """The connection beneath."""
        return self._client

    async def open(self) -> None:
        """Read the credentials. Raises KubeconfigError."""
        await self._client.open()

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        await self.writes.close()
        await self.events.close()
        for task in list(self._saying):
            task.cancel()
        await asyncio.gather(*self._saying, return_exceptions=True)
        await self._client.close()

    # ------------------------------------------------------------------------------- observing

    async def identity(self) -> str:
        """The uid of kube-system. Raises ConnectionError, TimeoutError."""
        body = await self._client.get(KUBE_SYSTEM)
        return msgspec.json.decode(body, type=_Object).metadata.uid

    async def list_all(self, kind: str) -> Watched:
        """Raises ConnectionError, TimeoutError."""
        source, reader = self._sources[kind], self._reader(kind)
        if kind == "gangs":
            if not await self._discover():
                return Watched(await self._revision(), ())
            self._groups.forget()
            self._knows_groups = True
        revision = await list_into(self._client, source.path, source.query, reader)
        return Watched(revision, tuple(reader.take()))

    async def watch(self, since: int) -> AsyncIterator[Watched]:
        """Raises Gone, ConnectionError."""
        kinds = [kind for kind in self._sources if kind != "gangs" or await self._discover()]
        if not self._knows_groups:
            # A new process resumes without lists, but pods mean something only beside their groups.
            yield Watched(since, (await self.list_all("gangs")).events)
        watches = []
        for kind in kinds:
            reader = self._reader(kind)
            watches.append(
                (
                    ResourceWatch(self._client, self._sources[kind], reader, since, self._silent_s),
                    reader,
                )
            )
        merged = MergedWatch(watches, since).run()
        try:
            async for watched in merged:
                news = self._groups.news()
                if news:
                    watched = Watched(watched.revision, (*watched.events, *news))
                yield watched
        finally:
            await merged.aclose()  # type: ignore[attr-defined]

    def _reader(self, kind: str) -> Reader:
        match kind:
            case "nodes":
                return node_reader()
            case "budgets":
                return budget_reader()
            case "gangs":
                return WorkloadReader(self._groups)
            case _:
                return PodReader(Pods(self._schedulers, self._groups, self._tell))

    def _tell(self, pod: PodRef, message: str) -> None:
        """Say in the API, in passing, that a pod of ours cannot be scheduled at all."""
        if self._said.get(pod.uid) == message:
            return
        if len(self._said) >= SAID_MAX:
            self._said.clear()
        self._said[pod.uid] = message
        task = asyncio.get_running_loop().create_task(self.writes.touch([pod], [message]))
        self._saying[task] = True
        task.add_done_callback(self._saying.pop)

    async def _discover(self) -> bool:
        """Whether the server has Workloads (v1alpha1; other versions are not read)."""
        if self._has_workloads is None:
            try:
                body = await self._client.get(WORKLOADS.rpartition("/")[0])
                found = msgspec.json.decode(body, type=_Resources).resources
                self._has_workloads = any(one.name == "workloads" for one in found)
            except ApiError as error:
                if error.status != NOT_FOUND:
                    raise
                self._has_workloads = False
        return self._has_workloads

    async def _revision(self) -> int:
        """How new the cluster is now."""
        body = await self._client.get(f"{NODES_PATH}?limit=1")
        return int(msgspec.json.decode(body, type=_Collection).metadata.resourceVersion)

    # -------------------------------------------------------------------------------- requests

    async def bind(self, requests: Sequence[BindRequest]) -> list[PodRead]:
        """See the port."""
        return await self.writes.bind(requests)

    async def read(self, pods: Sequence[PodRef]) -> list[PodRead]:
        """See the port."""
        return await self.writes.read(pods)

    async def touch(self, pods: Sequence[PodRef], messages: Sequence[str]) -> list[PodRead]:
        """See the port."""
        return await self.writes.touch(pods, messages)

    async def evict(self, pods: Sequence[PodRef], by: PodRef | None = None) -> list[Answer]:
        """See the port."""
        return await self.writes.evict(pods, by)
