"""Many cases of claims and selectors against kube-scheduler's own code: python -m
tests.parity.claims. The exit code is 1 when an answer differs.
"""

import json
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import click
from rich.progress import track

from shared.model.release import V1_37, VERSIONS
from tests.parity.comparison import claims as claims_answer
from tests.parity.comparison import selectors as selectors_answer
from tests.parity.generators import claims, selectors
from tests.parity.oracle.client import Oracle

Case = dict[str, Any]


def _differing(
    version: str,
    name: str,
    seeds: range,
    draw: Callable[[int], Case],
    differences: Callable[[Case, Case], Iterable[str]],
    as_sent: Callable[[Case], Case] = dict,
) -> int:
    """Print the cases that differ; return how many do. `as_sent`: what the oracle gets."""
    failed = 0
    with Oracle(version, claims_answer.program(version)) as oracle:
        answers = oracle.ask_all(as_sent(draw(seed)) for seed in seeds)
        for seed, theirs in track(
            zip(seeds, answers, strict=True), name, len(seeds), transient=True
        ):
            asked = draw(seed)
            if found := list(differences(asked, theirs)):
                failed += 1
                click.echo(f"{version}: {name}: seed {seed}")
                click.echo("\n".join(f"  {one}" for one in found[:3]))
                if failed == 1:
                    click.echo(json.dumps(asked))
    click.echo(f"{version}: {name}: {len(seeds)} cases from seed {seeds.start}: {failed} differ")
    return failed


@click.command(help=__doc__)
@click.option("--cases", type=click.IntRange(1), default=3_000, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--version", type=click.Choice(VERSIONS), help="One release; all without it.")
def main(cases: int, seed: int, version: str | None) -> None:
    seeds, failed = range(seed, seed + cases), 0
    for one in [version] if version else VERSIONS:
        draw, as_sent = (
            partial(what, version=one) for what in (claims.case, claims.with_taints_in_slices)
        )
        failed += _differing(one, "claims", seeds, draw, partial(_claims, one), as_sent)
    failed += _differing(V1_37, "selectors", seeds, selectors.case, _selectors)
    sys.exit(bool(failed))


def _claims(version: str, asked: Case, theirs: Case) -> list[str]:
    return claims_answer.differences(claims_answer.our_answer(asked, version), theirs)


def _selectors(asked: Case, theirs: Case) -> list[str]:
    return selectors_answer.differences(asked, selectors_answer.our_answer(asked), theirs)


if __name__ == "__main__":
    main()
