"""`make parity`: many cases of all kinds against kube-scheduler's own code, and what they reached.

Exit code 1 when an answer differs; the first few differences come with the smallest case that
has them.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.parity.compare import kind
from tests.parity.draft import Object
from tests.parity.extender_server import ExtenderServer
from tests.parity.kinds import differences, kinds, turns
from tests.parity.oracle import Oracle, OracleError
from tests.parity.ours import our_answer, smallest
from tests.parity.shrink import TRIES_MAX
from tests.parity.tally import MESSAGES, SCORED, Tally

LINES_MAX = 10

app = typer.Typer(add_completion=False, help=__doc__)
console = Console()


Case = tuple[str, int, Object]
"""Kind, seed, and what is asked."""


@app.command()
def parity(
    cases: Annotated[int, typer.Option(min=1, help="How many cases.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="The first case's seed.")] = 0,
    only: Annotated[
        list[str] | None, typer.Option("--kind", help="Of this kind; none = all in turn.")
    ] = None,
    shown: Annotated[int, typer.Option(min=0, help="How many differences are made small.")] = 3,
) -> None:
    tally, red = Tally(), Counter[str]()
    failed: list[Case] = []
    with Oracle() as oracle, closing(ExtenderServer()) as server:
        draw = kinds(server.url)
        for name in set(only or ()) - set(draw):
            raise typer.BadParameter(f"{name}: must be one of {', '.join(draw)}")
        order = turns(only or (), list(draw))
        asked = [(order[number % len(order)], number) for number in range(seed, seed + cases)]
        for case, ours, theirs in track(
            _answers(oracle, asked, draw), "cases", cases, console=console, transient=True
        ):
            found = differences(case[0], case[-1], ours, theirs)
            tally.add(theirs)
            if found:
                failed.append(case)
                red.update({kind(line) for line in found})
        _print_covered(tally)
        for case in failed[:shown]:
            _print_difference(oracle, case)
    for what, count in red.most_common():
        console.print(f"[red]{count:6} cases differ in {what}[/red]", highlight=False)
    seeds = [f"--kind {name} --seed {number}" for name, number, _asked in failed[:20]]
    total = f"{cases} cases ({', '.join(dict.fromkeys(order))}) from seed {seed}"
    console.print(f"{total}: {len(failed)} differ", *seeds, highlight=False, soft_wrap=True)
    sys.exit(bool(failed))


def _answers(
    oracle: Oracle, asked: list[tuple[str, int]], draw: Mapping[str, Callable[[int], Object]]
) -> Iterator[tuple[Case, Object, Object]]:
    """What is asked, our answer, theirs; the oracle works ahead meanwhile."""
    theirs = oracle.ask_all(draw[name](seed) for name, seed in asked)
    for (name, seed), answer in zip(asked, theirs, strict=True):
        case = draw[name](seed)
        yield (name, seed, case), our_answer(case), answer


def _print_difference(oracle: Oracle, case: Case) -> None:
    name, seed, asked = case
    small = asked if asked.get("preempt") else smallest(asked, oracle.ask, TRIES_MAX)
    console.print(f"--kind {name} --seed {seed}", style="bold red")
    for line in differences(name, small, our_answer(small), oracle.ask(small))[:LINES_MAX]:
        console.print(f"  {line}", highlight=False, markup=False)
    console.print(json.dumps(small), highlight=False, markup=False, soft_wrap=True)


def _print_covered(tally: Tally) -> None:
    table = Table("reached", "in cases", title=_sizes(tally), title_style="none")
    for text in sorted({*MESSAGES, *tally.messages}):
        table.add_row(text, str(tally.messages[text]))
    for plugin in SCORED:
        table.add_row(f"{plugin}, at least three values", str(tally.scores[plugin]))
    console.print(table, highlight=False, markup=False)


def _sizes(tally: Tally) -> str:
    share = 100 * tally.feasible // max(1, tally.nodes)
    return f"{tally.pods} pods, {tally.nodes} answers of nodes, {share} % feasible"


if __name__ == "__main__":
    try:
        app()
    except OracleError as error:
        sys.exit(str(error))
