"""The permissions that Muster needs on a live cluster, and which of them are missing
(SelfSubjectAccessReview).
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from shared.adapters.structured_gather import gather_all
from shared.kubernetes.client.client import ApiError, KubeClient, Response
from shared.kubernetes.client.discovery import POD_GROUPS, WORKLOADS
from shared.kubernetes.client.kinds import DEVICES, HYPER_NODES, OTHER_KINDS
from shared.kubernetes.objects.groups.composite import COMPOSITES
from shared.kubernetes.objects.groups.other_schedulers import OTHER_KINDS as OTHER_GROUPS
from shared.kubernetes.objects.groups.other_schedulers import GroupKind
from shared.model.election import Election

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
UNAUTHORIZED = 401
TOO_MANY = 429
SERVER_ERROR = 500
AT_ONCE = 4
"""The number of concurrent reviews: each is a write to the server, which admits few at a time."""
TRIES = 30
BUSY_S = 1.0

VOLCANO_GROUPS, VOLCANO_JOBS = "scheduling.volcano.sh", "batch.volcano.sh"
GROUPS = "groups"
"""Stands for the resource that the server has for pod groups."""


class Permission(NamedTuple):
    """The resource attributes of a review; no namespace means all namespaces."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        """Return for example `create pods/binding` or `list nodes`."""
        sub = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {self.resource}{sub}{'.' + self.group if self.group else ''}"


_READ_BY_BOTH = (
    Permission("get", "", "namespaces", name="kube-system"),
    Permission("get", "", "pods"),
)
_ASKED_BY_BOTH = (
    *_READ_BY_BOTH,
    Permission("patch", "", "pods", "status"),
    *(Permission(verb, "events.k8s.io", "events") for verb in ("create", "patch")),
)
"""Ingest tells the pods that it refuses why, and reads the uids of those that a budget names."""

_SHOWN_TO_VOLCANO = (
    Permission("get", VOLCANO_GROUPS, POD_GROUPS),
    Permission("patch", VOLCANO_GROUPS, POD_GROUPS, "status"),
)
"""Ingest enqueues groups, and binding writes whether they were scheduled."""

_WATCHED = (
    *(Permission(verb, "", "pods") for verb in ("list", "watch")),
    *(Permission(verb, "", "nodes") for verb in ("list", "watch")),
    *(Permission(verb, "policy", "poddisruptionbudgets") for verb in ("list", "watch")),
    *(Permission(verb, "scheduling.k8s.io", GROUPS) for verb in ("list", "watch")),
    *(
        Permission(verb, kind.api_group, kind.resource)
        for kind in (*OTHER_GROUPS, COMPOSITES)
        for verb in ("list", "watch")
    ),
    *(
        Permission(verb, kind.group, kind.resource)
        for kind in (*OTHER_KINDS, HYPER_NODES)
        for verb in ("list", "watch")
    ),
)

NEEDED = {
    "ingest": (
        *_WATCHED,
        *_ASKED_BY_BOTH,
        *_SHOWN_TO_VOLCANO,
        Permission("get", VOLCANO_JOBS, "jobs"),
    ),
    "binding": (
        Permission("delete", "", "pods"),
        Permission("create", "", "pods", "binding"),
        *(Permission(verb, "", "persistentvolumes") for verb in ("get", "patch")),
        *(Permission(verb, "", "persistentvolumeclaims") for verb in ("get", "patch")),
        *(Permission(verb, DEVICES, "resourceclaims") for verb in ("get", "update")),
        Permission("update", DEVICES, "resourceclaims", "status"),
        Permission("update", DEVICES, "resourceclaims", "binding"),
        Permission("get", "scheduling.k8s.io", POD_GROUPS),
        Permission("patch", "scheduling.k8s.io", POD_GROUPS, "status"),
        *_SHOWN_TO_VOLCANO,
        *_ASKED_BY_BOTH,
    ),
    "extender": (*_WATCHED, *_READ_BY_BOTH),
}
"""The permissions of each service that talks to the cluster; the other services need none. `muster
extender` only reads, unless kube-scheduler asks it to bind.
"""


def of_election(election: Election) -> list[Permission]:
    """Return the permissions for standing by and leading. A review of `create` cannot
    carry a name.
    """
    group, where = "coordination.k8s.io", election.namespace
    return [
        Permission("create", group, "leases", namespace=where),
        *(Permission(v, group, "leases", "", election.name, where) for v in ("get", "update")),
    ]


class _Status(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Status


async def missing_permissions(
    client: KubeClient,
    groups_as: str = WORKLOADS,
    election: Election | None = None,
    services: Iterable[str] = NEEDED,
    other_groups: Sequence[GroupKind] = (),
    hyper_nodes: bool = False,
) -> list[str]:
    """Return the missing permissions of these services in words, such as `create pods/binding`,
    with those for the election if there is one. Groups and `hyper_nodes` that the server lacks need
    none. A busy server is asked again. Raises ApiError, ConnectionError, TimeoutError.
    """
    are_served = {kind.api_group for kind in other_groups}
    if groups_as == POD_GROUPS:
        are_served.add("scheduling.k8s.io")
    if VOLCANO_GROUPS in are_served:
        are_served.add(VOLCANO_JOBS)
    if hyper_nodes:
        are_served.add(HYPER_NODES.group)
    needed = dict.fromkeys(
        one
        for service in services
        for one in NEEDED[service]
        if one.group in are_served
        or not (one.resource == POD_GROUPS or one.group in (VOLCANO_JOBS, HYPER_NODES.group))
    )
    if COMPOSITES not in other_groups:
        needed = {one: None for one in needed if one.resource != COMPOSITES.resource}
    asked = [one._replace(resource=groups_as) if one.resource == GROUPS else one for one in needed]
    asked += [] if election is None else of_election(election)
    room = asyncio.Semaphore(AT_ONCE)
    allowed = await gather_all(*(_is_allowed(client, room, one) for one in asked))
    return [str(one) for one, is_allowed in zip(asked, allowed, strict=True) if not is_allowed]


async def _is_allowed(client: KubeClient, room: asyncio.Semaphore, needed: Permission) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": needed._asdict()},
    }
    async with room:
        response = await _answered(client, msgspec.json.encode(review))
    if response.ok:
        return msgspec.json.decode(response.body, type=_Review).status.allowed
    if response.status in (UNAUTHORIZED, TOO_MANY) or response.status >= SERVER_ERROR:
        raise ApiError(response.status, response.message())
    return True  # Without permission to ask, the requests themselves will tell.


async def _answered(client: KubeClient, review: bytes) -> Response:
    """Return the answer to a review; the last one if the server stays too busy or broken for all
    tries.
    """
    for _ in range(TRIES - 1):
        response = await client.request("POST", REVIEWS, review)
        if response.status != TOO_MANY and response.status < SERVER_ERROR:
            return response
        await asyncio.sleep(response.retry_after_s or BUSY_S)
    return await client.request("POST", REVIEWS, review)
