"""Events for people (`kubectl describe pod`), in kube-scheduler's words: a lossy lane of its own.

A bind never waits for it: a limited number is sent each second, a few at a time. An event that does
not fit into the queue is dropped and counted. An event that repeats becomes a series.
"""

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from math import inf
from typing import Any

import msgspec

from shared.kubernetes.client.client import KubeClient
from shared.model.text import quoted
from shared.ports.cluster import PodRef

PER_S = 100.0
BURST = 10.0
"""Binds of a flood go first: an event costs the server as much as a bind."""
WAITING_MAX = 300
SENDERS = 16
"""Enough for `PER_S` while answers take less than 160 ms."""
CROWDED_S = 0.2
NAME_MAX = 253
SERIES_S = 1_800.0
"""A repeated event is written after this time (client-go's refreshTime); until then it is only
counted.
"""
KNOWN_MAX = 30_000
NOTE_BYTES_MAX = 1024
CUT = " ..."
EXISTS = 409

log = logging.getLogger("muster.kube")


class EventCounts(msgspec.Struct):
    """Numbers of events by outcome."""

    sent: int = 0
    dropped: int = 0
    repeated: int = 0
    failed: int = 0


class _Series(msgspec.Struct):
    """A written event: its name, how often it happened since, and when it was last written."""

    path: str
    count: int
    written_s: float


class _Waiting(msgspec.Struct):
    """An event to send: POST a new one, or PATCH a series."""

    method: str
    path: str
    body: dict[str, Any]


