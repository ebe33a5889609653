"""The load on a real cluster: it creates nodes and pods, sees when they are bound, and counts the
writes that the API server answered. It schedules nothing.

Its reads cost the API server next to nothing, because the server shares its cores with the measured
scheduler.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from pathlib import Path
from types import MappingProxyType
from typing import Any

from muster.flood.targets.kube import api_writes, each
from muster.flood.targets.live_pods import change_of, pod_of, pods_of
from shared.kubernetes.client.client import ApiError, KubeClient
from shared.kubernetes.client.credentials import Credentials
from shared.kubernetes.objects.structs import Meta
from tests.support.kube_objects import node, pod

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
UNASSIGNED, ASSIGNED = "fieldSelector=spec.nodeName%3D", "fieldSelector=spec.nodeName%21%3D"
SERVICES = "/api/v1/namespaces/default/services"
ZONE = "topology.kubernetes.io/zone"
LABELS = {"app": "bench"}
NO_SCHEDULER = "none"
"""The schedulerName of pods that the bench itself binds."""
LOOK_S = 0.01
SILENT_S = 600.0
NodeBody = Callable[[int], dict[str, Any]]
"""A node's object by its number."""


class Load:
    """A client of one cluster. A context manager."""

    def __init__(self, kubeconfig: Path) -> None:
        """Keep the kubeconfig; the first request connects."""
        self.client = KubeClient(Credentials(str(kubeconfig)))

    async def __aenter__(self) -> "Load":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()

    async def create_nodes(self, count: int, body: NodeBody) -> None:
        """Create nodes."""

        async def create(number: int) -> None:
            await self.create(NODES, json.dumps(body(number)).encode())

        await each(range(count), create)

    async def create_pods(
        self,
        names: Iterable[str],
        scheduler: str,
        nodes: int = 0,
        created: Callable[[Meta], None] = lambda _meta: None,
        rules: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Create pods as fast as the server takes them. `nodes` > 0 puts them on nodes, in turn.
        `rules` are more fields of their spec.
        """
        plain, bound = pod_body(scheduler, **rules), pod_body(scheduler, nodeName="NODE")

        async def create(numbered: tuple[int, str]) -> None:
            number, name = numbered
            if nodes:
                body = bound.replace(b"NODE", node_name(number % nodes).encode())
            else:
                body = plain
            created(await self.create(PODS, body.replace(b"NAME", name.encode())))

        await each(enumerate(names), create)

    async def create_service(self) -> None:
        """Create a Service that selects all pods of `create_pods`."""
        ports = {"selector": LABELS, "clusterIP": "None", "ports": [{"port": 80}]}
        service = {"metadata": {"name": "bench"}, "spec": ports}
        await self.create(SERVICES, json.dumps(service).encode())

    async def create_pods_at(
        self, names: Iterable[str], scheduler: str, per_s: float
    ) -> dict[str, float]:
        """Create pods at a steady rate, whatever the answers. Return when each was meant to be
        sent.
        """
        body, loop = pod_body(scheduler), asyncio.get_running_loop()
        began_s, meant_s, out = loop.time(), {}, []
        for number, name in enumerate(names):
            meant_s[name] = began_s + number / per_s
            await asyncio.sleep(max(0.0, meant_s[name] - loop.time()))
            out.append(loop.create_task(self.create(PODS, body.replace(b"NAME", name.encode()))))
        await asyncio.gather(*out)
        return meant_s

    async def create(self, path: str, body: bytes) -> Meta:
        """Create any object. Raises ApiError when the server refuses it."""
        response = await self.client.request("POST", path, body)
        if not response.ok:
            raise ApiError(response.status, response.message())
        return pod_of(response.body).metadata

    async def is_bound(self, name: str) -> bool:
        """Return whether a pod has a node."""
        return bool(pod_of(await self.client.get(f"{PODS}/{name}")).spec.nodeName)

    async def until_bound(self, last: str, limit_s: float) -> bool:
        """Wait until every pod has a node; return False if that takes longer than the limit. `last`
        is probably the last one: all pods are listed, which is expensive, only when it has a node.
        """
        end_s = time.monotonic() + limit_s
        while True:
            while not await self.is_bound(last):
                if time.monotonic() > end_s:
                    return False
                await asyncio.sleep(LOOK_S)
            left = pods_of(await self.client.get(f"{PODS}?{UNASSIGNED}&limit=1")).items
            if not left:
                return True
            last = left[0].metadata.name

    async def bound(self) -> AsyncGenerator[str, None]:
        """Yield the names of pods as they get their nodes, after one empty name when the watch has
        begun.
        """
        seen = set[str]()
        while True:  # a server that has just started may end a watch
            async with self.client.stream(f"{PODS}?watch=1&{ASSIGNED}", SILENT_S) as answer:
                if "" not in seen:
                    seen.add("")
                    yield ""
                async for line in answer.content:
                    change = change_of(line)
                    name = change.object.metadata.name
                    if change.type == "ADDED" and name not in seen:
                        seen.add(name)
                        yield name

    async def writes(self) -> Counter[str]:
        """Return the number of answered writes of pods and events by kind, whatever the answer. All
        other writes are the API server's own.
        """
        return await api_writes(self.client)


def plain_node(number: int, zones: Sequence[str] = ()) -> dict[str, Any]:
    """Return a Ready node; the nodes are in the zones in turn."""
    labels = {ZONE: zones[number % len(zones)]} if zones else {}
    return node(node_name(number), ready=True, labels=labels)


def node_name(number: int) -> str:
    """Return the name of a node."""
    return f"node-{number:05}"


def pod_names(count: int, prefix: str = "pod") -> list[str]:
    """Return this many names in alphabetical order."""
    return [f"{prefix}-{number:06}" for number in range(count)]


def pod_body(scheduler: str, **spec: Any) -> bytes:
    """Return a pod's JSON in which NAME is to be replaced."""
    return json.dumps(pod("NAME", labels=LABELS, schedulerName=scheduler, **spec)).encode()
