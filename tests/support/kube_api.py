"""A plain client of the Kubernetes API for tests: one request, one answer, standard library only.

It is independent of the product's client, so that tests and checkers see the cluster for
themselves. It neither retries nor watches.
"""

import http
import http.client
import json
import ssl
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_S = 60.0
IDLE_S = 30.0
"""The server closes a connection that has been idle for longer, perhaps just as it is used."""
_CONTENT_TYPES = {"PATCH": "application/strategic-merge-patch+json"}


@dataclass(frozen=True, slots=True)
class Answer:
    """The server's answer."""

    status: int
    body: Any
    retry_after: str | None = None

    @property
    def message(self) -> str:
        """Return the message of a Status object, else an empty text."""
        return str(self.body.get("message", "")) if isinstance(self.body, dict) else ""

    def ok(self) -> Any:
        """Return the body of a successful answer. Raises AssertionError with any other answer."""
        assert 200 <= self.status < 300, f"{self.status}: {self.message or self.body}"
        return self.body


class KubeApi:
    """Requests over one kept connection. Not for use by several threads at once."""

    def __init__(
        self, url: str, token: str, tls: ssl.SSLContext, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._connection = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=timeout_s, context=tls
        )
        self._used_s = 0.0
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        self._connection.close()

    def request(
        self, method: str, path: str, body: Any = None, *, content_type: str | None = None
    ) -> Answer:
        """Send the request once. A connection error is raised: whether the request arrived is
        unknown.
        """
        headers = dict(self._headers)
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            kind = content_type or _CONTENT_TYPES.get(method, "application/json")
            headers["Content-Type"] = kind
        status, raw, retry_after = self._send(method, path, data, headers)
        return Answer(status, _parsed(raw), retry_after)

    def _send(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes, str | None]:
        if time.monotonic() - self._used_s > IDLE_S:
            self._connection.close()
        try:
            self._connection.request(method, path, data, headers)
            response = self._connection.getresponse()
            return response.status, response.read(), response.headers.get("Retry-After")
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        finally:
            self._used_s = time.monotonic()

    def get(self, path: str) -> Answer:
        """GET."""
        return self.request("GET", path)

    def create(self, path: str, body: Any) -> Answer:
        """POST."""
        return self.request("POST", path, body)

    def watched(self, path: str) -> list[Any]:
        """Return the events of a watch that the server ends (`timeoutSeconds` in the path)."""
        status, raw, _ = self._send("GET", path, None, self._headers)
        assert status == http.HTTPStatus.OK, raw
        return [json.loads(line) for line in raw.splitlines()]

    def items(self, path: str) -> list[Any]:
        """Return all objects of a collection."""
        found = self.get(path).ok()["items"]
        assert isinstance(found, list)
        return found


def _parsed(raw: bytes) -> Any:
    """Return decoded JSON, or the text: health checks answer plain text."""
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode(errors="replace")
