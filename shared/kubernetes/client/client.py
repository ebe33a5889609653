"""Raw requests to a Kubernetes API server: bytes in, bytes out, over kept connections.

It distinguishes a request that certainly was not sent from one whose outcome is unknown. It decodes
no objects (kubernetes-asyncio's models cost a hundred times what msgspec does) and retries nothing.
"""

import asyncio
import logging
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import aiohttp
import msgspec
from yarl import URL

from shared.kubernetes.client import protobuf
from shared.kubernetes.client.credentials import Credentials, KubeconfigError
from shared.kubernetes.client.http_wire import CONNECT_TIMEOUT_S, NotSent, Wire
from shared.model.text import quoted

REQUEST_TIMEOUT_S = 30.0
READ_BUFFER_BYTES = 1 << 20
JSON = "application/json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
UNAUTHORIZED = 401
STATUS_MESSAGE = 3  # of Status in protobuf
RETRY_AFTER_MAX_S = 10.0

log = logging.getLogger("muster.kube")


class ApiError(ConnectionError):
    """The server answered with something other than what was asked for."""

    def __init__(self, status: int, message: str) -> None:
        """`message` is that of the Status object."""
        super().__init__(f"{status}: {quoted(message)}")
        self.status = status


class Status(msgspec.Struct):
    """A metav1.Status."""

    message: str = ""
    reason: str = ""
    code: int = 0


_status = msgspec.json.Decoder(Status)


class Response(NamedTuple):
    """An answer of any status. `is_stale`: the credentials it answers were replaced meanwhile."""

    status: int
    body: bytes
    retry_after_s: float = 0.0
    is_stale: bool = False

    @property
    def ok(self) -> bool:
        """Return whether the server did what was asked."""
        return 200 <= self.status < 300

    def message(self) -> str:
        """Return the message of a Status object, else the beginning of the body."""
        try:
            if self.body.startswith(protobuf.MAGIC):
                return protobuf.content(protobuf.unframed(self.body), STATUS_MESSAGE).decode()
            return _status.decode(self.body).message
        except ValueError:
            return self.body[:200].decode(errors="replace")


