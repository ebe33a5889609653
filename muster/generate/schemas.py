"""Writes schemas/: a JSON Schema per journal, one of observed events, one of records, and one for
each kind of JSON that a command prints.

The files are generated from the types and committed; a test fails when they differ. Run
`make schemas` after adding a field (with a default: published events never change otherwise).
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from muster.app.live import LiveSummary
from muster.cli.commands.replay import Replayed
from muster.cli.commands.runs import Run
from muster.cli.output import RecordText
from muster.defrag.answer import DefragAnswer
from muster.explain.case_answer import Scored
from muster.explain.lists import GangRow, NodeRow, PodRow, QueueRow
from muster.explain.run_summary import RunSummary
from muster.explain.why.answers import Answer, GangAnswer, OneNodeAnswer
from muster.flood.compare import Compared
from muster.flood.summary import FloodSummary
from muster.mix.summary import MixSummary
from shared.events import EVENTS, Observation
from shared.machine.record import Record

ROOT = Path(__file__).resolve().parents[2] / "schemas"
OUTPUTS: dict[str, Any] = {
    "defrag": DefragAnswer,
    "flood": FloodSummary,
    "flood-compare": list[Compared],
    "get-gangs": list[GangRow],
    "get-nodes": list[NodeRow],
    "get-queues": list[QueueRow],
    "get-pods": list[PodRow],
    "get-runs": list[Run],
    "replay": Replayed,
    "run": RunSummary,
    "run-live": LiveSummary,
    "score": Scored,
    "simulate": MixSummary,
    "story": list[RecordText],
    "why-gang": GangAnswer,
    "why-node": OneNodeAnswer,
    "why-pod": Answer,
}
"""What `-o json` prints (docs/reference/outputs.md)."""


def generate() -> dict[str, str]:
    """Return file name -> content."""
    unions: dict[str, Any] = {**EVENTS, "observed": Observation, "record": Record}
    events = {f"{name}.json": _schema(union, name) for name, union in sorted(unions.items())}
    outputs = {f"outputs/{name}.json": _schema(OUTPUTS[name], name, True) for name in OUTPUTS}
    return events | outputs


def _schema(union: Any, name: str, is_output: bool = False) -> str:
    (schema,), definitions = msgspec.json.schema_components([union], ref_template="#/$defs/{name}")
    for definition in definitions.values() if is_output else ():
        _as_printed(definition)
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"muster {name}",
        **schema,
        "$defs": dict(sorted(definitions.items())),
    }
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def _as_printed(definition: dict[str, Any]) -> None:
    """Require also the fields that have a default, since commands print them too, and write the
    description as one line.
    """
    definition["description"] = " ".join(definition["description"].split())
    for name, schema in definition["properties"].items():
        if "default" in schema:
            del schema["default"]
            definition["required"].append(name)


def write() -> None:
    """Bring schemas/ up to date."""
    for name, content in generate().items():
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(content)


if __name__ == "__main__":
    write()
