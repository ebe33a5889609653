"""Binding's requests to a live API: many at once over kept connections. Each gets a certain answer
or UNKNOWN.

A request that may have been carried out is never repeated here; only 429 says that it was not.
Binding decides what an answer means for the pod.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import TypeVar
from weakref import WeakValueDictionary

import msgspec

from shared.kubernetes.client.client import JSON, STRATEGIC_MERGE, KubeClient, Response
from shared.kubernetes.client.http_wire import NotSent
from shared.kubernetes.objects.structs import Meta
from shared.kubernetes.writing.answers import CONFLICT, TOO_MANY, bind_answer, change_answer
from shared.kubernetes.writing.bodies import (
    NO_CANDIDATE,
    binding,
    deletion,
    disruption,
    nomination,
    scheduled,
    unscheduled,
)
from shared.kubernetes.writing.claims import write_claims
from shared.kubernetes.writing.events import KubeEvents
from shared.kubernetes.writing.unconfirmed_binds import UnconfirmedBinds
from shared.kubernetes.writing.volumes import bind_volume
from shared.kubernetes.writing.write_concurrency import WriteWindow
from shared.model.api_outcome import Answer
from shared.model.text import quoted
from shared.ports.cluster import (
    UNSCHEDULABLE,
    BindRequest,
    ClaimsAnswer,
    ClaimsRequest,
    PodRead,
    PodRef,
    VolumeRequest,
)

BUSY_TRIES = 3
BUSY_S = 0.2
AGAIN_S = (0.01, 0.05, 0.25)
TOUCH_TRIES = 5
SERVER_ERROR = 500
REMEMBERED_MAX = 10_000
WAITING_REMEMBERED_MAX = 100_000
OTHER_TIME_S = TOUCH_TRIES + 2.0
"""After this time the timestamp in a condition differs, however many tries the last write took."""

log = logging.getLogger("muster.kube")

Asked = TypeVar("Asked")
Got = TypeVar("Got")


class _Spec(msgspec.Struct):
    nodeName: str | None = None


class _Pod(msgspec.Struct):
    metadata: Meta
    spec: _Spec


_pod = msgspec.json.Decoder(_Pod)


class Counts(msgspec.Struct):
    """Numbers of requests, for progress and metrics."""

    binds: int = 0
    bound: int = 0
    busy: int = 0
    unknown: int = 0


class KubeWrites:
    """All writes of one process; they share one window."""

    def __init__(self, client: KubeClient, events: KubeEvents, window: WriteWindow) -> None:
        """Send nothing yet. Events are outside of the window: they must not crowd it where it is
        narrow for binds.
        """
        self._client, self._events, self.window = client, events, window
        self.counts = Counts()
        self._refusals: dict[str, bool] = {}
        self._unsure = UnconfirmedBinds(self._read_one)
        self._nominated: dict[str, str] = {}
        # When we last wrote each pod's condition.
        self._wait: dict[str, float] = {}
        # Of claims that are being written, by uid.
        self._claim_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # Pod -> the revision of our last write of its condition, where it is certain.
        self.written: dict[str, int] = {}

    async def close(self) -> None:
        """Stop reading unconfirmed binds. Idempotent."""
        await self._unsure.close()

    # ------------------------------------------------------------------------------------ binds

    async def bind(self, requests: Sequence[BindRequest]) -> list[PodRead]:
        """POST bindings, in the given order as far as the window allows."""
        return await _side_by_side(requests, self._bind_one)

    async def _bind_one(self, request: BindRequest) -> PodRead:
        path = f"/api/v1/namespaces/{request.namespace}/pods/{request.name}/binding"
        self.counts.binds += 1
        response = await self.send("POST", path, binding(request))
        answer = response if isinstance(response, Answer) else bind_answer(response)
        if answer is Answer.DONE:
            self._bound(PodRef(request.uid, request.namespace, request.name), request.node)
        elif answer in (Answer.UNKNOWN, Answer.ASSIGNED):
            ref = PodRef(request.uid, request.namespace, request.name)
            self._unsure.add(ref, request.node)
        if isinstance(response, Response) and answer is not Answer.DONE:
            self._log_refusal(answer, response, f"bind {request.namespace}/{request.name}")
        return PodRead(answer)

    def _bound(self, pod: PodRef, node: str) -> None:
        self._unsure.forget(pod.uid)
        self.counts.bound += 1
        self._events.scheduled(pod, node)

    # ------------------------------------------------------------------------------- other pods

    async def read(self, pods: Sequence[PodRef]) -> list[PodRead]:
        """GET pods."""
        return await _side_by_side(pods, self._read_one)

    async def _read_one(self, ref: PodRef) -> PodRead:
        response = await self.send("GET", _path(ref), None)
        if isinstance(response, Answer):
            return PodRead(Answer.UNKNOWN)
        read = self._shown(ref, response, "read")
        self._is_on(ref, read.node)
        return read

    def _is_on(self, ref: PodRef, node: str) -> None:
        """Note that the cluster shows the pod's node, perhaps after a bind of ours without an
        answer.
        """
        if node and self._unsure.forget(ref.uid) == node:
            self._bound(ref, node)

    async def touch(
        self, pods: Sequence[PodRef], messages: Sequence[str], reasons: Sequence[str] = ()
    ) -> list[PodRead]:
        """Write why the pod waits into its condition."""
        assert len(pods) == len(messages), f"{len(pods)} pods, {len(messages)} messages"
        words = reasons or [UNSCHEDULABLE] * len(pods)
        return await _side_by_side(list(zip(pods, messages, words, strict=True)), self._touch_one)

    async def _touch_one(self, asked: tuple[PodRef, str, str]) -> PodRead:
        ref, message, reason = asked
        if message:
            self._events.failed(ref, message)
        if NO_CANDIDATE in message:
            self._nominated.pop(ref.uid, None)
        read = PodRead(Answer.UNKNOWN)
        for later_s in range(TOUCH_TRIES):
            # Writing an equal condition changes nothing, not even the resourceVersion; the time
            # of the probe makes it different.
            body = unscheduled(ref, reason, message, later_s, ref.uid not in self._wait)
            response = await self._patch_status(ref, body)
            if isinstance(response, Answer):
                return PodRead(response)
            read = self._shown(ref, response, "touch")
            if read.node:
                self._is_on(ref, read.node)
                await self._scheduled(ref)
            elif read.answer is Answer.DONE:
                self._note_condition(ref.uid, read.revision, is_first_try=not later_s)
            if read.answer is not Answer.DONE or read.revision > ref.revision:
                return read
        return PodRead(Answer.UNKNOWN)

    def _note_condition(self, uid: str, revision: int, is_first_try: bool) -> None:
        """Remember a written condition. The revision is ours only if the write changed the pod: the
        timestamp has a resolution of a second, and a write that changes nothing is answered with
        the revision of another client.
        """
        now_s = time.monotonic()
        if len(self._wait) >= WAITING_REMEMBERED_MAX and uid not in self._wait:
            self._wait.clear()
            self.written.clear()
        last_s = self._wait.get(uid)
        self._wait[uid] = now_s
        if is_first_try and last_s is not None and now_s - last_s >= OTHER_TIME_S:
            self.written[uid] = revision

    async def _scheduled(self, ref: PodRef) -> None:
        """Take a condition back, best effort: the pod was bound before we wrote that it waits."""
        await self._patch_status(ref, scheduled(ref))

    async def evict(self, pods: Sequence[PodRef], by: PodRef | None) -> list[Answer]:
        """Write why each pod is evicted, then delete it."""
        return await _side_by_side([(ref, by) for ref in pods], self._evict_one)

    async def _evict_one(self, asked: tuple[PodRef, PodRef | None]) -> Answer:
        ref, by = asked
        body = disruption(ref, self._events.controller)
        response = await self._patch_status(ref, body)
        if isinstance(response, Answer):
            return response
        answer = change_answer(response)
        if answer is not Answer.DONE:
            self._log_refusal(answer, response, f"evict {ref.namespace}/{ref.name}")
            return answer
        node = self._shown(ref, response, "evict").node
        response = await self.send("DELETE", _path(ref), deletion(ref))
        if isinstance(response, Answer):
            return response
        answer = change_answer(response)
        self._log_refusal(answer, response, f"evict {ref.namespace}/{ref.name}")
        if answer is Answer.DONE:
            reason = f" for {by.namespace}/{by.name}" if by is not None else ""
            reason += f", as queue {ref.claimed_for} claims its guarantee" * bool(ref.claimed_for)
            reason += ", as its gang is below its minCount" if ref.is_below_minimum else ""
            reason += ", beyond its budget" if ref.is_beyond_budget else ""
            log.info("evicted %s/%s from %s%s", ref.namespace, ref.name, node, reason)
        if answer is Answer.DONE and by is not None:
            self._events.preempted(ref, by, node)
            await self._nominate(by, node)
        return answer

    async def _nominate(self, preemptor: PodRef, node: str) -> None:
        """Write the preemptor's nominated node; nothing depends on it."""
        if self._nominated.get(preemptor.uid) != node:
            if len(self._nominated) >= REMEMBERED_MAX:
                self._nominated.clear()
            self._nominated[preemptor.uid] = node
            await self._patch_status(preemptor, nomination(preemptor, node))

    async def _patch_status(self, ref: PodRef, body: bytes) -> Response | Answer:
        """PATCH a pod's status; after a conflict again, as kube-scheduler does since 1.37
        (RetriableWithConflict). Return the last answer.
        """
        path = f"{_path(ref)}/status"
        response = await self.send("PATCH", path, body, STRATEGIC_MERGE)
        for wait_s in AGAIN_S:
            if isinstance(response, Answer) or response.status != CONFLICT:
                break
            if change_answer(response) is not Answer.BUSY:  # another pod has the name
                break
            await asyncio.sleep(wait_s)
            response = await self.send("PATCH", path, body, STRATEGIC_MERGE)
        return response

    async def bind_volumes(self, requests: Sequence[VolumeRequest]) -> list[Answer]:
        """Give volumes their claims and claims their nodes."""
        return await _side_by_side(requests, self._bind_volume)

    async def _bind_volume(self, request: VolumeRequest) -> Answer:
        return await bind_volume(self.send, self._log_refusal, request)

    async def write_claims(self, requests: Sequence[ClaimsRequest]) -> list[ClaimsAnswer]:
        """Give claims their devices and users, or take them back. Pods that share a claim write it
        one after the other: each reads it first, and only the first one gives it devices.
        """
        return await _side_by_side(requests, self._write_claims)

    async def _write_claims(self, request: ClaimsRequest) -> ClaimsAnswer:
        async with AsyncExitStack() as stack:
            for uid in sorted({choice.uid for choice in request.choices}):
                lock = self._claim_locks.setdefault(uid, asyncio.Lock())
                await stack.enter_async_context(lock)
            return await write_claims(self.send, self._log_refusal, request)

    def _shown(self, ref: PodRef, response: Response, what: str) -> PodRead:
        answer = change_answer(response)
        if answer is not Answer.DONE:
            self._log_refusal(answer, response, f"{what} {ref.namespace}/{ref.name}")
            return PodRead(answer)
        try:
            pod = _pod.decode(response.body)
            revision = int(pod.metadata.resourceVersion)
        except (msgspec.DecodeError, ValueError):
            return PodRead(Answer.UNKNOWN)
        if pod.metadata.uid != ref.uid:
            return PodRead(Answer.GONE)
        return PodRead(Answer.DONE, pod.spec.nodeName or "", revision)

    # ------------------------------------------------------------------------------------- wire

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Response | Answer:
        """Return the server's answer, BUSY (certainly not sent) or UNKNOWN (no answer)."""
        lane = self.window
        response: Response | None = None
        for _try in range(BUSY_TRIES):
            await lane.enter()
            began_s = time.perf_counter()
            try:
                response = await self._client.request(method, path, body, content_type, accept)
            except NotSent as error:
                lane.was_busy()
                self._once(f"cannot connect: {error}")
                return Answer.BUSY
            except (OSError, TimeoutError) as error:
                lane.was_busy()
                self.counts.unknown += 1
                log.info("%s %s: no answer: %r", method, path, error)
                return Answer.UNKNOWN
            finally:
                lane.leave()
            if response.status == TOO_MANY:
                self.counts.busy += 1
                lane.was_busy()
                # This one waits for Retry-After; others may enter before.
                await asyncio.sleep(response.retry_after_s or BUSY_S)
                continue
            if response.status >= SERVER_ERROR:
                self.counts.unknown += 1
                lane.was_busy()
            else:
                lane.went_well(time.perf_counter() - began_s)
            return response
        assert response is not None
        return response

    def _log_refusal(self, answer: Answer, response: Response, what: str) -> None:
        """Log a refusal, once for each reason."""
        if answer is Answer.REFUSED or response.status in (401, 403):
            self._once(f"{response.status} {quoted(response.message())}", what)

    def _once(self, reason: str, what: str = "the API server") -> None:
        if reason not in self._refusals:
            if len(self._refusals) >= REMEMBERED_MAX:
                self._refusals.clear()
            self._refusals[reason] = True
            log.warning("%s: %s", what, reason)


def _path(ref: PodRef) -> str:
    return f"/api/v1/namespaces/{ref.namespace}/pods/{ref.name}"


async def _side_by_side(
    asked: Sequence[Asked], ask: Callable[[Asked], Awaitable[Got]]
) -> list[Got]:
    """Run concurrently; return the answers in the order of the requests."""
    if len(asked) == 1:
        return [await ask(asked[0])]
    return list(await asyncio.gather(*(ask(one) for one in asked)))
