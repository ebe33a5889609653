"""Writes resource claims before their pods are bound, and takes back what was written (PreBind and
Unreserve of kube-scheduler's DynamicResources).

Each claim is read first, and written only if it is unchanged since. Devices are written only to the
version of the claim that the shard knew: so a claim that was given back, which raises its
resourceVersion, refuses all older writes, however late.

Claims are read and changed as protobuf, as kube-scheduler does: the API server compares the
parameters of drivers byte by byte, and shows them in other bytes as JSON. Only the first devices of
a claim are written as JSON. The numbers of fields are those of k8s.io/api/resource/v1 and
apimachinery/pkg/apis/meta/v1 (generated.proto).
"""

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime

import msgspec

from shared.kubernetes.client.client import JSON, Response
from shared.kubernetes.client.protobuf import (
    PROTOBUF,
    content,
    contents,
    field,
    framed,
    unframed,
    with_fields,
)
from shared.kubernetes.objects.claims.written import allocation_object
from shared.kubernetes.writing.answers import change_answer
from shared.model.api_outcome import Answer
from shared.model.claims import Allocation, ClaimChoice
from shared.ports.cluster import ClaimsAnswer, ClaimsRequest, PodRef

FINALIZER = "resource.kubernetes.io/delete-protection"
USERS_MAX = 256
VERSION = "resource.k8s.io/v1"
METADATA, STATUS = 1, 3
UID, REVISION, DELETED_AT, FINALIZERS = 5, 6, 9, 14  # of ObjectMeta
ALLOCATION, RESERVED_FOR = 1, 2  # of ResourceClaimStatus
USER_RESOURCE, USER_NAME, USER_UID = 3, 4, 5  # of ResourceClaimConsumerReference
DEVICES, RESULTS = 1, 1  # of AllocationResult, of DeviceAllocationResult
NAMES = (1, 2, 3, 4, 9)
"""Request, driver, pool, device and shareID of DeviceRequestAllocationResult."""

Send = Callable[[str, str, bytes | None, str, str], Awaitable[Response | Answer]]
Tell = Callable[[Answer, Response, str], None]


async def write_claims(send: Send, tell: Tell, request: ClaimsRequest) -> ClaimsAnswer:
    """Write the claims of one pod; see the port. `send` takes (method, path, body, content type,
    type of the answer); `tell` gets the answers.
    """
    revisions, is_stale = [], False
    for choice in request.choices:
        claim = _Claim(send, tell, choice)
        answer = await (_give_back if request.gives_back else _write)(claim, request.pod)
        is_gone = request.gives_back and answer is Answer.GONE
        is_stale = is_stale or answer is Answer.STALE
        if answer not in (Answer.DONE, Answer.STALE) and not is_gone:
            return ClaimsAnswer(answer)
        revisions.append(0 if is_gone else claim.revision)
    return ClaimsAnswer(Answer.STALE if is_stale else Answer.DONE, tuple(revisions))


