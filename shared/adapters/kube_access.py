"""What a live cluster must allow us, and what of it is missing (SelfSubjectAccessReview)."""

import asyncio

import msgspec

from shared.adapters.kube_client import ApiError, KubeClient, Response
from shared.adapters.kube_discovery import WORKLOADS
from shared.adapters.kube_kinds import OTHER_KINDS
from shared.adapters.together import together

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
UNAUTHORIZED = 401
TOO_MANY = 429
SERVER_ERROR = 500
AT_ONCE = 4
"""Reviews asked side by side: they are writes to the server, which lets few in at a time."""
TRIES = 30
BUSY_S = 1.0

GROUPS = "groups"
"""Stands for the resource that the server has pod groups in."""
NEEDED: tuple[tuple[str, str, str, str], ...] = (
    *((verb, "", "pods", "") for verb in ("list", "watch", "get", "delete")),
    *((verb, "", "nodes", "") for verb in ("list", "watch")),
    *((verb, "policy", "poddisruptionbudgets", "") for verb in ("list", "watch")),
    *((verb, "scheduling.k8s.io", GROUPS, "") for verb in ("list", "watch")),
    *((verb, kind.group, kind.resource, "") for kind in OTHER_KINDS for verb in ("list", "watch")),
    ("get", "", "namespaces", ""),
    ("create", "", "pods", "binding"),
    *((verb, "", "persistentvolumes", "") for verb in ("get", "patch")),
    *((verb, "", "persistentvolumeclaims", "") for verb in ("get", "patch")),
    ("patch", "", "pods", "status"),
    *((verb, "events.k8s.io", "events", "") for verb in ("create", "patch")),
)
"""(verb, API group, resource, subresource), in all namespaces; got is only the one kube-system."""
NAMES = {("get", "namespaces"): "kube-system"}


class _Status(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Status


async def missing_permissions(client: KubeClient, groups_as: str = WORKLOADS) -> list[str]:
    """In words, such as `create pods/binding`; a busy server is asked again. Raises ApiError,
    ConnectionError, TimeoutError.
    """
    asked = [
        (verb, group, groups_as if resource == GROUPS else resource, sub)
        for verb, group, resource, sub in NEEDED
    ]
    room = asyncio.Semaphore(AT_ONCE)
    allowed = await together(*(_is_allowed(client, room, *needed) for needed in asked))
    return [
        f"{verb} {resource}{'/' + sub if sub else ''}{'.' + group if group else ''}"
        for (verb, group, resource, sub), is_allowed in zip(asked, allowed, strict=True)
        if not is_allowed
    ]


async def _is_allowed(
    client: KubeClient,
    room: asyncio.Semaphore,
    verb: str,
    group: str,
    resource: str,
    subresource: str,
) -> bool:
    attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
    attributes["name"] = NAMES.get((verb, resource), "")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    async with room:
        response = await _answered(client, msgspec.json.encode(review))
    if response.ok:
        return msgspec.json.decode(response.body, type=_Review).status.allowed
    if response.status in (UNAUTHORIZED, TOO_MANY) or response.status >= SERVER_ERROR:
        raise ApiError(response.status, response.message())
    return True  # Whoever may not ask finds out by trying.


async def _answered(client: KubeClient, review: bytes) -> Response:
    """The last answer, where the server stays too busy or broken for all tries."""
    for _ in range(TRIES - 1):
        response = await client.request("POST", REVIEWS, review)
        if response.status != TOO_MANY and response.status < SERVER_ERROR:
            return response
        await asyncio.sleep(response.retry_after_s or BUSY_S)
    return await client.request("POST", REVIEWS, review)
