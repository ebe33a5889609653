"""PostFilter answers as kube-scheduler's where pods are terminating, nominated or
counted already.
"""

from collections import Counter

import pytest

from muster.explain.scoring import score_case
from tests.parity.generators.kinds import IN_CI
from tests.parity.generators.post_filter import case
from tests.parity.generators.preemption import differences
from tests.parity.planted.patching import planted
from tests.simulation.planted import Bug

SEEDS = range(IN_CI["ending"])
STILL_LEAVING = (
    "no new claims to deallocate, "
    "preemption: not eligible due to a terminating pod on the nominated node."
)


@pytest.fixture(scope="module")
def answered(oracle):
    """(seed, case, kube-scheduler's answer)"""
    cases = [case(seed) for seed in SEEDS]
    return list(zip(SEEDS, cases, oracle.ask_all(cases), strict=True))


def test_post_filter_answers_and_evicts_as_kube_scheduler(answered):
    seen: Counter[str] = Counter()
    for seed, asked, theirs in answered:
        assert "error" not in theirs, f"seed {seed}: {theirs}"
        assert differences(asked, score_case(asked), theirs) == [], f"seed {seed}"
        for pod in theirs["pods"]:
            found = pod.get("preemption")
            if found is not None:
                victims = found["candidates"].get(found["best"], {"victims": ()})["victims"]
                seen["waits for who is leaving"] += found["message"] == STILL_LEAVING
                seen["some victims leave already"] += len(found["evicted"]) < len(victims)
                seen["no preemption"] += "config" in asked
    assert len(seen) == 3
    assert all(count >= 10 for count in seen.values()), seen


def _bug(name: str, old: str, new: str, module: str = "muster.explain.scoring") -> Bug:
    return Bug(name, module, (old, new))


CASE = "shared.worlds.case"
PLANTED = (
    _bug("all-ending-pods-waited-for", "if one.preempted and", "if one.pod.terminating and"),
    _bug("equals-are-waited-for", "priority < spec.priority", "priority <= spec.priority"),
    _bug("on-any-node", "one.pod.node == node for", "one.pod.node != '' for"),
    _bug("hopeless-place-is-kept", "return row in rows", "return True"),
    _bug("terminating-pods-listed", "if not one.terminating", "if True"),
    _bug("profile-not-asked", "if not profile.makes_room", "if False"),
    _bug("counted-again", "named=self._counted", "named=()"),
    _bug("any-reason", 'and one.text("reason") == "PreemptionByScheduler"', "", CASE),
    _bug("any-status", 'one.text("status") == "True" and ', "", CASE),
    _bug(
        "not-started-is-the-oldest",
        "else masks, UNSTARTED_MS + state.now_ms)",
        "else masks, state.now_ms)",
        "services.placement.core.books.charges",
    ),
    _bug(
        "start-times-ignored",
        "if placed.pod.start_ms:",
        "if False:",
        module="muster.explain.case_shard",
    ),
    _bug("not-ending-yet", "pod.terminating and _is_preempted", "_is_preempted", CASE),
)


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_a_change_is_noticed(bug, answered):
    with planted(bug):
        assert any(differences(asked, score_case(asked), theirs) for _, asked, theirs in answered)
