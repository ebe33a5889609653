"""Writes resource claims before their pods are bound, and takes back what was written (PreBind and
Unreserve of kube-scheduler's DynamicResources).

Each claim is read first, and written only if it is unchanged since. Devices are written only to the
version of the claim that the shard knew: so a claim that was given back, which raises its
resourceVersion, refuses all older writes, however late.

The API server compares the parameters of drivers byte by byte. So what was read goes back as it
came, and what is new is written as Go writes it. Only parameters that the server shows in other
words than it keeps, such as with spaces, can never be sent back: their claims refuse all writes.
"""

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from shared.kubernetes.client.client import Response
from shared.kubernetes.objects.claims.written import allocation_object
from shared.kubernetes.writing.answers import INVALID, change_answer
from shared.model.api_outcome import Answer
from shared.model.claims import Allocation, ClaimChoice
from shared.ports.cluster import ClaimsAnswer, ClaimsRequest, PodRef

FINALIZER = "resource.kubernetes.io/delete-protection"
USERS_MAX = 256
JSON = "application/json"
ESCAPED = {character: f"\\u{ord(character):04x}".encode() for character in "<>&\u2028\u2029"}

Object = dict[str, Any]
Send = Callable[[str, str, bytes | None, str], Awaitable[Response | Answer]]
Tell = Callable[[Answer, Response, str], None]


async def write_claims(send: Send, tell: Tell, request: ClaimsRequest) -> ClaimsAnswer:
    """Write the claims of one pod; see the port. `send` takes (method, path, body, content type);
    `tell` gets the answers.
    """
    revisions, is_stale = [], False
    for choice in request.choices:
        claim = _Claim(send, tell, choice)
        answer = await (_give_back if request.gives_back else _write)(claim, request.pod)
        is_gone = request.gives_back and answer is Answer.GONE
        is_stale = is_stale or answer is Answer.STALE
        if answer not in (Answer.DONE, Answer.STALE) and not is_gone:
            return ClaimsAnswer(answer)
        revisions.append(0 if is_gone else int(claim.meta["resourceVersion"]))
    return ClaimsAnswer(Answer.STALE if is_stale else Answer.DONE, tuple(revisions))


class _Claim:
    """One claim at the API server, as it was read or written last."""

    def __init__(self, send: Send, tell: Tell, choice: ClaimChoice) -> None:
        self._send, self._tell, self.choice = send, tell, choice
        namespace = f"/apis/resource.k8s.io/v1/namespaces/{choice.namespace}"
        self._path = f"{namespace}/resourceclaims/{choice.name}"
        self._parts: Object = {}
        self._status: Object = {}
        self.meta: Object = {}
        self.is_invalid = False

    async def read(self) -> Answer:
        return await self._call("GET", self._path, None)

    async def write(self, changed: Object, part: str = "") -> Answer:
        """PUT the claim, or its status (`part` "/status"), under its resourceVersion."""
        body = msgspec.json.encode(changed)
        for character, escaped in ESCAPED.items():
            body = body.replace(character.encode(), escaped)
        return await self._call("PUT", self._path + part, body)

    async def _call(self, method: str, path: str, body: bytes | None) -> Answer:
        response = await self._send(method, path, body, JSON)
        if isinstance(response, Answer):
            return response
        answer, choice = change_answer(response), self.choice
        self.is_invalid = response.status == INVALID
        self._tell(answer, response, f"write ResourceClaim {choice.namespace}/{choice.name}")
        if answer is not Answer.DONE:
            return answer
        try:
            self._parts = msgspec.json.decode(response.body, type=dict[str, msgspec.Raw])
            status = self._parts.get("status", b"null")
            self._status = msgspec.json.decode(status, type=dict[str, msgspec.Raw] | None) or {}
            self.meta = msgspec.json.decode(self._parts["metadata"], type=Object)
        except (msgspec.DecodeError, KeyError):
            return Answer.UNKNOWN
        return Answer.DONE if self.meta.get("uid") == choice.uid else Answer.GONE

    @property
    def allocation(self) -> Object | None:
        found: Object | None = msgspec.json.decode(self._status.get("allocation", b"null"))
        return found

    @property
    def users(self) -> list[Object]:
        return msgspec.json.decode(self._status.get("reservedFor", b"null")) or []

    @property
    def finalizers(self) -> list[str]:
        return self.meta.get("finalizers") or []

    def with_finalizers(self, finalizers: list[str]) -> Object:
        return {**self._parts, "metadata": {**self.meta, "finalizers": finalizers}}

    def with_status(self, **fields: Any) -> Object:
        status = {**self._status, **fields}
        kept = {key: value for key, value in status.items() if value is not None}
        return {**self._parts, "status": kept}

    @property
    def is_known_version(self) -> bool:
        return self.meta.get("resourceVersion") == str(self.choice.revision)

    def has_chosen_devices(self) -> bool:
        """Return whether the claim has the devices of the choice, or any if that has none."""
        wanted = self.choice.allocation
        return wanted is None or _devices(self.allocation) == _chosen(wanted)


