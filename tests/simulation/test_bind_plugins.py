"""Bind plugins under faults: owners end while plugins run, and other owners run them again.

The checker checks what is decided, bound and released, and the plugins' own record checks the
questions.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar
from zlib import crc32

import pytest

from muster.simulation import run as running
from muster.simulation.run import simulate
from shared.model.objects import PodSpec
from shared.ports.bind_plugin import BindPlugin, BoundPod
from shared.scheduling.api.custom.plugin import PLUGINS, Registered
from shared.simulated.cluster import SimCluster
from tests.simulation.volume_worlds import make_volume_scenario

pytestmark = [pytest.mark.simulation, pytest.mark.slow]

OWN = [{"name": "Acts", "sha256": "0"}]
POINTS = ("permit", "pre_bind", "bind", "post_bind")


class Acts(BindPlugin):
    """Slow, and against some pods once or twice, in one way or another."""

    timeout_s = 5.0
    asked: ClassVar[Counter[tuple[str, str]]] = Counter()

    async def permit(self, pod: BoundPod, node: str) -> Any:
        number = crc32(pod.uid.encode())
        first = self._note("permit", pod) == 1
        await asyncio.sleep(10 if first and not number % 4 else 0.03 * (number % 5))
        return "not now" if first and number % 7 == 1 else None

    async def pre_bind(self, pod: BoundPod, node: str) -> Any:
        first = self._note("pre_bind", pod) <= crc32(pod.uid.encode()) % 3
        await asyncio.sleep(0.02 * (crc32(pod.uid.encode()) % 7))
        assert not first or crc32(pod.uid.encode()) % 2, "broken"
        return "not yet" if first else None

    async def bind(self, pod: BoundPod, node: str) -> Any:
        first = self._note("bind", pod) == 1
        return "not yet" if first and not crc32(pod.uid.encode()) % 5 else False

    async def post_bind(self, pod: BoundPod, node: str) -> None:
        self._note("post_bind", pod)

    def _note(self, method: str, pod: BoundPod) -> int:
        self.asked[method, pod.uid] += 1
        return self.asked[method, pod.uid]


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    Acts.name = "Acts"
    Acts.asked.clear()
    PLUGINS["Acts"] = Registered(Acts, "0")
    yield
    PLUGINS.clear()


@pytest.mark.parametrize("seed", range(6))
def test_every_seed_is_safe_and_comes_to_rest(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clusters: list[SimCluster] = []

    class Kept(SimCluster):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            clusters.append(self)

    monkeypatch.setattr(running, "SimCluster", Kept)
    scenario = make_volume_scenario(seed, 3 if seed % 3 == 2 else 1)
    profile: dict[str, Any] = dict.fromkeys(POINTS, OWN)
    config = scenario.config | {
        "placement": scenario.config.get("placement", {}) | {"profiles": [profile]},
        "binding": {point: {PodSpec().scheduler: OWN} for point in POINTS},
    }
    result = simulate(replace(scenario, config=config), redecide=seed % 2 == 0)
    assert not result.problems, f"seed {seed}\n" + "\n".join(result.lines)
    told = [uid for method, uid in Acts.asked if method == "post_bind"]
    assert len(told) > 20
    foreign = {change.uid for change in clusters[-1].history if change.kind == "foreign-bind"}
    for uid in told:
        if uid in foreign:  # by somebody else, to the node that it was to get
            continue
        assert Acts.asked["permit", uid] > (crc32(uid.encode()) % 7 == 1), "against its plugin"
        assert Acts.asked["bind", uid]
        assert Acts.asked["pre_bind", uid] > crc32(uid.encode()) % 3, "bound against its plugin"
    assert max(Acts.asked.values()) < 60, "with backoff"
