"""Events for people (`kubectl describe pod`), in kube-scheduler's words, in a lane of their own.

A bind never waits for them. They wait in a long queue, and are written a few at a time while the
API server has room, else at a low rate. An event that repeats becomes a series.
"""

import asyncio
import logging
import os
import time
from contextlib import suppress
from hashlib import blake2b
from math import inf
from typing import Any

import msgspec

from shared.kubernetes.client.client import KubeClient, Response
from shared.kubernetes.client.http_wire import NotSent
from shared.kubernetes.writing.answers import TOO_MANY
from shared.kubernetes.writing.event_queue import EventQueue, Lane, Waiting
from shared.kubernetes.writing.write_concurrency import WriteWindow
from shared.model.text import counted, quoted
from shared.ports.cluster import PodRef

PER_S = 100.0
BURST = 10.0
"""The rate while the server is busy with binds: an event costs it as much as a bind."""
SENDERS = 16
"""Enough for `PER_S` while answers take less than 160 ms."""
ROOM_OUT = 4
"""So many at a time are written without a rate while there is room: a bind that comes then finds
few requests before it.
"""
ROOM_SHARE = 0.125
"""There is room while other writes fill less than this share of their window."""
CROWDED_S = 0.2
REST_S = 1.0
"""After a request that failed."""
TRIES_MAX = 12
"""client-go's maxTriesPerEvent. Requests that the server certainly did not take do not count."""
CLOSE_S = 5.0
"""How long the end of a process waits for events: other processes may wait for its Lease."""
NAME_MAX = 253
SERIES_S = 1_800.0
"""A repeated event is written after this time (client-go's refreshTime); until then it is only
counted.
"""
KNOWN_MAX = 30_000
MERGE = "application/merge-patch+json"
NOTE_BYTES_MAX = 1024
CUT = " ..."
EXISTS = 409
SERVER_ERROR = 500
SCHEDULED, FAILED, PREEMPTED = "Scheduled", "FailedScheduling", "Preempted"
KINDS = {
    SCHEDULED: ("Normal", "Binding"),
    FAILED: ("Warning", "Scheduling"),
    PREEMPTED: ("Normal", "Preempting"),
}
"""Type and action by reason."""

log = logging.getLogger("muster.kube")


class EventCounts(msgspec.Struct):
    """Numbers of events by outcome."""

    sent: int = 0
    dropped: int = 0
    repeated: int = 0
    failed: int = 0


class _Series(msgspec.Struct):
    """A written event: its name, how often it happened since, and when it was last written."""

    name: str
    count: int
    written_s: float


