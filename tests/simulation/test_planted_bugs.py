"""Every planted bug is found within fifty seeds: the simulation and the checker can see it."""

import subprocess
import sys

import pytest

from tests.simulation.bugs import BUGS
from tests.simulation.planted import FOUND, FOUND_OTHERWISE, ROOT, SEEDS_MAX, Bug, patched

pytestmark = [pytest.mark.simulation, pytest.mark.slow]

TIMEOUT_S = 240


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found_within_fifty_seeds(bug: Bug) -> None:
    command = [sys.executable, "-m", "tests.simulation.planted", bug.name]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    print(done.stdout, done.stderr)
    assert done.returncode != FOUND_OTHERWISE, f"{bug.name}: not found by any of {bug.by}"
    assert done.returncode == FOUND, f"{bug.name}: not found within {SEEDS_MAX} seeds"


def test_there_are_enough_bugs_and_each_has_its_own_name() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 25
    assert all(bug.by for bug in BUGS), "say by what it may be found"


def test_a_bug_is_found_by_what_it_does_and_not_by_a_patch_that_does_not_fit() -> None:
    bug = Bug("nothing", "shared.machine.core", by=("victims", "binding/0 halted"))
    assert bug.found_by([("replay", "differs"), ("victims", "pod 7")]) == ("victims", "pod 7")
    assert bug.found_by([("halt", "binding/0 halted: AssertionError: pod 7")]) is not None
    assert bug.found_by([("halt", "permit/0 halted: AssertionError: pod 7")]) is None
    assert bug.found_by([("halt", "binding/0 halted: UnboundLocalError: fits")]) is None
    assert bug.found_by([("replay", "differs")]) is None


def test_a_patch_that_does_not_apply_is_an_error() -> None:
    with pytest.raises(ValueError, match="found 0 times"):
        patched(Bug("nothing", "shared.machine.core", ("no such text", "")))