async def _write(claim: _Claim, pod: PodRef) -> Answer:
    answer = await claim.read()
    if answer is not Answer.DONE:
        return answer
    if claim.meta.get("deletionTimestamp"):
        return Answer.REFUSED
    user = {"resource": "pods", "name": pod.name, "uid": pod.uid}
    if claim.allocation is not None:
        if not claim.has_chosen_devices() or len(claim.users) >= USERS_MAX:
            return Answer.REFUSED
        if _is_among(pod, claim.users):
            return Answer.DONE
        return await claim.write(claim.with_status(reservedFor=[*claim.users, user]), "/status")
    wanted = claim.choice.allocation
    if wanted is None or not claim.is_known_version:
        return Answer.REFUSED
    if FINALIZER not in claim.finalizers:
        answer = await claim.write(claim.with_finalizers([*claim.finalizers, FINALIZER]))
        if answer is not Answer.DONE:
            return answer
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    given = {**allocation_object(wanted), "allocationTimestamp": now}
    return await claim.write(claim.with_status(allocation=given, reservedFor=[user]), "/status")


async def _give_back(claim: _Claim, pod: PodRef) -> Answer:
    answer = await claim.read()
    if answer is not Answer.DONE:
        return answer
    if not claim.is_known_version:
        return Answer.STALE
    if claim.allocation is None:
        return await _refuse_older_writes(claim)
    if not claim.has_chosen_devices():
        return Answer.DONE  # another write was faster, and ours cannot land
    others = [one for one in claim.users if one.get("uid") != pod.uid]
    if others:
        if len(others) == len(claim.users):
            return Answer.DONE
        return await claim.write(claim.with_status(reservedFor=others), "/status")
    empty = claim.with_status(allocation=None, reservedFor=None, devices=None)
    answer = await claim.write(empty, "/status")
    if answer is Answer.DONE:
        await _without_finalizer(claim)  # else the resourceclaim controller does it
    return answer


async def _refuse_older_writes(claim: _Claim) -> Answer:
    """Raise the resourceVersion of a claim without devices. It is raised already if the claim is
    being deleted and has no finalizer of ours.
    """
    if FINALIZER in claim.finalizers:
        return await _without_finalizer(claim)
    if claim.meta.get("deletionTimestamp"):
        return Answer.DONE
    answer = await claim.write(claim.with_finalizers([*claim.finalizers, FINALIZER]))
    if answer is Answer.DONE:
        await _without_finalizer(claim)
    return Answer.DONE if claim.is_invalid and answer is Answer.REFUSED else answer


async def _without_finalizer(claim: _Claim) -> Answer:
    if FINALIZER not in claim.finalizers:
        return Answer.DONE
    left = [one for one in claim.finalizers if one != FINALIZER]
    return await claim.write(claim.with_finalizers(left))


def _is_among(pod: PodRef, users: Iterable[Object]) -> bool:
    return any(one.get("uid") == pod.uid for one in users)


def _devices(allocation: Object | None) -> list[tuple[str, ...]]:
    results = ((allocation or {}).get("devices") or {}).get("results") or []
    names = ("request", "driver", "pool", "device", "shareID")
    return [tuple(one.get(name) or "" for name in names) for one in results]


def _chosen(allocation: Allocation) -> list[tuple[str, ...]]:
    return [(one.request, *one.id, one.share_id) for one in allocation.results]
