"""`muster get`: lists of pods, gangs, nodes and runs."""

from pathlib import Path
from typing import NamedTuple

from muster.cli.errors import UsageFault
from muster.cli.run_directory import chosen_run
from muster.cli.table import print_listing


class Asked(NamedTuple):
    """The words of the command line."""

    kind: str
    run: Path | None
    namespace: str
    waiting: bool
    bus: str
    placements: int


def print_list(asked: Asked, output: str) -> None:
    """Print the list. Raises UsageFault, Fault, BusCorrupt, BusUnavailable."""
    is_run, has_names = asked.kind == "runs", asked.kind in ("pods", "gangs")
    refused = {
        "RUN": is_run and asked.run is not None,
        "--bus": is_run and bool(asked.bus),
        "--namespace": not has_names and bool(asked.namespace),
        "--waiting": not has_names and asked.waiting,
    }
    for option, is_refused in refused.items():
        if is_refused:
            raise UsageFault(f"{option}: cannot be combined with get {asked.kind}")
    # Imported here: a list of runs reads no journals, and folds no state.
    if is_run:
        from muster.cli.commands.runs import list_runs

        print_listing(list_runs(), output)
        return
    from muster.cli.commands.lists import read

    print_listing(read(asked, chosen_run(asked.run, asked.bus), output == "wide"), output)
