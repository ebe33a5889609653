"""Parses HTTP/1.1 answers from the bytes of a kept connection, one at a time: httptools, with a
limit on the size of headers. Pure.

There is no pipelining: bytes beyond an answer are an error.
"""

from typing import NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

HEAD_BYTES_MAX = 64 << 10
FINAL = 200
BODY_ENDS = (b"content-length", b"transfer-encoding")


class BadAnswer(ConnectionError):
    """The bytes are not an HTTP/1.1 answer."""


class Answered(NamedTuple):
    """An answer. `keeps`: the connection may be used again."""

    status: int
    body: bytes
    retry_after: str
    keeps: bool


class AnswerParser:
    """Takes bytes until an answer is complete, then starts again."""

    def __init__(self) -> None:
        """Start without any bytes."""
        self._fields: dict[bytes, bytes] = {}
        self._parts: list[bytes] = []
        self._head_bytes = 0
        self._has_head = False
        self._answer: Answered | None = None
        # httptools calls these two as well; they need no Python frame.
        self.on_header = self._fields.__setitem__
        self.on_body = self._parts.append
        self._parser = HttpResponseParser(self)

    def feed(self, data: bytes) -> Answered | None:
        """Return the answer if these bytes complete it. Raises BadAnswer."""
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if self._answer is not None:
                raise BadAnswer("bytes after the end of an answer") from error
            raise BadAnswer(f"no HTTP/1.1 answer: {error}: {data[:40]!r}") from error
        if self._answer is None and not self._has_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                raise BadAnswer("the headers of an answer are too long")
        return self._taken()

    def end(self) -> Answered | None:
        """End the connection; return the answer if its body ends so."""
        if self._has_head and not any(map(self._field, BODY_ENDS)):
            self.on_message_complete()
        return self._taken()

    def on_message_begin(self) -> None:
        """Called by httptools with the first byte. Raises BadAnswer."""
        if self._answer is not None:
            raise BadAnswer("bytes after the end of an answer")

    def on_headers_complete(self) -> None:
        """Called by httptools, also for "100 Continue" and the like, which precede the answer."""
        self._has_head = True

    def on_message_complete(self) -> None:
        """Keep the answer for `feed`; "100 Continue" and the like are not one."""
        self._has_head = False
        status = self._parser.get_status_code()
        if status >= FINAL:
            keeps = self._parser.should_keep_alive()
            body = b"".join(self._parts)
            self._answer = Answered(status, body, self._field(b"retry-after"), keeps)
            self._parts.clear()
            self._head_bytes = 0
        self._fields.clear()

    def _field(self, name: bytes) -> str:
        for other, value in self._fields.items():
            if other.lower() == name:
                return value.strip().decode("latin-1")
        return ""

    def _taken(self) -> Answered | None:
        answer, self._answer = self._answer, None
        return answer
