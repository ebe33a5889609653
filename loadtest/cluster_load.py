"""What the bench puts into a real cluster and reads from it: nodes, pods, when they are bound, how
many writes the API server answered. It schedules nothing.

It looks in ways that cost the API server next to nothing, for that shares its cores with whoever is
being measured.
"""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from shared.kubernetes.client.client import ApiError, KubeClient
from shared.kubernetes.client.credentials import Credentials
from shared.kubernetes.objects.structs import Change, Meta
from tests.support.kube_objects import node, pod

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
UNASSIGNED, ASSIGNED = "fieldSelector=spec.nodeName%3D", "fieldSelector=spec.nodeName%21%3D"
SERVICES = "/api/v1/namespaces/default/services"
ZONE = "topology.kubernetes.io/zone"
LABELS = {"app": "bench"}
WIDTH = 32
LOOK_S = 0.01
SILENT_S = 600.0
WRITES, WRITTEN = ("POST", "PUT", "PATCH", "DELETE", "APPLY"), ("pods", "events")
_COUNTED = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class _Spec(msgspec.Struct, frozen=True):
    nodeName: str = ""


class Seen(msgspec.Struct):
    """A pod, or any object, by its metadata and node."""

    metadata: Meta
    spec: _Spec = _Spec()


class _List(msgspec.Struct):
    items: list[Seen]


_seen = msgspec.json.Decoder(Seen)
_list = msgspec.json.Decoder(_List)
_change = msgspec.json.Decoder(Change[Seen])


class Load:
    """A client of one cluster. A context manager."""

    def __init__(self, kubeconfig: Path) -> None:
        """Connects with the first request."""
        self.client = KubeClient(Credentials(str(kubeconfig)))

    async def __aenter__(self) -> "Load":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()

    async def create_nodes(self, count: int, zones: Sequence[str] = ()) -> None:
        """Ready ones, named node-00000 and on, the zones in turn."""

        async def create(number: int) -> None:
            labels = {ZONE: zones[number % len(zones)]} if zones else {}
            body = json.dumps(node(node_name(number), ready=True, labels=labels)).encode()
            await self.create(NODES, body)

        await each(range(count), create)

    async def create_pods(
        self,
        names: Iterable[str],
        scheduler: str,
        nodes: int = 0,
        created: Callable[[Meta], None] = lambda _meta: None,
        rules: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """As fast as they are taken; `nodes` > 0 puts them there at once, one after the other.
        `rules` are more of their spec.
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
        """One that selects all pods of `create_pods`."""
        ports = {"selector": LABELS, "clusterIP": "None", "ports": [{"port": 80}]}
        service = {"metadata": {"name": "bench"}, "spec": ports}
        await self.create(SERVICES, json.dumps(service).encode())

    async def create_pods_at(
        self, names: Iterable[str], scheduler: str, per_s: float
    ) -> dict[str, float]:
        """At a steady rate, whatever the answers: when each was meant to be sent."""
        body, loop = pod_body(scheduler), asyncio.get_running_loop()
        began_s, meant_s, out = loop.time(), {}, []
        for number, name in enumerate(names):
            meant_s[name] = began_s + number / per_s
            await asyncio.sleep(max(0.0, meant_s[name] - loop.time()))
            out.append(loop.create_task(self.create(PODS, body.replace(b"NAME", name.encode()))))
        await asyncio.gather(*out)
        return meant_s

    async def create(self, path: str, body: bytes) -> Meta:
        """Any object; raises ApiError when the server refuses it."""
        response = await self.client.request("POST", path, body)
        if not response.ok:
            raise ApiError(response.status, response.message())
        return _seen.decode(response.body).metadata

    async def is_bound(self, name: str) -> bool:
        """Whether a pod has a node."""
        return bool(_seen.decode(await self.client.get(f"{PODS}/{name}")).spec.nodeName)

    async def until_bound(self, last: str, limit_s: float) -> bool:
        """Until every pod has a node; False when that is not within the limit. `last` is probably
        the last one: only when it has a node all are looked at, which is dear.
        """
        end_s = time.monotonic() + limit_s
        while True:
            while not await self.is_bound(last):
                if time.monotonic() > end_s:
                    return False
                await asyncio.sleep(LOOK_S)
            left = _list.decode(await self.client.get(f"{PODS}?{UNASSIGNED}&limit=1")).items
            if not left:
                return True
            last = left[0].metadata.name

    async def bound(self) -> AsyncGenerator[str, None]:
        """The names of pods as they get their nodes, after one empty name when it is watching."""
        async with self.client.stream(f"{PODS}?watch=1&{ASSIGNED}", SILENT_S) as answer:
            yield ""
            async for line in answer.content:
                change = _change.decode(line)
                if change.type == "ADDED":
                    yield change.object.metadata.name

    async def writes(self) -> Counter[str]:
        """How many writes of pods and events, by kind, were answered, whatever the answer was; all
        else is the API server's own.
        """
        text = (await self.client.get("/metrics")).decode()
        counts: Counter[str] = Counter()
        for found in _COUNTED.finditer(text):
            labels = dict(_LABEL.findall(found.group(1)))
            if labels["verb"] in WRITES and labels["resource"] in WRITTEN:
                what = "/".join(filter(None, (labels["resource"], labels["subresource"])))
                counts[f"{labels['verb']} {what}"] += int(float(found.group(2)))
        return counts


async def each(
    items: Iterable[object], do: Callable[..., Awaitable[None]], width: int = WIDTH
) -> None:
    """Do something with each of them, so many at once."""
    left: Iterator[object] = iter(items)

    async def work() -> None:
        for item in left:
            await do(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(width):
            group.create_task(work())


def node_name(number: int) -> str:
    """The name of a node."""
    return f"node-{number:05}"


def pod_names(count: int, prefix: str = "pod") -> list[str]:
    """So many names; their order is the alphabet's."""
    return [f"{prefix}-{number:06}" for number in range(count)]


def pod_body(scheduler: str, **spec: Any) -> bytes:
    """A pod's JSON in which NAME is to be replaced."""
    return json.dumps(pod("NAME", labels=LABELS, schedulerName=scheduler, **spec)).encode()
