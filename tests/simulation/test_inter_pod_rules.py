"""Worlds with inter-pod rules, through every kind of fault: each decision and the end are checked
by the checker's own rules.
"""

import pytest

from muster.simulation.run import simulate
from muster.simulation.scenario import make_scenario
from tests.parity.planted.patching import planted
from tests.simulation.planted import Bug
from tests.simulation.ruled_worlds import make_ruled_world, make_spread_scenario

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


@pytest.mark.parametrize("seed", range(24))
def test_rules_between_pods_are_kept_through_faults(seed: int) -> None:
    result = simulate(make_scenario(seed, make_ruled_world(seed), 1), redecide=seed % 4 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


@pytest.mark.parametrize("seed", range(16))
def test_several_shards_keep_rules_by_host_and_refuse_wider_ones(seed: int) -> None:
    result = simulate(make_scenario(seed, make_ruled_world(seed)), redecide=seed % 4 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


BUGS = (
    Bug(
        "rules-by-host-are-dropped",
        "services.placement.core.books.charges",
        ("    counted = spec.with_single_node_rules() if", "    counted = spec.anonymous() if"),
        first=(6, 10, 11),
    ),
    Bug(
        "identities-not-published",
        "services.ingest.core.pods.identity",
        ("    return spec.with_single_node_rules() if", "    return PodSpec() if"),
        first=(1, 2, 4),
    ),
    Bug(
        "namespaces-as-they-say",
        "shared.scheduling.table.selectors",
        ("is not None and holds(term.namespace_selector, {})", "== ('nobody',)"),
        first=(0, 14, 16),
    ),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_change_is_noticed(bug: Bug) -> None:
    with planted(bug):
        results = [simulate(make_scenario(seed, make_ruled_world(seed))) for seed in bug.first]
    rules = {rule for result in results for rule, _text in result.problems}
    assert rules & {"inter-pod-rules", "identities-published"}, rules


@pytest.mark.parametrize("seed", range(8))
def test_services_that_come_and_go_are_followed_through_faults(seed: int) -> None:
    result = simulate(make_spread_scenario(seed), redecide=seed % 2 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)
    assert result.seen["services"]
