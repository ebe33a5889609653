"""Calls HTTP extenders: one POST of JSON, one JSON value back. values.py interprets the replies."""

import asyncio
import ssl
from typing import Any
from urllib.parse import urlsplit

import orjson

from shared.extenders.values import Extender, ExtenderError, Tls
from shared.kubernetes.client.http_answers import BadAnswer
from shared.kubernetes.client.http_wire import Wire

OK = 200
HEADER = "Content-Type: application/json\r\n"


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return the TLS context of connections. Raises OSError, ssl.SSLError."""
    context = ssl.create_default_context(
        cafile=tls.authorities_file or None, cadata=tls.authorities or None
    )
    if tls.certificate_file:
        context.load_cert_chain(tls.certificate_file, keyfile=tls.key_file)
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


async def call(extender: Extender, verb: str, arguments: dict[str, Any]) -> Any:
    """Return the reply to one call. Raises ExtenderError, also after the timeout."""
    url = f"{extender.url.rstrip('/')}/{verb}"
    try:
        async with asyncio.timeout(extender.timeout_ms / 1000):
            status, body = await _post(extender, verb, orjson.dumps(arguments))
    except TimeoutError as error:
        raise ExtenderError(f'Post "{url}": no answer in {extender.timeout_ms} ms') from error
    except (OSError, BadAnswer) as error:
        raise ExtenderError(f'Post "{url}": {error}') from error
    if status != OK:
        raise ExtenderError(f"failed {verb} with extender at URL {url}, code {status}")
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ExtenderError(f"the reply of {url} is not JSON: {error}") from error


async def _post(extender: Extender, verb: str, body: bytes) -> tuple[int, bytes]:
    url = extender.url.rstrip("/")
    tls = tls_context(extender.tls) if urlsplit(url).scheme == "https" else None
    wire = Wire(url, tls, extender.tls.server_name or None)
    try:
        answer = await wire.ask("POST", f"/{verb}", HEADER, body, extender.timeout_ms / 1000)
        return answer.status, answer.body
    finally:
        wire.close()
