"""Worlds with gangs whose members have rules over zones, on three shards, through every kind of
fault: turns, gangs as a whole and the rules between the pods of all shards are checked.
"""

import pytest

from muster.simulation.run import simulate
from muster.simulation.scenario import make_scenario
from tests.parity.planted.patching import planted
from tests.simulation.planted import IS_LONG, Bug
from tests.simulation.ruled_worlds import make_wide_gangs_world

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


@pytest.mark.parametrize("seed", range(24 if IS_LONG else 8))
def test_gangs_with_wide_rules_are_whole_and_keep_them(seed: int) -> None:
    result = simulate(make_scenario(seed, make_wide_gangs_world(seed)), redecide=seed % 4 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)
    assert result.seen["gang-in-turns"]


@pytest.mark.parametrize("seed", range(4))
def test_one_shard_needs_no_turns_for_them(seed: int) -> None:
    result = simulate(make_scenario(seed, make_wide_gangs_world(seed), 1))
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)
    assert not result.seen["gang-in-turns"]


BUGS = (
    Bug(
        "turn-not-ended-after-a-time-out",
        "services.permit.core.turns",
        (
            "    if turn.granted and turn.shard == event.shard:",
            "    if turn.granted and turn.of in state.attempts:",
        ),
        by=("no-pod-lost", "one-outcome"),
        first=(0, 1, 4),
    ),
    Bug(
        "gang-turn-in-the-turn-of-a-shard",
        "services.permit.core.turns",
        (
            "    if state.turn is None and asked is not None:",
            "    if asked is not None and (state.turn is None or asked.gang):",
        ),
        by=("turns",),
        first=(0, 1, 2),
    ),
    Bug(
        "hold-without-sums-of-others",
        "services.permit.core.turns",
        ("members, turn.number, sigs, counts)", "members, turn.number, sigs, ())"),
        by=("inter-pod-rules",),
        first=(0, 1, 2),
    ),
    Bug(
        "sums-of-before-the-first-hold",
        "services.placement.core.placing.turns",
        (
            "        if one.sig in state.sigs:\n            know",
            "        if one.sig in state.sigs.keys() - state.other_counts:\n            know",
        ),
        by=("inter-pod-rules",),
        first=(1, 5),
    ),
    Bug(
        "hold-without-a-turn",
        "services.placement.core.gangs.holds",
        ("sorted(sig for sig in sigs if is_wide(state, sig))", "sorted(sigs & state.retired)"),
        by=("turns",),
        first=(0, 1, 2),
    ),
    Bug(
        "holds-of-earlier-turns-are-forgotten",
        "services.placement.core.gangs.holds",
        ("ids if held is None else np.concatenate((held, ids))", "ids"),
        by=("conservation",),
        first=(5,),
    ),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_change_is_found_by_its_rule(bug: Bug) -> None:
    with planted(bug):
        scenarios = (make_scenario(seed, make_wide_gangs_world(seed)) for seed in bug.first)
        assert any(bug.found_by(simulate(scenario).problems) for scenario in scenarios)
