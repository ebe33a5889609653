"""Permit plugins that make pods wait for events, under faults: owners end between an event and a
rejection; no pod waits for an event that has happened, and none continues without one.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar
from zlib import crc32

import pytest

from muster.simulation.run import Result, simulate
from muster.simulation.scenario import make_scenario
from shared.model.objects import PodSpec
from shared.ports.bind_plugin import BindPlugin, BoundPod
from shared.scheduling.api.custom.plugin import PLUGINS, Registered
from tests.parity.planted.patching import planted
from tests.simulation.planted import IS_LONG, Bug

pytestmark = [pytest.mark.simulation, pytest.mark.slow]

OWN = [{"name": "Waits", "sha256": "0"}]
KINDS = (("Node/Update", "Node/Add"), ("Pod/Delete",), ("Pod/Add", "Node/UpdateTaint"), ())
DEADLINE_S = 1_000.0
"""Some wait for the end of their five minutes, twice."""


class Waits(BindPlugin):
    """Slow, and against some pods once or twice."""

    timeout_s = 5.0
    asked: ClassVar[Counter[str]] = Counter()

    async def permit(self, pod: BoundPod, node: str) -> Any:
        number = crc32(pod.uid.encode())
        self.asked[pod.uid] += 1
        await asyncio.sleep(0.2 * (number % 5))
        assert self.asked[pod.uid] > 1 or number % 13 != 1, "broken"
        return "not now" if self.asked[pod.uid] <= number % 6 - 3 else None


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    Waits.name = "Waits"
    PLUGINS["Waits"] = Registered(Waits, "0")
    yield
    PLUGINS.clear()


def run(seed: int) -> Result:
    Waits.asked.clear()
    kinds = KINDS[seed % len(KINDS)]
    scenario = make_scenario(seed, placements=3 if seed % 3 == 2 else 1)
    config: dict[str, Any] = scenario.config | {
        "placement": scenario.config.get("placement", {}) | {"profiles": [{"permit": OWN}]},
        "binding": {"permit": {PodSpec().scheduler: OWN}},
        "queueing": scenario.config.get("queueing", {}) | {"wakes": {"Waits": kinds}},
        "ingest": scenario.config.get("ingest", {}) | {"wakes": kinds},
    }
    return simulate(replace(scenario, config=config, deadline_s=DEADLINE_S), seed % 2 == 0)


@pytest.mark.parametrize("seed", range(6 if IS_LONG else len(KINDS)))
def test_every_seed_is_safe_and_comes_to_rest(seed: int) -> None:
    result = run(seed)
    assert not result.problems, f"seed {seed}\n" + "\n".join(result.lines)
    assert max(Waits.asked.values()) > 1


QUEUE = "services.queueing.core"
BUGS = (
    Bug(
        "events-during-the-attempt-missed",
        f"{QUEUE}.waiting.permit_rejections",
        ("if all(state.last_events.get(kind, 0) <= attempt for kind in kinds):", "if True:"),
        first=(0, 1),
    ),
    Bug(
        "anything-wakes",
        f"{QUEUE}.waiting.permit_rejections",
        ("        if kind in state.config.wakes.get(plugin, ()):", "        if True:"),
        first=(0,),
    ),
    Bug(
        "its-own-end-wakes-it",
        f"{QUEUE}.waiting.permit_rejections",
        ("            woken.pop(but, None)\n", ""),
        first=(1,),
    ),
    Bug(
        "node-events-not-published",
        "services.ingest.core.cluster_events",
        ("        if kind in state.config.wakes:", '        if kind.startswith("Pod"):'),
        first=(0,),
    ),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_change_is_noticed(bug: Bug) -> None:
    with planted(bug):
        assert any(run(seed).problems for seed in bug.first)
