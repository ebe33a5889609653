"""A proxy before a real API server that fails on demand and logs its faults.

It ends TLS with the test cluster's own certificate, so clients verify it as they do the server. It
changes only what a fault says. The test chooses the request for each fault; nothing is random.
"""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import aiohttp
from aiohttp import web

from tests.support.kube_credentials import verifying
from tests.support.kube_options import Layout
from tests.support.server_process import free_ports

_GOODBYE_S = 0.02
# Headers of one connection, and those that the other side sets again.
_HOP_HEADERS = {"connection", "host", "keep-alive", "transfer-encoding", "content-length"}
# The client library would add these to requests that have none.
_AUTO_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_GONE = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "reason": "Expired",
    "code": 410,
}
_ERROR = b'{"type":"ERROR"'
_REFUSED = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "by the proxy"}


class Kind(Enum):
    """A kind of fault."""

    # The server executes the request, and no client gets the answer.
    DROP_ANSWER = "drop-answer"
    # The client's connection breaks at once; the request arrives `delay_s` later.
    LATE = "late"
    # Both the request and its answer arrive, after `delay_s`.
    SLOW = "slow"
    # The same, when the test calls `over`.
    HOLD = "hold"
    # Never arrives; answered with `status`.
    REFUSE = "refuse"
    # Of watches: the server is asked to end them after `delay_s`, and does.
    SHORT = "short"
    # Of watches, after `after_events`: the connection breaks; an ERROR 410; nothing ever again, or
    # until `over`, when the connection breaks.
    CUT = "cut"
    GONE = "gone"
    SILENT = "silent"


@dataclass(slots=True, kw_only=True)
class Fault:
    """A fault for the next `times` requests of this method whose path and query match, and whose
    body matches if that is given.
    """

    kind: Kind
    path: str
    method: str = "GET"
    body: bytes = b""
    times: int = 1
    delay_s: float = 0.0
    status: int = 503
    retry_after: str | None = None
    after_events: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def takes(self, request: web.BaseRequest, body: bytes) -> bool:
        """Return whether the fault applies to this request; count it if so."""
        if self.times <= 0 or request.method != self.method:
            return False
        if re.search(self.path, request.path_qs) is None:
            return False
        if re.search(self.body, body) is None:
            return False
        self.times -= 1
        return True


@dataclass(slots=True)
class Passed:
    """A request and its outcome. `status` is the server's, None while it has not answered;
    `ended_with` is the 410 with which the server itself ended a watch in mid-stream.
    """

    method: str
    path: str
    body: bytes
    fault: Kind | None
    status: int | None = None
    events: int = 0
    ended_with: int | None = None


