"""Writes docs/reference/transitions.md: a diagram of each service's legal transitions.

The cores run on these tables (services/NAME/core/transitions.py). A test fails if the page differs
from them: run `make schemas` after a change.
"""

import importlib.util
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any

from shared.model.ids import SERVICES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "transitions.md"
Table = Mapping[tuple[Any, str], IntEnum]

HEAD = """# Legal transitions

Generated from `services/*/core/transitions.py`, the tables that the cores run on. Anything not
drawn here is a defect and stops the core with the object's story. Events that change nothing are
left out.
"""


def page() -> str:
    """Return the page's text."""
    parts = [HEAD]
    for service in SERVICES:
        name = f"services.{service}.core.transitions"
        diagrams = importlib.import_module(name).DIAGRAMS if importlib.util.find_spec(name) else {}
        for title, table in diagrams.items():
            drawn = f"```mermaid\nstateDiagram-v2\n{_drawn(table)}```\n"
            parts.append(f"## {service}: {title.lower()}\n\n{drawn}")
    return "\n".join(parts)


def _drawn(table: Table) -> str:
    """Return one arrow for each pair of states, labelled with all events between them."""
    arrows: dict[tuple[IntEnum, IntEnum], list[str]] = {}
    for (source, event), target in table.items():
        if source != target:
            arrows.setdefault((source, target), []).append(event)
    return "".join(
        f"    {source.name} --> {target.name}: {', '.join(sorted(events))}\n"
        for (source, target), events in sorted(arrows.items())
    )


if __name__ == "__main__":
    PAGE.write_text(page())
