"""Writes the condition of PodGroups that says whether they were scheduled, best effort.

Source: schedule_one_podgroup.go and util.PatchPodGroupStatus of kube-scheduler 1.36 and 1.37.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from shared.adapters.structured_gather import gather_all
from shared.kubernetes.client.client import STRATEGIC_MERGE, Response
from shared.kubernetes.writing.bodies import stamp
from shared.model.api_outcome import Answer
from shared.ports.cluster import SCHEDULER_ERROR, UNSCHEDULABLE, GroupCondition

TYPE, TYPE_OF_1_36 = "PodGroupInitiallyScheduled", "PodGroupScheduled"
MESSAGE_MAX = 32_768
FORBIDDEN = 403

log = logging.getLogger("muster.kube")

Send = Callable[[str, str, bytes | None, str], Awaitable[Response | Answer]]


class _Meta(msgspec.Struct):
    uid: str = ""
    generation: int = 0


class _Condition(msgspec.Struct):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] | None = None


class _Group(msgspec.Struct):
    metadata: _Meta
    status: _Status = _Status()


_decode = msgspec.json.Decoder(_Group).decode


async def show_groups(collection: str, groups: Sequence[GroupCondition], send: Send) -> None:
    """Write the conditions of groups that are served at this path (/apis/GROUP/VERSION/podgroups).
    A group that was scheduled once says so for good.
    """
    await gather_all(*(_show(collection, one, send) for one in groups))


async def _show(collection: str, group: GroupCondition, send: Send) -> None:
    version, _, resource = collection.rpartition("/")
    path = f"{version}/namespaces/{group.namespace}/{resource}/{group.name}"
    read = await send("GET", path, None, "application/json")
    if isinstance(read, Answer) or not read.ok:
        _tell_refusal(read, group)
        return
    found = _decode(read.body)
    kind = TYPE_OF_1_36 if version.endswith("/v1alpha2") else TYPE
    old = next((one for one in found.status.conditions or () if one.type == kind), None)
    new = _condition(kind, group)
    if old is not None and (old == new or old.status == "True"):
        return
    condition: dict[str, Any] = {
        **msgspec.to_builtins(new),
        "observedGeneration": found.metadata.generation,
    }
    if old is None or old.status != new.status:
        condition["lastTransitionTime"] = stamp(time.time())
    body = {"metadata": {"uid": found.metadata.uid}, "status": {"conditions": [condition]}}
    patched = await send("PATCH", f"{path}/status", msgspec.json.encode(body), STRATEGIC_MERGE)
    _tell_refusal(patched, group)


def _tell_refusal(answer: Response | Answer, group: GroupCondition) -> None:
    if not isinstance(answer, Answer) and answer.status == FORBIDDEN:
        name = f"{group.namespace}/{group.name}"
        log.warning("the condition of PodGroup %s was not written: %s", name, answer.message())


def _condition(kind: str, group: GroupCondition) -> _Condition:
    if not group.message:
        return _Condition(kind, "True", "Scheduled")
    reason = SCHEDULER_ERROR if group.is_error else UNSCHEDULABLE
    return _Condition(kind, "False", reason, group.message[:MESSAGE_MAX])
