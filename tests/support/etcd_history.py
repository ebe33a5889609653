"""etcd's history, change by change: the cluster's own history for checkers of live tests.

It follows etcd itself, past the API server: first the existing keys, then every change, so it keeps
what is compacted later. It continues after etcd was killed. A gap is an error. Objects can be read
only if the API server stores JSON (`KubeOptions(storage_json=True)`). Shares no code with the
product.
"""

import base64
import http.client
import json
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from tests.support.etcd_store import EtcdStore, after, encoded

PODS = "/registry/pods/"
NODES = "/registry/minions/"
WORKLOADS = "/registry/workloads/"
NAMESPACES = "/registry/namespaces/"
STORAGE = (
    "/registry/persistentvolumeclaims/",
    "/registry/persistentvolumes/",
    "/registry/csinodes/",
)
_MARKER = "/muster-test/marker"
_RETRY_S = 0.1


@dataclass(frozen=True, slots=True)
class Change:
    """One key's new value at a revision; None if it was deleted. `time_s` is the time of its
    arrival here, in seconds since 1970; 0 for what existed before.
    """

    revision: int
    key: str
    value: Any
    time_s: float = 0.0


class EtcdHistory:
    """Follows etcd in a thread of its own. A context manager; `settle` before reading."""

    def __init__(
        self,
        etcd_url: str,
        prefixes: tuple[str, ...] = (PODS, NODES, WORKLOADS, NAMESPACES, *STORAGE),
        *,
        since: int | None = None,
    ) -> None:
        """Only keys with one of these prefixes are kept. `since` is the first revision to have,
        which must not be compacted yet; without it history begins with what there is now."""
        self._store = EtcdStore(etcd_url)
        self._prefixes = prefixes
        self._changes: list[Change] = []
        # The last revision that was read to its end; guards the list as well.
        self._seen = 0 if since is None else since - 1
        self._begins_now = since is None
        self._progress = threading.Condition()
        self._ending = threading.Event()
        self._failed: BaseException | None = None
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._follow, name="etcd-history", daemon=True)

    def __enter__(self) -> Self:
        if self._begins_now:
            self._read_all()
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ending.set()
        watched = self._socket
        if watched is not None:
            # Wakes the thread from its read, unless etcd has ended it already.
            with suppress(OSError):
                watched.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def settle(self, timeout_s: float = 300.0) -> int:
        """Wait until everything that etcd has stored by now is here; return its revision."""
        body = {"key": encoded(_MARKER), "value": encoded("")}
        revision = int(self._store.ask("/v3/kv/put", body)["header"]["revision"])
        with self._progress:
            arrived = self._progress.wait_for(
                lambda: self._seen >= revision or self._failed is not None, timeout_s
            )
        if self._failed is not None:
            raise RuntimeError(f"the history of etcd has a gap: {self._failed}")
        assert arrived, f"revision {revision} not within {timeout_s} s"
        return revision

    def changes(self, prefix: str = "") -> list[Change]:
        """Return all changes so far under this prefix, in the order of revisions."""
        with self._progress:
            return [change for change in self._changes if change.key.startswith(prefix)]

    def drain(self) -> list[Change]:
        """Return the changes since the last call and forget them, for long runs."""
        with self._progress:
            found, self._changes = self._changes, []
            return found

    def at(self, revision: int, prefix: str = "") -> dict[str, Any]:
        """Return the values at this revision, by key."""
        found: dict[str, Any] = {}
        for change in self.changes(prefix):
            if change.revision > revision:
                break
            if change.value is None:
                found.pop(change.key, None)
            else:
                found[change.key] = change.value
        return found

    def _read_all(self) -> None:
        for prefix in self._prefixes:
            wanted = {"key": encoded(prefix), "range_end": encoded(after(prefix))}
            # All prefixes at one revision: that of the first answer.
            if self._seen:
                wanted["revision"] = str(self._seen)
            answer = self._store.ask("/v3/kv/range", wanted)
            self._seen = self._seen or int(answer["header"]["revision"])
            self._changes.extend(_change({"kv": stored}) for stored in answer.get("kvs", ()))
        self._changes.sort(key=lambda change: change.revision)

    def _follow(self) -> None:
        while not self._ending.is_set():
            try:
                self._watch()
            except (OSError, http.client.HTTPException):
                # etcd was killed, or is not there yet: go on after the last whole revision.
                time.sleep(_RETRY_S)
            except BaseException as error:
                with self._progress:
                    self._failed = error
                    self._progress.notify_all()
                return

    def _watch(self) -> None:
        every_key = base64.b64encode(b"\0").decode()
        wanted = {
            "key": every_key,
            "range_end": every_key,
            "start_revision": str(self._seen + 1),
        }
        connection = http.client.HTTPConnection(*self._store.address)
        try:
            connection.connect()
            self._socket = connection.sock
            if self._ending.is_set():
                # Too late to be woken.
                return
            connection.request("POST", "/v3/watch", json.dumps({"create_request": wanted}))
            response = connection.getresponse()
            while line := response.readline():
                answer = json.loads(line)
                if "result" not in answer:
                    # It cannot serve yet, as just after its start; the watch continues from here.
                    raise ConnectionError(f"etcd: {answer}")
                self._take(answer["result"])
        finally:
            self._socket = None
            connection.close()

    def _take(self, result: dict[str, Any]) -> None:
        assert not result.get("canceled"), f"etcd ended the watch: {result}"
        now_s = time.time()
        changes = [_change(event, now_s) for event in result.get("events", ())]
        if not changes:
            return
        with self._progress:
            assert changes[0].revision > self._seen, (changes[0], self._seen)
            for change in changes:
                if change.key.startswith(self._prefixes):
                    self._changes.append(change)
            # Without fragments etcd never ends an answer in the middle of a revision.
            self._seen = changes[-1].revision
            self._progress.notify_all()


def _change(event: dict[str, Any], time_s: float = 0.0) -> Change:
    stored = event["kv"]
    key = base64.b64decode(stored["key"]).decode(errors="replace")
    deleted = event.get("type") == "DELETE"
    value = None if deleted else _decoded(base64.b64decode(stored.get("value", "")))
    return Change(int(stored["mod_revision"]), key, value, time_s)


def _decoded(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        # Some kinds are stored as protobuf whatever is asked for.
        return raw
