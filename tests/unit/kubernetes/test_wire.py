"""Requests over kept connections: answers in any number of pieces, and what is known
without one.
"""

import asyncio
import gc
import json
import ssl
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.kubernetes.client import http_wire
from shared.kubernetes.client.client import KubeClient
from shared.kubernetes.client.credentials import Credentials
from shared.kubernetes.client.http_answers import Answered, AnswerParser, BadAnswer
from shared.kubernetes.client.http_wire import Lost, NotSent, Wire
from tests.support.kube_credentials import make_certificates, verifying
from tests.unit.kubernetes.fake_api import FakeApi

BODY = b'{"kind":"Status"}'
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n" + BODY
CHUNKED = (
    b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nRetry-After: 7\r\n\r\n"
    b"a\r\n" + BODY[:10] + b"\r\n7;x=y\r\n" + BODY[10:] + b"\r\n0\r\nTrailer: t\r\n\r\n"
)
UPGRADE = b"HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: y\r\n\r\n"
ANSWERS = {
    OK: Answered(200, BODY, "", True),
    CHUNKED: Answered(201, BODY, "7", True),
    b"HTTP/1.1 100 Continue\r\n\r\n" + OK: Answered(200, BODY, "", True),
    OK.replace(b"\r\n\r\n", b"\r\nConnection: Close\r\n\r\n"): Answered(200, BODY, "", False),
    OK.replace(b"1.1", b"1.0"): Answered(200, BODY, "", False),
    b"HTTP/1.1 204 No Content\r\n\r\n": Answered(204, b"", "", True),
}


