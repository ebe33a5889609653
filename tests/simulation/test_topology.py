"""Worlds with gangs that have a topology, on one shard and on three, with all kinds of faults."""

from collections import Counter

import pytest

from muster.simulation.coverage import TOPOLOGY
from muster.simulation.run import simulate
from muster.simulation.scenario import make_scenario
from tests.parity.planted.patching import planted
from tests.simulation.bugs.topology import BY_THE_CHECKER, IN_HYPER_NODES
from tests.simulation.found_bugs import assert_found
from tests.simulation.planted import IS_LONG, Bug
from tests.simulation.topology_worlds import make_hyper_node_scenario, make_topology_world

pytestmark = [pytest.mark.simulation, pytest.mark.slow]
CHUNK = 12


@pytest.mark.parametrize("chunk", range(5 if IS_LONG else 1))
def test_gangs_stay_in_their_domains_in_every_situation(chunk: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        result = simulate(make_scenario(seed, make_topology_world(seed)), redecide=seed % 4 == 0)
        assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)
        seen += result.seen
    assert [name for name in TOPOLOGY if not seen[name]] == []


@pytest.mark.parametrize("seed", range(20 if IS_LONG else 4))
def test_gangs_stay_in_their_domains_on_one_shard(seed: int) -> None:
    result = simulate(make_scenario(seed, make_topology_world(seed), 1))
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


@pytest.mark.parametrize("seed", range(40 if IS_LONG else 4))
def test_gangs_stay_in_their_hyper_nodes(seed: int) -> None:
    shards = 1 if seed % 4 == 3 else 3
    result = simulate(make_hyper_node_scenario(seed, shards), redecide=seed % 4 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


@pytest.mark.parametrize("bug", BY_THE_CHECKER, ids=lambda bug: bug.name)
def test_a_change_is_found_by_its_rule(bug: Bug) -> None:
    assert_found(bug, lambda seed: make_scenario(seed, make_topology_world(seed)))


@pytest.mark.parametrize("bug", IN_HYPER_NODES, ids=lambda bug: bug.name)
def test_a_change_is_found_where_hyper_nodes_change(bug: Bug) -> None:
    with planted(bug):
        (seed,) = bug.first
        result = simulate(make_hyper_node_scenario(seed, 3), redecide="replay" in bug.by)
    assert bug.found_by(result.problems), result.problems[:2]