class KubeEvents:
    """The recorder of one process. `controller` is the reporting controller's name."""

    def __init__(self, client: KubeClient, controller: str) -> None:
        """Start without events."""
        self._client, self.controller = client, controller
        self._instance = f"{controller}-{os.uname().nodename}"
        self.counts = EventCounts()
        self._waiting: deque[_Waiting] = deque()
        # Sent when nothing else waits.
        self._before: deque[_Waiting] = deque()
        self._scheduled: dict[str, bool] = {}
        self._known: dict[tuple[str, str, str], _Series] = {}
        self._senders: list[asyncio.Task[None]] = []
        self._arrived = asyncio.Event()
        self._turn = asyncio.Lock()
        self._tokens, self._filled_s = BURST, -inf
        # The server asked for none before then.
        self._rests_until_s = -inf
        # Requests in flight.
        self.out = 0
        self._number = time.time_ns()
        self._should_wait: Callable[[], bool] = bool

    def wait_while(self, should_wait: Callable[[], bool]) -> None:
        """Hold events back while the function returns True."""
        self._should_wait = should_wait

    async def close(self) -> None:
        """Stop; drop the waiting events."""
        senders, self._senders = self._senders, []
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)
        self.counts.dropped += len(self._waiting) + len(self._before)
        self._waiting.clear()
        self._before.clear()

    def scheduled(self, pod: PodRef, node: str) -> None:
        """Report a bind of ours."""
        note = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        if self._send_event(pod, "Normal", "Scheduled", "Binding", note):
            self._remember(pod.uid)

    def scheduled_before(self, pod: PodRef, node: str, at_ms: int) -> None:
        """Report a bind of an earlier process, which may have ended before it reported it."""
        if pod.uid in self._scheduled:
            return
        if len(self._before) >= WAITING_MAX:
            self.counts.dropped += 1
            return
        self._remember(pod.uid)
        name = _name(pod, _number_of(pod.uid))
        note = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        body = self._event(name, pod, "Normal", "Scheduled", "Binding", note)
        body["eventTime"] = _time(at_ms * 1_000_000)
        self._before.append(_Waiting("POST", _path(pod.namespace), body))
        self._wake()

    def _remember(self, uid: str) -> None:
        if len(self._scheduled) >= KNOWN_MAX:
            self._scheduled.clear()
        self._scheduled[uid] = True

    def failed(self, pod: PodRef, message: str) -> None:
        """Report that a pod cannot be scheduled, and why."""
        self._send_event(pod, "Warning", "FailedScheduling", "Scheduling", message)

    def preempted(self, victim: PodRef, by: PodRef, node: str) -> None:
        """Report that a victim is evicted, and for which pod."""
        note = f"Preempted by pod {by.uid} on node {node}"
        if victim.is_beyond_budget:
            note += ", beyond its PodDisruptionBudget"
        self._send_event(victim, "Normal", "Preempted", "Preempting", note, by)

    def _send_event(
        self,
        pod: PodRef,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: PodRef | None = None,
    ) -> bool:
        """Queue an event; return whether it will be sent."""
        key = (pod.uid, reason, note)
        known = self._known.get(key)
        if known is not None:
            self._repeat(known)
            return True
        if len(self._waiting) >= WAITING_MAX:
            self.counts.dropped += 1
            return False
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._number += 1
        # A pod is scheduled once, whichever process reports it after whatever faults: so its name
        # is fixed.
        number = _number_of(pod.uid) if reason == "Scheduled" else self._number
        name = _name(pod, number)
        path = _path(pod.namespace)
        if reason != "Scheduled":
            self._known[key] = _Series(f"{path}/{name}", 1, time.monotonic())
        body = self._event(name, pod, kind, reason, action, note)
        if related is not None:
            body["related"] = _reference(related)
        self._put(_Waiting("POST", path, body))
        return True

    def _event(
        self, name: str, pod: PodRef, kind: str, reason: str, action: str, note: str
    ) -> dict[str, Any]:
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": pod.namespace},
            "eventTime": _now(),
            "type": kind,
            "reason": reason,
            "action": action,
            "note": cut(note),
            "reportingController": self.controller,
            "reportingInstance": self._instance,
            "regarding": _reference(pod),
        }

    def _repeat(self, known: _Series) -> None:
        known.count += 1
        now_s = time.monotonic()
        if now_s - known.written_s < SERIES_S or len(self._waiting) >= WAITING_MAX:
            self.counts.repeated += 1
            return
        known.written_s = now_s
        body = {"series": {"count": known.count, "lastObservedTime": _now()}}
        self._put(_Waiting("PATCH", known.path, body))

    def _put(self, waiting: _Waiting) -> None:
        self._waiting.append(waiting)
        self._wake()

    def _wake(self) -> None:
        self._arrived.set()
        if not self._senders:
            loop = asyncio.get_running_loop()
            self._senders = [loop.create_task(self._send()) for _ in range(SENDERS)]

    async def _send(self) -> None:
        while True:
            async with self._turn:
                waiting = await self._next()
            self.out += 1
            try:
                await self._send_one(waiting)
            except (OSError, TimeoutError) as error:
                self.counts.failed += 1
                log.debug("an event was lost: %s", error)
            finally:
                self.out -= 1

    async def _next(self) -> _Waiting:
        """Return the next event to send. One sender waits here, the others wait for its place or
        for answers.
        """
        while not (self._waiting or self._before):
            self._arrived.clear()
            await self._arrived.wait()
        await self._pace()
        return (self._waiting or self._before).popleft()

    async def _send_one(self, waiting: _Waiting) -> None:
        kind = "application/merge-patch+json" if waiting.method == "PATCH" else "application/json"
        body = msgspec.json.encode(waiting.body)
        response = await self._client.request(waiting.method, waiting.path, body, kind)
        if response.ok:
            self.counts.sent += 1
            return
        if response.status == EXISTS and waiting.method == "POST":
            self.counts.repeated += 1
            return
        self.counts.failed += 1
        if self.counts.failed == 1:
            log.warning("an event was refused: %d %s", response.status, quoted(response.message()))
        if response.retry_after_s:
            self._rests_until_s = _now_s() + response.retry_after_s

    async def _pace(self) -> None:
        """Limit the rate, after a first burst, and wait while other requests need the server."""
        while True:
            now_s = _now_s()
            if self._should_wait() or now_s < self._rests_until_s:
                await asyncio.sleep(CROWDED_S)
                continue
            self._tokens = min(BURST, self._tokens + (now_s - self._filled_s) * PER_S)
            self._filled_s = now_s
            if self._tokens >= 1.0:
                self._tokens -= 1.0
                return
            await asyncio.sleep((1.0 - self._tokens) / PER_S)


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _number_of(uid: str) -> int:
    return int.from_bytes(blake2b(uid.encode(), digest_size=8).digest(), "big")


def _name(pod: PodRef, number: int) -> str:
    """Return an Event's name, from the pod's uid where the pod's name is too long.

    client-go uses a random UUID. The uid makes the name of `Scheduled` the same in every process.
    """
    name = f"{pod.name}.{number:x}"
    return name if len(name) <= NAME_MAX else f"{pod.uid}.{number:x}"


def cut(note: str) -> str:
    """Return at most 1,024 bytes of a note, cut as kube-scheduler does."""
    raw = note.encode()
    if len(raw) <= NOTE_BYTES_MAX:
        return note
    return raw[: NOTE_BYTES_MAX - len(CUT)].decode(errors="ignore") + CUT


def _reference(pod: PodRef) -> dict[str, str]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
    }


def _path(namespace: str) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"


def _now() -> str:
    return _time(time.time_ns())


def _time(time_ns: int) -> str:
    seconds, nanos = divmod(time_ns, 1_000_000_000)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{stamp}.{nanos // 1000:06d}Z"
