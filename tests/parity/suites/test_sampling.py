"""Searches end where kube-scheduler's end: many cases with its own search, and planted bugs in
ours.
"""

import pytest

from tests.parity.comparison.compare import differences
from tests.parity.comparison.muster_answer import our_answer
from tests.parity.generators.kinds import IN_CI
from tests.parity.generators.sampling import case
from tests.parity.planted.patching import planted
from tests.parity.planted.sampling import BUGS

SEEDS = range(IN_CI["sampling"])
ENDED_EARLY_MIN, MOVED_MIN = 30, 15


@pytest.fixture(scope="module")
def answered(oracle):
    """(case, kube-scheduler's answer)"""
    cases = [case(seed) for seed in SEEDS]
    return list(zip(cases, oracle.ask_all(cases), strict=True))


def test_searches_end_where_kube_schedulers_end(answered):
    ended_early, moved = 0, 0
    for seed, (asked, theirs) in zip(SEEDS, answered, strict=True):
        assert "error" not in theirs, f"seed {seed}: {theirs}"
        assert differences(our_answer(asked), theirs) == [], f"seed {seed}"
        nodes = sum(one["kind"] == "Node" for one in asked["objects"])
        start = asked["startIndex"]
        for pod in theirs["pods"]:
            ended_early += len(pod["nodes"]) < nodes
            moved += pod["sampling"]["next"] not in (start, start % nodes)
            start = pod["sampling"]["next"]
    assert ended_early >= ENDED_EARLY_MIN
    assert moved >= MOVED_MIN


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_change_is_noticed(bug, answered):
    with planted(bug):
        asked, theirs = answered[bug.first[0]]
        assert differences(our_answer(asked), theirs)
