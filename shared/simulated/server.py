"""Serves one simulated cluster to clients in other processes, over TCP or a unix socket.

Requests that have arrived are carried out even when their client is gone by then, as an API server
would do. It keeps no state of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from shared.ports.cluster import Cluster, Gone, Restored
from shared.simulated import wire

UNIX = "unix:"


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`. Raises ValueError when it is not one."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"cluster address {address!r}: must be host:port or unix:path")
    return host, int(port)


class SimClusterServer:
    """One listening socket."""

    def __init__(self, cluster: Cluster) -> None:
        """Nothing listens before `start`."""
        self._cluster = cluster
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], bool] = {}
        self._writers: dict[asyncio.StreamWriter, bool] = {}
        self._methods: dict[str, Callable[[msgspec.Raw], Awaitable[msgspec.Raw]]] = {
            "identity": self._identity,
            "newest_revision": self._newest_revision,
            "list_all": self._list_all,
            "bind": self._bind,
            "bind_volumes": self._bind_volumes,
            "read": self._read,
            "touch": self._touch,
            "evict": self._evict,
        }

    async def start(self, address: str) -> str:
        """Listen; returns the address to connect to (with the port chosen for port 0)."""
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
        """Close every connection."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers[writer] = True
        watches = []
        loop = asyncio.get_running_loop()
        try:
            while True:
                call = wire.call_decoder.decode(await wire.read_frame(reader))
                answer = self._watch if call.method == "watch" else self._answer
                task = loop.create_task(answer(call, writer))
                self._tasks[task] = True
                task.add_done_callback(self._tasks.pop)
                if call.method == "watch":
                    watches.append(task)
        except (ConnectionError, msgspec.DecodeError):
            pass
        finally:
            for task in watches:
                task.cancel()
            del self._writers[writer]
            writer.close()

    async def _answer(self, call: wire.Call, writer: asyncio.StreamWriter) -> None:
        try:
            reply = wire.Reply(call.id, await self._methods[call.method](call.arguments))
        except ConnectionError as error:
            reply = wire.Reply(call.id, wire.raw(str(error)), "broken")
        await _send(writer, reply)

    async def _watch(self, call: wire.Call, writer: asyncio.StreamWriter) -> None:
        since = wire.number_decoder.decode(call.arguments)
        try:
            async for watched in self._cluster.watch(since):
                await _send(writer, wire.Reply(call.id, wire.raw_watched(watched)))
        except Gone as error:
            await _send(writer, wire.Reply(call.id, wire.raw(str(error)), "gone"))
        except Restored as error:
            await _send(writer, wire.Reply(call.id, wire.raw(str(error)), "restored"))
        except ConnectionError as error:
            await _send(writer, wire.Reply(call.id, wire.raw(str(error)), "broken"))

    async def _identity(self, _arguments: msgspec.Raw) -> msgspec.Raw:
        return wire.raw(await self._cluster.identity())

    async def _newest_revision(self, _arguments: msgspec.Raw) -> msgspec.Raw:
        return wire.raw(await self._cluster.newest_revision())

    async def _list_all(self, arguments: msgspec.Raw) -> msgspec.Raw:
        listed = await self._cluster.list_all(wire.text_decoder.decode(arguments))
        return wire.raw_watched(listed)

    async def _bind(self, arguments: msgspec.Raw) -> msgspec.Raw:
        return wire.raw(await self._cluster.bind(wire.binds_decoder.decode(arguments)))

    async def _bind_volumes(self, arguments: msgspec.Raw) -> msgspec.Raw:
        return wire.raw(await self._cluster.bind_volumes(wire.volumes_decoder.decode(arguments)))

    async def _read(self, arguments: msgspec.Raw) -> msgspec.Raw:
        return wire.raw(await self._cluster.read(wire.pods_decoder.decode(arguments)))

    async def _touch(self, arguments: msgspec.Raw) -> msgspec.Raw:
        touches = wire.touches_decoder.decode(arguments)
        return wire.raw(await self._cluster.touch(touches.pods, touches.messages))

    async def _evict(self, arguments: msgspec.Raw) -> msgspec.Raw:
        evictions = wire.evictions_decoder.decode(arguments)
        return wire.raw(await self._cluster.evict(evictions.pods, evictions.by))


async def _send(writer: asyncio.StreamWriter, reply: wire.Reply) -> None:
    """A client that is gone gets nothing; that is its own matter."""
    if not writer.is_closing():
        writer.write(wire.frame(reply))
        try:
            await writer.drain()
        except ConnectionError:
            writer.close()
