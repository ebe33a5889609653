"""The implementations of the port `Cluster`, each with the few changes that a test makes to its
world.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from shared.events.observed import PodsSeen
from shared.kubernetes.client.client import KubeClient
from shared.kubernetes.client.credentials import Credentials
from shared.kubernetes.client.kinds import Kind
from shared.kubernetes.cluster import KubeCluster
from shared.model.objects import Node, PodSpec
from shared.model.world import Arrival, World
from shared.ports.cluster import Cluster
from shared.simulated.client import SimClusterClient
from shared.simulated.cluster import SimCluster
from shared.simulated.server import SimClusterServer
from tests.live.support.other_objects import MERGE, OTHERS, body_of, collection, key
from tests.support.etcd_store import EtcdStore
from tests.support.kube_credentials import write_kubeconfig
from tests.support.kube_objects import node, pod
from tests.support.kube_server import KubeServers
from tests.unit.kubernetes.fake_api import FakeApi

NAMESPACE = "default"


class Stage(Protocol):
    """A cluster and its world."""

    cluster: Cluster

    async def node(self, name: str) -> None:
        """Add a node."""
        ...

    async def cordon(self, name: str, cordoned: bool) -> None:
        """Cordon a node, or uncordon it."""
        ...

    async def pod(self, name: str) -> None:
        """Create a pod for our scheduler."""
        ...

    async def delete(self, name: str) -> None:
        """Delete a pod at once."""
        ...


class KubeStage(Stage, Protocol):
    """A stage whose world has other objects, too."""

    async def other(self, kind: Kind, name: str) -> None:
        """Add an object of another kind."""
        ...

    async def change(self, kind: Kind, name: str, fields: dict[str, Any]) -> None:
        """Change some fields of the other object."""
        ...

    async def drop(self, kind: Kind, name: str) -> None:
        """Delete the other object."""
        ...


class SimStage:
    """The simulated cluster, in this process or over a socket."""

    def __init__(self, sim: SimCluster, cluster: Cluster) -> None:
        self.sim, self.cluster = sim, cluster

    async def node(self, name: str) -> None:
        await self.cordon(name, False)

    async def cordon(self, name: str, cordoned: bool) -> None:
        has = (("cpu", 4000),)
        node = Node(uid=f"uid-{name}", name=name, allocatable=has, unschedulable=cordoned)
        self.sim.set_node(node)

    async def pod(self, name: str) -> None:
        seen = PodsSeen(spec=PodSpec(), uids=f"uid-{name}", names=name, revisions=b"")
        self.sim.create(Arrival(at_ms=0, pods=seen))

    async def delete(self, name: str) -> None:
        self.sim.delete([f"uid-{name}"])


class FakeStage:
    """The adapter for Kubernetes on the unit tests' server."""

    def __init__(self, api: FakeApi, cluster: Cluster) -> None:
        self.api, self.cluster = api, cluster

    async def node(self, name: str) -> None:
        self.api.put("nodes", name, status={"allocatable": {"cpu": "4"}})

    async def cordon(self, name: str, cordoned: bool) -> None:
        self.api.put("nodes", name, spec={"unschedulable": cordoned})

    async def pod(self, name: str) -> None:
        self.api.pod(name)

    async def delete(self, name: str) -> None:
        self.api.delete("pods", name)

    async def other(self, kind: Kind, name: str) -> None:
        made = OTHERS[kind.resource].made
        metadata = {**made.get("metadata", {}), "uid": f"uid-{kind.resource}-{name}"}
        self.api.put(kind.resource, name, **{**made, "metadata": metadata})

    async def change(self, kind: Kind, name: str, fields: dict[str, Any]) -> None:
        self.api.put(kind.resource, name, **merged(self.api.objects[kind.resource][name], fields))

    async def drop(self, kind: Kind, name: str) -> None:
        self.api.delete(kind.resource, name)


def merged(held: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return an object with a JSON merge patch applied."""
    found = dict(held)
    for name, value in patch.items():
        both = isinstance(value, dict) and isinstance(held.get(name), dict)
        found[name] = merged(held[name], value) if both else value
    return found


class LiveStage:
    """The adapter for Kubernetes on a real API server. Every test uses names of its own."""

    def __init__(self, servers: KubeServers, cluster: KubeCluster) -> None:
        self.cluster: Cluster = cluster
        self._client, self._etcd_url = cluster.client, servers.at.etcd_url

    async def _send(self, method: str, path: str, body: dict[str, Any]) -> None:
        response = await self._client.request(method, path, json.dumps(body).encode())
        assert response.ok, response.message()

    async def node(self, name: str) -> None:
        await self._send("POST", "/api/v1/nodes", node(name, ready=True))

    async def cordon(self, name: str, cordoned: bool) -> None:
        raw = json.dumps({"spec": {"unschedulable": cordoned}}).encode()
        response = await self._client.request("PATCH", f"/api/v1/nodes/{name}", raw, MERGE)
        assert response.ok, response.message()

    async def pod(self, name: str) -> None:
        body = pod(name, schedulerName="muster")
        await self._send("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body)

    async def delete(self, name: str) -> None:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"
        await self._send("DELETE", path, {"gracePeriodSeconds": 0})

    async def other(self, kind: Kind, name: str) -> None:
        await self._send("POST", collection(kind), body_of(kind, name))

    async def change(self, kind: Kind, name: str, fields: dict[str, Any]) -> None:
        path = f"{collection(kind)}/{name}"
        raw = json.dumps(fields).encode()
        response = await self._client.request("PATCH", path, raw, MERGE)
        assert response.ok, response.message()

    async def drop(self, kind: Kind, name: str) -> None:
        store = EtcdStore(self._etcd_url)
        assert await asyncio.to_thread(store.delete_all, key(kind, name)) == 1


@asynccontextmanager
async def simulated(folder: Path) -> AsyncIterator[Stage]:
    """Yield a simulated cluster in this process."""
    sim = SimCluster(World(name="w", nodes=(), arrivals=()))
    sim.start()
    yield SimStage(sim, sim)
    sim.stop()


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Stage]:
    """Yield a simulated cluster over a socket."""
    sim = SimCluster(World(name="w", nodes=(), arrivals=()))
    sim.start()
    server = SimClusterServer(sim)
    client = SimClusterClient(await server.start(f"unix:{folder / 'socket'}"))
    yield SimStage(sim, client)
    await client.close()
    await server.stop()
    sim.stop()


@asynccontextmanager
async def fake(folder: Path) -> AsyncIterator[KubeStage]:
    """Yield the adapter for Kubernetes on a fake server."""
    api = FakeApi()
    await api.start()
    path = write_kubeconfig(folder / "kubeconfig", api.url, folder / "ca.crt", "t")
    cluster = KubeCluster(KubeClient(Credentials(str(path))), ["muster"])
    yield FakeStage(api, cluster)
    await cluster.close()
    await api.stop()


@asynccontextmanager
async def live(folder: Path) -> AsyncIterator[KubeStage]:
    """Yield the adapter for Kubernetes on a real API server."""
    servers = KubeServers()
    await asyncio.to_thread(servers.start)
    cluster = KubeCluster(KubeClient(Credentials(str(servers.kubeconfig))), ["muster"])
    yield LiveStage(servers, cluster)
    await cluster.close()
    await asyncio.to_thread(servers.stop)
