"""A small API server for unit tests: pages, watches, bindings, patches, deletes; and faults.

Of Kubernetes it keeps what decides a client's correctness: one revision for everything,
preconditions, one bind per pod. It checks no objects.
"""

import asyncio
import json
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from shared.kubernetes.client.kinds import OTHER_KINDS
from shared.kubernetes.client.protobuf import PROTOBUF
from tests.unit.kubernetes import claim_wire

PODS = "/api/v1/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
COLLECTIONS = {
    "pods": PODS,
    "nodes": "/api/v1/nodes",
    "budgets": "/apis/policy/v1/poddisruptionbudgets",
    "workloads": "/apis/scheduling.k8s.io/v1alpha1/workloads",
    "podgroups": "/apis/scheduling.k8s.io/v1alpha2/podgroups",
    **{kind.resource: kind.path for kind in OTHER_KINDS},
}
Fault = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


def status(code: int, message: str, **headers: str) -> web.Response:
    """A Status object."""
    body = {"kind": "Status", "message": message, "code": code}
    return web.json_response(body, status=code, headers=headers)


@asynccontextmanager
async def running() -> AsyncIterator["FakeApi"]:
    """Run a fake API server."""
    fake = FakeApi()
    await fake.start()
    try:
        yield fake
    finally:
        await fake.stop()


def _name_shown(request: web.Request) -> str:
    assert request.transport is not None
    shown = request.transport.get_extra_info("peercert") or {}
    return str(dict(part[0] for part in shown.get("subject", ())).get("commonName", ""))


