"""Binds in the audit log."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

OURS = "muster"
"""The prefix of our clients' User-Agent."""


@dataclass(frozen=True)
class Post:
    """A POST to pods/NAME/binding and its answer. `uid` is its precondition."""

    uid: str
    pod: str
    node: str
    code: int
    message: str
    ours: bool
    time_s: float


def posts(events: Iterable[Mapping[str, Any]]) -> list[Post]:
    """Return every bind that reached the server, from any client, in the order of the answers."""
    return [
        _post(event)
        for event in events
        if event["verb"] == "create" and event["objectRef"].get("subresource") == "binding"
    ]


def _post(event: Mapping[str, Any]) -> Post:
    body = event.get("requestObject") or {}
    status = event.get("responseStatus") or {}
    return Post(
        uid=body.get("metadata", {}).get("uid", ""),
        pod=f"{event['objectRef']['namespace']}/{event['objectRef']['name']}",
        node=body.get("target", {}).get("name", ""),
        code=status.get("code", 0),
        message=status.get("message", ""),
        ours=event.get("userAgent", "").startswith(OURS),
        time_s=stamp_s(event["stageTimestamp"]),
    )


def stamp_s(text: str) -> float:
    """Return one of the API's times in seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()
