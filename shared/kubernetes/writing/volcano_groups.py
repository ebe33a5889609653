"""Writes the status of Volcano's PodGroups as Volcano's scheduler does, best effort.

Volcano's controller creates the pods of a Job once the phase of its PodGroup is Inqueue, so that a
full cluster is not filled with waiting pods. Muster holds no queue of groups: it enqueues each
group of a Job that names our scheduler.

Source: pkg/scheduler/framework/session.go and plugins/gang/gang.go of Volcano 1.13.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from shared.kubernetes.client.client import MERGE, Response
from shared.kubernetes.objects.structs import RawGroupOfJob
from shared.kubernetes.writing.answers import change_answer
from shared.kubernetes.writing.bodies import stamp
from shared.model.api_outcome import Answer
from shared.ports.cluster import GroupCondition

JOB_VERSION, JOB = "batch.volcano.sh/v1alpha1", "Job"
PENDING, INQUEUE, RUNNING, COMPLETED = "Pending", "Inqueue", "Running", "Completed"
SCHEDULED, UNSCHEDULABLE = "Scheduled", "Unschedulable"
READY, NO_ROOM = "tasks in gang are ready to be scheduled", "NotEnoughResources"
TRIES = 3
AGAIN_S = 5.0
FORBIDDEN = 403
OVER = (Answer.DONE, Answer.REFUSED, Answer.GONE)

Send = Callable[[str, str, bytes | None, str], Awaitable[Response | Answer]]

log = logging.getLogger("muster.kube")


class _Meta(msgspec.Struct):
    resourceVersion: str


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""
    conditions: list[dict[str, Any]] | None = None


class _Group(msgspec.Struct):
    metadata: _Meta
    status: _Status = _Status()


class _JobSpec(msgspec.Struct, frozen=True):
    schedulerName: str = ""


class _Job(msgspec.Struct):
    spec: _JobSpec = _JobSpec()


_group = msgspec.json.Decoder(_Group).decode
_job = msgspec.json.Decoder(_Job).decode


class VolcanoGroups:
    """The groups that wait to be enqueued, and what writes them."""

    def __init__(self, send: Send, schedulers: Iterable[str]) -> None:
        """`send` sends a request to the API server; `schedulers` are our names. Without a name
        nothing is enqueued: an extender's process schedules no pods.
        """
        self._send, self._schedulers = send, frozenset(filter(None, schedulers))
        self._waiting: dict[tuple[str, str], str] = {}
        self._writing: asyncio.Task[None] | None = None

    def seen(self, raw: RawGroupOfJob) -> None:
        """Enqueue a group that waits for that, if its Job is ours."""
        meta = raw.metadata
        jobs = [one for one in meta.ownerReferences or () if one.kind == JOB and one.controller]
        is_waiting = raw.status.phase in ("", PENDING) and bool(self._schedulers)
        if not (is_waiting and jobs and jobs[0].apiVersion == JOB_VERSION):
            self._waiting.pop((meta.namespace, meta.name), None)
            return
        self._waiting[meta.namespace, meta.name] = jobs[0].name
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop enqueueing. Idempotent."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    async def _run(self) -> None:
        while self._waiting:
            for (namespace, name), job in list(self._waiting.items()):
                if await self._enqueue(namespace, name, job) in OVER:
                    self._waiting.pop((namespace, name), None)
            if self._waiting:
                await asyncio.sleep(AGAIN_S)

    async def _enqueue(self, namespace: str, name: str, job: str) -> Answer:
        path = f"/apis/{JOB_VERSION}/namespaces/{namespace}/jobs/{job}"
        read = await self._send("GET", path, None, "application/json")
        answer = _answer(read, f"Volcano's Job {namespace}/{job} was not read")
        if isinstance(read, Answer) or answer is not Answer.DONE:
            return answer
        if _job(read.body).spec.schedulerName not in self._schedulers:
            return Answer.DONE

        def enqueue(status: _Status) -> dict[str, Any] | None:
            return {"phase": INQUEUE} if status.phase in ("", PENDING) else None

        return await self._change(namespace, name, enqueue)

    async def show(self, group: GroupCondition) -> None:
        """Write whether a group (`NAME@volcano`) was scheduled, or why not. One that was scheduled
        once says so for good.
        """

        def change(status: _Status) -> dict[str, Any] | None:
            return _with_condition(status, group.message)

        await self._change(group.namespace, group.name.partition("@")[0], change)

    async def _change(
        self, namespace: str, name: str, change: Callable[[_Status], dict[str, Any] | None]
    ) -> Answer:
        """Change fields of a status, unless another writer was faster several times."""
        version = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}"
        path, what = f"{version}/podgroups/{name}", f"the status of PodGroup {namespace}/{name}"
        answer = Answer.BUSY
        for _try in range(TRIES):
            read = await self._send("GET", path, None, "application/json")
            answer = _answer(read, f"{what} was not read")
            if isinstance(read, Answer) or answer is not Answer.DONE:
                return answer
            found = _group(read.body)
            status = change(found.status)
            if status is None:
                return Answer.DONE
            metadata = {"resourceVersion": found.metadata.resourceVersion}
            body = msgspec.json.encode({"metadata": metadata, "status": status})
            written = await self._send("PATCH", f"{path}/status", body, MERGE)
            answer = _answer(written, f"{what} was not written")
            if answer is not Answer.BUSY:
                break
        return answer


def _with_condition(status: _Status, message: str) -> dict[str, Any] | None:
    """Return the changed fields; None if the status says so already, or that it was scheduled."""
    kind, reason = (UNSCHEDULABLE, NO_ROOM) if message else (SCHEDULED, READY)
    conditions = status.conditions or []
    known = {str(one.get("type")): one for one in conditions}
    if SCHEDULED in known or known.get(kind, {}).get("message") == message:
        return None
    now = stamp(time.time())
    new = {"type": kind, "status": "True", "reason": reason, "message": message}
    others = [one for one in conditions if one.get("type") != kind]
    changed: dict[str, Any] = {"conditions": [*others, {**new, "lastTransitionTime": now}]}
    if not message and status.phase != COMPLETED:
        changed["phase"] = RUNNING
    elif message and not status.phase:
        changed["phase"] = PENDING
    return changed


def _answer(response: Response | Answer, what: str) -> Answer:
    """Return whether a request was done, or may be sent again; log a missing permission."""
    if isinstance(response, Answer):
        return response
    if response.status == FORBIDDEN:
        log.warning("%s: %s", what, response.message())
    return change_answer(response)
