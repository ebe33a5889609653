"""Appends golden events of new types, and a golden record when the record format has grown.

Old lines never change.
"""

import json

import msgspec

from muster.generate.schemas import ROOT
from shared.machine.record import FORMAT, Record, encode
from tests.support.examples import all_event_types, example

PATH = ROOT / "golden" / "events-1.jsonl"
RECORDS = ROOT / "golden" / "records.jsonl"


def main() -> None:
    """Add the missing lines."""
    lines = PATH.read_text().splitlines() if PATH.exists() else []
    known = {(line["of"], line["type"]) for line in map(json.loads, lines)}
    for of, kind in all_event_types():
        if (of, kind.__struct_config__.tag) not in known:
            packed = msgspec.msgpack.encode(example(kind)).hex()
            tag = kind.__struct_config__.tag
            lines.append(json.dumps({"of": of, "type": tag, "msgpack": packed}))
    PATH.write_text("\n".join(lines) + "\n")
    kept = RECORDS.read_text().splitlines() if RECORDS.exists() else []
    record = example(Record)
    payload = encode(record).hex()
    if payload not in [json.loads(line)["payload"] for line in kept]:
        line = {"format": FORMAT.decode(), "payload": payload}
        kept.append(json.dumps({**line, "means": msgspec.to_builtins(record)}))
    RECORDS.write_text("\n".join(kept) + "\n")


if __name__ == "__main__":
    main()
