"""Writes schemas/: a JSON Schema per journal, one of observed events, and one of records.

The files are generated from the types and committed; a test fails when they differ. Run
`make schemas` after adding a field (with a default: published events never change otherwise).
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from shared.events import EVENTS, Observation
from shared.machine.record import Record

ROOT = Path(__file__).resolve().parents[2] / "schemas"


def generate() -> dict[str, str]:
    """Return file name -> content."""
    unions: dict[str, Any] = {**EVENTS, "observed": Observation, "record": Record}
    return {f"{name}.json": _schema(union, name) for name, union in sorted(unions.items())}


def _schema(union: Any, name: str) -> str:
    (schema,), definitions = msgspec.json.schema_components([union], ref_template="#/$defs/{name}")
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"muster {name}",
        **schema,
        "$defs": dict(sorted(definitions.items())),
    }
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def write() -> None:
    """Bring schemas/ up to date."""
    for name, content in generate().items():
        (ROOT / name).write_text(content)


if __name__ == "__main__":
    write()