class KubeClient:
    """A session with one API server. It connects with the first request."""

    def __init__(self, credentials: Credentials) -> None:
        """Keep the credentials; read and open nothing yet."""
        self.credentials = credentials
        # Awaited before each request other than a GET.
        self.may_write: Callable[[], Awaitable[None]] | None = None
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False
        self._tls: ssl.SSLContext | bool = True
        self._certificate = b""
        # None behind a proxy, which only aiohttp supports.
        self._wire: Wire | None = None
        self._opening = asyncio.Lock()
        self._timeout = aiohttp.ClientTimeout(
            total=REQUEST_TIMEOUT_S, sock_connect=CONNECT_TIMEOUT_S
        )

    async def close(self) -> None:
        """Close every connection and open none until `open`. Idempotent."""
        self._is_closed = True
        session, self._session = self._session, None
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()
        if session is not None:
            await session.close()
        # Aborted connections are closed in the loop's next turn.
        await asyncio.sleep(0)

    async def open(self) -> None:
        """Read the credentials and make the session. Raises KubeconfigError."""
        async with self._opening:
            if self._session is not None:
                return
            self._is_closed = False
            await self.credentials.load()
            self._tls = self.credentials.tls()
            self._certificate = self.credentials.certificate
            if not self.credentials.proxy:
                context = _context(self._tls)
                self._wire = Wire(self.credentials.host, context, self.credentials.server_name)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                read_bufsize=READ_BUFFER_BYTES,
                # There are no cookies; looking for them costs a third of a request.
                cookie_jar=aiohttp.DummyCookieJar(),
                # Compressing lists costs the server more than the network gains.
                headers={"Accept": JSON, "Accept-Encoding": "identity", "User-Agent": "muster"},
                # Otherwise each request looks for netrc and proxies in two threads.
                trust_env=False,
            )

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Response:
        """Send a request, and once more if our credentials were stale. Raises NotSent, and
        ConnectionError or TimeoutError when the outcome is unknown.
        """
        if self.may_write is not None and method != "GET":
            await self.may_write()
        response = await self._request(method, path, body, content_type, accept)
        if response.status == UNAUTHORIZED and response.is_stale:
            response = await self._request(method, path, body, content_type, accept)
        return response

    async def _request(
        self, method: str, path: str, body: bytes | None, content_type: str, accept: str
    ) -> Response:
        session = await self._ready()
        authorization, version = self.credentials.header(), self.credentials.version
        if self._wire is not None:
            fields = _fields(authorization, "" if body is None else content_type, accept)
            answer = await self._wire.ask(method, path, fields, body, REQUEST_TIMEOUT_S)
            status, raw, retry_after = answer.status, answer.body, answer.retry_after
        else:
            status, raw, retry_after = await self._by_proxy(
                session, authorization, method, path, body, content_type, accept
            )
        is_stale = status == UNAUTHORIZED and await self._renewed(version)
        return Response(status, raw, _retry_after_s(retry_after), is_stale)

    async def _by_proxy(
        self,
        session: aiohttp.ClientSession,
        authorization: str,
        method: str,
        path: str,
        body: bytes | None,
        content_type: str,
        accept: str,
    ) -> tuple[int, bytes, str]:
        headers = {**self._headers(), "Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            async with session.request(
                method,
                self._url(path),
                data=body,
                headers=headers,
                timeout=self._timeout,
                **self._more(),
            ) as answer:
                return answer.status, await answer.read(), answer.headers.get("Retry-After", "")
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotSent(str(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise ConnectionError(f"{type(error).__name__}: {error}") from error

    async def _renewed(self, used: int) -> bool:
        """Return whether there are other credentials than the ones that the server refused."""
        await self.credentials.renew(refused=used)
        self._show_certificate()
        return self.credentials.version != used

    def _show_certificate(self) -> None:
        """Use a new certificate for new connections; open ones end with their use."""
        if self.credentials.certificate == self._certificate:
            return
        try:
            self._tls = self.credentials.tls()
        except OSError as error:
            # Perhaps its key has not been written yet: try later.
            log.warning("%s: the new certificate cannot be used: %s", self.credentials.host, error)
            return
        self._certificate = self.credentials.certificate
        if self._wire is not None:
            self._wire.renew(_context(self._tls))

    async def get(self, path: str) -> bytes:
        """GET. Raises ApiError, ConnectionError, TimeoutError."""
        response = await self.request("GET", path)
        if not response.ok:
            raise ApiError(response.status, response.message())
        return response.body

    @asynccontextmanager
    async def stream(self, path: str, silent_s: float) -> AsyncIterator[aiohttp.ClientResponse]:
        """GET a stream. Raises TimeoutError after `silent_s` without a byte."""
        session, headers = await self._ready(), self._headers()
        version = self.credentials.version
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=silent_s
        )
        try:
            async with session.get(
                self._url(path), headers=headers, timeout=timeout, **self._more()
            ) as answer:
                try:
                    if answer.status == UNAUTHORIZED:
                        await self._renewed(version)
                    yield answer
                finally:
                    _cut_off(answer)
        except aiohttp.ClientError as error:
            if isinstance(error, TimeoutError):
                raise TimeoutError(f"no data for {silent_s:.0f} s") from error
            raise ConnectionError(f"{type(error).__name__}: {error}") from error

    async def _ready(self) -> aiohttp.ClientSession:
        if self._is_closed:
            # A reader that has not seen the end yet would connect again, and nobody would close
            # that.
            raise NotSent("this client is closed")
        if self._session is None:
            await self.open()
        elif self.credentials.is_due:
            await self.credentials.renew()
            self._show_certificate()
        assert self._session is not None
        return self._session

    def _headers(self) -> dict[str, str]:
        header = self.credentials.header()
        return {"Authorization": header} if header else {}

    def _url(self, path: str) -> URL:
        return URL(self.credentials.host + path, encoded=True)

    def _more(self) -> dict[str, Any]:
        more: dict[str, Any] = {"ssl": self._tls}
        if self.credentials.proxy:
            more["proxy"] = self.credentials.proxy
        if self.credentials.server_name:
            more["server_hostname"] = self.credentials.server_name
        return more


def _cut_off(answer: aiohttp.ClientResponse) -> None:
    """Abort the connection of an answer that was not read to its end. An orderly end of TLS waits
    for a server that has more to send; the client or its loop may be closed before that.
    """
    connection = answer.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


def _context(tls: ssl.SSLContext | bool) -> ssl.SSLContext | None:
    return tls if isinstance(tls, ssl.SSLContext) else None


@lru_cache(maxsize=16)
def _fields(authorization: str, content_type: str, accept: str) -> str:
    """Return header lines. Raises KubeconfigError when the credentials are not a valid header."""
    lines = [f"Accept: {accept}\r\n"]
    for name, value in (("Authorization", authorization), ("Content-Type", content_type)):
        if not value.isprintable():
            raise KubeconfigError(f"{name}: must be one line without control characters")
        if value:
            lines.append(f"{name}: {value}\r\n")
    return "".join(lines)


def _retry_after_s(header: str) -> float:
    """Return the seconds to wait, with jitter so that clients do not return together."""
    if not header or not header.isdigit():
        return 0.0
    return min(float(header[:6]), RETRY_AFTER_MAX_S) * (1.0 + 0.2 * random.random())
