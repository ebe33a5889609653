"""A seed replays exactly: twice in one process, and under another hash seed in a fresh one."""

import os
import subprocess
import sys

import pytest

from muster.simulation.run import simulate
from muster.simulation.scenario import make_scenario

pytestmark = [pytest.mark.simulation, pytest.mark.slow]

DIGEST = (
    "from muster.simulation.run import simulate\n"
    "from muster.simulation.scenario import make_scenario\n"
    "print(simulate(make_scenario({seed})).digest)\n"
)


def digest_in_fresh_process(seed: int, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", DIGEST.format(seed=seed)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_seed_replays_exactly_and_two_seeds_differ() -> None:
    first, other = simulate(make_scenario(3)), simulate(make_scenario(7))
    for before in (first, other):
        again = simulate(make_scenario(before.seed))
        assert before.digest == again.digest
        assert before.seen == again.seen
    assert first.digest != other.digest


def test_a_seed_does_not_depend_on_the_hash_seed() -> None:
    digests = {digest_in_fresh_process(4, hash_seed) for hash_seed in ("0", "1", "4242")}
    assert len(digests) == 1
