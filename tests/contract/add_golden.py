"""Appends golden records for event types (or fields) that have none; never changes an old line."""

import json

import msgspec

from muster.schemas import ROOT
from shared.testing.examples import all_event_types, example

PATH = ROOT / "golden" / "events-1.jsonl"


def main() -> None:
    """Add what is missing."""
    lines = PATH.read_text().splitlines() if PATH.exists() else []
    known = {(line["of"], line["type"]) for line in map(json.loads, lines)}
    for of, kind in all_event_types():
        if (of, kind.__struct_config__.tag) not in known:
            packed = msgspec.msgpack.encode(example(kind)).hex()
            tag = kind.__struct_config__.tag
            lines.append(json.dumps({"of": of, "type": tag, "msgpack": packed}))
    PATH.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
