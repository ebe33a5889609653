"""One Lease: of several processes for the same pods one decides and the others stand by.

The rules are those of client-go (tools/leaderelection): a record that did not change for the
duration it states has expired, by the clock of the observer. One rule is stricter: a leader that
could not renew in time writes nothing until it has renewed, also after its process was stopped. It
goes on if no other process has led meanwhile. docs/adr/0018 says why this is not the library's
elector.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from math import inf
from typing import Any
from urllib.parse import quote

import msgspec

from shared.kubernetes.client.client import ApiError, KubeClient
from shared.kubernetes.client.http_wire import NotSent
from shared.model.election import Election

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
NOT_FOUND, CONFLICT = 404, 409
JITTER = 1.2
"""Candidates wait for up to this many more periods, so that they do not arrive together."""
LOOK_S = 0.2
"""How often a candidate reads a Lease that another process holds, if `retry_s` is longer: a Lease
that is given up is not free for long.
"""

log = logging.getLogger("muster.kube")


class LeaseLost(Exception):
    """Another process leads."""

    def __init__(self, holder: str) -> None:
        """`holder` is that process's identity."""
        super().__init__(holder)
        self.holder = holder


class _Spec(msgspec.Struct, omit_defaults=True):
    holderIdentity: str | None = None
    leaseDurationSeconds: int | None = None
    acquireTime: str | None = None
    renewTime: str | None = None
    leaseTransitions: int | None = None


class _Lease(msgspec.Struct, omit_defaults=True):
    """A Lease; `metadata` and unknown fields are written back unchanged."""

    metadata: dict[str, Any]
    spec: _Spec = msgspec.field(default_factory=_Spec)
    apiVersion: str = ""
    kind: str = ""


_lease = msgspec.json.Decoder(_Lease)


