"""`muster simulate WORLD --seed N`: prints the seed, then the result; exits with 1 on a violation.

The command line passes a world that is already read, or none.
"""

import logging
import sys
import time
from collections.abc import Callable, Sequence

from muster.cli.terminal import print_line
from muster.simulation import coverage
from muster.simulation.run import Result, simulate
from muster.simulation.scenario import PLACEMENTS, make_scenario
from shared.model.text import counted
from shared.model.world import World

Say = Callable[[str], None]
PROGRESS_S = 3.0


def simulate_world(
    world: World | None, seed: int, placements: int = PLACEMENTS, say: Say = print_line
) -> int:
    """Run one seed of a world (None: one made from the seed). Returns the exit code."""
    say(f"seed {seed}")
    # The services' logs about injected faults carry wall-clock time and would be noise here.
    logging.getLogger("muster").setLevel(logging.ERROR)
    begun_s = time.perf_counter()
    result = simulate(make_scenario(seed, world, placements), redecide=True, show=_Progress())
    for line in result.lines:
        say(line)
    for line in summary(result, time.perf_counter() - begun_s):
        say(line)
    return 0 if result.is_good else 1


class _Progress:
    """Prints every few seconds how far the simulation is, to standard error."""

    def __init__(self) -> None:
        self._begun_s = time.perf_counter()
        self._next_s = PROGRESS_S

    def __call__(self, text: str) -> None:
        took_s = time.perf_counter() - self._begun_s
        if took_s >= self._next_s:
            self._next_s = took_s + PROGRESS_S
            print(f"{took_s:6.1f} s  {text}", file=sys.stderr)


def summary(result: Result, took_s: float) -> list[str]:
    """Return the result as a few lines."""
    happened = ", ".join(f"{name} {count}" for name, count in sorted(result.seen.items()) if count)
    verdict = "no violation" if result.is_good else counted(len(result.problems), "violation")
    pods, records = counted(result.pods, "pod"), counted(result.records, "record")
    return [
        f"{pods}, {result.bound} bound at the end; {counted(result.deaths, 'process death')}",
        f"{records} in {result.ended_s:.1f} virtual seconds ({took_s:.2f} s)",
        f"happened: {happened}",
        f"digest {result.digest}",
        verdict,
    ]


def run_seeds(seeds: Sequence[int], say: Say = print_line) -> int:
    """Run seeds of built-in worlds; print a line for each, and stories for those with
    violations.
    """
    bad = 0
    total = dict.fromkeys(coverage.required(), 0)
    for seed in seeds:
        begun_s = time.perf_counter()
        result = simulate(make_scenario(seed), redecide=True)
        took_s = time.perf_counter() - begun_s
        say(
            f"seed {seed}: {'ok' if result.is_good else 'BAD'} {counted(result.pods, 'pod')}, "
            f"{counted(result.records, 'record')}, {counted(result.deaths, 'death')}, "
            f"{result.ended_s:.0f} virtual s, {took_s:.2f} s, {result.digest}"
        )
        for line in result.lines:
            say(line)
        for name, count in result.seen.items():
            total[name] = total.get(name, 0) + count
        bad += not result.is_good
    if len(seeds) > 1:
        for line in coverage.table(total):
            say(line)
    return 1 if bad else 0
