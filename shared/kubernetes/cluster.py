"""A live Kubernetes API as the port `Cluster`: lists, watches, and the writes of binding.

One object serves one process. It makes no decision about pods and keeps nothing that a new process
would miss.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any

import msgspec

from shared.adapters.structured_gather import gather_all
from shared.events.base import Event
from shared.kubernetes.client.client import KubeClient
from shared.kubernetes.client.discovery import (
    POD_GROUPS,
    WORKLOADS,
    has_hyper_nodes,
    may_read,
    other_groups,
    pod_groups,
    served,
)
from shared.kubernetes.client.kinds import HYPER_NODES, OTHER_KINDS, QUEUES, REQUESTS, Kind
from shared.kubernetes.objects.groups.other_schedulers import VOLCANO, GroupKind
from shared.kubernetes.objects.structs import ListMeta, Meta, RawGroupOfJob
from shared.kubernetes.watching.disrupted_pods import DisruptedPods
from shared.kubernetes.watching.hyper_nodes import HyperNodes
from shared.kubernetes.watching.left_out import LeftOut, NotingReader
from shared.kubernetes.watching.lists import list_into
from shared.kubernetes.watching.merged_watch import LOOK_S, MergedWatch
from shared.kubernetes.watching.pod_groups import Groups
from shared.kubernetes.watching.pods import Pods
from shared.kubernetes.watching.queues import Queues
from shared.kubernetes.watching.refused_pods import Refusals
from shared.kubernetes.watching.resources import (
    BUDGETS_PATH,
    NODES_PATH,
    NOT_SUCCEEDED,
    PODS_PATH,
    GroupReader,
    PodReader,
    Reader,
    budget_reader,
    node_reader,
    object_reader,
)
from shared.kubernetes.watching.tree_reader import TreeReader
from shared.kubernetes.watching.watch import SILENT_S, ResourceWatch, Source
from shared.kubernetes.writing.events import KubeEvents
from shared.kubernetes.writing.group_status import show_groups
from shared.kubernetes.writing.provisioning import ProvisioningRequests
from shared.kubernetes.writing.queue_status import QueueStatuses
from shared.kubernetes.writing.volcano_groups import VolcanoGroups
from shared.kubernetes.writing.write_concurrency import WriteWindow
from shared.kubernetes.writing.writes import KubeWrites
from shared.model.api_outcome import Answer
from shared.model.release import COMPOSITE_POD_GROUP, DEFAULT_RELEASE
from shared.ports.cluster import (
    ALL_KINDS,
    NO_MARKS,
    OBJECTS,
    BindRequest,
    ClaimsAnswer,
    ClaimsRequest,
    GroupCondition,
    Marks,
    NodesRequest,
    PastBind,
    PodRead,
    PodRef,
    VolumeRequest,
    Watched,
)

GANGS = "gangs"
KUBE_SYSTEM = "/api/v1/namespaces/kube-system"
STALE_S = 15.0
"""A watch that fails for longer is reported."""
QUIET_S = (8, 12)
"""A watch sends its last bookmark just before it ends. Short watches of kinds that seldom change
therefore keep the joint revision close behind the server's.
"""
FINISH_S = 5.0
"""How long the end of a process waits for its writes, and again for answers: other processes may
wait for its Lease.
"""
NOTHING_WRITTEN: Mapping[str, int] = MappingProxyType({})

log = logging.getLogger("muster.kube")


class _Object(msgspec.Struct):
    metadata: Meta


class _Collection(msgspec.Struct):
    metadata: ListMeta


class KubeCluster:
    """Implements the port `Cluster`."""

    kinds = ALL_KINDS

    def __init__(
        self, client: KubeClient, schedulers: Sequence[str] = (), silent_s: float = SILENT_S
    ) -> None:
        """`schedulers` are the spec.schedulerName values of our pods; empty = all pods are ours."""
        self._client = client
        self._silent_s = silent_s
        # The kube-scheduler that counts the requests of resized pods; set before the first watch.
        self.release = DEFAULT_RELEASE
        self._groups = Groups()
        self._disrupted = DisruptedPods(client)
        self._schedulers = frozenset(schedulers)
        window = WriteWindow()
        self.events = KubeEvents(client, (*schedulers, "muster")[0], window)
        self.writes = KubeWrites(client, self.events, window)
        self._volcano = VolcanoGroups(self.writes.send, schedulers)
        self._requests = ProvisioningRequests(self.writes.send, self._group_path)
        self._sources = {
            "nodes": Source(NODES_PATH, timeout_s=QUIET_S),
            "budgets": Source(BUDGETS_PATH, timeout_s=QUIET_S),
            "pods": Source(PODS_PATH, NOT_SUCCEEDED),
        }
        self._others: dict[str, Kind] = {}
        self._is_discovered = self._are_groups_found = False
        self._groups_as = WORKLOADS
        # The sources of groups that are served, with the kind of another scheduler's.
        self._group_kinds: dict[str, GroupKind | None] = {}
        self._other_groups: list[GroupKind] | None = None
        self._has_hyper_nodes: bool | None = None
        self._refusals = Refusals(self._say)
        # Set when the first watch has delivered everything that existed when it began.
        self.caught_up = asyncio.Event()
        self.left_out = LeftOut()
        self._hyper_nodes = HyperNodes(self.left_out)
        self._queue_statuses = QueueStatuses(self.writes.send, schedulers)
        self._queues = Queues(self.left_out, self._queue_statuses.show)
        self._watches: dict[str, ResourceWatch] = {}
        self._merged: MergedWatch | None = None
        self._catching_up = asyncio.Lock()

    @property
    def client(self) -> KubeClient:
        """The client that sends the requests."""
        return self._client

    async def open(self) -> None:
        """Read the credentials. Raises KubeconfigError."""
        await self._client.open()

    async def finish(self) -> None:
        """Write what was decided, wait for the answers, and then write nothing more but events: a
        bind without an answer could land when another process decides already.
        """
        await self._refusals.close()
        await self._volcano.close()
        await self._queue_statuses.close()
        await self.writes.window.finish(FINISH_S)
        await self.writes.close()

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        await self._refusals.close()
        await self._volcano.close()
        await self._queue_statuses.close()
        await self.writes.close()
        await self.events.close()
        await self._client.close()

    # ------------------------------------------------------------------------------- observing

    async def identity(self) -> str:
        """Return the uid of kube-system, which identifies the cluster. Raises ConnectionError,
        TimeoutError.
        """
        body = await self._client.get(KUBE_SYSTEM)
        return msgspec.json.decode(body, type=_Object).metadata.uid

    async def pod_object(self, namespace: str, name: str) -> dict[str, Any]:
        """Return a pod's object. Raises ConnectionError, TimeoutError."""
        body = await self._client.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        return msgspec.json.decode(body, type=dict[str, Any])

    async def node_objects(self) -> dict[str, dict[str, Any]]:
        """Return all nodes by name. Raises ConnectionError, TimeoutError."""
        nodes = msgspec.json.decode(await self._client.get("/api/v1/nodes"), type=dict[str, Any])
        return {one["metadata"]["name"]: one for one in nodes.get("items") or ()}

    async def list_all(self, kind: str) -> Watched:
        """See the port. Raises ConnectionError, TimeoutError."""
        if kind in (GANGS, OBJECTS):
            await self._discover()
            kinds = self._others if kind == OBJECTS else self._group_kinds
            lists = await gather_all(*map(self._list, kinds))
            events = tuple(event for listed in lists for event in listed.events)
            marks = {name: at for listed in lists for name, at in listed.marks.items()}
            oldest = min(marks.values(), default=0)
            return Watched(oldest or await self.newest_revision(), events, marks)
        return await self._list(kind)

    async def _list(self, kind: str, at: int = 0) -> Watched:
        if kind in self._group_kinds:
            of = self._group_kinds[kind]
            self._groups.forget(of.name if of else "")
        elif kind == HYPER_NODES.resource:
            self._hyper_nodes.forget()
        elif kind == QUEUES.resource:
            self._queues.forget()
        source, reader = self._sources[kind], self._reader(kind)
        self.left_out.forget(reader.kind)
        revision = await list_into(self._client, source.path, source.query, reader, at)
        events = await self._disrupted.known(reader.drain())
        return Watched(revision, events, {kind: revision})

    async def watch(self, since: int, marks: Marks = NO_MARKS) -> AsyncIterator[Watched]:
        """See the port. Raises Gone, Restored, ConnectionError."""
        await self._discover()
        # A pod's gang is known only with its group, and a tree only with all of its objects.
        # Another process may have watched before: list them as of the revision at which their watch
        # resumes, so that none is older.
        trees = [kind for kind in (HYPER_NODES.resource, QUEUES.resource) if kind in self._others]
        for kind in (*self._group_kinds, *trees):
            listed = await self._list(kind, max(since, marks.get(kind, 0)))
            if kind not in marks:
                yield Watched(since, listed.events)
        watches = {}
        # Groups first: a pod's gang is known only with its group.
        for kind in sorted(self._sources, key=lambda kind: kind == "pods"):
            source, reader = self._sources[kind], self._reader(kind, self.writes.written)
            begin = max(since, marks.get(kind, 0))
            watch = ResourceWatch(self._client, source, reader, begin, self._silent_s)
            watches[kind] = watch, reader
        merged = MergedWatch(watches, since)
        self._watches = {kind: watch for kind, (watch, _) in watches.items()}
        self._merged = merged
        looking = asyncio.create_task(self._look())
        deliveries = merged.run()
        try:
            async for watched in deliveries:
                events = await self._disrupted.known((*watched.events, *self._groups.news()))
                yield Watched(watched.revision, events, watched.marks)
        finally:
            looking.cancel()
            await deliveries.aclose()  # type: ignore[attr-defined]

    def stale_watches(self) -> dict[str, float]:
        """Return for how long each failing watch has failed, s, by kind."""
        failing = {kind: watch.failing_s for kind, watch in self._watches.items()}
        return {kind: seconds for kind, seconds in failing.items() if seconds > STALE_S}

    async def _look(self) -> None:
        if not self.caught_up.is_set():
            await self.catch_up()
            self.caught_up.set()

    async def catch_up(self) -> None:
        """Wait until the watch has delivered everything that exists now."""
        newest = 0
        async with self._catching_up:
            while not newest or self._merged is None or not self._merged.has_caught_up(newest):
                await asyncio.sleep(LOOK_S)
                with suppress(OSError, TimeoutError):
                    newest = newest or await self.newest_revision()

    def _reader(self, kind: str, written: Mapping[str, int] = NOTHING_WRITTEN) -> Reader:
        return NotingReader(self._reader_of(kind, written), self.left_out)

    def _reader_of(self, kind: str, written: Mapping[str, int]) -> Reader:
        """Return a reader for a kind. Only watches pass `written`: a list must leave no pod out,
        since a missing pod counts as deleted.
        """
        match kind:
            case "nodes":
                return node_reader()
            case "budgets":
                return budget_reader()
            case _ if other := self._group_kinds.get(kind):
                gone = partial(self._groups.other_group_gone, other)
                if other.name == VOLCANO:
                    return GroupReader(other.source, self._volcano_group, gone, RawGroupOfJob)
                return GroupReader(other.source, partial(self._groups.other_group, other), gone)
            case "gangs" if self._groups_as == POD_GROUPS:
                return GroupReader("PodGroup", self._groups.pod_group, self._groups.workload_gone)
            case "gangs":
                return GroupReader("Workload", self._groups.workload, self._groups.workload_gone)
            case HYPER_NODES.resource:
                return TreeReader(HYPER_NODES, self._hyper_nodes)
            case QUEUES.resource:
                return TreeReader(QUEUES, self._queues)
            case _ if kind in self._others:
                return object_reader(self._others[kind])
            case _:
                known = self._groups, self._refusals, written, self.release
                return PodReader(Pods(self._schedulers, *known))

    def _volcano_group(self, raw: RawGroupOfJob) -> list[Event]:
        self._volcano.seen(raw)
        return self._groups.other_group(self._groups.others[VOLCANO], raw)

    async def _say(self, pod: PodRef, message: str) -> PodRead:
        (read,) = await self.writes.touch([pod], [message])
        return read

    async def _discover(self) -> None:
        """Find out which kinds the server serves."""
        if not self._is_discovered:
            await self.groups_as()
            await self.other_groups()
            self._others = {kind.resource: kind for kind in await served(self._client, OTHER_KINDS)}
            for kind in (REQUESTS, QUEUES):
                if await may_read(self._client, kind):
                    self._others[kind.resource] = kind
            if await self.has_hyper_nodes():
                self._others[HYPER_NODES.resource] = HYPER_NODES
            for kind in self._others.values():
                self._sources[kind.resource] = Source(kind.path, kind.query, QUIET_S)
            self._is_discovered = True

    async def other_groups(self) -> list[GroupKind]:
        """Return the kinds of other schedulers' groups that are read; it takes no permission to
        find out. Raises ConnectionError, TimeoutError.
        """
        if self._other_groups is None:
            self._groups.composites = self.release.has(COMPOSITE_POD_GROUP)
            self._other_groups = await other_groups(self._client, self._groups.composites)
            for kind in self._other_groups:
                path = f"/apis/{kind.version}/{kind.resource}"
                self._sources[kind.source] = Source(path, timeout_s=QUIET_S)
                self._group_kinds[kind.source] = self._groups.others[kind.name] = kind
        return self._other_groups

    async def has_hyper_nodes(self) -> bool:
        """Return whether HyperNodes are read; it takes no permission to find out. Raises
        ConnectionError, TimeoutError.
        """
        if self._has_hyper_nodes is None:
            self._has_hyper_nodes = await has_hyper_nodes(self._client)
        return self._has_hyper_nodes

    async def groups_as(self) -> str:
        """Return the resource that pod groups are read from; it takes no permission to find out.
        Raises ConnectionError, TimeoutError.
        """
        if not self._are_groups_found:
            found = await pod_groups(self._client)
            if found is not None:
                self._groups_as = found.resource
                self._sources[GANGS] = Source(found.path, timeout_s=QUIET_S)
                self._group_kinds[GANGS] = None
            self._are_groups_found = True
        return self._groups_as

    async def newest_revision(self) -> int:
        """See the port. Raises ConnectionError, TimeoutError."""
        body = await self._client.get(f"{NODES_PATH}?limit=1")
        return int(msgspec.json.decode(body, type=_Collection).metadata.resourceVersion)

    # -------------------------------------------------------------------------------- requests

    async def bind(self, requests: Sequence[BindRequest]) -> list[PodRead]:
        """See the port."""
        return await self.writes.bind(requests)

    async def bind_volumes(self, requests: Sequence[VolumeRequest]) -> list[Answer]:
        """See the port."""
        return await self.writes.bind_volumes(requests)

    async def write_claims(self, requests: Sequence[ClaimsRequest]) -> list[ClaimsAnswer]:
        """See the port."""
        return await self.writes.write_claims(requests)

    async def read(self, pods: Sequence[PodRef]) -> list[PodRead]:
        """See the port."""
        return await self.writes.read(pods)

    async def touch(
        self, pods: Sequence[PodRef], messages: Sequence[str], reasons: Sequence[str] = ()
    ) -> list[PodRead]:
        """See the port."""
        return await self.writes.touch(pods, messages, reasons)

    async def evict(self, pods: Sequence[PodRef], by: PodRef | None = None) -> list[Answer]:
        """See the port."""
        return await self.writes.evict(pods, by)

    async def show_groups(self, groups: Sequence[GroupCondition]) -> None:
        """See the port."""
        of_kube = [one for one in groups if "@" not in one.name]
        if self._groups_as == POD_GROUPS and GANGS in self._sources:
            await show_groups(self._sources[GANGS].path, of_kube, self.writes.send)
        await gather_all(*(self._volcano.show(one) for one in groups if "@" in one.name))

    async def request_nodes(self, requests: Sequence[NodesRequest]) -> list[str]:
        """See the port."""
        return list(await gather_all(*map(self._requests.write, requests)))

    def _group_path(self, key: str) -> str:
        """Return the path of a gang's PodGroup of scheduling.k8s.io; empty for other groups."""
        namespace, _, name = key.partition("/")
        if self._groups_as != POD_GROUPS or GANGS not in self._sources:
            return ""
        if "/" in name or "@" in name:
            return ""
        version = self._sources[GANGS].path.rpartition("/")[0]
        return f"{version}/namespaces/{namespace}/{POD_GROUPS}/{name}"

    def announce_binds(self, binds: Sequence[PastBind], are_new: bool = False) -> None:
        """See the port."""
        if are_new:
            self.writes.counts.bound += len(binds)
        for bind in binds:
            self.events.scheduled_before(bind.pod, bind.node, bind.at_ms)
