"""Extenders that choose victims, under faults: binding's owners end during a question, and other
owners ask again; the chosen victims go through the usual steps, and no other pod is evicted.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest
from msgspec import to_builtins

from muster.simulation.run import simulate
from muster.simulation.scenario import make_scenario
from services.preemption.core.extender_victims import NO_CANDIDATE_LEFT
from shared.extenders.port import NodesLeft, NodeVictimRefs, VictimsLeft
from shared.extenders.values import Extender, Victims
from shared.ports.cluster import PodRef
from tests.parity.planted.patching import planted
from tests.simulation.planted import IS_LONG, Bug

pytestmark = [pytest.mark.simulation, pytest.mark.slow]

MOOD = "not in this mood"
WORDS = (f"preemption: {MOOD}", f"preemption: {NO_CANDIDATE_LEFT}")
SEEDS = (0, 3, 4, 8, 13, 17, 25, 29, 36, 42)
PREEMPTER = Extender(url="http://h", preempt_verb="preempt")


class Moody:
    """Slow; leaves out nodes, names other pods or too few, and fails at times."""

    def __init__(self) -> None:
        self.gave: Counter[str] = Counter()

    async def filter_and_score(
        self, extenders: Any, namespace: str, name: str, nodes: Any
    ) -> NodesLeft:
        raise AssertionError("no filter request is expected")

    async def process_preemption(
        self, extenders: Any, pod: PodRef, nodes: Mapping[str, NodeVictimRefs]
    ) -> VictimsLeft:
        number = crc32(pod.uid.encode()) + self.gave.total()
        self.gave["asked"] += 1
        await asyncio.sleep(0.3 * (number % 5))
        if number % 7 == 3:
            self.gave["error"] += 1
            return VictimsLeft(error=MOOD)
        return VictimsLeft(
            {
                node: self._victims(going, number + place)
                for place, (node, going) in enumerate(sorted(nodes.items()))
                if (number + place) % 3
            }
        )

    def _victims(self, going: NodeVictimRefs, number: int) -> Victims:
        pods = going.victims
        if number % 5 == 1 and going.others:
            self.gave["others"] += 1
            pods = (*pods[1:], going.others[0])
        elif number % 5 == 2 and len(pods) > 1:
            self.gave["too few"] += 1
            pods = pods[1:]
        return Victims(tuple(one.uid for one in pods), going.violations)


def run(seed: int, placements: int = 3) -> tuple[Any, Moody]:
    moody = Moody()
    scenario = make_scenario(seed, placements=placements)
    told = to_builtins([PREEMPTER])
    config = {**scenario.config, "placement": {"extenders": told}, "binding": {"preempters": told}}
    # What a restore undoes may be all that there was to ask about.
    scenario = replace(scenario, config=config, judges=moody, restore=None)
    return simulate(scenario, redecide=seed % 2 == 0), moody


def wrong(result: Any) -> list[Any]:
    """DefaultPreemption's rule evicts all victims, and no others; a pod that extenders leave no
    node waits, as in kube-scheduler.
    """
    return [
        one
        for one in result.problems
        if one[0] != "victims-needed" and not (one[0] == "preempts" and one[1].endswith(WORDS))
    ]


@pytest.mark.parametrize("placements", [1, 3])
@pytest.mark.parametrize("seed", SEEDS if IS_LONG else SEEDS[::2])
def test_every_seed_is_safe_and_comes_to_rest(seed: int, placements: int) -> None:
    result, moody = run(seed, placements)
    assert not wrong(result), f"seed {seed}\n" + "\n".join(result.lines)
    assert moody.gave["asked"] or seed == 42, "nobody was asked"


PREEMPTION = "services.preemption.core."
BUGS = (
    Bug(
        "extenders-not-asked",
        "services.preemption.core.core",
        ("    if ask.found[best.shard].lower:\n", "    if False:\n"),
        first=(0, 3),
    ),
    Bug(
        "victims-of-extenders-ignored",
        PREEMPTION + "extender_victims",
        ("        victims=answer.victims,\n", "        victims=candidate.victims,\n"),
        first=(0, 3, 4, 13),
    ),
    Bug(
        "nodes-left-out-are-left",
        PREEMPTION + "extender_victims",
        ("        if candidate.node in left\n", ""),
        (
            "left[candidate.node], lower)",
            "left.get(candidate.node, _told(candidate, lower)), lower)",
        ),
        first=(0, 3, 4),
    ),
    Bug(
        "answers-not-recorded",
        "services.binding.core.extender_victims",
        (
            "    state.victim_answers[event.ask] = event\n",
            "    state.victim_answers.pop(event.ask, None)\n",
        ),
        first=(0, 3, 4),
    ),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_change_is_noticed(bug: Bug) -> None:
    with planted(bug):
        assert any(wrong(run(seed)[0]) for seed in bug.first)
