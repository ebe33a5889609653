"""Discovery: in which version, if any, a server has pod groups, and which other kinds it has.

Groups are Workloads (1.35) or PodGroup objects (later). The API is young and each release of
Kubernetes has another version of it, so the server is asked. The newest known version is read;
unknown versions are logged once. Groups of other schedulers are custom resources, which most
servers lack.
"""

import logging
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from shared.adapters.structured_gather import gather_all
from shared.kubernetes.client.client import ApiError, KubeClient
from shared.kubernetes.client.kinds import HYPER_NODES, TAINT_RULES, Kind
from shared.kubernetes.objects.groups.composite import COMPOSITES
from shared.kubernetes.objects.groups.other_schedulers import OTHER_KINDS as OTHER_GROUPS
from shared.kubernetes.objects.groups.other_schedulers import GroupKind
from shared.kubernetes.objects.groups.pod_groups import POD_GROUP_VERSIONS, WORKLOAD_VERSION

GROUP = "/apis/scheduling.k8s.io"
FORBIDDEN, NOT_FOUND = 403, 404
WORKLOADS, POD_GROUPS = "workloads", "podgroups"
READ = (
    *((version.rpartition("/")[2], POD_GROUPS) for version in POD_GROUP_VERSIONS),
    (WORKLOAD_VERSION.rpartition("/")[2], WORKLOADS),
)
"""Newest first."""
KNOWN = ("v1", *(version for version, _ in READ))
"""Versions of the API group; v1 has only PriorityClass."""

log = logging.getLogger("muster.kube")


class Collection(NamedTuple):
    """The path where groups are served, and their resource."""

    path: str
    resource: str


class _Version(msgspec.Struct):
    version: str


class _Group(msgspec.Struct):
    versions: list[_Version] = []


class _Resource(msgspec.Struct):
    name: str


class _Resources(msgspec.Struct):
    resources: list[_Resource] = []


async def pod_groups(client: KubeClient) -> Collection | None:
    """Return where groups are served, or None. Raises ApiError, ConnectionError, TimeoutError."""
    body = await _get(client, GROUP)
    if body is None:
        return None
    served = [one.version for one in msgspec.json.decode(body, type=_Group).versions]
    found = None
    for version, resource in READ:
        if (
            found is None
            and version in served
            and await _has(client, f"{GROUP}/{version}", resource)
        ):
            found = Collection(f"{GROUP}/{version}/{resource}", resource)
    for version in served:
        if version not in KNOWN:
            kept = f"groups are read from {found.path}" if found else "no groups are read"
            log.warning("scheduling.k8s.io/%s is not known to this version: %s", version, kept)
    return found


async def other_groups(client: KubeClient, composites: bool = False) -> list[GroupKind]:
    """Return the kinds of other schedulers' groups that are served, and, if asked for,
    CompositePodGroups. Raises ApiError, ConnectionError, TimeoutError.
    """
    kinds = (*OTHER_GROUPS, COMPOSITES) if composites else OTHER_GROUPS
    found = await gather_all(
        *(_has(client, f"/apis/{kind.version}", kind.resource) for kind in kinds)
    )
    return [kind for kind, is_served in zip(kinds, found, strict=True) if is_served]


async def has_hyper_nodes(client: KubeClient) -> bool:
    """Return whether HyperNodes of Volcano are served. Raises ApiError, ConnectionError,
    TimeoutError.
    """
    return await _has(client, HYPER_NODES.root, HYPER_NODES.resource)


async def served(client: KubeClient, kinds: Sequence[Kind]) -> list[Kind]:
    """Return the kinds that the server has. Raises ApiError, ConnectionError, TimeoutError."""
    bodies = await gather_all(*(_get(client, f"{kind.path}?limit=1") for kind in kinds))
    pairs = list(zip(kinds, bodies, strict=True))
    missing = [kind.path for kind, body in pairs if body is None and kind is not TAINT_RULES]
    if missing:
        log.warning("not served, so left out: %s", ", ".join(missing))
    return [kind for kind, body in pairs if body is not None]


async def may_read(client: KubeClient, kind: Kind) -> bool:
    """Return whether the server has a custom resource of this kind, and we may read it; only who
    wants to use it permits it. Raises ApiError, ConnectionError, TimeoutError.
    """
    if not await _has(client, kind.root, kind.resource):
        return False
    response = await client.request("GET", f"{kind.path}?limit=1", None)
    if response.status == FORBIDDEN:
        log.info("%ss are not used: there is no permission to read them", kind.name)
        return False
    if not response.ok:
        raise ApiError(response.status, response.message())
    return True


async def _has(client: KubeClient, version: str, resource: str) -> bool:
    body = await _get(client, version)
    if body is None:
        return False
    return any(one.name == resource for one in msgspec.json.decode(body, type=_Resources).resources)


async def _get(client: KubeClient, path: str) -> bytes | None:
    try:
        return await client.get(path)
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
        return None
