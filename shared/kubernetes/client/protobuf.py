"""Reads and changes Kubernetes objects in protobuf, field by field. All other fields go back as
they came: the API server compares some byte by byte that it shows in other bytes as JSON.

An object is framed in a runtime.Unknown after four bytes (apimachinery's
pkg/runtime/serializer/protobuf).
"""

from collections.abc import Iterable, Iterator

PROTOBUF = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\0"
RAW = 2  # of Unknown
VARINT, EIGHT_BYTES, WITH_LENGTH, FOUR_BYTES = 0, 1, 2, 5
SIZES = {EIGHT_BYTES: 8, FOUR_BYTES: 4}


def fields(message: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the number, the content and all bytes of each field. Raises ValueError."""
    at = 0
    while at < len(message):
        start = at
        tag, at = _read_varint(message, at)
        kind = tag & 7
        if kind == VARINT:
            _, end = _read_varint(message, at)
        elif kind == WITH_LENGTH:
            size, at = _read_varint(message, at)
            end = at + size
        elif kind in SIZES:
            end = at + SIZES[kind]
        else:
            raise ValueError(f"field {tag >> 3} has the unknown wire type {kind}")
        if end > len(message):
            raise ValueError(f"field {tag >> 3} is cut off")
        yield tag >> 3, message[at:end], message[start:end]
        at = end


def contents(message: bytes, number: int) -> list[bytes]:
    """Return the contents of all fields of this number. Raises ValueError."""
    return [content for found, content, _ in fields(message) if found == number]


def content(message: bytes, *path: int) -> bytes:
    """Return the content of a field in nested messages, empty if it is not there. Raises
    ValueError.
    """
    for number in path:
        message = (contents(message, number) or [b""])[-1]
    return message


def field(number: int, text: bytes | str) -> bytes:
    """Return a field with a text, bytes or a message."""
    body = text.encode() if isinstance(text, str) else text
    return _varint(number << 3 | WITH_LENGTH) + _varint(len(body)) + body


def with_fields(message: bytes, number: int, texts: Iterable[bytes | str]) -> bytes:
    """Return the message with these fields of this number, in place of those that it has. Raises
    ValueError.
    """
    kept = b"".join(whole for found, _, whole in fields(message) if found != number)
    return kept + b"".join(field(number, text) for text in texts)


def framed(message: bytes) -> bytes:
    """Return the body of a request with this object, whose kind follows from the request's path."""
    return MAGIC + field(RAW, message)


def unframed(body: bytes) -> bytes:
    """Return the object in the body of an answer. Raises ValueError."""
    if not body.startswith(MAGIC):
        raise ValueError("not an object in protobuf")
    return content(body[len(MAGIC) :], RAW)


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the number, and where it ends."""
    number = shift = 0
    while at < len(message):
        number |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if message[at - 1] < 0x80:
            return number, at
    raise ValueError("a number is cut off")


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
