"""Hundreds of seeds: no violation in any, and every entry of the coverage table occurs.

`MUSTER_SEEDS` changes the number (coverage is only checked from 170 on, so with CI=true fewer are
an error), `MUSTER_SEED_BASE` the first seed. `make seeds` runs 510.
"""

import os
import time
from collections import Counter
from collections.abc import Mapping

import pytest

from muster.simulation import coverage
from muster.simulation.run import simulate
from muster.simulation.scenario import NOT_APPLICABLE, PAIRS, make_scenario
from shared.machine.crash import CrashPoint
from shared.model.ids import SERVICES
from tests.simulation import coverage_files
from tests.simulation.coverage_files import JUDGED_FROM

SEEDS = int(os.environ.get("MUSTER_SEEDS", "180"))
BASE = int(os.environ.get("MUSTER_SEED_BASE", "0"))
CHUNK = 10
CHUNKS = -(-SEEDS // CHUNK)
REDECIDE_EVERY = 5

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_seed_is_safe_and_comes_to_rest(chunk: int) -> None:
    total: Counter[str] = Counter()
    for seed in range(BASE + chunk * CHUNK, BASE + min((chunk + 1) * CHUNK, SEEDS)):
        print(f"seed {seed}: python -m muster.simulation {seed}")
        begun_s = time.perf_counter()
        scenario = make_scenario(seed)
        assert scenario.placements == 3
        result = simulate(scenario, redecide=seed % REDECIDE_EVERY == 0)
        assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)
        assert result.pods >= 200, f"seed {seed}: {result.pods} pods"
        assert result.crashes >= 3, f"seed {seed}: {result.crashes} crashes"
        total.update(result.seen)
        total["seeds"] += 1
        total["pods"] += result.pods
        total["records"] += result.records
        total["milliseconds"] += int((time.perf_counter() - begun_s) * 1000)
    coverage_files.write(chunk, total)
    done, counts = coverage_files.summed()
    if done == CHUNKS and SEEDS >= JUDGED_FROM:
        missing = coverage.zeros(counts)
        assert not missing, "never happened: " + ", ".join(missing)


def too_few(seeds: int, environ: Mapping[str, str]) -> bool:
    """People may run a few; CI must check."""
    return environ.get("CI", "").lower() == "true" and seeds < JUDGED_FROM


def test_ci_runs_enough_seeds_to_judge_what_they_cover() -> None:
    assert not too_few(SEEDS, os.environ), f"CI=true and MUSTER_SEEDS={SEEDS} < {JUDGED_FROM}"
    assert too_few(JUDGED_FROM - 1, {"CI": "true"})
    assert not too_few(JUDGED_FROM - 1, {})


def test_the_crash_table_names_every_service_and_point_or_the_reason() -> None:
    assert len(PAIRS) + len(NOT_APPLICABLE) == len(SERVICES) * len(CrashPoint)
    assert all(NOT_APPLICABLE.values())


def test_a_zero_in_the_coverage_table_is_seen() -> None:
    counts = dict.fromkeys(coverage.required(), 1)
    assert coverage.zeros(counts) == []
    del counts["reset"]
    assert coverage.zeros(counts) == ["reset"]
