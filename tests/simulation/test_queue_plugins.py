"""Queue plugins under faults: services end and read their journals again, and pods that preEnqueue
gates stay out; all others come to rest, in the plugin's order.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from muster.simulation.run import simulate
from muster.simulation.scenario import Scenario, make_scenario
from shared.model.objects import CPU, PodSpec
from shared.ports.cluster import BindRequest, PodRead
from shared.scheduling.api.custom.plugin import PLUGINS, Plugin, Pod, Registered
from shared.simulated.cluster import SimCluster

pytestmark = [pytest.mark.simulation, pytest.mark.slow]

OWN = {"name": "Queues", "sha256": "0"}
SHUT_OUT = 700  # cpu in milli: some of the pods of priority 10
PENDING = re.compile(r"pod \d+ \((\S+)\): waits without a reason, last pending")


class Queues(Plugin):
    """Queues the least important pods first, and some not at all."""

    reads = ("priority", "requests.cpu")

    def pre_enqueue(self, pod: Pod) -> Any:
        return "not these" if pod["requests.cpu"] == SHUT_OUT else None

    def queue_sort(self, pod: Pod) -> Any:
        return -pod["priority"]


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    Queues.name = "Queues"
    PLUGINS["Queues"] = Registered(Queues, "0")
    yield
    PLUGINS.clear()


def _shut_out(scenario: Scenario) -> set[str]:
    """Return the names of the pods that must not be queued."""
    kept = (one.pods for one in scenario.world.arrivals if one.pods.spec.request(CPU) == SHUT_OUT)
    return {name for pods in kept for name in pods.names.split("\n")}


@pytest.mark.parametrize("seed", range(4))
def test_gated_pods_stay_out_and_all_others_come_to_rest(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: set[str] = set()
    bind = SimCluster.bind

    async def noted(cluster: SimCluster, requests: Sequence[BindRequest]) -> list[PodRead]:
        asked.update(one.name for one in requests)
        return await bind(cluster, requests)

    monkeypatch.setattr(SimCluster, "bind", noted)
    scenario = make_scenario(seed)
    plugins = {"queue_sort": OWN, "pre_enqueue": {PodSpec().scheduler: [OWN]}}
    ingest = scenario.config.get("ingest", {}) | plugins
    config = scenario.config | {"ingest": ingest}
    result = simulate(replace(scenario, config=config), redecide=seed % 2 == 0)
    # The checker knows no plugins: to it these wait for nothing, which is what they should do.
    told = [PENDING.fullmatch(text) for _, text in result.problems]
    assert all(told), f"seed {seed}\n" + "\n".join(result.lines)
    waiting = {found[1] for found in told if found}
    assert waiting
    assert waiting <= _shut_out(scenario), f"seed {seed}: {sorted(waiting - _shut_out(scenario))}"
    assert len(asked) > 50
    assert not asked & _shut_out(scenario), f"seed {seed}: bound against its plugin"
    assert result.deaths >= 3, "with services that end meanwhile"
