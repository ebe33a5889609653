"""Consistent lists, page by page: all pages show the same revision, or the list starts again."""

import asyncio

import msgspec

from shared.kubernetes.client.client import ApiError, KubeClient
from shared.kubernetes.objects.structs import Listed
from shared.kubernetes.watching.resources import Reader, read_item
from shared.ports.cluster import Gone

PAGE_OBJECTS = 2_000
TRIES = 3
EXPIRED = 410


async def list_into(client: KubeClient, path: str, query: str, reader: Reader, at: int = 0) -> int:
    """Pass every object of a collection to an empty reader: as it is now, or as it was at revision
    `at`. Return the revision. Raises ApiError, ConnectionError, TimeoutError, and Gone where that
    revision is no longer kept.
    """
    for _try in range(TRIES):
        try:
            return await _list_once(client, path, query, reader, at)
        except ApiError as error:
            if error.status != EXPIRED:
                raise
            if at:
                raise Gone(f"{path}: {error}") from error
            # The remaining pages were compacted; half of a list is no list.
            reader.forget()
    raise ConnectionError(f"{path}: the list was compacted {TRIES} times before its end")


async def _list_once(client: KubeClient, path: str, query: str, reader: Reader, at: int) -> int:
    typed = msgspec.json.Decoder(Listed[reader.item])  # type: ignore[name-defined]
    question = f"{path}?limit={PAGE_OBJECTS}{'&' + query if query else ''}"
    # Without a resourceVersion the list is read from etcd, so it is current.
    more = f"&resourceVersion={at}&resourceVersionMatch=Exact" if at else ""
    while True:
        body = await client.get(question + more)
        try:
            page = typed.decode(body)
            items = page.items or ()
        except msgspec.ValidationError:
            page, items = _one_by_one(body, reader)
        for item in items:
            reader.seen(item)
        if not page.metadata.continue_:
            return int(page.metadata.resourceVersion)
        more = f"&continue={page.metadata.continue_}"
        await asyncio.sleep(0)


def _one_by_one(body: bytes, reader: Reader) -> tuple[Listed[msgspec.Raw], list[object]]:
    """Decode a page object by object, because some object cannot be decoded; the others count."""
    page = msgspec.json.decode(body, type=Listed[msgspec.Raw])
    decode = msgspec.json.Decoder(reader.item).decode
    found = (read_item(reader, decode, bytes(raw)) for raw in page.items or ())
    return page, [item for item in found if item is not None]
