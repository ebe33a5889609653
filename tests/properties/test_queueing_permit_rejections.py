"""Pods that permit plugins rejected, between journals that arrive in any interleaving."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.checker.inputs.journals import Problem
from muster.checker.permit_rejections import PermitRejections
from services.queueing.core.transitions import Pod
from shared.events.base import Event
from shared.events.binding import BindFailed
from shared.events.ingest import Happened
from shared.model.columns import pack
from tests.parity.planted.patching import planted
from tests.properties.queueing_model import World, encode
from tests.properties.test_queueing import SCRIPTS, SHARDS, long_script
from tests.simulation.planted import Bug

WAKES = {"Nodes": ("Node/Add",), "Ends": ("Pod/Delete",), "Both": ("Node/Add", "Pod/Delete")}
PLUGINS = (*sorted(WAKES), "Never", "Unknown")
CONFIGS = st.sampled_from([{}, {"max_batch": 1}, {"backoff_max_ms": 0}, {"strict_order": True}])


class Refusing(World):
    """Most binds are rejected by some plugin; cluster events come now and then."""

    def __init__(self, script: bytes, shards: int, config: Any, reload_at: int = -1) -> None:
        self.books = PermitRejections(
            {name: set(kinds) for name, kinds in WAKES.items()} | {"Never": set()}
        )
        self.problems: list[Problem] = []
        super().__init__(script, shards, {**config, "wakes": {**WAKES, "Never": ()}}, reload_at)

    def bind(self) -> None:
        while self.to_bind and not self.drained and self.draw(4) and self._refuses():
            pass
        super().bind()

    def _refuses(self) -> bool:
        pod, _node = self.to_bind[0]
        if pod not in self.pods:
            return False
        self.to_bind.popleft()
        for shard in self.shards:
            shard.release(pod)
        plugins = (PLUGINS[self.draw(len(PLUGINS))],)
        self.binding.append(BindFailed(pack([pod]), "refused", plugins=plugins))
        return True

    def node_joins(self) -> None:
        super().node_joins()
        self._told("Node/Add")

    def die(self) -> None:
        super().die()
        self._told("Pod/Delete", "Pod/Update")

    def _told(self, *kinds: str) -> None:
        if not self.draw(3):
            self.ingest.append(Happened(kinds))

    def step(self, inputs: list[Event]) -> None:
        start = len(self.tape)
        super().step(inputs)
        for now_ms, event in self.tape[start:]:
            self.books.read(event, now_ms)
            self.problems += self.books.decided(event, now_ms)
        self.problems += self.books.asleep()
        assert not self.problems


def come_to_rest(script: bytes, config: Any, shards: int) -> None:
    """Run a script until all is at rest; check that every waiting pod is in the books."""
    world = Refusing(script, shards, config)
    world.run().heal()
    held = {pod for pods in world.state.permit_rejected.values() for pod in pods}
    assert held.issuperset(world.books.waits)
    assert held.isdisjoint(world.books.backs_off)
    resting = {Pod.GATED, Pod.PARKED, Pod.GANG_PENDING, Pod.BOUND, Pod.GONE}
    for pod in world.pods:
        assert world.state.pods.state_of(pod) in resting or pod in held


@given(SCRIPTS, CONFIGS, SHARDS)
@settings(max_examples=150)
def test_wakes_are_exact_in_any_interleaving(script, config, shards):
    come_to_rest(script, config, shards)


HELD = "services.queueing.core.waiting.permit_rejections"
EARLY, LATE = " <= attempt for kind in kinds):", " < attempt for kind in kinds):"
NAMED, ANY = "        if kind in state.config.wakes.get(plugin, ()):", "        if True:"
WOKEN = "            state.woken_by_event = {**woken, **state.woken_by_event}"
BUGS = (
    Bug("any-event-wakes", HELD, (EARLY, " < 1 << 60 for kind in kinds):")),
    Bug("earlier-events-wake", HELD, (EARLY, LATE)),
    Bug("any-pod-wakes-it", HELD, (NAMED, ANY)),
    Bug("own-end-wakes-it", HELD, ("            woken.pop(but, None)\n", "")),
    Bug("nothing", HELD, (WOKEN, "            pass")),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_change_of_wake_ups_is_noticed(bug: Bug) -> None:
    with planted(bug), pytest.raises(AssertionError):
        come_all_to_rest(30)


def come_all_to_rest(count: int) -> None:
    """Run some long scripts."""
    for seed in range(count):
        come_to_rest(long_script(seed), {}, 2)


@given(SCRIPTS, CONFIGS, SHARDS, st.integers(1, 60))
@settings(max_examples=60)
def test_a_loaded_state_decides_like_the_one_it_was_dumped_from(script, config, shards, at):
    world = Refusing(script, shards, config).run()
    again = Refusing(script, shards, config, reload_at=at).run()
    assert again.log == world.log
    dumped = [encode(each.core.dump(each.state)) for each in (world, again)]
    assert dumped[0] == dumped[1]
