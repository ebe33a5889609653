"""Worlds with volumes, through every kind of fault: each decision and the end are checked by the
checker's own rules, which find planted bugs.
"""

import pytest

from muster.simulation.run import simulate
from tests.parity.planted.patching import planted
from tests.simulation.planted import IS_LONG, Bug
from tests.simulation.volume_worlds import make_volume_scenario

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


@pytest.mark.parametrize("seed", range(24 if IS_LONG else 12))
def test_volumes_are_bound_before_their_pods_through_faults(seed: int) -> None:
    result = simulate(make_volume_scenario(seed), redecide=seed % 4 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)
    # What was before a reset is not counted.
    assert result.seen["volumes-bound"] or result.seen["reset"], "nobody waited for a volume"


@pytest.mark.parametrize("seed", range(24 if IS_LONG else 12))
def test_several_shards_choose_no_volume_twice(seed: int) -> None:
    result = simulate(make_volume_scenario(seed, 3), redecide=seed % 4 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)
    assert result.seen["volumes-granted"] or result.seen["reset"], "nobody chose a volume"
    assert result.seen["volumes-taken"] or seed not in TOO_LATE, "nobody came too late"


@pytest.mark.parametrize("placements", [1, 3])
@pytest.mark.parametrize("seed", range(12 if IS_LONG else 6))
def test_gang_members_get_volumes_with_their_places(seed: int, placements: int) -> None:
    scenario = make_volume_scenario(seed, placements, for_gangs=True)
    result = simulate(scenario, redecide=seed % 4 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


TOO_LATE = (9, 13, 18, 22)
PLACEMENT, BINDING = "services.placement.core.", "services.binding.core."
BUGS = (
    Bug(
        "nothing-is-held",
        "shared.scheduling.volumes.storage",
        (
            "            self._kept.setdefault(choice.volume, []).append(ref)\n",
            "            return\n",
        ),
        ("            _drop(self._kept, choice.volume, ref)\n", "            return\n"),
        first=(1,),
    ),
    Bug(
        "held-for-ever",
        PLACEMENT + "volumes.reservations",
        ("wait.until_ms <= state.now_ms", "False"),
        ('    return "" if claim.is_bind_completed else None\n', "    return None\n"),
        first=(2,),
    ),
    Bug(
        "bound-without-volumes",
        BINDING + "binds",
        ("    if pod in state.volumes or pod in state.claims:\n", "    if pod in ():\n"),
        first=(0,),
    ),
    Bug(
        "one-pod-or-two",
        "shared.scheduling.plugins.volumes.volume_restrictions",
        ("        if not self._disks and not in_use:\n", "        if not self._disks:\n"),
        first=(0,),
    ),
)

WITH_SEVERAL = (
    Bug(
        "granted-twice",
        BINDING + "promises",
        ("    if why:\n", "    if False:\n"),
        first=(9, 10),
    ),
    Bug(
        "one-node-or-two",
        BINDING + "promises",
        (" or (not choice.volume and promise.node != node)", ""),
        first=(9, 10),
    ),
    Bug(
        "promised-for-ever",
        BINDING + "promises",
        ("    promise = state.promises.pop(pod, None)\n", "    promise = None\n"),
        first=(0,),
    ),
    Bug(
        "end-of-promises-not-published",
        BINDING + "promises",
        ("        state.promises_over.append((promise.number, world))\n", "        pass\n"),
        first=(0,),
    ),
    Bug(
        "users-on-other-shards-not-counted",
        "shared.scheduling.plugins.volumes.volume_restrictions",
        ("others.find(rule_counts.IN_USE, 0, name).total > 0", "False"),
        first=(0,),
    ),
    Bug(
        "claims-without-turns",
        PLACEMENT + "books.wide_rules",
        (" or bool(claims_for_one_pod(state, sig))", ""),
        first=(0,),
    ),
)


FOR_GANGS = (
    Bug(
        "bound-with-the-others",
        BINDING + "core",
        ("    if event.with_volumes:\n", "    if False:\n"),
        first=(0,),
    ),
    Bug(
        "members-hold-nothing",
        PLACEMENT + "gangs.member_choices",
        ("        reservations.assume_volumes(", "        (lambda *_: None)("),
        first=(0, 1, 2, 3),
    ),
    Bug(
        "member-volumes-not-published",
        PLACEMENT + "gangs.member_choices",
        ("        if pod in members:\n", "        if False:\n"),
        first=(0,),
    ),
)


@pytest.mark.parametrize("bug", FOR_GANGS, ids=lambda bug: bug.name)
def test_a_change_is_noticed_with_gangs(bug: Bug) -> None:
    with planted(bug):
        scenarios = (make_volume_scenario(seed, for_gangs=True) for seed in bug.first)
        assert not all(simulate(scenario).is_good for scenario in scenarios)


@pytest.mark.parametrize("bug", WITH_SEVERAL, ids=lambda bug: bug.name)
def test_a_change_is_noticed_with_several_shards(bug: Bug) -> None:
    with planted(bug):
        scenarios = (make_volume_scenario(seed, 3) for seed in bug.first)
        assert not all(simulate(scenario).is_good for scenario in scenarios)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_change_is_noticed(bug: Bug) -> None:
    with planted(bug):
        scenarios = map(make_volume_scenario, bug.first)
        assert not all(simulate(scenario).is_good for scenario in scenarios)
