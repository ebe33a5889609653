"""A client of a simulated cluster in another process: implements the port `Cluster`.

Each call has a connection of its own. A request that may have been sent before its connection was
lost is UNKNOWN; one that certainly was not sent is BUSY.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from msgspec.msgpack import Decoder

from shared.model.api_outcome import Answer
from shared.ports.cluster import (
    ALL_KINDS,
    NO_MARKS,
    BindRequest,
    ClaimsAnswer,
    ClaimsRequest,
    GroupCondition,
    Marks,
    NodesRequest,
    PastBind,
    PodRead,
    PodRef,
    VolumeRequest,
    Watched,
)
from shared.simulated import wire
from shared.simulated.server import UNIX, split_address

CONNECT_TIMEOUT_S = 5.0
NO_AUTOSCALER = "the cluster has no autoscaler"
T = TypeVar("T")


class NotSent(ConnectionError):
    """The request certainly was not sent."""


async def connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection. Raises NotSent."""
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
    """A client; nothing stays open between calls."""

    kinds = ALL_KINDS  # a world may have other objects; without any the list is empty

    def __init__(self, address: str, timeout_s: float = 30.0) -> None:
        """Keep the address; each call connects."""
        self._address, self._timeout_s = address, timeout_s

    async def close(self) -> None:
        """Do nothing: nothing is open."""

    async def identity(self) -> str:
        """See the port. Raises ConnectionError, TimeoutError."""
        return await self._call(wire.TEXT, "identity")

    async def newest_revision(self) -> int:
        """See the port. Raises ConnectionError, TimeoutError."""
        return await self._call(wire.NUMBER, "newest_revision")

    async def list_all(self, kind: str) -> Watched:
        """See the port. Raises ConnectionError, TimeoutError."""
        listed = await self._call(wire.WATCHED, "list_all", kind)
        return Watched(listed.revision, listed.events)

    async def watch(self, since: int, marks: Marks = NO_MARKS) -> AsyncIterator[Watched]:
        """See the port; one log has no marks. Raises Gone, Restored, ConnectionError."""
        async with self._sent("watch", since) as reader:
            while True:
                watched = await wire.read_reply(reader, wire.WATCHED)
                yield Watched(watched.revision, watched.events)

    async def bind(self, requests: Sequence[BindRequest]) -> list[PodRead]:
        """Never raises for a lost connection."""
        return await self._each(PodRead, wire.READS, "bind", requests)

    async def bind_volumes(self, requests: Sequence[VolumeRequest]) -> list[Answer]:
        """Never raises for a lost connection."""
        return await self._each(Answer, wire.ANSWERS, "bind_volumes", requests)

    async def write_claims(self, requests: Sequence[ClaimsRequest]) -> list[ClaimsAnswer]:
        """Never raises for a lost connection."""
        return await self._each(ClaimsAnswer, wire.CLAIMS, "write_claims", requests)

    async def read(self, pods: Sequence[PodRef]) -> list[PodRead]:
        """Never raises for a lost connection."""
        return await self._each(PodRead, wire.READS, "read", pods, unsent=Answer.UNKNOWN)

    async def touch(
        self, pods: Sequence[PodRef], messages: Sequence[str], reasons: Sequence[str] = ()
    ) -> list[PodRead]:
        """Never raises for a lost connection. `reasons` are not kept there."""
        return await self._each(PodRead, wire.READS, "touch", pods, messages)

    async def evict(self, pods: Sequence[PodRef], by: PodRef | None = None) -> list[Answer]:
        """Never raises for a lost connection."""
        return await self._each(Answer, wire.ANSWERS, "evict", pods, by)

    async def show_groups(self, groups: Sequence[GroupCondition]) -> None:
        """Do nothing: a simulated cluster has no PodGroup objects."""

    async def request_nodes(self, requests: Sequence[NodesRequest]) -> list[str]:
        """Refuse: there is no autoscaler at the other end."""
        return [NO_AUTOSCALER] * len(requests)

    def announce_binds(self, binds: Sequence[PastBind], are_new: bool = False) -> None:
        """Do nothing: a simulated cluster has no Events."""

    async def _each(
        self,
        read_as: Callable[[Answer], T],
        result: Decoder[list[T]],
        method: str,
        rows: Sequence[object],
        *more: object,
        unsent: Answer = Answer.BUSY,
    ) -> list[T]:
        """Return the results for `rows`; without a result, what `read_as` makes of the answer."""
        try:
            return await self._call(result, method, rows, *more)
        except NotSent:
            return [read_as(unsent)] * len(rows)
        except (ConnectionError, TimeoutError):
            return [read_as(Answer.UNKNOWN)] * len(rows)

    async def _call(self, result: Decoder[T], method: str, *arguments: object) -> T:
        """Call a method and return its result. Raises NotSent, ConnectionError, TimeoutError."""
        async with self._sent(method, *arguments) as reader, asyncio.timeout(self._timeout_s):
            return await wire.read_reply(reader, result)

    @asynccontextmanager
    async def _sent(self, method: str, *arguments: object) -> AsyncIterator[asyncio.StreamReader]:
        """Connect and send a call; yield the stream of replies. Raises NotSent."""
        reader, writer = await connect(self._address)
        try:
            writer.write(wire.frame(method, arguments))
            yield reader
        finally:
            writer.close()
