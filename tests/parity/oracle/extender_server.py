"""An HTTP extender for tests. Its answer follows from its path and the names in the question, so
every caller gets the same. It records the questions.
"""

import json
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from zlib import crc32

PLAIN, LOWER, FAILS, BREAKS, BABBLES, INVENTS, SLEEPS, NOBODY = (
    *("plain", "lower", "fails", "breaks", "babbles", "invents", "sleeps", "nobody"),
)
NULL, STRANGE = "null", "strange"
"""Manners of filter: the answer null; names as answer and a reason against an unknown node."""
SPARES, ACCUSES = "spares", "accuses"
"""Manners of preempt: no victim on the last node; a victim that is not there."""
SLEEP_S = 60.0


class _Quiet(ThreadingHTTPServer):
    """Ignores clients that hang up."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class ExtenderServer:
    """Serves from construction to close."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.closing = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = server.answer(self.path, body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                for name, value in server.headers().items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = _Quiet(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def headers(self) -> dict[str, str]:
        """More header fields of each answer."""
        return {}

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        """Return status and body of the answer."""
        _, prefix, verb = path.split("/")
        salt, _, manner = prefix.partition("-")
        if verb == "bind":
            self.asked.append((path, (body["PodNamespace"], body["PodName"], body["Node"])))
            return self._failed(manner) or (200, _written({"Error": ""}, manner))
        if verb == "preempt":
            return self._preempt(path, salt, manner, body)
        nodes = {one["metadata"]["name"]: one for one in (body["Nodes"] or {}).get("items") or ()}
        names = body["NodeNames"] if body["NodeNames"] is not None else list(nodes)
        self.asked.append((path, tuple(names)))
        failed = self._failed(manner)
        if failed is not None:
            return failed
        if manner == NULL:
            return 200, b"null"
        if verb == "prioritize":
            scores = [{"Host": name, "Score": _drawn(salt, verb, name)} for name in names]
            return 200, _written(scores, manner)
        found = _filtered(salt, names if manner != NOBODY else [])
        if manner == INVENTS:
            found["NodeNames"].append("nobody")
        kept = found["NodeNames"]
        if manner == STRANGE:
            found["FailedNodes"]["nobody"] = f"{salt} knows it"
        elif body["NodeNames"] is None:
            found |= {"NodeNames": None, "Nodes": {"items": [nodes[name] for name in kept]}}
        return 200, _written(found, manner)

    def _preempt(
        self, path: str, salt: str, manner: str, body: dict[str, Any]
    ) -> tuple[int, bytes]:
        asked = _victims(body)
        told = (f"{node} {' '.join(uids)} {beyond}" for node, (uids, beyond) in asked.items())
        self.asked.append((path, tuple(sorted(told))))
        left = _left(salt, asked if manner != NOBODY else {})
        if manner == INVENTS:
            left["nobody"] = (["nobody"], 0)
        if asked and manner in (SPARES, ACCUSES):
            left[max(asked)] = (["nobody"] if manner == ACCUSES else [], 0)
        found = {
            node: _named([{"UID": uid} for uid in uids], beyond, manner)
            for node, (uids, beyond) in left.items()
        }
        failed = self._failed(manner)
        return failed or (200, _written({"NodeNameToMetaVictims": found}, manner))

    def _failed(self, manner: str) -> tuple[int, bytes] | None:
        if manner == SLEEPS:
            self.closing.wait(SLEEP_S)
        if manner == BREAKS:
            return 500, b"{}"
        if manner == BABBLES:
            return 200, b"who is there?"
        if manner == FAILS:
            return 200, json.dumps({"Error": "it does not work today"}).encode()
        return None


def _victims(body: dict[str, Any]) -> dict[str, tuple[list[str], int]]:
    """Return by node the uids of the victims, and how many of them violate their budgets."""
    known, whole = body["NodeNameToMetaVictims"], body["NodeNameToVictims"]
    assert (known is None) != (whole is None)
    if known is not None:
        return {
            node: ([pod["UID"] for pod in one["Pods"]], one["NumPDBViolations"])
            for node, one in known.items()
        }
    return {
        node: ([pod["metadata"]["uid"] for pod in one["Pods"]], one["NumPDBViolations"])
        for node, one in whole.items()
    }


def _left(salt: str, asked: dict[str, tuple[list[str], int]]) -> dict[str, tuple[list[str], int]]:
    """Return preempt's answer: some nodes are left out; some have fewer victims, another order, or
    more violations.
    """
    left: dict[str, tuple[list[str], int]] = {}
    for node, (uids, beyond) in asked.items():
        match _drawn(salt, "preempt", node):
            case 0 | 1:
                continue
            case 2 | 3 | 4:
                left[node] = (uids[:1], beyond)
            case 5 | 6:
                left[node] = (uids[::-1], beyond)
            case 7:
                left[node] = (uids, beyond + 1)
            case _:
                left[node] = (uids, beyond)
    return left


def _named(pods: list[dict[str, str]], beyond: int, manner: str) -> dict[str, Any]:
    if manner == LOWER:
        return {"pods": [{"uid": one["UID"]} for one in pods], "numpdbviolations": beyond}
    return {"Pods": pods, "NumPDBViolations": beyond}


def _drawn(salt: str, verb: str, name: str) -> int:
    """Return a score of 0..10, the same on every machine."""
    return crc32(f"{salt} {verb} {name}".encode()) % 11


def _filtered(salt: str, names: list[str]) -> dict[str, Any]:
    """Return filter's answer: some nodes fail, some unresolvably, some in both ways, some without a
    reason.
    """
    found: dict[str, Any] = {"NodeNames": [], "FailedNodes": {}, "FailedAndUnresolvableNodes": {}}
    for name in names:
        drawn = _drawn(salt, "filter", name)
        if drawn in (0, 1):
            found["FailedNodes"][name] = f"{salt} does not like it"
        if drawn in (1, 2):
            found["FailedAndUnresolvableNodes"][name] = f"{salt} will never like it"
        if drawn > 3:
            found["NodeNames"].append(name)
    return found


def _written(value: Any, manner: str) -> bytes:
    if manner == LOWER:
        lowered = [value] if isinstance(value, dict) else value
        lowered = [{key.lower(): inner for key, inner in one.items()} for one in lowered]
        value = lowered[0] if isinstance(value, dict) else lowered
    return json.dumps(value).encode()
