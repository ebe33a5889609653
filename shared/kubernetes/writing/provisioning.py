"""Writes requests to the cluster autoscaler (ProvisioningRequest), with a PodTemplate for each kind
of member.

Templates are written before the request that names them and deleted before it, so that none is left
behind: after a crash the whole is repeated. A template is the spec of a member as the server has
it, with its defaults, without what belongs to one pod only.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from shared.kubernetes.client.client import Response
from shared.kubernetes.objects.groups.provisioning import GANG, MANAGED_BY, OWN, RESOURCE, VERSION
from shared.kubernetes.writing.answers import change_answer
from shared.model.api_outcome import Answer
from shared.ports.cluster import NodesRequest, PodRef

POD_SETS_MAX = 32
NOT_SERVED = f"the cluster has no {VERSION}"
OF_ONE_POD = (
    "nodeName",
    "schedulingGates",
    "schedulingGroup",
    "workloadRef",
    "ephemeralContainers",
)
JSON = "application/json"
NOT_FOUND, CONFLICT = 404, 409

log = logging.getLogger("muster.kube")

Send = Callable[[str, str, bytes | None, str], Awaitable[Response | Answer]]


class _Refused(Exception):
    """Why a request was not written; empty if it may be written by a repeat."""


class _Meta(msgspec.Struct):
    name: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Reference(msgspec.Struct):
    name: str = ""


class _PodSet(msgspec.Struct):
    podTemplateRef: _Reference = msgspec.field(default_factory=_Reference)


class _Spec(msgspec.Struct):
    podSets: list[_PodSet] = []


class _Object(msgspec.Struct):
    metadata: _Meta
    apiVersion: str = ""
    kind: str = ""


class _Request(msgspec.Struct):
    metadata: _Meta
    spec: _Spec


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: dict[str, Any]


class ProvisioningRequests:
    """Writes the requests of one process."""

    def __init__(self, send: Send, group_path: Callable[[str], str]) -> None:
        """`send` sends a request to the API server; `group_path` returns the path of the object of
        a gang (by key) that can own its request, or nothing.
        """
        self._send, self._group_path = send, group_path

    async def write(self, request: NodesRequest) -> str:
        """Create or delete a request; see the port."""
        try:
            await (self._delete(request) if request.uid else self._create(request))
        except _Refused as refused:
            if request.uid and str(refused):
                name = f"{request.namespace}/{request.name}"
                log.warning("ProvisioningRequest %s was not deleted: %s", name, refused)
            return str(refused)
        return ""

    async def _create(self, request: NodesRequest) -> None:
        if len(request.samples) > POD_SETS_MAX:
            count = len(request.samples)
            raise _Refused(f"its members are of {count} kinds, and at most {POD_SETS_MAX} fit in")
        if await self._get(f"/apis/{VERSION}") is None:
            raise _Refused(NOT_SERVED)
        path = _path(request.namespace, request.name)
        found = await self._get(path)
        if found is not None:
            self._check_ours(request, found, "ProvisioningRequest")
            return
        owners = await self._owners(request)
        names = []
        for number, sample in enumerate(request.samples):
            names.append(f"{request.name}-{number}")
            await self._create_template(request, names[-1], await self._template(sample), owners)
        sets = [
            {"podTemplateRef": {"name": name}, "count": count}
            for name, count in zip(names, request.counts, strict=True)
        ]
        body = {
            "apiVersion": VERSION,
            "kind": "ProvisioningRequest",
            "metadata": _metadata(request, request.name, owners),
            "spec": {"provisioningClassName": request.class_name, "podSets": sets},
        }
        await self._post(_path(request.namespace), body)

    async def _owners(self, request: NodesRequest) -> list[dict[str, str]]:
        """Return the reference to the group's object, so that the request ends with it."""
        path = self._group_path(request.key)
        if not path:
            return []
        body = await self._get(path)
        if body is None:
            raise _Refused("")  # the group was deleted just now
        group = msgspec.json.decode(body, type=_Object)
        one = {"apiVersion": group.apiVersion, "kind": group.kind}
        return [{**one, "name": group.metadata.name, "uid": group.metadata.uid}]

    async def _template(self, sample: PodRef) -> dict[str, Any]:
        """Return the template of a member's spec."""
        body = await self._get(f"/api/v1/namespaces/{sample.namespace}/pods/{sample.name}")
        pod = None if body is None else msgspec.json.decode(body, type=_Pod)
        if pod is None or pod.metadata.uid != sample.uid:
            raise _Refused("")  # the member was deleted just now
        spec = {name: value for name, value in pod.spec.items() if name not in OF_ONE_POD}
        return {"metadata": {"labels": pod.metadata.labels or {}}, "spec": spec}

    async def _create_template(
        self,
        request: NodesRequest,
        name: str,
        template: dict[str, Any],
        owners: list[dict[str, str]],
    ) -> None:
        """Create a PodTemplate in place of one that an unfinished try has left."""
        path = _template_path(request.namespace, name)
        left = await self._get(path)
        if left is not None:
            self._check_ours(request, left, "PodTemplate")
            await self._remove(path)
        meta = _metadata(request, name, owners)
        body = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": meta, "template": template}
        await self._post(_template_path(request.namespace), body)

    def _check_ours(self, request: NodesRequest, body: bytes, kind: str) -> None:
        meta = msgspec.json.decode(body, type=_Object).metadata
        if (meta.annotations or {}).get(GANG) != request.key:
            raise _Refused(f"there is a {kind} {request.namespace}/{meta.name} of someone else")

    async def _delete(self, request: NodesRequest) -> None:
        path = _path(request.namespace, request.name)
        body = await self._get(path)
        found = None if body is None else msgspec.json.decode(body, type=_Request)
        if found is None or found.metadata.uid != request.uid:
            return
        for one in found.spec.podSets:
            await self._remove(_template_path(request.namespace, one.podTemplateRef.name))
        await self._remove(path, request.uid)

    # ------------------------------------------------------------------------------------- wire

    async def _get(self, path: str) -> bytes | None:
        response = await self._send("GET", path, None, JSON)
        if not isinstance(response, Answer) and response.status == NOT_FOUND:
            return None
        return _body(response)

    async def _post(self, path: str, body: dict[str, Any]) -> None:
        response = await self._send("POST", path, msgspec.json.encode(body), JSON)
        if isinstance(response, Answer) or response.status != CONFLICT:
            _body(response)

    async def _remove(self, path: str, uid: str = "") -> None:
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        response = await self._send("DELETE", path, msgspec.json.encode(options), JSON)
        if isinstance(response, Answer) or response.status not in (NOT_FOUND, CONFLICT):
            _body(response)


def _body(response: Response | Answer) -> bytes:
    """Return the body of an answer. Raises _Refused, without a text if a repeat may help."""
    if isinstance(response, Answer):
        raise _Refused("")
    if not response.ok:
        is_final = change_answer(response) in (Answer.REFUSED, Answer.GONE)
        raise _Refused(response.message() if is_final else "")
    return response.body


def _metadata(request: NodesRequest, name: str, owners: list[dict[str, str]]) -> dict[str, Any]:
    marks = {"labels": {MANAGED_BY: OWN}, "annotations": {GANG: request.key}}
    return {"name": name, **marks, "ownerReferences": owners}


def _path(namespace: str, name: str = "") -> str:
    return f"/apis/{VERSION}/namespaces/{namespace}/{RESOURCE}/{name}".rstrip("/")


def _template_path(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/podtemplates/{name}".rstrip("/")
