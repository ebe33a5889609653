"""The connection of a stream, over TLS, when its reader leaves."""

import asyncio
import ssl
from typing import cast

from shared.kubernetes.client.client import KubeClient
from shared.kubernetes.client.credentials import Credentials
from tests.support.kube_credentials import make_certificates, write_kubeconfig

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"


async def test_an_abandoned_stream_is_closed_although_the_server_does_not_answer(tmp_path):
    make_certificates(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    ended, left = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD)
        # The server is busy and does not notice that the client closes the connection.
        cast("asyncio.Transport", writer.transport).pause_reading()
        await ended.wait()
        writer.transport.abort()
        left.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    url = f"https://127.0.0.1:{port}"
    path = write_kubeconfig(tmp_path / "kubeconfig", url, tmp_path / "ca.crt", "secret")
    client = KubeClient(Credentials(str(path)))
    async with client.stream("/watch", 10.0) as answer:
        assert await answer.content.readexactly(5) == b"hello"
        assert answer.connection is not None
        transport = answer.connection.transport
        assert transport is not None
        socket = transport.get_extra_info("socket")
    await client.close()
    is_closed = socket.fileno() == -1
    ended.set()
    await left.wait()
    assert is_closed
    server.close()
    await server.wait_closed()