class _Claim:
    """One claim at the API server, as it was read or written last."""

    def __init__(self, send: Send, tell: Tell, choice: ClaimChoice) -> None:
        self._send, self._tell, self.choice = send, tell, choice
        namespace = f"/apis/{VERSION}/namespaces/{choice.namespace}"
        self._path = f"{namespace}/resourceclaims/{choice.name}"
        self._object = self._status = b""
        self.revision = 0
        self.is_deleted = self.is_allocated = False
        self.finalizers: list[str] = []
        self.users: list[bytes] = []

    async def read(self) -> Answer:
        return await self._call("GET", self._path, None, PROTOBUF)

    async def write_finalizers(self, finalizers: list[str]) -> Answer:
        meta = with_fields(content(self._object, METADATA), FINALIZERS, finalizers)
        return await self._put("", with_fields(self._object, METADATA, [meta]))

    async def write_users(self, users: list[bytes]) -> Answer:
        status = with_fields(self._status, RESERVED_FOR, users)
        return await self._put("/status", with_fields(self._object, STATUS, [status]))

    async def clear(self) -> Answer:
        """Write that the claim has no devices and no users."""
        return await self._put("/status", with_fields(self._object, STATUS, [b""]))

    async def allocate(self, allocation: Allocation, pod: PodRef) -> Answer:
        """Write the first devices and the first user of the claim."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        choice = self.choice
        meta = {"namespace": choice.namespace, "name": choice.name, "uid": choice.uid}
        status = {
            "allocation": {**allocation_object(allocation), "allocationTimestamp": now},
            "reservedFor": [{"resource": "pods", "name": pod.name, "uid": pod.uid}],
        }
        body = {
            "apiVersion": VERSION,
            "kind": "ResourceClaim",
            "metadata": {**meta, "resourceVersion": str(self.revision)},
            "status": status,
        }
        return await self._call("PUT", f"{self._path}/status", msgspec.json.encode(body), JSON)

    async def _put(self, part: str, changed: bytes) -> Answer:
        """PUT the claim, or a part of it, under its resourceVersion."""
        return await self._call("PUT", self._path + part, framed(changed), PROTOBUF)

    async def _call(self, method: str, path: str, body: bytes | None, content_type: str) -> Answer:
        response = await self._send(method, path, body, content_type, PROTOBUF)
        if isinstance(response, Answer):
            return response
        answer, choice = change_answer(response), self.choice
        self._tell(answer, response, f"write ResourceClaim {choice.namespace}/{choice.name}")
        if answer is not Answer.DONE:
            return answer
        try:
            return self._take(unframed(response.body))
        except ValueError:
            return Answer.UNKNOWN

    def _take(self, claim: bytes) -> Answer:
        """Take a claim as answered; return whether it is that of the choice. Raises ValueError."""
        meta, self._object, self._status = content(claim, METADATA), claim, content(claim, STATUS)
        self.revision = int(content(meta, REVISION))
        self.is_deleted = bool(contents(meta, DELETED_AT))
        self.finalizers = [one.decode() for one in contents(meta, FINALIZERS)]
        self.is_allocated = bool(contents(self._status, ALLOCATION))
        self.users = contents(self._status, RESERVED_FOR)
        return Answer.DONE if content(meta, UID).decode() == self.choice.uid else Answer.GONE

    @property
    def is_known_version(self) -> bool:
        return self.revision == self.choice.revision

    def has_chosen_devices(self) -> bool:
        """Return whether the claim has the devices of the choice, or any if that has none."""
        wanted = self.choice.allocation
        if wanted is None:
            return True
        results = contents(content(self._status, ALLOCATION, DEVICES), RESULTS)
        has = [tuple(content(one, name).decode() for name in NAMES) for one in results]
        return has == [(one.request, *one.id, one.share_id) for one in wanted.results]


async def _write(claim: _Claim, pod: PodRef) -> Answer:
    answer = await claim.read()
    if answer is not Answer.DONE:
        return answer
    if claim.is_deleted:
        return Answer.REFUSED
    if claim.is_allocated:
        if not claim.has_chosen_devices() or len(claim.users) >= USERS_MAX:
            return Answer.REFUSED
        if len(_without(pod, claim.users)) < len(claim.users):
            return Answer.DONE
        names = (USER_RESOURCE, "pods"), (USER_NAME, pod.name), (USER_UID, pod.uid)
        user = b"".join(field(number, text) for number, text in names)
        return await claim.write_users([*claim.users, user])
    wanted = claim.choice.allocation
    if wanted is None or not claim.is_known_version:
        return Answer.REFUSED
    if FINALIZER not in claim.finalizers:
        answer = await claim.write_finalizers([*claim.finalizers, FINALIZER])
        if answer is not Answer.DONE:
            return answer
    return await claim.allocate(wanted, pod)


async def _give_back(claim: _Claim, pod: PodRef) -> Answer:
    answer = await claim.read()
    if answer is not Answer.DONE:
        return answer
    if not claim.is_known_version:
        return Answer.STALE
    if not claim.is_allocated:
        return await _refuse_older_writes(claim)
    if not claim.has_chosen_devices():
        return Answer.DONE  # another write was faster, and ours cannot land
    others = _without(pod, claim.users)
    if others:
        return Answer.DONE if others == claim.users else await claim.write_users(others)
    answer = await claim.clear()
    if answer is Answer.DONE:
        await _without_finalizer(claim)  # else the resourceclaim controller does it
    return answer


async def _refuse_older_writes(claim: _Claim) -> Answer:
    """Raise the resourceVersion of a claim without devices. It is raised already if the claim is
    being deleted and has no finalizer of ours.
    """
    if FINALIZER in claim.finalizers:
        return await _without_finalizer(claim)
    if claim.is_deleted:
        return Answer.DONE
    answer = await claim.write_finalizers([*claim.finalizers, FINALIZER])
    if answer is Answer.DONE:
        await _without_finalizer(claim)
    return answer


async def _without_finalizer(claim: _Claim) -> Answer:
    left = [one for one in claim.finalizers if one != FINALIZER]
    return await claim.write_finalizers(left) if left != claim.finalizers else Answer.DONE


def _without(pod: PodRef, users: Iterable[bytes]) -> list[bytes]:
    return [one for one in users if content(one, USER_UID).decode() != pod.uid]
