"""Writes docs/transitions.md: each service's table of legal transitions as a diagram and a list.

The tables are what the cores run on (services/NAME/core/transitions.py); a test fails when the page
is not theirs. Run `make schemas` after a change.
"""

from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any

from services.binding.core.transitions import EVICTIONS
from services.binding.core.transitions import TRANSITIONS as BINDS
from services.permit.core.transitions import TRANSITIONS as GANGS
from services.placement.core.transitions import TRANSITIONS as LEDGER
from services.preemption.core.transitions import GANG_TRANSITIONS as GANG_ASKS
from services.preemption.core.transitions import TRANSITIONS as ASKS
from services.queueing.core.transitions import TRANSITIONS as PODS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "transitions.md"
Table = Mapping[tuple[Any, str], IntEnum]

TABLES: dict[str, tuple[str, Table]] = {
    "queueing": ("A pending pod in the queue", PODS),
    "placement": ("A pod in a shard's ledger", LEDGER),
    "permit": ("An attempt of a gang", GANGS),
    "preemption": ("A search for victims for one pod", ASKS),
    "preemption, gangs": ("Room for a whole gang", GANG_ASKS),
    "binding": ("A bind", BINDS),
    "binding, evictions": ("A victim", EVICTIONS),
}

HEAD = """# Legal transitions

Generated from `services/*/core/transitions.py`, the tables that the cores run on. Anything not
drawn here is a defect and stops the core with the object's story. Events that change nothing are
left out.
"""


def page() -> str:
    """The page's text."""
    parts = [HEAD]
    for name, (what, table) in TABLES.items():
        parts.append(
            f"## {name}: {what.lower()}\n\n```mermaid\nstateDiagram-v2\n{_drawn(table)}```\n"
        )
    return "\n".join(parts)


def _drawn(table: Table) -> str:
    """One arrow for each pair of states, labelled with all events between them."""
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
