"""Events that a new owner writes late: of the newest binds, and of those that were open."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from services.binding import late_events
from services.binding import shell as service
from services.binding.core import newest_binds
from services.binding.shell import BindingShell
from shared.events.base import Configured, Event
from shared.extenders.values import Extender
from shared.model.api_outcome import Answer
from shared.model.columns import ID_BYTES
from shared.model.objects import PodSpec
from shared.ports.cluster import PastBind, PodRef
from tests.unit.binding.inputs import answers, assigned, binding, gone, named, nodes_gone, reserved

DONE, UNKNOWN = Answer.DONE, Answer.UNKNOWN


class Told:
    """A cluster that records the binds that it announces."""

    def __init__(self) -> None:
        self.binds: list[PastBind] = []
        self.new = 0

    def announce_binds(self, binds: Sequence[PastBind], are_new: bool = False) -> None:
        self.binds += binds
        self.new += len(binds) if are_new else 0


class Owner:
    """An owner with a state, which records submissions."""

    def __init__(self, state: Any) -> None:
        self.state = state
        self.offered: list[Event] = []

    def submit(self, event: Event) -> None:
        self.offered.append(event)


class Writers:
    """An extender that says it has bound every pod but this one."""

    writes = True

    def __init__(self, never: str) -> None:
        self.never = never

    async def bind(self, _extender: Extender, pod: PodRef, _node: str) -> str:
        return "not this one" if pod.name == self.never else ""


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.01)


def names(binds: Sequence[PastBind]) -> list[tuple[str, str, int]]:
    return [(bind.pod.name, bind.node, bind.at_ms) for bind in binds]


def test_the_newest_binds_get_events_while_the_server_keeps_events():
    steps = binding().at(5_000)
    steps.when(named(1, 2, 3), reserved({1: 1, 2: 2, 3: 1}))
    steps.when(answers(1, {1: DONE}), at_ms=6_000)
    steps.when(answers(1, {2: DONE, 3: DONE}), at_ms=7_000)
    steps.reload()
    expected = [("pod-1", "node-1", 6_000), ("pod-2", "node-2", 7_000), ("pod-3", "node-1", 7_000)]
    assert names(late_events.newest(steps.state)) == expected
    (first, *_) = late_events.newest(steps.state)
    assert (first.pod.uid, first.pod.namespace) == ("uid-1", "default")
    steps.when(gone(2), at_ms=6_000 + late_events.WITHIN_MS)
    assert names(late_events.newest(steps.state)) == expected[2:]
    steps.when(nodes_gone(1))
    assert late_events.newest(steps.state) == []


@pytest.mark.parametrize("size", [1, 3, 50, 300])
def test_the_number_kept_is_bounded(size):
    steps = binding()
    for first in range(1, 601, size):
        pods = range(first, min(first + size, 601))
        events = steps.when(named(*pods), reserved(dict.fromkeys(pods, 1)))
        steps.when(answers(events[0].effect, dict.fromkeys(pods, DONE)))
    kept = [bind.pod.name for bind in late_events.newest(steps.state)]
    assert kept == [f"pod-{pod}" for pod in range(601 - newest_binds.PODS_MAX, 601)]
    before = [tuple(one) for one in steps.state.recent]
    steps.reload()
    assert [tuple(one) for one in steps.state.recent] == before
    assert steps.state.recent_bytes == newest_binds.PODS_MAX * ID_BYTES


def test_open_binds_are_in_doubt_until_they_are_settled():
    steps = binding()
    steps.when(named(1, 2, 3, 4, 5), reserved({1: 1, 2: 2, 3: 1, 4: 2}))
    steps.when(answers(1, {2: UNKNOWN}))
    steps.given(Configured({"binding": {}}))
    doubts = late_events.doubtful_binds(steps.state)
    assert doubts == {1: 1, 2: 2, 3: 1, 4: 2}
    assert late_events.settle_doubts(steps.state, doubts) == []
    # The watch shows one on its node, one elsewhere; one is gone, and one is still on its way.
    steps.when(assigned({1: 1, 2: 3}), gone(3))
    assert [bind.pod.name for bind in late_events.settle_doubts(steps.state, doubts)] == ["pod-1"]
    assert doubts == {4: 2}


async def test_a_new_owner_writes_events_of_both(monkeypatch):
    monkeypatch.setattr(service, "DOUBT_S", 0.01)
    steps = binding()
    steps.when(named(1, 2), reserved({1: 1, 2: 2}))
    steps.when(answers(1, {1: DONE}))
    told = Told()
    shell = BindingShell(told)
    shell.start(Owner(steps.state))
    assert [bind.pod.name for bind in told.binds] == ["pod-1"]
    await asyncio.sleep(0.03)
    assert len(told.binds) == 1
    steps.when(assigned({2: 2}))
    await asyncio.sleep(0.03)
    assert [bind.pod.name for bind in told.binds] == ["pod-1", "pod-2"]
    await shell.stop()


async def test_binds_by_others_get_events_once_they_are_seen(monkeypatch):
    """An extender may report a bind that was never made."""
    monkeypatch.setattr(service, "DOUBT_S", 0.01)
    steps = binding(binder={"url": "http://localhost:1", "bind_verb": "bind"})
    told = Told()
    shell = BindingShell(told, Writers("pod-2"))
    owner = Owner(steps.state)
    shell.start(owner)
    given = msgspec.structs.replace(reserved({1: 1, 2: 2, 3: 1}), spec=PodSpec())
    (asked,) = steps.when(named(1, 2, 3), given)
    shell.effect(1, asked)
    async with asyncio.timeout(60):
        await until(lambda: len(owner.offered) == 3)
        steps.when(*owner.offered)
        await asyncio.sleep(0.05)
        assert told.binds == []
        steps.when(assigned({3: 1}))
        await until(lambda: told.new == 1)
        steps.when(assigned({1: 1}))
        await until(lambda: told.new == 2)
    found = [(bind.pod.name, bind.node) for bind in told.binds]
    assert found == [("pod-3", "node-1"), ("pod-1", "node-1")]
    await shell.stop()
