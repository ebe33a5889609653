"""Small requests to one HTTP/1.1 server over kept connections, one per request in flight. They cost
a quarter of aiohttp's, whose requests cost more than the decisions they carry.

It distinguishes a request that certainly was not sent from one whose outcome is unknown. It follows
no redirects, supports no proxies, and repeats only a GET whose kept connection had ended.
"""

import asyncio
import ssl
from typing import cast
from urllib.parse import urlsplit

from shared.kubernetes.client.http_answers import Answered, AnswerParser, BadAnswer

CONNECT_TIMEOUT_S = 5.0
KEEP_S = 15.0
"""Servers close idle connections; a request that crosses that is lost."""


class NotSent(ConnectionError):
    """The request certainly did not reach the server."""


class Lost(ConnectionError):
    """The connection ended before the answer came."""


class Connection(asyncio.Protocol):
    """One kept connection: one request at a time."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """Start unconnected. `tls` is the context it will be made with."""
        self.tls = tls
        self._loop = asyncio.get_running_loop()
        self._parser = AnswerParser()
        self._waiter: asyncio.Future[Answered] | None = None
        self._transport: asyncio.Transport | None = None
        self.is_open = False
        self.used_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        # uvloop's TLS transports have no asyncio base class.
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Take a part of the answer. A good server sends nothing else."""
        try:
            if self._waiter is None:
                raise BadAnswer("an unrequested answer")
            answer = self._parser.feed(data)
        except BadAnswer as error:
            self._fail(error)
            self.close()
            return
        if answer is not None and not self._waiter.done():
            self._waiter.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the pending request: either side ended the connection."""
        self.is_open = False
        answer = self._parser.end() if exc is None else None
        if answer is not None and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(answer)
        self._fail(Lost(str(exc or "the connection ended before the answer")))

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    async def ask(self, request: bytes, timeout_s: float) -> Answered:
        """Send a request and wait for its answer. Raises Lost, BadAnswer or TimeoutError: the
        outcome is unknown.
        """
        assert self._transport is not None
        assert self._waiter is None, "one request at a time"
        waiter: asyncio.Future[Answered] = self._loop.create_future()
        self._waiter = waiter
        timer = self._loop.call_later(timeout_s, self._fail, TimeoutError("no answer in time"))
        self._transport.write(request)
        try:
            answer: Answered = await waiter
        except BaseException:
            # A late answer would be taken for the answer to the next request.
            self.close()
            raise
        finally:
            timer.cancel()
            self._waiter = None
        if not answer.keeps:
            self.close()
        self.used_s = self._loop.time()
        return answer

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()


class Wire:
    """All connections to one server."""

    def __init__(self, url: str, tls: ssl.SSLContext | None, server_name: str | None) -> None:
        """Connects with the first request. `server_name` is the certificate's name, if not the
        host's.
        """
        parts = urlsplit(url)
        assert parts.hostname, f"{url}: no host"
        # Two parsers must not read a URL differently: credentials would go out in clear.
        assert (parts.scheme == "https") == (tls is not None), (
            f"{url}: with{'' if tls else 'out'} TLS"
        )
        self._host = parts.hostname
        self._port = parts.port or (443 if tls else 80)
        self._tls, self._name = tls, (server_name or parts.hostname) if tls else None
        self._before = parts.path.rstrip("/")
        self._same = (
            f" HTTP/1.1\r\nHost: {parts.netloc}\r\nUser-Agent: muster\r\n"
            "Accept-Encoding: identity\r\n"
        )
        self._free: list[Connection] = []
        self._all: dict[Connection, bool] = {}

    def close(self) -> None:
        """Close all connections; pending requests raise Lost. Idempotent."""
        for connection in self._all:
            connection.close()
        self._all.clear()
        self._free.clear()

    def renew(self, tls: ssl.SSLContext | None) -> None:
        """Use this context for new connections; pending requests are still answered."""
        assert (tls is None) == (self._tls is None), "TLS is not a matter of renewal"
        self._tls = tls
        for connection in self._free:
            self._all.pop(connection, None)
            connection.close()
        self._free.clear()

    async def ask(
        self, method: str, path: str, fields: str, body: bytes | None, timeout_s: float
    ) -> Answered:
        """Send a request. `fields` are more header lines, each with its line end. Raises NotSent,
        and ConnectionError or TimeoutError when the outcome is unknown.
        """
        assert path.isprintable(), f"not a path: {path!r}"
        assert " " not in path, f"not a path: {path!r}"
        length = "" if body is None else f"Content-Length: {len(body)}\r\n"
        head = f"{method} {self._before}{path}{self._same}{fields}{length}\r\n"
        request = head.encode("latin-1") + (body or b"")
        while True:
            connection = self._kept()
            is_new = connection is None
            if connection is None:
                connection = await self._connect()
            try:
                answer = await connection.ask(request, timeout_s)
            except Lost:
                self._all.pop(connection, None)
                if is_new or method != "GET":
                    raise
                continue
            except BaseException:
                self._all.pop(connection, None)
                raise
            if connection.is_open and connection.tls is self._tls:
                self._free.append(connection)
                self._end_idle(connection.used_s)
            else:
                self._all.pop(connection, None)
                connection.close()
            return answer

    def _kept(self) -> Connection | None:
        """Return the connection that was used last, if it is still good."""
        free = self._free
        while free:
            connection = free.pop()
            if not connection.is_open:
                self._all.pop(connection, None)
            elif asyncio.get_running_loop().time() - connection.used_s > KEEP_S:
                # The others have been idle even longer.
                for old in (connection, *free):
                    self._all.pop(old, None)
                    old.close()
                free.clear()
            else:
                return connection
        return None

    def _end_idle(self, now_s: float) -> None:
        """Close connections that a busier time has left: the one used last is used next. Each has
        256 KiB for TLS.
        """
        while now_s - self._free[0].used_s > KEEP_S:
            old = self._free.pop(0)
            self._all.pop(old, None)
            old.close()

    async def _connect(self) -> Connection:
        loop, tls = asyncio.get_running_loop(), self._tls
        connection = Connection(tls)
        plain: asyncio.Transport | None = None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                plain, _ = await loop.create_connection(
                    lambda: connection if tls is None else asyncio.Protocol(),
                    self._host,
                    self._port,
                )
                if tls is not None:
                    transport = await loop.start_tls(
                        plain, connection, tls, server_hostname=self._name
                    )
                    assert transport is not None
                    connection.connection_made(transport)
        except BaseException as error:
            # A cancelled handshake leaves its socket open.
            if plain is not None:
                plain.abort()
            if not isinstance(error, OSError | TimeoutError):
                raise
            reason = str(error) or f"no connection within {CONNECT_TIMEOUT_S:.0f} s"
            raise NotSent(f"{self._host}:{self._port}: {reason}") from error
        self._all[connection] = True
        return connection
