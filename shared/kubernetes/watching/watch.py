"""The watch of one resource: it reconnects by itself and ends only with Gone.

A watch ends at any time, reports 410 as status or in mid-stream, or goes silent for ever; here each
of these is either invisible or Gone. The confirmed position is a revision: everything up to it was
passed on, in the server's order.
"""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator

import aiohttp
import msgspec

from shared.kubernetes.client.client import KubeClient, Status
from shared.kubernetes.objects.structs import Change, ListMeta, Meta
from shared.kubernetes.watching.resources import Reader, read_item
from shared.model.text import quoted
from shared.ports.cluster import Gone, Restored

SILENT_S = 75.0
"""Bookmarks come once a minute: a longer silence means a dead connection."""
BACKOFF_S, BACKOFF_MAX_S = 0.1, 10.0
QUIET_TRIES = 3
EXPIRED = 410

log = logging.getLogger("muster.kube")


class _Marked(msgspec.Struct):
    metadata: Meta


class _Collection(msgspec.Struct):
    metadata: ListMeta


_change = msgspec.json.Decoder(Change[msgspec.Raw])
_marked = msgspec.json.Decoder(_Marked)
_collection = msgspec.json.Decoder(_Collection)
_status = msgspec.json.Decoder(Status)


class Source(msgspec.Struct, frozen=True):
    """A collection to watch. A watch is renewed after a random time within `timeout_s`."""

    path: str
    query: str = ""
    timeout_s: tuple[int, int] = (240, 600)


class ResourceWatch:
    """Watches one collection from a revision on. `confirmed` rises as changes are passed on."""

    def __init__(
        self, client: KubeClient, source: Source, reader: Reader, since: int, silent_s: float
    ) -> None:
        """Send nothing before `run`."""
        self._client, self._source, self._reader = client, source, reader
        self.confirmed = since
        # The number of chunks received, and whether the server serves the watch now.
        self.heard, self.is_served = 0, False
        self._silent_s = silent_s
        self._typed = msgspec.json.Decoder(Change[reader.item])  # type: ignore[name-defined]
        self._decode = msgspec.json.Decoder(reader.item).decode
        self._tries = 0
        self._failing_since_s: float | None = None

    @property
    def failing_s(self) -> float:
        """Return for how long the watch has failed, s; 0 while it is served."""
        since_s = self._failing_since_s
        return 0.0 if since_s is None else time.monotonic() - since_s

    async def run(self) -> AsyncIterator[None]:
        """Yield after each chunk that the reader took. Raises Gone, Restored."""
        while True:
            try:
                async for _ in self._stream():
                    self._tries = 0
                    yield
                # Watches end routinely; back off only if they end in a row.
                self._tries = max(self._tries, 1)
            except (OSError, TimeoutError) as error:
                self._failing_since_s = self._failing_since_s or time.monotonic()
                level = logging.INFO if self._tries < QUIET_TRIES else logging.WARNING
                log.log(level, "%s: watching again: %s", self._source.path, error)
            await self._pause()

    async def _pause(self) -> None:
        if self._tries:
            delay_s = min(BACKOFF_MAX_S, BACKOFF_S * 2 ** min(self._tries - 1, 10))
            await asyncio.sleep(delay_s * (0.5 + random.random()))
        self._tries += 1

    async def _stream(self) -> AsyncIterator[None]:
        source = self._source
        path = (
            f"{source.path}?watch=1&allowWatchBookmarks=true&resourceVersion={self.confirmed}"
            f"&timeoutSeconds={random.randint(*source.timeout_s)}"
            f"{'&' + source.query if source.query else ''}"
        )
        await self._look()
        async with self._client.stream(path, self._silent_s) as answer:
            if answer.status != 200:
                await self._refused(answer)
            self.heard += 1
            self.is_served = True
            self._failing_since_s = None
            rest = b""
            try:
                async for chunk in answer.content.iter_any():
                    self.heard += 1
                    # A line in many chunks is rare and short: copying the rest is cheap.
                    *lines, rest = (rest + chunk).split(b"\n")
                    if lines:
                        self._apply_lines(lines)
                        yield
            finally:
                self.is_served = False

    async def _look(self) -> None:
        """Ask for the collection's newest revision. The request makes the server look, too: where
        changes are rare, the bookmark just before the end of the watch then shows it.
        """
        body = await self._client.get(f"{self._source.path}?limit=1")
        self._is_at(int(_collection.decode(body).metadata.resourceVersion))

    def _is_at(self, revision: int) -> None:
        """Raise Restored when the revision falls, which it never does unless etcd was restored."""
        if revision < self.confirmed:
            path, seen = self._source.path, self.confirmed
            raise Restored(f"{path} is at revision {revision}, and {seen} was seen before")

    async def _refused(self, answer: aiohttp.ClientResponse) -> None:
        body = await answer.read()
        try:
            message = _status.decode(body).message
        except msgspec.DecodeError:
            message = body[:200].decode(errors="replace")
        if answer.status == EXPIRED:
            raise Gone(f"{self._source.path}: {quoted(message)}")
        wait = answer.headers.get("Retry-After", "")
        if wait.isdigit():
            await asyncio.sleep(min(float(wait[:6]), BACKOFF_MAX_S))
        raise ConnectionError(f"{answer.status}: {quoted(message)}")

    def _apply_lines(self, lines: list[bytes]) -> None:
        """Apply complete lines of the stream. Raises Gone, Restored, ConnectionError."""
        reader = self._reader
        for line in lines:
            if not line:
                continue
            try:
                change = self._typed.decode(line)
            except msgspec.ValidationError:
                self._unusual(line)
                continue
            if change.type == "DELETED":
                reader.gone(change.object)
            elif change.type == "ERROR":
                # A Status has fields that some kinds require.
                self._unusual(line)
            elif change.type != "BOOKMARK":
                reader.seen(change.object)
            self._confirm(change.object.metadata)

    def _unusual(self, line: bytes) -> None:
        """Handle an error, a bookmark without a spec, or an object that cannot be used."""
        change = _change.decode(line)
        if change.type == "ERROR":
            status = _status.decode(change.object)
            if status.code == EXPIRED:
                raise Gone(f"{self._source.path}: {quoted(status.message)}")
            raise ConnectionError(f"{status.code}: {quoted(status.message)}")
        if change.type != "BOOKMARK":
            item = read_item(self._reader, self._decode, bytes(change.object))
            assert item is None, f"{self._source.path}: a line that is no change, yet an object"
        self._confirm(_marked.decode(change.object).metadata)

    def _confirm(self, meta: Meta) -> None:
        revision = int(meta.resourceVersion)
        self._is_at(revision)
        self.confirmed = revision
