"""Preemption finds the same candidates with the same victims as kube-scheduler's. The choice
differs only where kube-scheduler's is random.
"""

from collections import Counter
from typing import Any

import orjson
import pytest

from muster.explain.scoring import score_case
from services.placement.core.preemption import dry_run
from services.preemption.core.candidate_choice import found_message
from shared.kubernetes.writing.bodies import disruption
from shared.model.release import V1_35, V1_37, VERSIONS, ReleaseOptions
from shared.ports.cluster import PodRef
from tests.parity.generators.kinds import IN_CI
from tests.parity.generators.preemption import Object, case, differences
from tests.parity.oracle.client import Oracle, require_oracle
from tests.parity.planted.patching import planted
from tests.simulation.planted import Bug

CONDITION = ("type", "status", "reason", "message")
SEEDS = (*range(IN_CI["preempt"]), 878, 1272)
"""In the last two of them the sum of priorities decides."""


@pytest.fixture(scope="module")
def answered(oracle):
    """(seed, case, kube-scheduler's answer)"""
    cases = [case(seed) for seed in SEEDS]
    return list(zip(SEEDS, cases, oracle.ask_all(cases), strict=True))


def test_the_same_victims_on_the_same_nodes(answered):
    seen: Counter[str] = Counter()
    for seed, asked, theirs in answered:
        assert "error" not in theirs, f"seed {seed}: {theirs}"
        assert differences(asked, score_case(asked), theirs) == [], f"seed {seed}"
        for pod in theirs["pods"]:
            found = pod.get("preemption", {}).get("candidates", {})
            seen["several candidates"] += len(found) > 1
            seen["no candidate"] += bool(pod["fitError"]) and not found
            for one in found.values():
                seen["violations"] += one["violations"] > 0
                seen["several victims"] += len(one["victims"]) > 1
                seen["one victim"] += len(one["victims"]) == 1
    assert len(seen) == 5
    assert all(count >= 30 for count in seen.values()), seen


def test_eviction_events_have_the_same_text(answered):
    """The condition is written before the pod is deleted."""
    ours = orjson.loads(disruption(PodRef("team", "v", "u"), "default-scheduler"))
    [mine] = ours["status"]["conditions"]
    seen = 0
    for seed, _, theirs in answered:
        for pod in theirs["pods"]:
            said = pod.get("preemption") or {"patches": {}, "evicted": []}
            for name in said["evicted"]:
                [one] = said["patches"][name]["status"]["conditions"]
                assert {key: one[key] for key in CONDITION} == {
                    key: mine[key] for key in CONDITION
                }, f"seed {seed}"
                seen += 1
    assert seen >= 100


def _ask(version: str) -> list[tuple[Object, Object]]:
    """Return cases in which some pods have several budgets, with kube-scheduler's answers."""
    require_oracle(version)
    cases = [case(seed) for seed in (109, 563, 956, 1071, *range(40))]
    with Oracle(version) as oracle:
        return list(zip(cases, oracle.ask_all(cases), strict=True))


def _differing(version: str, answered: list[tuple[Object, Object]]) -> list[Object]:
    """Return the cases to which we find other victims or count other violations."""
    release = ReleaseOptions(compatibility=version)
    pairs = ((asked, score_case(asked, release=release), theirs) for asked, theirs in answered)
    return [
        asked for asked, *both in pairs if len({orjson.dumps(_candidates(one)) for one in both}) > 1
    ]


def _candidates(answer: Any) -> list[Object]:
    found = (pod.get("preemption", {}).get("candidates", {}) for pod in answer["pods"])
    return [dict(sorted(one.items())) for one in found]


@pytest.mark.parametrize("version", VERSIONS)
def test_each_release_counts_budgets_in_its_way(version):
    answered = _ask(version)
    assert _differing(version, answered) == []
    others = V1_35 if version == V1_37 else V1_37
    assert len(_differing(others, answered)) >= 3
    with planted(_bug("other-budgets-first", "in sorted(both)", "in sorted(both)[::-1]")):
        assert bool(_differing(version, answered)) == (version == V1_37)


