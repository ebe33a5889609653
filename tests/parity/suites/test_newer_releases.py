"""The releases after 1.35: cases of all kinds in turn, with no difference to their own code."""

from itertools import cycle, islice

import pytest

from shared.model.release import V1_36, V1_37
from tests.parity.comparison.muster_answer import our_answer
from tests.parity.generators.kinds import differences, kinds
from tests.parity.oracle.client import Oracle, require_oracle

CASES = 250


@pytest.mark.slow
@pytest.mark.parametrize("version", [V1_36, V1_37])
def test_no_case_differs(version: str, url: str):
    require_oracle(version)
    draw = kinds(url)
    names = list(islice(cycle(draw), CASES))
    with Oracle(version) as oracle:
        theirs = oracle.ask_all(draw[name](seed) for seed, name in enumerate(names))
        for seed, (name, answer) in enumerate(zip(names, theirs, strict=True)):
            asked = draw[name](seed)
            found = differences(name, asked, our_answer(asked, version), answer)
            assert found == [], f"--version {version} --kind {name} --seed {seed}"
