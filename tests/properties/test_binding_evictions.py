"""Evictions under lost answers, deletions and recalls: each victim has one end, the last one is
evicted last, and a loaded state continues identically.
"""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.binding.core.core import BindingCore
from shared.events import binding as own
from shared.events.base import Configured, Event
from shared.events.ingest import PodsGone, PodsNamed
from shared.events.observed import EvictAnswers
from shared.events.preemption import EvictAsked, EvictRecalled
from shared.model.api_outcome import Answer
from shared.model.columns import join, pack, unpack
from tests.support.steps import Steps

PODS = 9
CODES = (Answer.DONE, Answer.UNKNOWN, Answer.BUSY, Answer.REFUSED, Answer.GONE)
ops = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=60
)


class Run:
    """A binding core, the open requests, and the recorded outcomes of each victim."""

    def __init__(self) -> None:
        self.steps: Any = Steps(BindingCore(1))
        self.wire: list[tuple[int, int]] = []
        self.asks: dict[int, list[int]] = {}
        self.ends: dict[tuple[int, int], str] = {}
        self.taken: set[int] = set()
        self.gone: set[int] = set()
        self.now_ms = 0
        ids = range(1, PODS + 1)
        names = (join(f"u{i}" for i in ids), join(f"p{i}" for i in ids))
        self.turn(Configured({}), PodsNamed(pack(ids), *names, pack(ids)))

    def turn(self, *inputs: Event) -> list[Event]:
        decided: list[Event] = self.steps.when(*inputs, at_ms=self.now_ms)
        for event in decided:
            if isinstance(event, own.EvictionsAsked):
                for pod in unpack(event.ids).tolist():
                    self.check_order(event.ask, pod)
                    self.wire.append((event.effect, pod))
            elif isinstance(event, own.Evicted | own.EvictionFailed):
                reason = getattr(event, "reason", "evicted")
                for pod in unpack(event.ids).tolist():
                    assert (event.ask, pod) not in self.ends
                    self.ends[event.ask, pod] = reason
        return decided

    def check_order(self, ask: int, pod: int) -> None:
        others = self.asks[ask][:-1]
        if pod == self.asks[ask][-1]:
            assert all((ask, other) in self.ends for other in others), "the last goes last"

    def happen(self, kind: int, first: int, second: int) -> None:
        if kind == 0:
            free = [i for i in range(1, PODS + 1) if i not in self.taken and i not in self.gone]
            victims = free[: 1 + first % 3]
            if victims:
                ask = len(self.asks) + 1
                self.asks[ask] = victims
                self.taken.update(victims)
                self.turn(EvictAsked(ask, 99, 1, pack(victims)))
        elif kind <= 2 and self.wire:
            effect, pod = self.wire.pop(first % len(self.wire))
            code = CODES[second % len(CODES)]
            self.turn(EvictAnswers(effect, pack([pod]), bytes([code])))
        elif kind == 3:
            pod = 1 + first
            self.gone.add(pod)
            self.turn(PodsGone(pack([pod])))
        elif kind == 4 and self.asks:
            self.turn(EvictRecalled(1 + first % len(self.asks)))
        elif kind == 5:
            self.now_ms += 100 * second
            self.turn()

    def heal(self) -> None:
        for _round in range(200):
            while self.wire:
                effect, pod = self.wire.pop(0)
                self.turn(EvictAnswers(effect, pack([pod]), bytes([Answer.DONE])))
            due_ms = self.steps.core.due_ms(self.steps.state)
            if due_ms is None:
                break
            self.now_ms = max(self.now_ms, due_ms)
            self.turn()
        expected = {(ask, pod) for ask, victims in self.asks.items() for pod in victims}
        assert set(self.ends) == expected, "one end for each victim"
        assert not self.steps.core.effects(self.steps.state)


@given(ops)
def test_every_victim_has_one_end(operations):
    run = Run()
    for operation in operations:
        run.happen(*operation)
    run.heal()


@given(ops, st.integers(0, 59))
def test_a_loaded_state_continues_identically(operations, at):
    runs = (Run(), Run())
    for place, operation in enumerate(operations):
        for run in runs:
            run.happen(*operation)
        if place >= at:
            runs[1].steps.reload()
        assert runs[0].steps.dumped() == runs[1].steps.dumped()
        assert (runs[0].wire, runs[0].ends) == (runs[1].wire, runs[1].ends)