@dataclass(slots=True)
class KubeProxy:
    """A running proxy; made by `kube_proxy`."""

    url: str
    _upstream_url: str
    _session: aiohttp.ClientSession
    faults: list[Fault] = field(default_factory=list)
    log: list[Passed] = field(default_factory=list)
    _late: set[asyncio.Task[None]] = field(default_factory=set)
    _ending: asyncio.Event = field(default_factory=asyncio.Event)
    _watches: dict[int, web.BaseRequest] = field(default_factory=dict)

    def happened(self, kind: Kind) -> list[Passed]:
        """Return the requests that this fault was applied to."""
        return [passed for passed in self.log if passed.fault is kind]

    async def settled(self) -> None:
        """Wait until every delayed request so far has arrived."""
        await asyncio.gather(*self._late)

    def cut(self, path: str) -> int:
        """Break the open watches whose path and query match; return their number."""
        found = self._open(path)
        for request in found:
            _broken(request)
        return len(found)

    def watches(self, path: str) -> int:
        """Return the number of open watches whose path and query match."""
        return len(self._open(path))

    def _open(self, path: str) -> list[web.BaseRequest]:
        return [one for one in list(self._watches.values()) if re.search(path, one.path_qs)]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request of a client."""
        body = await request.read()
        fault = next((fault for fault in self.faults if fault.takes(request, body)), None)
        kind = None if fault is None else fault.kind
        passed = Passed(request.method, request.path_qs, body, kind)
        self.log.append(passed)
        match fault:
            case Fault(kind=Kind.REFUSE):
                headers = {"Retry-After": fault.retry_after} if fault.retry_after else None
                return web.json_response(_REFUSED, status=fault.status, headers=headers)
            case Fault(kind=Kind.LATE):
                task = asyncio.create_task(self._send_late(request, passed, fault.delay_s))
                self._late.add(task)
                task.add_done_callback(self._late.discard)
                return _broken(request)
            case Fault(kind=Kind.SLOW):
                await asyncio.sleep(fault.delay_s)
            case Fault(kind=Kind.HOLD):
                await fault.over.wait()
            case Fault(kind=Kind.SHORT):
                wanted = f"timeoutSeconds={max(1, round(fault.delay_s))}"
                passed.path = re.sub(r"timeoutSeconds=\d+", wanted, passed.path)
        return await self._pass(request, passed, fault)

    async def _send_late(self, request: web.BaseRequest, passed: Passed, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        async with self._send(request, passed) as answer:
            await answer.read()

    @asynccontextmanager
    async def _send(
        self, request: web.BaseRequest, passed: Passed
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = [(k, v) for k, v in request.headers.items() if k.lower() not in _HOP_HEADERS]
        async with self._session.request(
            request.method,
            self._upstream_url + passed.path,
            data=passed.body or None,
            headers=headers,
            skip_auto_headers=_AUTO_HEADERS,
        ) as answer:
            passed.status = answer.status
            yield answer

    async def _pass(
        self, request: web.BaseRequest, passed: Passed, fault: Fault | None
    ) -> web.StreamResponse:
        try:
            async with self._send(request, passed) as answer:
                if fault is not None and fault.kind is Kind.DROP_ANSWER:
                    await answer.read()
                    return _broken(request)
                headers = [
                    (k, v) for k, v in answer.headers.items() if k.lower() not in _HOP_HEADERS
                ]
                response = web.StreamResponse(status=answer.status, headers=headers)
                if "watch=" in request.query_string:
                    await response.prepare(request)
                    self._watches[id(passed)] = request
                    try:
                        return await self._stream(request, response, answer, passed, fault)
                    finally:
                        del self._watches[id(passed)]
                whole = await answer.read()
                response.content_length = len(whole)
                await response.prepare(request)
                await response.write(whole)
                return response
        except (aiohttp.ClientError, ConnectionError):
            # The server's end of the connection broke, so the client's does.
            return _broken(request)

    async def _stream(
        self,
        request: web.BaseRequest,
        response: web.StreamResponse,
        answer: aiohttp.ClientResponse,
        passed: Passed,
        fault: Fault | None,
    ) -> web.StreamResponse:
        kind = None if fault is None else fault.kind
        breaks = fault is not None and kind in (Kind.CUT, Kind.GONE, Kind.SILENT)
        limit = fault.after_events if fault is not None and breaks else None
        while limit is None or passed.events < limit:
            line = await answer.content.readline()
            if not line:
                return response
            await response.write(line)
            if line.startswith(_ERROR):
                passed.ended_with = json.loads(line)["object"].get("code")
            passed.events += 1
        match kind:
            case Kind.GONE:
                event: dict[str, Any] = {"type": "ERROR", "object": _GONE}
                await response.write(json.dumps(event).encode() + b"\n")
                return response
            case Kind.SILENT if fault is not None:
                ends = [asyncio.ensure_future(one.wait()) for one in (self._ending, fault.over)]
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                for end in ends:
                    end.cancel()
        if answer.connection is not None and answer.connection.transport is not None:
            # The watch upstream would otherwise take its time to close.
            answer.connection.transport.abort()
        return _broken(request)

    async def _end(self) -> None:
        self._ending.set()
        for task in list(self._late):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def _broken(request: web.BaseRequest) -> web.StreamResponse:
    """Break the client's connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.StreamResponse()


@asynccontextmanager
async def kube_proxy(at: Layout) -> AsyncIterator[KubeProxy]:
    """Yield a proxy before the API server of a KubeServers (its `at`), on a separate port."""
    (port,) = free_ports(1)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(at.pki / "server.crt", at.pki / "server.key")
    connector = aiohttp.TCPConnector(limit=0, ssl=verifying(at.ca_path))
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, auto_decompress=False, read_bufsize=1 << 22
    ) as session:
        proxy = KubeProxy(f"https://127.0.0.1:{port}", at.url, session)
        runner = web.ServerRunner(web.Server(proxy.handle), shutdown_timeout=0.5)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
            yield proxy
        finally:
            await proxy._end()
            await runner.cleanup()
    # Closed connections report it in the loop's next turns, which must not be its last.
    await asyncio.sleep(_GOODBYE_S)
