"""What only newer releases read: no difference from any release, and every planted bug shows."""

import pytest

from shared.model.release import VERSIONS
from tests.parity.comparison.muster_answer import our_answer
from tests.parity.generators import newer_fields
from tests.parity.generators.kinds import IN_CI, differences
from tests.parity.oracle.client import Oracle, require_oracle
from tests.parity.planted.newer_fields import BY_VERSION
from tests.parity.planted.patching import planted
from tests.simulation.planted import Bug

KIND = "newer"
SEEDS = range(IN_CI[KIND])


@pytest.mark.parametrize("version", VERSIONS)
def test_no_case_differs(version: str):
    require_oracle(version)
    with Oracle(version) as oracle:
        theirs = oracle.ask_all(newer_fields.case(seed) for seed in SEEDS)
        for seed, answer in zip(SEEDS, theirs, strict=True):
            assert "error" not in answer, f"seed {seed}: {answer}"
            asked = newer_fields.case(seed)
            found = differences(KIND, asked, our_answer(asked, version), answer)
            assert found == [], f"seed {seed}"


@pytest.mark.parametrize(
    ("version", "bug"),
    [(version, bug) for version, bugs in BY_VERSION.items() for bug in bugs],
    ids=lambda one: one.name if isinstance(one, Bug) else one,
)
def test_a_change_is_noticed(version: str, bug: Bug):
    """The unchanged answers are kube-scheduler's, as shown above."""
    for seed in SEEDS:
        asked = newer_fields.case(seed)
        before = our_answer(asked, version)
        with planted(bug):
            if differences(KIND, asked, our_answer(asked, version), before):
                return
    pytest.fail(f"{bug.name}: none of the cases differs")
