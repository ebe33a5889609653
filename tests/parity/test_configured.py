"""Cases with configurations: no difference to kube-scheduler, and sharp enough to see changes."""

import json
from functools import cache

import pytest

from tests.parity import preempting
from tests.parity.compare import differences
from tests.parity.configs import CHANGES, NAMES, configured, preempting_configured
from tests.parity.kinds import IN_CI
from tests.parity.oracle import Oracle
from tests.parity.ours import our_answer, told
from tests.parity.planted import planted
from tests.parity.planted_configs import BUGS
from tests.simulation.planted import Bug

CI_CASES, PLANTED_CASES, SHRINK_TRIES = IN_CI["configs"], 120, 300
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"


@pytest.mark.slow
def test_no_case_differs(oracle: Oracle):
    theirs = oracle.ask_all(configured(seed) for seed in range(CI_CASES))
    for seed, answer in enumerate(theirs):
        if differences(our_answer(configured(seed)), answer):
            pytest.fail(told(seed, configured(seed), oracle.ask, SHRINK_TRIES))


def test_preemption_follows_the_profile(oracle: Oracle):
    helped = 0
    seeds = range(IN_CI["preempt-configs"])
    theirs = oracle.ask_all(preempting_configured(seed) for seed in seeds)
    for seed, answer in enumerate(theirs):
        asked = preempting_configured(seed)
        assert "error" not in answer, f"seed {seed}: {answer}"
        assert preempting.differences(asked, our_answer(asked), answer) == [], f"seed {seed}"
        helped += any(pod.get("preemption", {}).get("candidates") for pod in answer["pods"])
    assert helped >= len(seeds) // 5


@cache
def unchanged(seed: int) -> dict[str, object]:
    """What the test above holds to be kube-scheduler's answer."""
    return our_answer(configured(seed))


def test_the_cases_of_ci_reach_everything():
    messages, kinds, changed = 0, set(), 0
    for seed in range(CI_CASES):
        case, plain = configured(seed), configured(seed)
        del plain["config"]
        answer = our_answer(case)
        assert "error" not in answer, f"seed {seed}: {answer['error']}"
        messages += ENFORCED in json.dumps(answer)
        changed += answer != our_answer(plain)
        for profile in case["config"]["profiles"]:
            for one in profile["pluginConfig"]:
                kinds.add(one["args"].get("scoringStrategy", {}).get("type"))
    assert messages >= 10
    assert kinds - {None} == {"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"}
    assert changed > CI_CASES // 2, "most configurations should change something"


def test_configurations_have_every_change_and_every_number_of_profiles():
    profiles = [configured(seed)["config"]["profiles"] for seed in range(CI_CASES)]
    assert {len(one) for one in profiles} == set(range(1, len(NAMES) + 1))
    assert len(set(CHANGES)) == 10
    points = {point for found in profiles for one in found for point in one["plugins"]}
    assert points >= {"multiPoint", "preFilter", "filter", "score"}


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_a_planted_change_is_seen(bug: Bug):
    for seed in (*bug.first, *range(PLANTED_CASES)):
        expected = unchanged(seed)
        with planted(bug):
            changed = our_answer(configured(seed))
        if differences(changed, expected):
            break
    else:
        pytest.fail(f"{bug.name}: none of {PLANTED_CASES} cases differs")
