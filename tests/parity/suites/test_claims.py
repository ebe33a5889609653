"""Resource claims: feasibility, reasons, scores and allocations are those of kube-scheduler's own
plugin, and selectors say what its CEL says; planted bugs show.
"""

from collections import Counter
from collections.abc import Iterator

import pytest

from shared.model.release import V1_37
from tests.parity.comparison import claims as claims_answer
from tests.parity.comparison import selectors as selectors_answer
from tests.parity.generators import claims, selectors
from tests.parity.oracle.client import Oracle
from tests.parity.planted.claims import BUGS
from tests.parity.planted.patching import planted
from tests.support.required_tools import require_tool

CASES, SELECTOR_CASES = 400, 60
EACH_REASON_MIN, ALLOCATED_MIN = 5, 40
REASONS = (
    *("cannot allocate all claims", "resourceclaim not available on the node"),
    *("invalid resource pools were encountered", "is currently being updated", "no such key"),
)


@pytest.fixture(scope="module")
def claims_oracle() -> Iterator[Oracle]:
    path = claims_answer.program(V1_37)
    require_tool("claims oracle", "make servers", found=path.is_file())
    with Oracle(V1_37, path) as oracle:
        yield oracle


@pytest.fixture(scope="module")
def answered(claims_oracle):
    """(case, kube-scheduler's answer)"""
    cases = [claims.case(seed) for seed in range(CASES)]
    return list(zip(cases, claims_oracle.ask_all(cases), strict=True))


def test_claims_get_the_devices_that_kube_scheduler_gives_them(answered):
    reasons: Counter[str] = Counter()
    allocated = 0
    for seed, (asked, theirs) in enumerate(answered):
        found = claims_answer.differences(claims_answer.our_answer(asked, V1_37), theirs, V1_37)
        assert found == [], f"seed {seed}"
        for node in (node for pod in theirs["pods"] for node in pod["nodes"].values()):
            allocated += bool(node.get("allocations"))
            reasons.update(one for one in REASONS if one in "".join(node["reasons"]))
    assert {one: reasons[one] for one in REASONS if reasons[one] < EACH_REASON_MIN} == {}
    assert allocated >= ALLOCATED_MIN


def test_selectors_say_what_kubernetes_says(claims_oracle):
    cases = [selectors.case(seed) for seed in range(SELECTOR_CASES)]
    for seed, (asked, theirs) in enumerate(zip(cases, claims_oracle.ask_all(cases), strict=True)):
        ours = selectors_answer.our_answer(asked)
        assert selectors_answer.differences(asked, ours, theirs) == [], f"seed {seed}"


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_change_is_noticed(bug, answered):
    with planted(bug):
        assert any(
            claims_answer.differences(claims_answer.our_answer(asked, V1_37), theirs, V1_37)
            for asked, theirs in answered
        )
