"""ImageLocality scores as in kube-scheduler: many cases with images on nodes, and planted bugs."""

import pytest

from tests.parity.comparison.compare import differences
from tests.parity.comparison.muster_answer import our_answer
from tests.parity.comparison.tally import Tally
from tests.parity.generators.images import case
from tests.parity.generators.kinds import IN_CI
from tests.parity.planted.images import BUGS
from tests.parity.planted.patching import planted

SEEDS = range(IN_CI["images"])
PLANTED_SEEDS = 60
VARIED_MIN = 30


@pytest.fixture(scope="module")
def answered(oracle):
    """(case, kube-scheduler's answer)"""
    cases = [case(seed) for seed in SEEDS]
    return list(zip(cases, oracle.ask_all(cases), strict=True))


def test_images_count_as_kube_scheduler_counts_them(answered):
    tally = Tally()
    values: set[int] = set()
    for seed, (asked, theirs) in zip(SEEDS, answered, strict=True):
        assert "error" not in theirs, f"seed {seed}: {theirs}"
        assert differences(our_answer(asked), theirs) == [], f"seed {seed}"
        if "config" in asked:
            continue
        tally.add(theirs)
        for pod in theirs["pods"]:
            scores = (node["scores"] for node in pod["nodes"].values() if node["feasible"])
            values.update(found["ImageLocality"] for found in scores)
    assert tally.scores["ImageLocality"] >= VARIED_MIN
    assert {0, 100} < values


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_change_is_noticed(bug, answered):
    with planted(bug):
        assert any(
            differences(our_answer(asked), theirs) for asked, theirs in answered[:PLANTED_SEEDS]
        )
