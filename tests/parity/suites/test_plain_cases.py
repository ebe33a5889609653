"""Muster decides as kube-scheduler does: 500 cases and the known values, with no difference."""

import pytest

from tests.parity.comparison.compare import differences
from tests.parity.comparison.muster_answer import our_answer, told
from tests.parity.generators.cases import case
from tests.parity.oracle.client import Oracle
from tests.parity.suites.test_generators import CI_CASES

PARTS = 4
SHRINK_TRIES = 600


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_case_differs(part: int, oracle: Oracle):
    seeds = range(part, CI_CASES, PARTS)
    theirs = oracle.ask_all(case(seed) for seed in seeds)
    for seed, answer in zip(seeds, theirs, strict=True):
        if differences(our_answer(case(seed)), answer):
            pytest.fail(told(seed, case(seed), oracle.ask, SHRINK_TRIES), pytrace=False)
