"""Serves one simulated cluster to clients in other processes, over TCP or a unix socket.

A request that has arrived is carried out even if its client is gone by then, as an API server would
do. A watch whose client is gone ends with its next delivery. The server keeps no state of its own.
"""

import asyncio
from typing import Any

from shared.ports.cluster import Cluster, Gone, Restored
from shared.simulated import wire

UNIX = "unix:"


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `host:port`. Raises ValueError when it is not one."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"cluster address {address!r}: must be host:port or unix:path")
    return host, int(port)


class SimClusterServer:
    """One listening socket."""

    def __init__(self, cluster: Cluster) -> None:
        """Listens after `start`."""
        self._cluster = cluster
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], bool] = {}

    async def start(self, address: str) -> str:
        """Listen; return the address to connect to (with the port chosen for port 0)."""
        if address.startswith(UNIX):
            path = address.removeprefix(UNIX)
            self._server = await asyncio.start_unix_server(
                self._serve, path, limit=wire.BUFFER_BYTES
            )
            return address
        host, port = split_address(address)
        self._server = await asyncio.start_server(self._serve, host, port, limit=wire.BUFFER_BYTES)
        return f"{host}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """End every call and close its connection."""
        if self._server is not None:
            self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = True
        try:
            await self._answer(*await wire.read_call(reader), writer)
        except ConnectionError:
            pass  # the client is gone
        finally:
            del self._tasks[task]
            writer.close()

    async def _answer(
        self, method: str, arguments: tuple[Any, ...], writer: asyncio.StreamWriter
    ) -> None:
        """Answer one call. Raises ConnectionError when the client is gone."""
        asked = getattr(self._cluster, method)(*arguments)
        try:
            if method == "watch":
                async for watched in asked:
                    await _send(writer, wire.frame(watched))
            else:
                await _send(writer, wire.frame(await asked))
        except (Gone, Restored, ConnectionError) as error:
            await _send(writer, wire.frame(str(error), type(error).__name__))


async def _send(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(frame)
    await writer.drain()
