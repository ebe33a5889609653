"""Resource claims of the fake API server in protobuf, and what clients write of them."""

import json
from typing import Any

from shared.kubernetes.client.protobuf import content, contents, field, framed, unframed

SPEC, LATER = 2, 77
"""The spec, which no client changes, and a field of metadata that no client knows."""
META = {1: "name", 3: "namespace", 5: "uid", 6: "resourceVersion"}
RESULT = {1: "request", 2: "driver", 3: "pool", 4: "device", 9: "shareID"}
USER = {3: "resource", 4: "name", 5: "uid"}

Object = dict[str, Any]


def encoded(claim: Object) -> bytes:
    """Return an answer with a claim."""
    meta = claim["metadata"]
    parts = _texts(META, meta) + b"".join(field(14, one) for one in meta.get("finalizers") or ())
    if meta.get("deletionTimestamp"):
        parts += field(9, b"")
    parts += field(LATER, "kept")
    spec = json.dumps(claim.get("spec"))
    return framed(
        field(1, parts) + field(SPEC, spec) + field(3, _status(claim.get("status") or {}))
    )


def _status(status: Object) -> bytes:
    found = b""
    if "allocation" in status:
        results = status["allocation"].get("devices", {}).get("results", ())
        devices = b"".join(field(1, _texts(RESULT, one)) for one in results)
        found = field(1, field(1, devices) + field(LATER, "kept"))
    users = status.get("reservedFor") or ()
    return found + b"".join(field(2, _texts(USER, one)) for one in users)


def _texts(names: dict[int, str], values: Object) -> bytes:
    return b"".join(field(number, values[name]) for number, name in names.items() if name in values)


def decoded(claim: Object, body: bytes) -> Object:
    """Return a claim with the finalizers and the status that a client has written. Raises
    ValueError if anything else has changed.
    """
    given, before = unframed(body), unframed(encoded(claim))
    meta, status = content(given, 1), content(given, 3)
    same = [(SPEC,), (1, 5), (1, LATER), *([(3, 1)] if contents(status, 1) else [])]
    for path in same:
        if content(given, *path) != content(before, *path):
            raise ValueError(f"field {path} is immutable")
    finalizers = [one.decode() for one in contents(meta, 14)]
    users = [
        {name: content(one, number).decode() for number, name in USER.items()}
        for one in contents(status, 2)
    ]
    left = {"allocation": (claim.get("status") or {}).get("allocation")}
    has = {**(left if contents(status, 1) else {}), **({"reservedFor": users} if users else {})}
    shown = {**claim["metadata"], "finalizers": finalizers}
    return {"metadata": {**shown, "resourceVersion": content(meta, 6).decode()}, "status": has}
