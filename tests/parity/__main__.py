"""`make parity`: many cases of all kinds against kube-scheduler's own code of each release, and
their coverage.

The exit code is 1 when an answer differs; the first few differences come with the smallest case
that shows them.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

from shared.model.release import VERSIONS
from tests.parity.comparison.compare import kind
from tests.parity.comparison.muster_answer import our_answer, smallest
from tests.parity.comparison.shrink import TRIES_MAX
from tests.parity.comparison.tally import MESSAGES, SCORED, Tally
from tests.parity.generators.case_builder import Object
from tests.parity.generators.kinds import differences, kinds, turns
from tests.parity.oracle.client import Oracle, OracleError
from tests.parity.oracle.extender_server import ExtenderServer

LINES_MAX = 10

console = Console()


Case = tuple[str, int, Object]
"""Kind, seed, and what is asked."""
Draw = Mapping[str, Callable[[int], Object]]


def _number(name: str, least: int, default: int, text: str) -> Callable[..., Any]:
    bounds = click.IntRange(least)
    return click.option(name, type=bounds, default=default, show_default=True, help=text)


@click.command(help=__doc__)
@click.option("--version", type=click.Choice(VERSIONS), help="This release; none = all in turn.")
@_number("--cases", 1, 10_000, "How many cases for each release.")
@_number("--seed", 0, 0, "The first case's seed.")
@click.option("--kind", "only", multiple=True, help="Of this kind; none = all in turn.")
@_number("--shown", 0, 3, "How many differences are made small.")
def parity(version: str | None, cases: int, seed: int, only: Sequence[str], shown: int) -> None:
    with closing(ExtenderServer()) as server:
        draw = kinds(server.url)
        for name in set(only) - set(draw):
            raise click.BadParameter(f"{name}: must be one of {', '.join(draw)}")
        order = turns(only, list(draw))
        asked = [(order[number % len(order)], number) for number in range(seed, seed + cases)]
        failed = 0
        for one in [version] if version else VERSIONS:
            failed += _compare(one, asked, draw, shown)
    sys.exit(bool(failed))


def _compare(version: str, asked: list[tuple[str, int]], draw: Draw, shown: int) -> int:
    """Print what the cases have shown of one release; return how many differ."""
    tally, red = Tally(), Counter[str]()
    failed: list[Case] = []
    with Oracle(version) as oracle:
        for case, ours, theirs in track(
            _answers(version, oracle, asked, draw),
            f"cases of {version}",
            len(asked),
            console=console,
            transient=True,
        ):
            found = differences(case[0], case[-1], ours, theirs)
            tally.add(theirs)
            if found:
                failed.append(case)
                red.update({kind(line) for line in found})
        _print_covered(version, tally)
        for case in failed[:shown]:
            _print_difference(version, oracle, case)
    for what, count in red.most_common():
        console.print(f"[red]{version}: {count:6} cases differ in {what}[/red]", highlight=False)
    again = f"--version {version} --kind"
    seeds = [f"{again} {name} --seed {number}" for name, number, _asked in failed[:20]]
    names = ", ".join(dict.fromkeys(name for name, _ in asked))
    total = f"{version}: {len(asked)} cases ({names}) from seed {asked[0][1]}"
    console.print(f"{total}: {len(failed)} differ", *seeds, highlight=False, soft_wrap=True)
    return len(failed)


def _answers(
    version: str, oracle: Oracle, asked: list[tuple[str, int]], draw: Draw
) -> Iterator[tuple[Case, Object, Object]]:
    """Yield the case, our answer and theirs; the oracle works ahead in the meantime."""
    theirs = oracle.ask_all(draw[name](seed) for name, seed in asked)
    for (name, seed), answer in zip(asked, theirs, strict=True):
        case = draw[name](seed)
        yield (name, seed, case), our_answer(case, version), answer


def _print_difference(version: str, oracle: Oracle, case: Case) -> None:
    name, seed, asked = case
    small = asked if asked.get("preempt") else smallest(asked, oracle.ask, TRIES_MAX, version)
    console.print(f"--version {version} --kind {name} --seed {seed}", style="bold red")
    ours, theirs = our_answer(small, version), oracle.ask(small)
    for line in differences(name, small, ours, theirs)[:LINES_MAX]:
        console.print(f"  {line}", highlight=False, markup=False)
    console.print(json.dumps(small), highlight=False, markup=False, soft_wrap=True)


def _print_covered(version: str, tally: Tally) -> None:
    title = f"{version}: {_sizes(tally)}"
    table = Table("reached", "in cases", title=title, title_style="none")
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
        parity()
    except OracleError as error:
        sys.exit(str(error))
