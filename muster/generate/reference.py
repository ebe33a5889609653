"""Writes pages of docs/reference/ from the code: commands, services and their options, events.

A test fails when a page is not what the code says. Run `make schemas` after a change.
"""

import importlib.util
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import NODEFAULT, Struct, to_builtins
from msgspec.structs import FieldInfo, fields

from muster.app.mesh import make_core
from muster.cli.help import examples_of
from muster.cli.main import app
from shared.events import EVENT_TYPES
from shared.model.ids import SERVICES, JournalName, service_of
from shared.model.text import snake_case
from shared.simulated.config import SimConfig

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"

COMMANDS = """# Command line

Generated from the commands themselves (`muster COMMAND --help`).

| exit code | meaning | for instance |
|---|---|---|
| 0 | done | a world is complete, a live run was stopped, a replay is identical |
| 1 | failure after the start | a world is not complete, a plugin failed, a replay differs |
| 2 | unusable input; nothing was started or changed | an unknown field, a missing file |
| 130, 143 | Ctrl-C, SIGTERM | `muster run WORLD` prints what it has done so far |

A failure is one line on standard error, `muster: ...`. `-o json` prints one JSON document on
standard output, and nothing else there ([JSON outputs](outputs.md)).
"""

SERVICES_HEAD = """# Services

Generated from `services/*/__init__.py` and the cores' `sources`. Each service partition owns one
journal and is the only one that writes it. Placement has a partition for each shard P. Over Kafka a
service is a topic.
"""

OPTIONS = """# Options of the services

Generated from `services/*/core/config.py`. Set one with `--set SERVICE.OPTION=VALUE`, and give all
processes of a mesh the same. Journals hold the options, so a replay uses those of its run.

All commands that run a mesh switch on `queueing.gang_preemption`, `ingest.volumes` and
`ingest.default_spread` (unless no profile spreads), and set `queueing.looks_per_s` to 40. On a live
cluster they also switch on `binding.status_patches`, and set `queueing.confirm_ms` to 40,000 (with
a world 2,000). `cluster` is the simulated one.
"""

EVENTS_HEAD = """# Events

Generated from `shared/events/`. `schemas/SERVICE.json` has all fields. Fields may be added with a
default; none is renamed or removed, so old journals stay readable. `muster story` shows the events
of one pod, gang or node.
"""


def pages() -> dict[str, str]:
    """Return file names and texts."""
    return {
        "cli.md": _commands(),
        "services.md": _services(),
        "options.md": _options(),
        "events.md": _events(),
    }


def write() -> None:
    """Write the pages."""
    for name, text in pages().items():
        (FOLDER / name).write_text(text)


def _commands() -> str:
    return "\n".join([COMMANDS, *(_command(name, one) for name, one in app.commands.items())])


def _command(name: str, command: click.Command) -> str:
    if isinstance(command, click.Group):
        return "\n".join(_command(f"{name} {sub}", one) for sub, one in command.commands.items())
    context = click.Context(command, info_name=f"muster {name}", **app.context_settings)
    usage = " ".join(command.collect_usage_pieces(context))
    records = (param.get_help_record(context) for param in command.get_params(context))
    rows = [(f"`{names}`", text) for names, text in filter(None, records) if "--help" not in names]
    head = f"## muster {name}\n`muster {name} {usage}`\n\n{_paragraphs(command.help or '')}\n\n"
    examples = "\n".join(examples_of(f"muster {name}"))
    return f"{head}{_table(('argument or option', 'meaning'), rows)}\n```\n{examples}\n```\n"


def _services() -> str:
    rows = [
        (f"`{service}/{'P' if service == 'placement' else 0}`", _owns(service), _sources(service))
        for service in SERVICES
    ]
    return "\n".join([SERVICES_HEAD, _table(("journal", "owns", "reads"), rows)])


def _owns(service: str) -> str:
    doc = importlib.import_module(f"services.{service}").__doc__ or ""
    return _first_sentence(doc).removeprefix("Owns ").rstrip(".")


def _sources(service: str) -> str:
    """Return the services that a service reads, in its order."""
    sources = make_core(JournalName(f"{service}/0"), 2).sources
    return ", ".join(dict.fromkeys(map(service_of, sources))) or "observations only"


def _options() -> str:
    parts = [OPTIONS]
    for service in SERVICES:
        name = f"services.{service}.core.config"
        if importlib.util.find_spec(name):
            parts.append(_section(service, importlib.import_module(name).Config))
    parts.append(_section("cluster", SimConfig))
    return "\n".join(parts)


def _section(name: str, config: type[Struct]) -> str:
    rows = [
        (f"`{name}.{field.name}`", f"`{json.dumps(to_builtins(_default(field)))}`")
        for field in fields(config)
        if isinstance(_default(field), int | float | str)
    ]
    return f"## {name}\n{_paragraphs(config.__doc__ or '')}\n\n" + _table(
        ("option", "default"), rows
    )


def _default(field: FieldInfo) -> Any:
    return field.default if field.default is not NODEFAULT else None


def _events() -> str:
    parts = [EVENTS_HEAD]
    for name, kinds in EVENT_TYPES.items():
        rows = [
            (f"`{snake_case(event.__name__)}`", _first_sentence(event.__doc__ or ""))
            for event in sorted(kinds, key=lambda one: one.__name__)
        ]
        parts.append(f"## {name}\n" + _table(("event", "meaning"), rows))
    return "\n".join(parts)


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s+(?=[A-Z`])", " ".join(text.split()))[0]


def _paragraphs(text: str) -> str:
    """Return the text with each paragraph on its own line."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [f"| {' | '.join(row)} |" for row in (head, *cells)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]]) + "\n"


if __name__ == "__main__":
    write()
