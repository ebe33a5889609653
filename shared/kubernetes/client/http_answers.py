"""HTTP/1.1 answers out of the bytes of a kept connection, one at a time. Pure.

Only what an answer to a small request needs: length, chunks or the connection's end say where the
body ends. No pipelining: bytes beyond an answer are an error.
"""

from typing import NamedTuple

HEAD_BYTES_MAX = 64 << 10
NO_CONTENT, NOT_MODIFIED, FINAL = 204, 304, 200
UNTIL_END, CHUNKED = -1, -2


class BadAnswer(ConnectionError):
    """What came is no HTTP/1.1 answer."""


class Answered(NamedTuple):
    """An answer; `keeps`: the connection may be used again."""

    status: int
    body: bytes
    retry_after: str
    keeps: bool


class _Head(NamedTuple):
    """`length` is the body's, or UNTIL_END or CHUNKED."""

    status: int
    length: int
    retry_after: str
    keeps: bool


class AnswerParser:
    """Feed it until it gives the answer; then it begins anew."""

    def __init__(self) -> None:
        """Nothing came yet."""
        self._raw: bytes | bytearray = b""
        self._head: _Head | None = None
        self._at = 0
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> Answered | None:
        """The answer, when these bytes are its last. Raises BadAnswer."""
        if not self._raw:
            self._raw = data
        else:
            if not isinstance(self._raw, bytearray):
                self._raw = bytearray(self._raw)
            self._raw += data
        head = self._head or self._read_head()
        if head is None or head.length == UNTIL_END:
            return None
        if head.length == CHUNKED:
            return self._read_chunks(head)
        left = len(self._raw) - self._at - head.length
        if left < 0:
            return None
        return self._done(head, bytes(self._raw[self._at : self._at + head.length]), left)

    def end(self) -> Answered | None:
        """The connection ended: the answer, if that is how its body ends."""
        head = self._head
        if head is None or head.length != UNTIL_END:
            return None
        return self._done(head, bytes(self._raw[self._at :]), 0)

    def _done(self, head: _Head, body: bytes, left: int) -> Answered:
        if left:
            raise BadAnswer(f"{left} bytes after the end of an answer")
        self._raw, self._head, self._at, self._parts = b"", None, 0, []
        return Answered(head.status, body, head.retry_after, head.keeps)

    def _read_head(self) -> _Head | None:
        while True:
            raw = self._raw
            end = raw.find(b"\r\n\r\n")
            if end < 0:
                if len(raw) > HEAD_BYTES_MAX:
                    raise BadAnswer("the head of an answer does not end")
                return None
            head = head_of(bytes(raw[: end + 2]))
            if head.status >= FINAL:
                self._head, self._at = head, end + 4
                return head
            # "100 Continue" and the like come before the answer.
            self._raw = raw[end + 4 :]

    def _read_chunks(self, head: _Head) -> Answered | None:
        raw = self._raw
        while True:
            line_end = raw.find(b"\r\n", self._at)
            if line_end < 0:
                return None
            size = _number(bytes(raw[self._at : line_end]).partition(b";")[0].strip(), 16)
            start = line_end + 2
            if not size:
                end = raw.find(b"\r\n\r\n", line_end)
                if end < 0:
                    return None
                return self._done(head, b"".join(self._parts), len(raw) - end - 4)
            if len(raw) < start + size + 2:
                return None
            self._parts.append(bytes(raw[start : start + size]))
            self._at = start + size + 2


def head_of(raw: bytes) -> _Head:
    """A status line and header fields, each with its line end. Raises BadAnswer."""
    if not raw.startswith(b"HTTP/1."):
        raise BadAnswer(f"no HTTP/1.1 answer: {raw[:40]!r}")
    status = _number(raw[9:12], 10)
    lower = raw.lower()
    if status < FINAL or status in (NO_CONTENT, NOT_MODIFIED):
        length = 0
    elif field_of(lower, b"transfer-encoding").endswith(b"chunked"):
        length = CHUNKED
    else:
        text = field_of(lower, b"content-length")
        length = _number(text, 10) if text else UNTIL_END
    keeps = (
        length != UNTIL_END
        and raw.startswith(b"HTTP/1.1")
        and b"close" not in field_of(lower, b"connection")
    )
    return _Head(status, length, field_of(lower, b"retry-after").decode("latin-1"), keeps)


def field_of(head: bytes, name: bytes) -> bytes:
    """The value of a header field, empty where there is none. All is lower case."""
    start = head.find(b"\r\n" + name + b":")
    if start < 0:
        return b""
    start += len(name) + 3
    return head[start : head.index(b"\r\n", start)].strip()


def _number(text: bytes, base: int) -> int:
    if not text.isalnum():
        raise BadAnswer(f"not a number in an answer: {text[:40]!r}")
    try:
        return int(text, base)
    except ValueError as error:
        raise BadAnswer(f"not a number in an answer: {text[:40]!r}") from error
