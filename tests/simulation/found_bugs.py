"""Plants a bug and simulates its seeds until its rule finds it."""

from collections.abc import Callable

from muster.simulation.run import simulate
from muster.simulation.scenario import Scenario
from tests.parity.planted.patching import planted
from tests.simulation.planted import Bug


def assert_found(bug: Bug, scenario_of: Callable[[int], Scenario]) -> None:
    """Raise AssertionError with each seed's first problems if no seed finds the bug by its rule."""
    seen = []
    with planted(bug):
        for seed in bug.first:
            problems = simulate(scenario_of(seed)).problems
            if bug.found_by(problems):
                return
            seen.append((seed, problems[:2]))
    raise AssertionError(seen)
