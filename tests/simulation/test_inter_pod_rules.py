"""Worlds with inter-pod rules, through every kind of fault: each decision and the end are checked
by the checker's own rules.
"""

from dataclasses import replace

import pytest

from muster.cli.options.release import with_release
from muster.simulation.run import simulate
from muster.simulation.scenario import make_scenario
from shared.model.release import V1_37, ReleaseOptions
from tests.parity.planted.patching import planted
from tests.simulation.planted import IS_LONG, Bug
from tests.simulation.ruled_worlds import make_ruled_world, make_spread_scenario

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


@pytest.mark.parametrize("seed", range(24 if IS_LONG else 12))
def test_rules_between_pods_are_kept_through_faults(seed: int) -> None:
    result = simulate(make_scenario(seed, make_ruled_world(seed), 1), redecide=seed % 4 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


@pytest.mark.parametrize("seed", range(16 if IS_LONG else 8))
def test_several_shards_keep_them_too(seed: int) -> None:
    result = simulate(make_scenario(seed, make_ruled_world(seed)), redecide=seed % 4 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


def test_namespaces_mean_what_the_release_says() -> None:
    """In this seed it matters: see namespaces-as-they-say below."""
    scenario = make_scenario(0, make_ruled_world(0))
    release = ReleaseOptions(compatibility=V1_37)
    result = simulate(replace(scenario, config=with_release(scenario.config, release)))
    assert result.is_good, "\n".join(result.lines)


BUGS = (
    Bug(
        "rules-are-dropped",
        "services.placement.core.books.charges",
        ("Signature(state.table, sig, spec, ", "Signature(state.table, sig, spec.anonymous(), "),
        first=(6, 10, 11),
    ),
    Bug(
        "identities-not-published",
        "services.ingest.core.pods.identity",
        ("    if spec.has_rules:\n        places =", "    if not spec:\n        places ="),
        first=(1, 2, 4),
    ),
    Bug(
        "no-turns",
        "services.placement.core.placing.turns",
        ("    return is_wide(state, work_queue.head().sig)", "    return False"),
        first=(0, 1, 2),
    ),
    Bug(
        "no-turns-for-counted-pods",
        "shared.scheduling.table.counters",
        (
            "        if any(at in self._across for at, _amount in sig.counted):",
            "        if not spec:",
        ),
        first=(3, 5, 6),
    ),
    Bug(
        "counts-of-other-shards-are-forgotten",
        "services.placement.core.placing.turns",
        ("            know_others(state.sigs[one.sig], one.counts)", "            pass"),
        first=(3, 5, 7),
    ),
    Bug(
        "turn-granted-before-all-have-counted",
        "services.permit.core.turns",
        (
            "    if turn is not None and not turn.granted and len(turn.counts) == placements - 1:",
            "    if turn is not None and not turn.granted and turn.counts:",
        ),
        first=(0, 1, 2),
    ),
    Bug(
        "two-turns-at-once",
        "services.permit.core.turns",
        ("    if state.turn is None and asked is not None:", "    if asked is not None:"),
        first=(0, 1, 2),
    ),
    Bug(
        "namespaces-as-they-say",
        "shared.scheduling.table.selectors",
        ("is not None and holds(term.namespace_selector, {})", "== ('nobody',)"),
        first=(0, 14, 16),
    ),
)


FOUND_BY = {"inter-pod-rules", "identities-published", "turns", "halt", "no-pod-lost"}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_change_is_noticed(bug: Bug) -> None:
    with planted(bug):
        scenarios = (make_scenario(seed, make_ruled_world(seed)) for seed in bug.first)
        rules = (rule for one in scenarios for rule, _text in simulate(one).problems)
        assert any(rule in FOUND_BY for rule in rules)


@pytest.mark.parametrize("seed", range(8))
def test_services_that_come_and_go_are_followed_through_faults(seed: int) -> None:
    result = simulate(make_spread_scenario(seed, (1, 3)[seed // 2 % 2]), redecide=seed % 2 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)
    assert result.seen["services"]
