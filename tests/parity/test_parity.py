"""Muster decides as kube-scheduler does: 500 cases and the known values, with no difference."""

import json

import pytest

from tests.parity.cases import case
from tests.parity.compare import differences
from tests.parity.oracle import Oracle
from tests.parity.ours import our_answer, smallest
from tests.parity.test_generator import CI_CASES

PARTS = 4
SHRINK_TRIES = 600


def told(seed: int, found: list[str], oracle: Oracle) -> str:
    """The difference with the smallest case that has it."""
    small = smallest(case(seed), oracle.ask, SHRINK_TRIES)
    found = differences(our_answer(small), oracle.ask(small)) or found
    return f"seed {seed}:\n" + "\n".join(found[:20]) + f"\n{json.dumps(small)}"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_case_differs(part: int, oracle: Oracle):
    seeds = range(part, CI_CASES, PARTS)
    theirs = oracle.ask_all(case(seed) for seed in seeds)
    for seed, answer in zip(seeds, theirs, strict=True):
        found = differences(our_answer(case(seed)), answer)
        if found:
            pytest.fail(told(seed, found, oracle), pytrace=False)
