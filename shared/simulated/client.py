"""A client of a simulated cluster in another process: implements the port `Cluster`.

It connects when it must and again after every loss. A request that may have left before the
connection was lost is UNKNOWN; one that certainly was not sent is BUSY.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec

from shared.model.api_outcome import Answer
from shared.ports.cluster import (
    ALL_KINDS,
    NO_MARKS,
    BindRequest,
    Gone,
    Marks,
    PastBind,
    PodRead,
    PodRef,
    Restored,
    VolumeRequest,
    Watched,
)
from shared.simulated import wire
from shared.simulated.server import UNIX, split_address

CONNECT_TIMEOUT_S = 5.0


class NotSent(ConnectionError):
    """The request certainly did not leave."""


async def _connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Raises NotSent."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            if address.startswith(UNIX):
                path = address.removeprefix(UNIX)
                return await asyncio.open_unix_connection(path, limit=wire.BUFFER_BYTES)
            host, port = split_address(address)
            return await asyncio.open_connection(host, port, limit=wire.BUFFER_BYTES)
    except (OSError, TimeoutError) as error:
        raise NotSent(f"the cluster at {address} does not answer: {error}") from error


class SimClusterClient:
    """One connection for requests, and one for each watch."""

    kinds = ALL_KINDS  # a world may have other objects; without any the list is empty

    def __init__(self, address: str, timeout_s: float = 30.0) -> None:
        """Connects with the first call."""
        self._address, self._timeout_s = address, timeout_s
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._pending: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._next = 0
        self._connecting = asyncio.Lock()

    async def close(self) -> None:
        """Drop the connection. Idempotent."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def identity(self) -> str:
        """Raises ConnectionError."""
        return wire.text_decoder.decode(await self._call("identity", None))

    async def newest_revision(self) -> int:
        """Raises ConnectionError."""
        return wire.number_decoder.decode(await self._call("newest_revision", None))

    async def list_all(self, kind: str) -> Watched:
        """Raises ConnectionError."""
        return wire.read_watched(await self._call("list_all", kind))

    async def watch(self, since: int, marks: Marks = NO_MARKS) -> AsyncIterator[Watched]:
        """Raises Gone, Restored, ConnectionError. One log has no marks."""
        reader, writer = await _connect(self._address)
        try:
            writer.write(wire.frame(wire.Call(0, "watch", wire.raw(since))))
            while True:
                reply = wire.reply_decoder.decode(await wire.read_frame(reader))
                if reply.error == "gone":
                    raise Gone(wire.text_decoder.decode(reply.result))
                if reply.error == "restored":
                    raise Restored(wire.text_decoder.decode(reply.result))
                if reply.error:
                    raise ConnectionError(wire.text_decoder.decode(reply.result))
                yield wire.read_watched(reply.result)
        finally:
            writer.close()

    async def bind(self, requests: Sequence[BindRequest]) -> list[PodRead]:
        """Never raises for a lost connection."""
        return await self._reads("bind", requests, len(requests), Answer.BUSY)

    async def bind_volumes(self, requests: Sequence[VolumeRequest]) -> list[Answer]:
        """Never raises for a lost connection."""
        return await self._answers("bind_volumes", requests, len(requests))

    async def read(self, pods: Sequence[PodRef]) -> list[PodRead]:
        """Never raises for a lost connection."""
        return await self._reads("read", pods, len(pods), Answer.UNKNOWN)

    async def touch(
        self, pods: Sequence[PodRef], messages: Sequence[str], reasons: Sequence[str] = ()
    ) -> list[PodRead]:
        """Never raises for a lost connection. `reasons` are not kept there."""
        return await self._reads("touch", [pods, messages], len(pods), Answer.BUSY)

    async def evict(self, pods: Sequence[PodRef], by: PodRef | None = None) -> list[Answer]:
        """Never raises for a lost connection."""
        return await self._answers("evict", [pods, by], len(pods))

    def tell_of(self, binds: Sequence[PastBind], are_new: bool = False) -> None:
        """There are no events there."""

    async def _answers(self, method: str, arguments: object, count: int) -> list[Answer]:
        try:
            codes = wire.codes_decoder.decode(await self._call(method, arguments))
        except NotSent:
            return [Answer.BUSY] * count
        except (ConnectionError, TimeoutError):
            return [Answer.UNKNOWN] * count
        return [Answer(code) for code in codes]

    async def _reads(
        self, method: str, arguments: object, count: int, unsent: Answer
    ) -> list[PodRead]:
        try:
            return wire.reads_decoder.decode(await self._call(method, arguments))
        except NotSent:
            return [PodRead(unsent)] * count
        except (ConnectionError, TimeoutError):
            return [PodRead(Answer.UNKNOWN)] * count

    async def _call(self, method: str, arguments: object) -> msgspec.Raw:
        """Raises NotSent, ConnectionError, TimeoutError."""
        writer = await self._connected()
        self._next += 1
        number = self._next
        future = asyncio.get_running_loop().create_future()
        self._pending[number] = future
        try:
            writer.write(wire.frame(wire.Call(number, method, wire.raw(arguments))))
            async with asyncio.timeout(self._timeout_s):
                await writer.drain()
                result: msgspec.Raw = await future
                return result
        finally:
            self._pending.pop(number, None)

    async def _connected(self) -> asyncio.StreamWriter:
        async with self._connecting:
            if self._writer is None:
                reader, self._writer = await _connect(self._address)
                loop = asyncio.get_running_loop()
                self._reading = loop.create_task(self._read_replies(reader, self._writer))
            return self._writer

    async def _read_replies(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Hand out answers until the connection is lost; then nobody waits on it any more."""
        try:
            while True:
                reply = wire.reply_decoder.decode(await wire.read_frame(reader))
                future = self._pending.get(reply.id)
                if future is None or future.done():
                    continue
                if reply.error:
                    future.set_exception(ConnectionError(wire.text_decoder.decode(reply.result)))
                else:
                    future.set_result(reply.result)
        except (ConnectionError, msgspec.DecodeError):
            pass
        finally:
            self._writer = None
            writer.close()
            for future in self._pending.values():
                if not future.done():
                    future.set_exception(ConnectionError("the connection was lost"))
