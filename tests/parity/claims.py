"""Many cases of claims and selectors against kube-scheduler's own code: python -m
tests.parity.claims. The exit code is 1 when an answer differs.
"""

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

import click
from rich.progress import track

from tests.parity.comparison import claims as claims_answer
from tests.parity.comparison import selectors as selectors_answer
from tests.parity.generators import claims, selectors
from tests.parity.oracle.client import Oracle

Case = dict[str, Any]


def _differing(
    name: str,
    seeds: range,
    draw: Callable[[int], Case],
    differences: Callable[[Case, Case], Iterable[str]],
) -> int:
    """Print the cases that differ; return how many do."""
    failed = 0
    with Oracle("1.37", claims_answer.PROGRAM) as oracle:
        answers = oracle.ask_all(draw(seed) for seed in seeds)
        for seed, theirs in track(
            zip(seeds, answers, strict=True), name, len(seeds), transient=True
        ):
            asked = draw(seed)
            if found := list(differences(asked, theirs)):
                failed += 1
                click.echo(f"{name}: seed {seed}")
                click.echo("\n".join(f"  {one}" for one in found[:3]))
                if failed == 1:
                    click.echo(json.dumps(asked))
    click.echo(f"{name}: {len(seeds)} cases from seed {seeds.start}: {failed} differ")
    return failed


@click.command(help=__doc__)
@click.option("--cases", type=click.IntRange(1), default=3_000, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def main(cases: int, seed: int) -> None:
    seeds = range(seed, seed + cases)
    failed = _differing(
        "claims",
        seeds,
        claims.case,
        lambda asked, theirs: claims_answer.differences(claims_answer.our_answer(asked), theirs),
    )
    failed += _differing(
        "selectors",
        seeds,
        selectors.case,
        lambda asked, theirs: selectors_answer.differences(
            asked, selectors_answer.our_answer(asked), theirs
        ),
    )
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
