"""Resource claims: feasibility, reasons, scores and allocations are those of kube-scheduler's own
plugin of each release, and selectors say what its CEL says; planted bugs show.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from shared.model.release import V1_35, V1_36, V1_37, VERSIONS
from tests.parity.comparison import claims as claims_answer
from tests.parity.comparison import selectors as selectors_answer
from tests.parity.generators import claims, selectors
from tests.parity.oracle.client import Oracle
from tests.parity.planted.claims import BUGS
from tests.parity.planted.patching import planted
from tests.support.required_tools import require_tool

CASES = {V1_35: 120, V1_36: 290, V1_37: 440}
SELECTOR_CASES = 60
EACH_REASON_MIN, ALLOCATED_MIN = 5, 40
REASONS = (
    *("cannot allocate all claims", "resourceclaim not available on the node"),
    *("invalid resource pools were encountered", "is currently being updated", "no such key"),
)


@pytest.fixture(scope="module")
def oracles() -> Iterator[dict[str, Oracle]]:
    """The oracle of each release."""
    with ExitStack() as stack:
        found = {}
        for version in VERSIONS:
            path = claims_answer.program(version)
            require_tool("claims oracle", "make servers", found=path.is_file())
            found[version] = stack.enter_context(Oracle(version, path))
        yield found


@pytest.fixture(scope="module")
def answered(oracles):
    """By release (case, kube-scheduler's answer)"""
    found = {}
    for version, oracle in oracles.items():
        cases = [claims.case(seed, version) for seed in range(CASES[version])]
        asked = [claims.with_taints_in_slices(case, version) for case in cases]
        found[version] = list(zip(cases, oracle.ask_all(asked), strict=True))
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_claims_get_the_devices_that_kube_scheduler_gives_them(answered, version):
    for seed, (asked, theirs) in enumerate(answered[version]):
        found = claims_answer.differences(claims_answer.our_answer(asked, version), theirs)
        assert found == [], f"seed {seed}"


def test_cases_show_each_reason_and_allocations(answered):
    reasons: Counter[str] = Counter()
    allocated = 0
    for _, theirs in answered[V1_37]:
        for node in (node for pod in theirs["pods"] for node in pod["nodes"].values()):
            allocated += bool(node.get("allocations"))
            reasons.update(one for one in REASONS if one in "".join(node["reasons"]))
    assert {one: reasons[one] for one in REASONS if reasons[one] < EACH_REASON_MIN} == {}
    assert allocated >= ALLOCATED_MIN


def test_selectors_say_what_kubernetes_says(oracles):
    cases = [selectors.case(seed) for seed in range(SELECTOR_CASES)]
    answers = oracles[V1_37].ask_all(cases)
    for seed, (asked, theirs) in enumerate(zip(cases, answers, strict=True)):
        ours = selectors_answer.our_answer(asked)
        assert selectors_answer.differences(asked, ours, theirs) == [], f"seed {seed}"


@pytest.mark.parametrize(
    ("version", "bug"),
    [(version, bug) for version, bugs in BUGS.items() for bug in bugs],
    ids=lambda one: getattr(one, "name", one),
)
def test_a_change_is_noticed(version, bug, answered):
    with planted(bug):
        assert any(
            claims_answer.differences(claims_answer.our_answer(asked, version), theirs)
            for asked, theirs in answered[version]
        )