class Elector:
    """A candidate for one Lease, and its leader."""

    def __init__(
        self,
        client: KubeClient,
        election: Election,
        identity: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`identity` must be unique; `clock` is in seconds since any time."""
        self._client, self.election, self.identity = client, election, identity
        self._clock = clock
        self._collection = LEASES.format(quote(election.namespace, safe=""))
        self._path = f"{self._collection}/{quote(election.name, safe='')}"
        # Our last write; None = read it again.
        self._ours: _Lease | None = None
        self._seen: tuple[_Spec | None, float] = (None, 0.0)
        self._renewed_s = -inf
        self._renewed = asyncio.Event()
        self._is_over = False

    async def acquire(self, on_status: Callable[[str], None]) -> None:
        """Wait until we lead. `on_status` is called with the holder's name, or why it
        is unknown.
        """
        last_status = ""
        while True:
            rest_s = self.election.retry_s
            try:
                # Two requests: read the Lease, then change it.
                async with asyncio.timeout(2 * self.election.renew_s):
                    holder = await self._try()
                if holder == self.identity:
                    return
                words = f"{holder} leads" if holder else last_status
                rest_s = min(rest_s, LOOK_S)
            except (ConnectionError, TimeoutError) as error:
                words = f"the cluster does not answer: {_words(error)}"
            if words != last_status:
                on_status(words)
                last_status = words
            await asyncio.sleep(rest_s * (1.0 + JITTER * random.random()))

    async def keep(self) -> None:
        """Renew until another process leads, then raise LeaseLost; nothing more is written after
        that.
        """
        is_late = False
        # Measured from the request, not from its answer: a server that takes half of `renew_s`
        # for each would otherwise find us late every time.
        rest_s = self._renewed_s + self.election.retry_s - self._clock()
        while True:
            await asyncio.sleep(max(0.0, rest_s))
            began_s = self._clock()
            try:
                async with asyncio.timeout(self.election.renew_s):
                    await self._try()
            except (ConnectionError, TimeoutError) as error:
                log.info("the lease %s was not renewed: %s", self.election, _words(error))
            if self._is_late() and not is_late:
                log.warning("the lease %s is not renewed: nothing is written", self.election)
            is_late = self._is_late()
            rest_s = began_s + self.election.retry_s - self._clock()

    async def may_write(self) -> None:
        """Wait while it is uncertain that we lead. Raises NotSent when another process does."""
        while self._is_late() and not self._is_over:
            self._renewed.clear()
            await self._renewed.wait()
        if self._is_over:
            raise NotSent(f"the lease {self.election} is no longer ours")

    async def release(self) -> None:
        """Give the Lease up so that the next process leads at once, if the server answers."""
        was_over = self._is_over
        self._end()
        if was_over or self._renewed_s == -inf:
            return
        try:
            async with asyncio.timeout(self.election.renew_s):
                while not await self._leave():
                    pass
        except (ConnectionError, TimeoutError) as error:
            log.info("the lease %s was not released: %s", self.election, _words(error))

    async def _leave(self) -> bool:
        """Return True when the Lease is free or another's; False when it was written meanwhile, for
        instance by a renewal of ours whose answer was not awaited.
        """
        lease, self._ours = self._ours or await self._read(), None
        if lease is None or lease.spec.holderIdentity != self.identity:
            return True
        now = _now()
        spec = msgspec.structs.replace(
            lease.spec, holderIdentity="", leaseDurationSeconds=1, renewTime=now, acquireTime=now
        )
        body = msgspec.json.encode(msgspec.structs.replace(lease, spec=spec))
        response = await self._client.request("PUT", self._path, body)
        if response.ok or response.status in (NOT_FOUND, CONFLICT):
            return response.ok
        raise ApiError(response.status, response.message())

    def _is_late(self) -> bool:
        return self._clock() - self._renewed_s > self.election.renew_s

    def _end(self) -> None:
        self._is_over = True
        self._renewed.set()

    async def _try(self) -> str:
        """Return who leads after one attempt; empty = unknown. Raises ConnectionError,
        TimeoutError, and LeaseLost when we led and another process has led since.
        """
        if self._ours is not None and await self._write(self._ours):
            return self.identity
        # Not ours yet, or changed or deleted by another process: the present record decides.
        found = await self._read()
        holder = "" if found is None else found.spec.holderIdentity or ""
        if found is not None and holder != self.identity and self._renewed_s > -inf:
            self._end()
            raise LeaseLost(holder or "another one, which has left again,")
        if held := self._held_by():
            return held
        return self.identity if await self._write(found) else ""

    def _held_by(self) -> str:
        """Return another process that may still rely on the Lease, as far as we have observed: also
        on one that was deleted, which its holder makes again.
        """
        spec, since_s = self._seen
        holder = "" if spec is None else spec.holderIdentity or ""
        if spec is None or holder in ("", self.identity):
            return ""
        return holder if self._clock() - since_s <= (spec.leaseDurationSeconds or 0) else ""

    async def _read(self) -> _Lease | None:
        response = await self._client.request("GET", self._path)
        if response.status == NOT_FOUND:
            return None
        if not response.ok:
            raise ApiError(response.status, response.message())
        found = _decoded(response.body)
        if found.spec != self._seen[0]:
            self._seen = (found.spec, self._clock())
        return found

    async def _write(self, found: _Lease | None) -> bool:
        """Write the Lease as ours unless it has changed since it was read; return whether it was
        written.
        """
        # The time before the request: others may see us as late from then on.
        began_s = self._clock()
        body = msgspec.json.encode(self._claimed(found))
        if found is None:
            response = await self._client.request("POST", self._collection, body)
        else:
            response = await self._client.request("PUT", self._path, body)
        self._ours = None
        if response.status in (NOT_FOUND, CONFLICT):
            return False
        if not response.ok:
            raise ApiError(response.status, response.message())
        self._ours = _decoded(response.body)
        self._renewed_s = began_s
        self._renewed.set()
        return True

    def _claimed(self, found: _Lease | None) -> _Lease:
        now = _now()
        metadata = {"name": self.election.name, "namespace": self.election.namespace}
        lease = found or _Lease(metadata, _Spec(), "coordination.k8s.io/v1", "Lease")
        was_ours = lease.spec.holderIdentity == self.identity
        transitions = lease.spec.leaseTransitions or 0
        spec = msgspec.structs.replace(
            lease.spec,
            holderIdentity=self.identity,
            leaseDurationSeconds=self.election.lease_s,
            acquireTime=lease.spec.acquireTime if was_ours else now,
            renewTime=now,
            leaseTransitions=transitions if was_ours or found is None else transitions + 1,
        )
        return msgspec.structs.replace(lease, spec=spec)


def _decoded(body: bytes) -> _Lease:
    try:
        return _lease.decode(body)
    except msgspec.DecodeError as error:
        raise ApiError(200, f"a Lease that cannot be read: {error}") from error


def _words(error: Exception) -> str:
    return str(error) or "not in time"


def _now() -> str:
    """Return the present time as a Kubernetes MicroTime."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
