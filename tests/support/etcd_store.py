"""Plain requests to etcd, past the API server: for histories, and for worlds too large to create
object by object.
"""

import base64
import http
import http.client
import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

_OPERATIONS = 100


class EtcdStore:
    """One etcd; each request has a connection of its own."""

    def __init__(self, etcd_url: str) -> None:
        """Send nothing yet."""
        parts = urlsplit(etcd_url)
        assert parts.hostname is not None
        assert parts.port is not None
        self.address = (parts.hostname, parts.port)

    def ask(self, path: str, body: dict[str, Any]) -> Any:
        """Send one request. Raises OSError, and AssertionError if it is refused."""
        connection = http.client.HTTPConnection(*self.address, timeout=10)
        try:
            connection.request("POST", path, json.dumps(body))
            response = connection.getresponse()
            answer = json.loads(response.read())
            assert response.status == http.HTTPStatus.OK, f"etcd refused {path}: {answer}"
            return answer
        finally:
            connection.close()

    def get(self, key: str) -> bytes:
        """Return the value of an existing key."""
        (found,) = self.ask("/v3/kv/range", {"key": encoded(key)})["kvs"]
        return base64.b64decode(found["value"])

    def put_all(self, pairs: Iterable[tuple[str, bytes]]) -> None:
        """Store many values, a hundred at a time."""
        left = list(pairs)
        for start in range(0, len(left), _OPERATIONS):
            puts = [
                {"requestPut": {"key": encoded(key), "value": base64.b64encode(value).decode()}}
                for key, value in left[start : start + _OPERATIONS]
            ]
            self.ask("/v3/kv/txn", {"success": puts})

    def keys(self, prefix: str) -> list[str]:
        """Return the keys with this prefix."""
        wanted = {"key": encoded(prefix), "range_end": encoded(after(prefix)), "keys_only": True}
        found = self.ask("/v3/kv/range", wanted).get("kvs", ())
        return [base64.b64decode(one["key"]).decode() for one in found]

    def delete_keys(self, keys: Iterable[str]) -> None:
        """Delete these keys, a hundred at a time."""
        left = list(keys)
        for start in range(0, len(left), _OPERATIONS):
            ends = [
                {"requestDeleteRange": {"key": encoded(key)}}
                for key in left[start : start + _OPERATIONS]
            ]
            self.ask("/v3/kv/txn", {"success": ends})

    def delete_all(self, prefix: str) -> int:
        """Delete the keys with this prefix; return their number."""
        wanted = {"key": encoded(prefix), "range_end": encoded(after(prefix))}
        return int(self.ask("/v3/kv/deleterange", wanted)["deleted"])


def encoded(text: str) -> str:
    """Return a key as requests encode it."""
    return base64.b64encode(text.encode()).decode()


def after(prefix: str) -> str:
    """Return the first key after all keys with this prefix."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
