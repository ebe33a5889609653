"""The frames between a simulated cluster and its clients in other processes.

Each call has a connection of its own. A frame is four bytes of length (big-endian) and one msgpack
value: the call first, then its reply; `watch` is answered with one frame per delivery.
"""

import asyncio
from typing import Any, TypeVar

import msgspec

from shared.events import Observation
from shared.model.api_outcome import Answer
from shared.ports.cluster import (
    BindRequest,
    ClaimsAnswer,
    ClaimsRequest,
    Gone,
    PodRead,
    PodRef,
    Restored,
    VolumeRequest,
)

FRAME_BYTES_MAX = 1 << 30
BUFFER_BYTES = 4 << 20
T = TypeVar("T")


class Call(msgspec.Struct, array_like=True):
    """A method of the port `Cluster`, and its arguments in order."""

    method: str
    arguments: msgspec.Raw


class Reply(msgspec.Struct, array_like=True):
    """A result, or an error's name and text."""

    result: msgspec.Raw
    error: str = ""


class WatchedWire(msgspec.Struct):
    """A `Watched` whose events carry their types."""

    revision: int
    events: tuple[Observation, ...]


ERRORS = {error.__name__: error for error in (Gone, Restored, ConnectionError)}
ARGUMENTS: dict[str, msgspec.msgpack.Decoder[Any]] = {
    "identity": msgspec.msgpack.Decoder(tuple[()]),
    "newest_revision": msgspec.msgpack.Decoder(tuple[()]),
    "list_all": msgspec.msgpack.Decoder(tuple[str]),
    "watch": msgspec.msgpack.Decoder(tuple[int]),
    "bind": msgspec.msgpack.Decoder(tuple[list[BindRequest]]),
    "bind_volumes": msgspec.msgpack.Decoder(tuple[list[VolumeRequest]]),
    "write_claims": msgspec.msgpack.Decoder(tuple[list[ClaimsRequest]]),
    "read": msgspec.msgpack.Decoder(tuple[list[PodRef]]),
    "touch": msgspec.msgpack.Decoder(tuple[list[PodRef], list[str]]),
    "evict": msgspec.msgpack.Decoder(tuple[list[PodRef], PodRef | None]),
}
TEXT = msgspec.msgpack.Decoder(str)
NUMBER = msgspec.msgpack.Decoder(int)
WATCHED = msgspec.msgpack.Decoder(WatchedWire)
READS = msgspec.msgpack.Decoder(list[PodRead])
ANSWERS = msgspec.msgpack.Decoder(list[Answer])
CLAIMS = msgspec.msgpack.Decoder(list[ClaimsAnswer])
_calls = msgspec.msgpack.Decoder(Call)
_replies = msgspec.msgpack.Decoder(Reply)
_encoder = msgspec.msgpack.Encoder()


def frame(*values: object) -> bytes:
    """Return the frame of a call or reply with these fields."""
    body = _encoder.encode(values)
    return len(body).to_bytes(4, "big") + body


async def read_call(reader: asyncio.StreamReader) -> tuple[str, tuple[Any, ...]]:
    """Return method and arguments. Raises ConnectionError."""
    found = await _read(reader, _calls)
    return found.method, ARGUMENTS[found.method].decode(found.arguments)


async def read_reply(reader: asyncio.StreamReader, result: msgspec.msgpack.Decoder[T]) -> T:
    """Return the result. Raises what the cluster raised, and ConnectionError."""
    found = await _read(reader, _replies)
    if found.error:
        raise ERRORS.get(found.error, ConnectionError)(TEXT.decode(found.result))
    return result.decode(found.result)


async def _read(reader: asyncio.StreamReader, value: msgspec.msgpack.Decoder[T]) -> T:
    try:
        size = int.from_bytes(await reader.readexactly(4), "big")
        if size > FRAME_BYTES_MAX:
            raise ConnectionError(f"a frame of {size} bytes is not from a simulated cluster")
        return value.decode(await reader.readexactly(size))
    except asyncio.IncompleteReadError as error:
        raise ConnectionError("the connection ended") from error
    except msgspec.DecodeError as error:
        raise ConnectionError(f"not from a simulated cluster: {error}") from error