def test_since_1_37_the_text_names_the_node():
    texts = [
        (one["message"], found_message(one["best"], len(one["evicted"])))
        for _asked, theirs in _ask(V1_37)
        for pod in theirs["pods"]
        if (one := pod.get("preemption")) and one["best"]
    ]
    assert len(texts) >= 15
    assert all(theirs == ours for theirs, ours in texts)


def _bug(
    name: str, old: str, new: str, module: str = "services.placement.core.preemption.dry_run"
) -> Bug:
    return Bug(name, module, (old, new))


AT_ONCE = "services.placement.core.preemption.reprieve"
UNITS = "services.placement.core.preemption.unit_parts"
WHY = "services.placement.core.preemption.refusal_reasons"
PLANTED = (
    _bug("equals-are-victims", "[sig].priority < self.priority", "[sig].priority <= self.priority"),
    _bug(
        "no-reprieve",
        "if part.unit not in whole and stays(part):",
        "if part.unit in whole:",
        UNITS,
    ),
    _bug("youngest-first", "one.start_ms, one.pod)", "-one.start_ms, one.pod)"),
    _bug(
        "youngest-first-at-once",
        "np.lexsort((ids, starts_ms, -priorities",
        "np.lexsort((ids, -starts_ms, -priorities",
        AT_ONCE,
    ),
    _bug("no-reprieve-at-once", "goes[here[~fits]] = True", "goes[here] = True", AT_ONCE),
    _bug("equals-at-once", "(priorities < state.specs", "(priorities <= state.specs", AT_ONCE),
    _bug(
        "promised-room-forgotten",
        "            - on_nodes\n",
        "",
        AT_ONCE,
    ),
    _bug("budgets-last", "for beyond in (True, False):", "for beyond in (False, True):", UNITS),
    _bug("one-violation-each", "return left, sum(violations", "return left, any(violations"),
    _bug("budget-of-one-more", "if left[one] < 0:", "if left[one] < -1:"),
    _bug("amounts-before-ports", "*wanted.plugins.filters,", "*wanted.plugins.filters[::-1],", WHY),
    _bug("first-reason-alone", "            return found\n", "            return found[:1]\n", WHY),
    _bug(
        "no-lower-pods-counted-as-not-helpful",
        "self._count(NO_VICTIMS, len(rows) -",
        "self._count(NOT_HELPFUL, len(rows) -",
    ),
    _bug(
        "last-rows-uncounted",
        "        self._count_refused(lower, rows[counted:], some[counted:])\n",
        "",
    ),
    _bug(
        "no-lower-pods-on-one-node-counted-as-not-helpful",
        "if not leave:\n            self._count_without(np.array([row], np.int64))",
        "if not leave:\n            self._count(NOT_HELPFUL, 1)",
    ),
)
SCORE = "muster.explain.scoring"
SAID = (
    _bug("policy-never-not-reported", "no_victims(NEVER)", "_preemption()", SCORE),
    _bug("no-victims-listed", "evicted=[", "evicted=[][:0] and [", SCORE),
)
CHOICE = "services.preemption.core.candidate_choice"
CHOSEN = (
    _bug(
        "most-violations", "        choice.violations,\n", "        -choice.violations,\n", CHOICE
    ),
    _bug("highest-victim", "        found.highest,\n", "        0,\n", CHOICE),
    _bug("priority-sum", "found.priority_sum + choice", "0 * choice", CHOICE),
    _bug("earliest-start", "-found.earliest_start_ms", "found.earliest_start_ms", CHOICE),
)


@pytest.mark.parametrize("bug", [*PLANTED, *CHOSEN, *SAID], ids=lambda bug: bug.name)
def test_a_change_is_noticed(bug, answered):
    with planted(bug):
        assert any(differences(asked, score_case(asked), theirs) for _, asked, theirs in answered)


def test_one_dry_run_over_nodes_equals_one_for_each(monkeypatch):
    cases = [case(seed) for seed in range(200)]
    together = [score_case(one) for one in cases]
    monkeypatch.setattr(dry_run.DryRun, "_lower_pods", lambda _run: None)
    assert together == [score_case(one) for one in cases]
