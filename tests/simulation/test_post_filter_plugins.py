"""Plugins that choose victims, under faults: their victims go through the same steps as
DefaultPreemption's, and the checker applies the same rules.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from muster.simulation.run import simulate
from muster.simulation.scenario import make_scenario
from shared.model.profile import DEFAULT_PREEMPTION
from shared.scheduling.api.custom.plugin import PLUGINS, Plugin, Pod, Registered
from shared.scheduling.api.custom.post_filter import Evict, RefusedNodes

pytestmark = [pytest.mark.simulation, pytest.mark.slow]

OWN = [{"name": "Clears", "sha256": "0"}, {"name": DEFAULT_PREEMPTION, "sha256": ""}]


class Clears(Plugin):
    """Names all possible victims on the node with the fewest of them; sometimes too few, or none.
    Its questions and answers are counted for the test alone.
    """

    reads = ("priority", "requests.cpu")
    amounts = ("cpu",)
    gave: ClassVar[Counter[str]] = Counter()

    def post_filter(self, pod: Pod, nodes: RefusedNodes) -> Any:
        found = [(nodes.pods(node), node) for node in nodes.may_help().nonzero()[0].tolist()]
        known = [(len(pods), node, pods) for pods, node in found if pods]
        if not known or pod["requests.cpu"] == 4_000:
            self.gave["nothing"] += 1
            return "nobody to clear away"
        most, node, pods = min(known)[:3] if pod["priority"] > 10 else max(known)[:3]
        self.gave["some"] += 1
        return Evict(node, pods[:1] if most % 5 == 4 else pods)


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    Clears.name = "Clears"
    Clears.gave.clear()
    PLUGINS["Clears"] = Registered(Clears, "0")
    yield
    PLUGINS.clear()


@pytest.mark.parametrize("seed", [0, 3, 4, 8, 9])
def test_every_seed_is_safe_and_comes_to_rest(seed: int) -> None:
    scenario = make_scenario(seed)
    placement = scenario.config.get("placement", {}) | {"profiles": [{"post_filter": OWN}]}
    config = scenario.config | {"placement": placement}
    result = simulate(replace(scenario, config=config), redecide=seed % 2 == 0)
    # That all of them have to go is DefaultPreemption's rule, not the plugin's.
    wrong = [one for one in result.problems if one[0] != "victims-needed"]
    assert not wrong, f"seed {seed}\n" + "\n".join(result.lines)
    assert Clears.gave["some"], Clears.gave