class KubeEvents:
    """The recorder of one process. `controller` is the reporting controller's name, `window` that
    of the other writes, which go first.
    """

    def __init__(self, client: KubeClient, controller: str, window: WriteWindow) -> None:
        """Start without events."""
        self._client, self.controller, self._window = client, controller, window
        self._instance = f"{controller}-{os.uname().nodename}"
        self.counts = EventCounts()
        self._queue = EventQueue()
        self._scheduled: dict[str, bool] = {}
        self._known: dict[tuple[str, str, str], _Series] = {}
        self._senders: list[asyncio.Task[None]] = []
        self._is_closing = False
        # Set when an event comes, and when an answer makes room for the next.
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()
        self._tokens, self._filled_s = BURST, -inf
        # The server asked for none before then.
        self._rests_until_s = -inf
        # Requests in flight.
        self.out = 0
        self._number = time.time_ns()

    async def close(self) -> None:
        """Write what waits, for up to `CLOSE_S` and as long as the server takes it; drop the rest.
        Idempotent.
        """
        self._is_closing = True
        self._changed.set()
        senders, self._senders = self._senders, []
        if senders:
            await asyncio.wait(senders, timeout=CLOSE_S)
        left = self._queue.clear() + self.out
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)
        self.counts.dropped += left
        if left:
            log.warning("%s not written before the end", counted(left, "event"))

    def scheduled(self, pod: PodRef, node: str) -> None:
        """Report a bind of ours."""
        if self._put_scheduled(Lane.BINDS, pod, node, time.time_ns()):
            self._remember(pod.uid)

    def scheduled_before(self, pod: PodRef, node: str, at_ms: int) -> None:
        """Report a bind of an earlier process, which may have ended before it reported it."""
        if pod.uid in self._scheduled:
            return
        if self._put_scheduled(Lane.EARLIER_BINDS, pod, node, at_ms * 1_000_000):
            self._remember(pod.uid)

    def _put_scheduled(self, lane: Lane, pod: PodRef, node: str, at_ns: int) -> bool:
        # A pod is scheduled once, whichever process reports it after whatever faults: so its name
        # is fixed.
        name = _name(pod, _number_of(pod.uid))
        return self._put(Waiting(lane, SCHEDULED, pod, node, at_ns, name))

    def _remember(self, uid: str) -> None:
        if len(self._scheduled) >= KNOWN_MAX:
            self._scheduled.clear()
        self._scheduled[uid] = True

    def failed(self, pod: PodRef, message: str) -> None:
        """Report that a pod cannot be scheduled, and why."""
        self._tell(FAILED, pod, message)

    def preempted(self, victim: PodRef, by: PodRef, node: str) -> None:
        """Report that a victim is evicted, and for which pod."""
        note = f"Preempted by pod {by.uid} on node {node}"
        if victim.claimed_for:
            note += f" to give queue {victim.claimed_for} its guarantee"
        if victim.is_beyond_budget:
            note += ", beyond its PodDisruptionBudget"
        self._tell(PREEMPTED, victim, note, by)

    def _tell(self, reason: str, pod: PodRef, note: str, by: PodRef | None = None) -> None:
        key = (pod.uid, reason, note)
        known = self._known.get(key)
        if known is not None:
            self._repeat(known, reason, pod)
            return
        self._number += 1
        name = _name(pod, self._number)
        if self._put(Waiting(Lane.TROUBLE, reason, pod, note, time.time_ns(), name, by)):
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[key] = _Series(name, 1, time.monotonic())

    def _repeat(self, known: _Series, reason: str, pod: PodRef) -> None:
        known.count += 1
        now_s = time.monotonic()
        if now_s - known.written_s < SERIES_S:
            self.counts.repeated += 1
            return
        known.written_s = now_s
        name, count = known.name, known.count
        self._put(Waiting(Lane.TROUBLE, reason, pod, "", time.time_ns(), name, repeats=count))

    def _put(self, event: Waiting) -> bool:
        """Queue an event; return whether it is kept."""
        if not self._queue.put(event):
            self.counts.dropped += 1
            return False
        self._changed.set()
        if not self._senders:
            loop = asyncio.get_running_loop()
            self._senders = [loop.create_task(self._send()) for _ in range(SENDERS)]
        return True

    async def _send(self) -> None:
        while True:
            async with self._turn:
                if not await self._is_time():
                    return
                event = self._queue.pop()
            self.out += 1
            try:
                await self._send_one(event)
            finally:
                self.out -= 1
                self._changed.set()

    async def _is_time(self) -> bool:
        """Wait until the next event may be sent; return False when none will be. One sender waits
        here, the others wait for its place or for answers.
        """
        while True:
            now_s = _now_s()
            if self._is_closing:
                # A server that takes no events now would keep this process.
                return bool(self._queue) and now_s >= self._rests_until_s
            if not self._queue:
                await self._wait(None)
                continue
            window = self._window
            if now_s < self._rests_until_s or window.is_crowded or self.out >= window.width:
                await self._wait(CROWDED_S)
                continue
            if self.out < ROOM_OUT and window.out < window.width * ROOM_SHARE:
                return True
            self._tokens = min(BURST, self._tokens + (now_s - self._filled_s) * PER_S)
            self._filled_s = now_s
            if self._tokens >= 1.0:
                self._tokens -= 1.0
                return True
            await self._wait(1.0 / PER_S)

    async def _wait(self, at_most_s: float | None) -> None:
        """Wait for a change of the queue or of what is in flight."""
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                await self._changed.wait()

    async def _send_one(self, event: Waiting) -> None:
        path = f"/apis/events.k8s.io/v1/namespaces/{event.pod.namespace}/events"
        try:
            if event.repeats:
                series = {"count": event.repeats, "lastObservedTime": _time(event.at_ns)}
                body, kind = msgspec.json.encode({"series": series}), MERGE
                path = f"{path}/{event.name}"
                response = await self._client.request("PATCH", path, body, kind)
            else:
                body = msgspec.json.encode(self._body(event))
                response = await self._client.request("POST", path, body)
        except NotSent as error:
            self._try_again(event, REST_S, error, was_taken=False)
        except (OSError, TimeoutError) as error:
            self._try_again(event, REST_S, error)
        else:
            self._answered(event, response)

    def _answered(self, event: Waiting, response: Response) -> None:
        if response.ok:
            self.counts.sent += 1
        elif response.status == EXISTS and not event.repeats:
            self.counts.repeated += 1
        elif response.status == TOO_MANY or response.status >= SERVER_ERROR:
            was_taken = response.status != TOO_MANY
            rest_s = response.retry_after_s or REST_S
            self._try_again(event, rest_s, response.status, was_taken=was_taken)
        else:
            self.counts.failed += 1
            if self.counts.failed == 1:
                message = quoted(response.message())
                log.warning("an event was refused: %d %s", response.status, message)

    def _try_again(
        self, event: Waiting, rest_s: float, why: object, was_taken: bool = True
    ) -> None:
        """Put an event back for later, or give it up. Its name is fixed, so the server has it once
        at most.
        """
        self._rests_until_s = _now_s() + rest_s
        event.tries += was_taken
        if event.tries < TRIES_MAX:
            self._queue.put_back(event)
            return
        self.counts.failed += 1
        log.debug("an event was lost: %s", why)

    def _body(self, event: Waiting) -> dict[str, Any]:
        pod, note = event.pod, event.note
        if event.reason == SCHEDULED:
            note = f"Successfully assigned {pod.namespace}/{pod.name} to {note}"
        kind, action = KINDS[event.reason]
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": event.name, "namespace": pod.namespace},
            "eventTime": _time(event.at_ns),
            "type": kind,
            "reason": event.reason,
            "action": action,
            "note": cut(note),
            "reportingController": self.controller,
            "reportingInstance": self._instance,
            "regarding": _reference(pod),
        }
        if event.by is not None:
            body["related"] = _reference(event.by)
        return body


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


def _time(time_ns: int) -> str:
    seconds, nanos = divmod(time_ns, 1_000_000_000)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{stamp}.{nanos // 1000:06d}Z"
