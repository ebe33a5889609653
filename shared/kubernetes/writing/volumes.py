"""Binds volumes before their pods on a live API: a volume gets its claim, or a claim its node.

Each object is read first and written only if it is unchanged (resourceVersion is the precondition),
so repeated writes do no harm. The controllers that bind claims and make volumes do the rest.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from shared.kubernetes.client.client import STRATEGIC_MERGE, Response
from shared.kubernetes.objects.volume_objects import SELECTED_NODE
from shared.kubernetes.writing.answers import change_answer
from shared.model.api_outcome import Answer
from shared.ports.cluster import VolumeRequest

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""The controller removes such a claim when it is deleted, as it does with its own."""

Send = Callable[[str, str, bytes | None, str], Awaitable[Response | Answer]]
Tell = Callable[[Answer, Response, str], None]


class _Meta(msgspec.Struct):
    uid: str = ""
    resourceVersion: str = ""
    annotations: dict[str, str] = {}


class _Ref(msgspec.Struct, frozen=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _Spec(msgspec.Struct, frozen=True):
    claimRef: _Ref | None = None


class _Object(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = _Spec()


_decode = msgspec.json.Decoder(_Object).decode


async def bind_volume(send: Send, tell: Tell, request: VolumeRequest) -> Answer:
    """Bind a volume; see the port. `send` takes (method, path, body, content type); `tell` gets the
    answers.
    """
    choice = request.choice
    path = f"/api/v1/namespaces/{choice.namespace}/persistentvolumeclaims/{choice.claim}"
    if choice.volume:
        path = f"/api/v1/persistentvolumes/{choice.volume}"
    response = await send("GET", path, None, "application/json")
    if isinstance(response, Answer):
        return response
    if not response.ok:
        return _answer(response, tell, request)
    try:
        found = _decode(response.body)
    except msgspec.DecodeError:
        return Answer.UNKNOWN
    if found.metadata.uid != (choice.volume_uid if choice.volume else choice.claim_uid):
        return Answer.GONE
    change = _for_claim(found, request) if choice.volume else _for_node(found, request)
    if isinstance(change, Answer):
        return change
    same = {"uid": found.metadata.uid, "resourceVersion": found.metadata.resourceVersion}
    change["metadata"] = {**same, **change.get("metadata", {})}
    response = await send("PATCH", path, msgspec.json.encode(change), STRATEGIC_MERGE)
    return response if isinstance(response, Answer) else _answer(response, tell, request)


def _answer(response: Response, tell: Tell, request: VolumeRequest) -> Answer:
    answer, choice = change_answer(response), request.choice
    tell(answer, response, f"bind the volume of claim {choice.namespace}/{choice.claim}")
    return answer


def _for_claim(volume: _Object, request: VolumeRequest) -> dict[str, Any] | Answer:
    """Return the patch that gives the volume to the claim, or the answer if that is not
    possible.
    """
    choice, ref = request.choice, volume.spec.claimRef
    claim = {"namespace": choice.namespace, "name": choice.claim, "uid": choice.claim_uid}
    wanted = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **claim}
    if ref is None:
        notes = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
        return {"metadata": notes, "spec": {"claimRef": wanted}}
    if (ref.namespace, ref.name) != (choice.namespace, choice.claim):
        return Answer.REFUSED
    if ref.uid == choice.claim_uid:
        return Answer.DONE
    return Answer.REFUSED if ref.uid else {"spec": {"claimRef": wanted}}


def _for_node(claim: _Object, request: VolumeRequest) -> dict[str, Any] | Answer:
    """Return the patch that says for which node the claim's volume is made, or the answer if that
    is not possible.
    """
    node = claim.metadata.annotations.get(SELECTED_NODE, "")
    if node:
        return Answer.DONE if node == request.node else Answer.REFUSED
    return {"metadata": {"annotations": {SELECTED_NODE: request.node}}}
