"""What commands print for programs: one layout of JSON, and one form of times."""

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from muster.cli.terminal import rfc3339
from shared.model.ids import JournalName

Time = Annotated[datetime, Meta(tz=True, description="RFC 3339 in UTC, with milliseconds.")]


class RecordText(Struct, frozen=True):
    """A record of a journal: when it was written, and what it says about the subject."""

    time: Time
    journal: JournalName
    position: int
    text: str


def time_of(time_ms: int) -> datetime:
    """Return the time that is this many ms after 1970 began."""
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def plain(value: Any) -> Any:
    """Return the value as dicts, lists and plain values."""
    return json.loads(_compact(value))


def json_text(value: Any) -> str:
    """Return indented JSON in ASCII: no text in it can control a terminal."""
    return msgspec.json.format(_compact(value), indent=2)


def print_json(value: Any) -> None:
    """To standard output."""
    print(json_text(value))


def print_json_line(value: Any) -> None:
    """To standard output, at once, as one line among others."""
    print(_compact(value), flush=True)


def _compact(value: Any) -> str:
    found = msgspec.to_builtins(value, builtin_types=(datetime,), str_keys=True)
    return json.dumps(found, default=rfc3339)
