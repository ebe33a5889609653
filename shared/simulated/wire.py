"""Frames between a simulated cluster and its clients in other processes.

A frame is four bytes of length (big-endian) and one msgpack value. No behaviour of the cluster.
"""

import asyncio

import msgspec

from shared.events.observed import Observation
from shared.ports.cluster import BindRequest, PodRead, PodRef, VolumeRequest, Watched

FRAME_BYTES_MAX = 1 << 30
BUFFER_BYTES = 4 << 20


class Call(msgspec.Struct, array_like=True):
    """A request. `id` is the client's own number for it."""

    id: int
    method: str
    arguments: msgspec.Raw


class Reply(msgspec.Struct, array_like=True):
    """An answer, or one delivery of a watch. `error` is empty, `gone`, `restored`
    or `broken`.
    """

    id: int
    result: msgspec.Raw
    error: str = ""


class WatchedWire(msgspec.Struct, array_like=True):
    """A `Watched` whose events can be told apart again."""

    revision: int
    events: tuple[Observation, ...]


class Evictions(msgspec.Struct, array_like=True):
    """Arguments of an eviction."""

    pods: list[PodRef]
    by: PodRef | None


class Touches(msgspec.Struct, array_like=True):
    """Arguments of a touch."""

    pods: list[PodRef]
    messages: list[str]


encoder = msgspec.msgpack.Encoder()
call_decoder = msgspec.msgpack.Decoder(Call)
reply_decoder = msgspec.msgpack.Decoder(Reply)
watched_decoder = msgspec.msgpack.Decoder(WatchedWire)
binds_decoder = msgspec.msgpack.Decoder(list[BindRequest])
volumes_decoder = msgspec.msgpack.Decoder(list[VolumeRequest])
reads_decoder = msgspec.msgpack.Decoder(list[PodRead])
pods_decoder = msgspec.msgpack.Decoder(list[PodRef])
evictions_decoder = msgspec.msgpack.Decoder(Evictions)
touches_decoder = msgspec.msgpack.Decoder(Touches)
codes_decoder = msgspec.msgpack.Decoder(list[int])
text_decoder = msgspec.msgpack.Decoder(str)
number_decoder = msgspec.msgpack.Decoder(int)


def raw(value: object) -> msgspec.Raw:
    """A value as it travels inside a frame."""
    return msgspec.Raw(encoder.encode(value))


def raw_watched(watched: Watched) -> msgspec.Raw:
    """A delivery or a list."""
    return raw([watched.revision, watched.events])


def read_watched(result: msgspec.Raw) -> Watched:
    """Inverse of `raw_watched`."""
    wire = watched_decoder.decode(result)
    return Watched(wire.revision, wire.events)


def frame(value: Call | Reply) -> bytes:
    """Length and body."""
    body = encoder.encode(value)
    return len(body).to_bytes(4, "big") + body


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """The next body. Raises ConnectionError when the other side is gone or talks nonsense."""
    try:
        size = int.from_bytes(await reader.readexactly(4), "big")
        if size > FRAME_BYTES_MAX:
            raise ConnectionError(f"a frame of {size} bytes is not from a simulated cluster")
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError as error:
        raise ConnectionError("the connection ended") from error
