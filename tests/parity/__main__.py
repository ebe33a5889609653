"""`make parity`: many cases against kube-scheduler's own code, and what they reached.

Exit code 1 when an answer differs; the first few differences come with the smallest case that
has them.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.parity import postfilter, preempting
from tests.parity.cases import case
from tests.parity.compare import differences, kind
from tests.parity.configs import configured
from tests.parity.draft import Object
from tests.parity.extender_server import ExtenderServer
from tests.parity.extending import case as extending_case
from tests.parity.images import case as images_case
from tests.parity.oracle import Oracle, OracleError
from tests.parity.ours import our_answer, smallest
from tests.parity.sampling import case as sampling_case
from tests.parity.shrink import TRIES_MAX
from tests.parity.tally import MESSAGES, SCORED, Tally
from tests.parity.volumes import case as volumes_case

LINES_MAX = 10

Compare = Callable[[Object, Object, Object], list[str]]

app = typer.Typer(add_completion=False, help=__doc__)
console = Console()


@app.command()
def parity(
    cases: Annotated[int, typer.Option(min=1, help="How many cases.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="The first case's seed.")] = 0,
    configs: Annotated[bool, typer.Option(help="Cases with configurations.")] = False,
    images: Annotated[bool, typer.Option(help="Cases with images on nodes.")] = False,
    volumes: Annotated[bool, typer.Option(help="Cases with volumes.")] = False,
    sampling: Annotated[bool, typer.Option(help="Cases whose searches may end early.")] = False,
    extenders: Annotated[bool, typer.Option(help="Cases with extenders.")] = False,
    preempt: Annotated[bool, typer.Option(help="Cases of preemption.")] = False,
    shown: Annotated[int, typer.Option(min=0, help="How many differences are made small.")] = 3,
) -> None:
    tally, red = Tally(), Counter[str]()
    failed: list[int] = []
    seeds = range(seed, seed + cases)
    others = (
        *((images, images_case), (volumes, volumes_case), (configs, configured)),
        *((sampling, sampling_case), (preempt, _preempting)),
    )
    draw = next((one for wanted, one in others if wanted), case)
    compared = preempting.differences if preempt else _differences
    with Oracle() as oracle, ExitStack() as stack:
        if extenders:
            server = stack.enter_context(closing(ExtenderServer()))
            draw = partial(extending_case, url=server.url)
        for number, ours, theirs in track(
            _answers(oracle, draw, seeds), "cases", cases, console=console, transient=True
        ):
            found = compared(draw(number), ours, theirs)
            tally.add(theirs)
            if found:
                failed.append(number)
                red.update({kind(line) for line in found})
        _print_covered(tally)
        for number in failed[:shown]:
            _print_difference(oracle, draw(number), number, compared)
    for what, count in red.most_common():
        console.print(f"[red]{count:6} cases differ in {what}[/red]", highlight=False)
    console.print(f"{cases} cases from seed {seed}: {len(failed)} differ {failed[:20] or ''}")
    sys.exit(bool(failed))


def _answers(
    oracle: Oracle, draw: Callable[[int], Object], seeds: range
) -> Iterator[tuple[int, Object, Object]]:
    """Seed, our answer, theirs; the oracle works ahead meanwhile."""
    theirs = oracle.ask_all(draw(number) for number in seeds)
    for number, answer in zip(seeds, theirs, strict=True):
        yield number, our_answer(draw(number)), answer


def _print_difference(oracle: Oracle, asked: Object, number: int, compared: Compare) -> None:
    small = asked if asked.get("preempt") else smallest(asked, oracle.ask, TRIES_MAX)
    console.print(f"seed {number}", style="bold red")
    for line in compared(small, our_answer(small), oracle.ask(small))[:LINES_MAX]:
        console.print(f"  {line}", highlight=False, markup=False)
    console.print(json.dumps(small), highlight=False, markup=False, soft_wrap=True)


def _differences(_case: Object, ours: Object, theirs: Object) -> list[str]:
    return differences(ours, theirs)


def _preempting(number: int) -> Object:
    """What runs, and what is ending, in turn."""
    return preempting.case(number // 2) if number % 2 else postfilter.case(number // 2)


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
