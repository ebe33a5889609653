"""What the Tab key offers in a shell: names in the newest run, and folders of runs.

Every command loads this module, so its functions import what they need.
"""

import click
from click.shell_completion import CompletionItem


def complete_run(
    _context: click.Context, _argument: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the runs in runs/ that begin like that, and let the shell offer folders."""
    from muster.cli.run_directory import recorded_runs

    found = [CompletionItem(str(run)) for run in recorded_runs() if str(run).startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="dir")]


def complete_subject(
    context: click.Context, argument: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return kinds, then the names of that kind in the newest run, or runs after a name."""
    if context.params.get(argument.name or ""):
        return complete_run(context, argument, incomplete)
    from shared.events.names import KINDS

    kind, slash, _name = incomplete.partition("/")
    found = _names(kind) if slash and kind in KINDS else [f"{kind}/" for kind in KINDS]
    return [CompletionItem(name) for name in found if name.startswith(incomplete)]


def _names(kind: str) -> list[str]:
    """Return KIND/NAMESPACE/NAME of each pod or gang, or KIND/NAME of each node."""
    from muster.cli.commands.get import Asked
    from muster.cli.commands.lists import read
    from muster.cli.errors import Fault, UsageFault
    from muster.cli.run_directory import recorded_runs
    from shared.ports.bus import BusCorrupt, BusUnavailable

    try:
        asked = Asked(f"{kind}s", None, "", waiting=False, bus="", placements=1)
        return list(read(asked, recorded_runs()[-1], False).names)
    except (IndexError, UsageFault, Fault, BusCorrupt, BusUnavailable):
        return []