@given(st.sampled_from(sorted(ANSWERS)), st.lists(st.integers(1, 120)))
def test_an_answer_is_the_same_in_whatever_pieces_it_comes(raw: bytes, cuts: list[int]):
    parser = AnswerParser()
    for _again in range(2):
        found, at = None, 0
        for cut in (*cuts, len(raw)):
            assert found is None or at == len(raw)
            piece, at = raw[at : at + cut], min(at + cut, len(raw))
            found = parser.feed(piece) if piece else found
        assert found == ANSWERS[raw]
        if not found.keeps:
            parser = AnswerParser()


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"SSH-2.0-x\r\n\r\n", "no HTTP/1.1 answer"),
        (OK + b"x", "bytes after the end"),
        (CHUNKED + b"x", "bytes after the end"),
        (OK.replace(b"17", b"-1"), "Content-Length"),
        (OK.replace(b"200", b"2x0"), "status code"),
        (CHUNKED.replace(b"a\r\n", b"+a\r\n"), "chunk size"),
        (OK.replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\n\r\n"), "Content-Length"),
        (UPGRADE, "no HTTP/1.1 answer"),
        (OK + OK, "bytes after the end"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20_000, "headers of an answer are too long"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else repr(value[:20]),
)
def test_bytes_that_are_no_answer_are_refused(raw: bytes, said: str):
    with pytest.raises(BadAnswer, match=said):
        AnswerParser().feed(raw)


def feed_all(parser: AnswerParser, pieces: list[bytes]) -> None:
    for piece in pieces:
        parser.feed(piece)


@pytest.mark.parametrize(
    "piece",
    [b"a: b\r\n" * 100, b"a" * 600, b"\r\nHTTP/1.1 100 Continue\r\n" * 20 + b"\r\n"],
    ids=("headers", "one line", "continues"),
)
def test_headers_are_bounded(piece: bytes):
    parser = AnswerParser()
    parser.feed(b"HTTP/1.1 100 Continue\r\n")
    with pytest.raises(BadAnswer, match="headers of an answer are too long"):
        feed_all(parser, [piece] * 200)


def test_a_body_may_end_with_its_connection():
    parser = AnswerParser()
    assert parser.end() is None
    assert parser.feed(b"HTTP/1.1 200 OK\r\n\r\nab") is None
    assert parser.feed(b"c") is None
    assert parser.end() == Answered(200, b"abc", "", False)


@pytest.mark.parametrize("raw", [OK[:-1], OK[:20], CHUNKED[:-1], CHUNKED[:-40], b""])
def test_half_an_answer_is_none_when_its_connection_ends(raw: bytes):
    parser = AnswerParser()
    parser.feed(raw)
    assert parser.end() is None


# ------------------------------------------------------------------------------------ the wire

Serve = Callable[[bytes, asyncio.StreamWriter], None]


class Server:
    """Answers every request with a given function; counts connections."""

    def __init__(self, serve: Serve) -> None:
        self.serve, self.connections, self.requests, self.ended = serve, 0, 0, 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.requests += 1
                self.serve(head, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.ended += 1
            writer.close()


@asynccontextmanager
async def wire_to(
    serve: Serve, server_tls: ssl.SSLContext | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Wire, Server]]:
    server = Server(serve)
    listening = await asyncio.start_server(server, "127.0.0.1", 0, ssl=server_tls)
    port = listening.sockets[0].getsockname()[1]
    wire = Wire(f"http{'s' if server_tls else ''}://127.0.0.1:{port}/base", tls, None)
    try:
        yield wire, server
    finally:
        wire.close()
        listening.close()
        await asyncio.sleep(0)


async def ask(wire: Wire, method: str = "GET", body: bytes | None = None) -> Answered:
    return await wire.ask(method, "/path?a=b", "X: y\r\n", body, 5.0)


async def asked(server: Server) -> None:
    while not server.requests:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def answer(_head: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(OK)


async def test_a_connection_is_used_again_and_heads_are_whole():
    heads = []

    def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        heads.append(head.decode())
        writer.write(OK)

    async with wire_to(serve) as (wire, server):
        assert await ask(wire) == Answered(200, BODY, "", True)
        await asyncio.gather(ask(wire), ask(wire))
        assert (server.connections, server.requests) == (2, 3)
    line, *fields = heads[0].strip().split("\r\n")
    assert line == "GET /base/path?a=b HTTP/1.1"
    assert "X: y" in fields
    assert "Accept-Encoding: identity" in fields
    assert fields[0].startswith("Host: 127.0.0.1:")


async def test_a_server_that_is_not_there_was_not_sent_anything():
    async with wire_to(answer) as (wire, _):
        gone = wire
    with pytest.raises(NotSent):
        await ask(gone)


async def test_a_closed_kept_connection_is_noticed_in_time():
    writers = []

    def serve(_head: bytes, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(OK)

    async with wire_to(serve) as (wire, server):
        await ask(wire)
        writers[0].close()
        await asyncio.sleep(0.05)
        assert (await ask(wire, "POST", b"")).status == 200
        assert server.connections == 2


async def test_a_connection_that_ends_under_a_request_is_tried_again_only_to_read():
    def serve(_head: bytes, writer: asyncio.StreamWriter) -> None:
        if server.requests in (2, 4):
            writer.close()
        else:
            writer.write(OK)

    async with wire_to(serve) as (wire, server):
        await ask(wire)
        assert (await ask(wire)).status == 200
        assert server.requests == 3
        with pytest.raises(Lost):
            await ask(wire, "POST", b"{}")
        assert server.requests == 4, "it may have been carried out"


async def test_a_first_request_that_gets_nothing_is_not_repeated():
    async with wire_to(lambda _head, writer: writer.close()) as (wire, server):
        with pytest.raises(Lost):
            await ask(wire)
        assert server.requests == 1


async def test_silence_ends_the_connection_too():
    async with wire_to(lambda _head, _writer: None) as (wire, server):
        with pytest.raises(TimeoutError):
            await wire.ask("POST", "/", "", b"", 0.05)
        server.serve = answer
        await ask(wire)
        assert (server.connections, server.ended) == (2, 1)


async def test_a_cancelled_request_leaves_no_answer_behind():
    async with wire_to(lambda _head, _writer: None) as (wire, server):
        asking = asyncio.create_task(ask(wire))
        await asked(server)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        server.serve = answer
        await ask(wire)
        assert server.connections == 2


async def test_an_unrequested_answer_ends_the_connection():
    async with wire_to(lambda _head, writer: writer.write(OK + OK)) as (wire, server):
        with pytest.raises(BadAnswer):
            await ask(wire, "POST")
        server.serve = answer
        await ask(wire)
        assert server.connections == 2


async def test_connections_idle_for_long_are_not_reused(monkeypatch):
    monkeypatch.setattr(http_wire, "KEEP_S", 0.05)
    async with wire_to(answer) as (wire, server):
        await asyncio.gather(ask(wire), ask(wire))
        await asyncio.sleep(0.1)
        await ask(wire)
        assert server.connections == 3


async def test_connections_of_a_busier_time_are_ended(monkeypatch):
    monkeypatch.setattr(http_wire, "KEEP_S", 0.05)
    async with wire_to(answer) as (wire, server):
        await asyncio.gather(ask(wire), ask(wire), ask(wire))
        async with asyncio.timeout(5.0):
            while server.ended < 2:
                await ask(wire)
        assert server.connections == 3


async def test_closing_ends_waiting_requests():
    async with wire_to(lambda _head, _writer: None) as (wire, server):
        asking = asyncio.create_task(ask(wire, "POST"))
        await asked(server)
        wire.close()
        with pytest.raises(Lost):
            await asking


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_tls_is_verified(tmp_path, loop: str):
    import uvloop

    ours, other = tmp_path / "ours", tmp_path / "other"
    for folder in (ours, other):
        folder.mkdir()
        make_certificates(folder)
    server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_tls.load_cert_chain(ours / "server.crt", ours / "server.key")

    async def go() -> None:
        async with wire_to(answer, server_tls, verifying(ours / "ca.crt")) as (wire, server):
            for _ in range(3):
                assert (await ask(wire)).body == BODY
            assert server.connections == 1
        async with wire_to(answer, server_tls, verifying(other / "ca.crt")) as (wire, server):
            with pytest.raises(NotSent, match="certificate"):
                await ask(wire)
            assert not server.requests

    factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(go())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_request_cancelled_at_any_turn_leaves_no_open_socket(tmp_path, loop: str):
    import uvloop

    make_certificates(tmp_path)
    server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_tls.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    ours = verifying(tmp_path / "ca.crt")
    factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop

    async def serve(ready: Future[int], end: asyncio.Event) -> None:
        server = await asyncio.start_server(Server(answer), "127.0.0.1", 0, ssl=server_tls)
        ready.set_result(server.sockets[0].getsockname()[1])
        await end.wait()
        server.close()
        await asyncio.sleep(0.1)

    async def go(turns: int, port: int) -> None:
        wire = Wire(f"https://127.0.0.1:{port}", ours, None)
        asking = asyncio.create_task(ask(wire))
        for _ in range(turns):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        wire.close()
        await asyncio.sleep(0)

    ready: Future[int] = Future()
    end = asyncio.Event()
    with asyncio.Runner() as server_runner, ThreadPoolExecutor(1) as pool:
        serving = pool.submit(server_runner.run, serve(ready, end))
        port = ready.result(10)
        for turns in range(150):
            with asyncio.Runner(loop_factory=factory) as runner:
                runner.run(go(turns, port))
        gc.collect()
        server_runner.get_loop().call_soon_threadsafe(end.set)
        serving.result(10)


async def test_requests_during_a_renewal_are_answered_and_their_connections_close(tmp_path):
    make_certificates(tmp_path)
    server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_tls.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    writers: list[asyncio.StreamWriter] = []
    ca_path = tmp_path / "ca.crt"

    def hold(_head: bytes, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    async with wire_to(hold, server_tls, verifying(ca_path)) as (wire, server):
        first = asyncio.create_task(ask(wire, "POST"))
        await asked(server)
        wire.renew(verifying(ca_path))
        answer(b"", writers.pop())
        assert (await first).body == BODY
        server.serve = answer
        for _ in range(2):
            assert (await ask(wire)).body == BODY
        assert server.connections == 2


async def test_a_path_has_no_blanks():
    async with wire_to(answer) as (wire, _):
        for path in ("/a b", "/a\r\nX: y"):
            with pytest.raises(AssertionError, match="not a path"):
                await wire.ask("GET", path, "", None, 1.0)


async def test_a_proxy_of_the_kubeconfig_is_used(api: FakeApi, tmp_path):
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://elsewhere:1", "proxy-url": ""}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    config["clusters"][0]["cluster"]["proxy-url"] = api.url  # type: ignore[index]
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    client = KubeClient(Credentials(str(path)))
    try:
        assert (await client.request("GET", "/api/v1/pods")).ok
    finally:
        await client.close()
    assert [path.rpartition("/")[2] for _, path in api.requests] == ["pods"]


async def test_a_closed_client_makes_no_connection_until_it_is_opened(api, cluster):
    """A watch that notices the end too late would connect again, and that connection would stay
    open.
    """
    assert await cluster.identity()
    await cluster.close()
    with pytest.raises(NotSent, match="closed"):
        await cluster.client.request("GET", "/api")
    with pytest.raises(ConnectionError):
        await anext(cluster.watch(1))
    await cluster.open()
    assert await cluster.identity()
