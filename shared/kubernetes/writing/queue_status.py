"""Writes into the status of Queues whether they count, best effort."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from shared.kubernetes.client.client import MERGE, Response
from shared.kubernetes.client.kinds import QUEUES
from shared.kubernetes.writing.bodies import stamp
from shared.model.api_outcome import Answer

TYPE = "Valid"
USED, REFUSED = "Used", "Refused"
TRIES = 3
AGAIN_S = 5.0

Send = Callable[[str, str, bytes | None, str], Awaitable[Response | Answer]]

log = logging.getLogger("muster.kube")


class _Status(msgspec.Struct):
    conditions: list[dict[str, Any]] | None = None


class _Queue(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_decode = msgspec.json.Decoder(_Queue).decode


class QueueStatuses:
    """The statuses that are to be written, by the name of the Queue, and what writes them."""

    def __init__(self, send: Send, schedulers: Iterable[str]) -> None:
        """`send` sends a request to the API server; `schedulers` are our names. Without a name
        nothing is written: an extender's process schedules no pods.
        """
        self._send, self._writes = send, any(schedulers)
        self._due: dict[str, str] = {}
        self._writing: asyncio.Task[None] | None = None

    def show(self, name: str, fault: str) -> None:
        """Let a Queue say why the tree is not used; an empty fault: that it counts."""
        if not self._writes:
            return
        self._due[name] = fault
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop writing. Idempotent."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    async def _run(self) -> None:
        for _try in range(TRIES):
            for name, fault in list(self._due.items()):
                is_done = await self._write(name, fault)
                if is_done and self._due.get(name) == fault:
                    del self._due[name]
            if not self._due:
                return
            await asyncio.sleep(AGAIN_S)
        self._due.clear()

    async def _write(self, name: str, fault: str) -> bool:
        """Return whether nothing is left to do for this Queue."""
        path = f"{QUEUES.path}/{name}"
        read = await self._send("GET", path, None, "application/json")
        if isinstance(read, Answer):
            return False
        if not read.ok:
            return True  # deleted, or not permitted
        conditions = _decode(read.body).status.conditions or []
        new = _condition(fault)
        old = next((one for one in conditions if one.get("type") == TYPE), {})
        if {key: old.get(key) for key in new} == new:
            return True
        new["lastTransitionTime"] = stamp(time.time())
        others = [one for one in conditions if one.get("type") != TYPE]
        body = msgspec.json.encode({"status": {"conditions": [*others, new]}})
        written = await self._send("PATCH", f"{path}/status", body, MERGE)
        if isinstance(written, Answer):
            return False
        if not written.ok:
            log.warning("the status of Queue %s was not written: %s", name, written.message())
        return True


def _condition(fault: str) -> dict[str, Any]:
    if fault:
        text = f"{fault}; the last tree without a fault stays in use"
        return {"type": TYPE, "status": "False", "reason": REFUSED, "message": text}
    return {"type": TYPE, "status": "True", "reason": USED, "message": ""}