class FakeApi:
    """`faults` are asked first, one for each request that it is about, in order."""

    def __init__(self) -> None:
        self.revision = 100
        self.compacted = 0
        self.objects: dict[str, dict[str, dict[str, Any]]] = {kind: {} for kind in COLLECTIONS}
        self.log: list[tuple[int, str, str, dict[str, Any]]] = []
        self.requests: list[tuple[str, str]] = []
        self.faults: deque[tuple[str, Fault]] = deque()
        # Version of scheduling.k8s.io -> its resources.
        self.scheduling = {"v1": ["priorityclasses"], "v1alpha1": ["workloads"]}
        self.unserved: set[str] = set()
        # Custom resources: path of the collection by kind.
        self.custom: dict[str, str] = {}
        self.token = ""
        # The name that a client's certificate must have, where the server speaks TLS.
        self.client_name = ""
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.leases: dict[str, dict[str, Any]] = {}
        self._changed = asyncio.Event()
        self._watches: list[tuple[str, web.StreamResponse]] = []
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    # ------------------------------------------------------------------------------- the world

    def put(self, kind: str, name: str, **fields: Any) -> dict[str, Any]:
        """Add or change an object; returns it."""
        old = self.objects[kind].get(name)
        self.revision += 1
        new: dict[str, Any] = json.loads(json.dumps({**(old or {}), **fields}))
        meta = {
            "name": name,
            "uid": f"uid-{name}",
            "namespace": "default",
            **new.get("metadata", {}),
        }
        new["metadata"] = {**meta, "resourceVersion": str(self.revision)}
        self.objects[kind][name] = new
        self._tell(kind, "MODIFIED" if old else "ADDED", new)
        return new

    def install(self, kind: str, version: str, resource: str) -> None:
        """Serve a custom resource."""
        self.custom[kind] = f"/apis/{version}/{resource}"
        self.objects[kind] = {}

    def pod(self, name: str, **spec: Any) -> dict[str, Any]:
        """A pod of ours."""
        container = {"name": "c", "resources": {"requests": {"cpu": "100m"}}}
        whole = {"schedulerName": "muster", "containers": [container], **spec}
        return self.put("pods", name, spec=whole, status={"phase": "Pending"})

    def delete(self, kind: str, name: str) -> None:
        """Delete an object."""
        self.revision += 1
        old = self.objects[kind].pop(name)
        old["metadata"]["resourceVersion"] = str(self.revision)
        self._tell(kind, "DELETED", old)

    def compact(self) -> None:
        """Drop the history up to now."""
        self.compacted = self.revision

    def _is_served(self, kind: str) -> bool:
        if kind in self.unserved:
            return False
        if kind in self.custom:
            return True
        found = COLLECTIONS[kind].split("/")
        return found[2] != "scheduling.k8s.io" or kind in self.scheduling.get(found[3], ())

    def _tell(self, kind: str, what: str, value: dict[str, Any]) -> None:
        self.log.append((self.revision, kind, what, json.loads(json.dumps(value))))
        self._changed.set()
        self._changed = asyncio.Event()

    def fails(self, on: str, code: int, message: str, **headers: str) -> None:
        """Answer the next request about `on` with this status."""

        async def fail(_request: web.Request) -> web.StreamResponse:
            return status(code, message, **headers)

        self.faults.append((on, fail))

    async def until_watched(self, count: int) -> None:
        """Wait until so many watches are open."""
        async with asyncio.timeout(5):
            # Polled: there is no signal when a watch opens.
            while len(self._open()) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    def _open(self) -> list[tuple[str, web.StreamResponse]]:
        """Return the watches whose client is connected."""
        watches = [(kind, response, response._req) for kind, response in self._watches]
        return [(kind, response) for kind, response, asked in watches if asked and asked.transport]

    async def send(self, kind: str, line: dict[str, Any] | bytes) -> None:
        """Write a line into every open watch of a kind."""
        raw = line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
        for own, response in self._open():
            if own == kind:
                await response.write(raw)

    async def bookmark(self, kind: str) -> None:
        """Send the watches a bookmark."""
        meta = {"resourceVersion": str(self.revision), "creationTimestamp": None}
        await self.send(kind, {"type": "BOOKMARK", "object": {"metadata": meta, "spec": {}}})

    # -------------------------------------------------------------------------------- requests

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path_qs))
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return status(401, "Unauthorized")
        if self.client_name and self.client_name != _name_shown(request):
            return status(401, "Unauthorized")
        if self.faults and self.faults[0][0] in f"{request.method} {request.path_qs}":
            answer = await self.faults.popleft()[1](request)
            if answer is not None:
                return answer
        return await self.answer(request)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Return the answer of a server without faults."""
        path, method = request.path, request.method
        for kind, collection in {**COLLECTIONS, **self.custom}.items():
            if path == collection and self._is_served(kind):
                return await (self._watch if "watch" in request.query else self._list)(
                    kind, request
                )
        for kind in ("persistentvolumes", "persistentvolumeclaims"):
            owner, _, name = path.rpartition("/")
            if owner.removesuffix(f"/{kind}") != owner:
                body = await request.json() if request.can_read_body else None
                return self._storage(kind, name, body)
        if path == "/api/v1/namespaces/kube-system":
            return web.json_response({"metadata": {"uid": "uid-of-kube-system"}})
        if path == "/apis/scheduling.k8s.io":
            versions = [{"version": version} for version in self.scheduling]
            return web.json_response({"versions": versions})
        group, _, version = path.rpartition("/")
        if group == "/apis/scheduling.k8s.io" and version in self.scheduling:
            names = [{"name": name} for name in self.scheduling[version]]
            return web.json_response({"resources": names})
        custom = [one.rpartition("/") for one in self.custom.values()]
        if found := [{"name": name} for version, _, name in custom if version == path]:
            return web.json_response({"resources": found})
        if path.startswith("/api/v1/namespaces/default/pods/"):
            name, _, subresource = path.removeprefix("/api/v1/namespaces/default/pods/").partition(
                "/"
            )
            body = await request.json() if request.can_read_body else {}
            return self._pod(method, name, subresource, body)
        if path.startswith("/apis/events.k8s.io/v1/namespaces/default/events"):
            self.events.append((method, await request.json()))
            return web.json_response({}, status=201)
        if path.startswith(CLAIMS):
            name, _, part = path.removeprefix(CLAIMS).partition("/")
            return self._claim(name, part, request, await request.read())
        if path.startswith(LEASES):
            body = await request.json() if request.can_read_body else None
            return self._lease(method, path.removeprefix(LEASES).strip("/"), body)
        return status(404, f"{path}: the server could not find the requested resource")

    async def _list(self, kind: str, request: web.Request) -> web.Response:
        start = int(request.query.get("continue") or 0)
        limit = int(request.query.get("limit") or 500)
        at = int(request.query.get("resourceVersion") or self.revision)
        if at < self.compacted:
            return status(410, "The provided resource version is too old")
        items = list((self.objects[kind] if at == self.revision else self._at(at, kind)).values())
        meta = {"resourceVersion": str(at)}
        if len(items) > start + limit:
            meta["continue"] = str(start + limit)
        return web.json_response({"metadata": meta, "items": items[start : start + limit]})

    def _at(self, at: int, kind: str) -> dict[str, dict[str, Any]]:
        """Return the objects at a revision."""
        found: dict[str, dict[str, Any]] = {}
        for revision, own, what, value in self.log:
            if own == kind and revision <= at:
                if what == "DELETED":
                    del found[value["metadata"]["name"]]
                else:
                    found[value["metadata"]["name"]] = value
        return found

    async def _watch(self, kind: str, request: web.Request) -> web.StreamResponse:
        at = int(request.query["resourceVersion"])
        if at < self.compacted:
            return status(410, "too old resource version")
        response = web.StreamResponse()
        await response.prepare(request)
        self._watches.append((kind, response))
        try:
            while True:
                changed = self._changed
                for revision, own, what, value in [one for one in self.log if one[0] > at]:
                    at = revision
                    if own == kind:
                        line = {"type": what, "object": value}
                        await response.write(json.dumps(line).encode() + b"\n")
                await changed.wait()
        finally:
            self._watches.remove((kind, response))

    def _storage(self, kind: str, name: str, body: dict[str, Any] | None) -> web.Response:
        """Read, or (with a body) patched as it was read."""
        found = self.objects[kind].get(name)
        if found is None:
            return status(404, f'{kind} "{name}" not found')
        if body is not None:
            wanted, has = body.pop("metadata"), found["metadata"]
            if wanted["resourceVersion"] != has["resourceVersion"]:
                return status(409, "the object has been modified")
            notes = {**has.get("annotations", {}), **wanted.get("annotations", {})}
            spec = {**found.get("spec", {}), **body.get("spec", {})}
            found = self.put(kind, name, metadata={**has, "annotations": notes}, spec=spec)
        return web.json_response(found)

    def _claim(self, name: str, part: str, request: web.Request, body: bytes) -> web.Response:
        """Read, or (with a body) written as it was read: its status, or its finalizers."""
        found = self.objects["resourceclaims"].get(name)
        if found is None:
            return status(404, f'resourceclaims "{name}" not found')
        if body:
            try:
                is_binary = request.content_type == PROTOBUF
                wanted = claim_wire.decoded(found, body) if is_binary else json.loads(body)
            except ValueError as error:
                return status(422, str(error))
            has = found["metadata"]
            if wanted["metadata"]["resourceVersion"] != has["resourceVersion"]:
                return status(409, "the object has been modified")
            if part == "status":
                fields = {"status": wanted.get("status") or {}}
            elif is_binary:
                fields = {"metadata": {**has, "finalizers": wanted["metadata"]["finalizers"]}}
            else:
                return status(422, "spec: Invalid value: field is immutable")
            found = self.put("resourceclaims", name, **fields)
        assert request.headers["Accept"] == PROTOBUF
        return web.Response(body=claim_wire.encoded(found), content_type=PROTOBUF)

    def _lease(self, method: str, name: str, body: dict[str, Any] | None) -> web.Response:
        """Made, read, or written as it was read."""
        if method == "POST":
            assert body is not None
            name = body["metadata"]["name"]
            if name in self.leases:
                return status(409, f'leases "{name}" already exists')
        elif name not in self.leases:
            return status(404, f'leases "{name}" not found')
        if body is not None:
            was = self.leases.get(name, {}).get("metadata", {}).get("resourceVersion")
            if body["metadata"].get("resourceVersion") != was:
                return status(409, "the object has been modified")
            self.revision += 1
            meta = {**body["metadata"], "resourceVersion": str(self.revision)}
            self.leases[name] = {**body, "metadata": meta}
        return web.json_response(self.leases[name], status=201 if method == "POST" else 200)

    def _pod(self, method: str, name: str, subresource: str, body: dict[str, Any]) -> web.Response:
        found = self.objects["pods"].get(name)
        if found is None:
            return status(404, f'pods "{name}" not found')
        wanted = body.get("preconditions") or body.get("metadata") or {}
        has = found["metadata"]
        if wanted.get("uid", has["uid"]) != has["uid"]:
            return status(409, "Precondition failed: UID in precondition: other")
        if subresource == "binding":
            return self._bind(found, wanted, body)
        if method == "PATCH":
            status_ = {**found.get("status", {}), **body["status"]}
            if status_ != found.get("status"):
                found = self.put("pods", name, status=status_)
        elif method == "DELETE":
            self.delete("pods", name)
        return web.json_response(found)

    def _bind(
        self, found: dict[str, Any], wanted: dict[str, Any], body: dict[str, Any]
    ) -> web.Response:
        has = found["metadata"]
        if wanted.get("resourceVersion", has["resourceVersion"]) != has["resourceVersion"]:
            return status(409, "Precondition failed: ResourceVersion in precondition: old")
        if found["spec"].get("nodeName"):
            return status(409, f'pod {has["name"]} is already assigned to node "x"')
        if found["spec"].get("schedulingGates"):
            return status(409, f"pod {has['name']} has non-empty .spec.schedulingGates")
        spec = {**found["spec"], "nodeName": body["target"]["name"]}
        self.put("pods", has["name"], spec=spec)
        return web.json_response({"kind": "Status", "status": "Success"}, status=201)
