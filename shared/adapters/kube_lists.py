"""Consistent lists, page by page: every page shows the same revision, or the list begins anew."""

import asyncio

import msgspec

from shared.adapters.kube_client import ApiError, KubeClient
from shared.adapters.kube_objects import Listed
from shared.adapters.kube_resources import Reader, read_item

PAGE_OBJECTS = 2_000
TRIES = 3
EXPIRED = 410


async def list_into(client: KubeClient, path: str, query: str, reader: Reader) -> int:
    """Hand every object of a collection to the reader, which holds nothing before; returns the
    revision. Raises ApiError, ConnectionError, TimeoutError.
    """
    for _try in range(TRIES):
        try:
            return await _list_once(client, path, query, reader)
        except ApiError as error:
            if error.status != EXPIRED:
                raise
            # The pages left were compacted away: half of a list is no list.
            reader.forget()
    raise ConnectionError(f"{path}: the list was compacted {TRIES} times before its end")


async def _list_once(client: KubeClient, path: str, query: str, reader: Reader) -> int:
    typed = msgspec.json.Decoder(Listed[reader.item])  # type: ignore[name-defined]
    question = f"{path}?limit={PAGE_OBJECTS}{'&' + query if query else ''}"
    more = ""
    while True:
        # Without a resourceVersion the list is as new as etcd.
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
    """A page in which some object cannot be decoded: the others count."""
    page = msgspec.json.decode(body, type=Listed[msgspec.Raw])
    decode = msgspec.json.Decoder(reader.item).decode
    found = (read_item(reader, decode, bytes(raw)) for raw in page.items or ())
    return page, [item for item in found if item is not None]
