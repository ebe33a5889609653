"""Ingest's shell against the simulated cluster: first lists, resumed watches, Gone, doubts."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from services.ingest.core.core import IngestCore
from services.ingest.grouping import grouped
from services.ingest.shell import IngestShell
from shared.events.base import Configured, Event
from shared.events.ingest import ListAsked, WorldListed
from shared.events.observed import (
    BudgetsSeen,
    ListBegan,
    NodesSeen,
    PodsBoundSeen,
    PodsDeletedSeen,
    PodsSeen,
    WatchAdvanced,
)
from shared.machine.runtime import SUBMISSIONS_MAX
from shared.model.columns import pack, split
from shared.model.objects import Budget
from shared.model.world import Arrival, World
from shared.ports.cluster import NO_MARKS, BindRequest, Marks, Watched
from shared.simulated.cluster import SimCluster
from shared.simulated.config import SimConfig
from tests.support.steps import Steps
from tests.unit.ingest.inputs import SMALL, node, pods


class Owner:
    """Steps a core over what its shell offers; effects start after each step."""

    def __init__(self, core: IngestCore, state: Any = None) -> None:
        self.steps: Any = Steps(core)
        if state is not None:
            self.steps.state = state
        self.waiting: list[Event] = []
        self.offered: list[Event] = []
        self.together: list[tuple[Event, ...]] = []
        self.decided: list[Event] = []
        self.started = 0
        self.shell: IngestShell | None = None

    @property
    def state(self) -> Any:
        return self.steps.state

    @property
    def submitted(self) -> int:
        return len(self.waiting)

    def submit(self, *events: Event) -> None:
        self.waiting.extend(events)
        self.offered.extend(events)
        self.together.append(events)

    def turn(self) -> None:
        waiting, self.waiting = self.waiting, []
        self.decided += self.steps.when(*waiting)
        for number, effect in list(self.steps.core.effects(self.state).items()):
            if number > self.started and self.shell is not None:
                self.started = number
                self.shell.effect(number, effect)

    async def until(self, holds) -> None:
        async with asyncio.timeout(2):
            while not holds():
                self.turn()
                await asyncio.sleep(0.001)

    def kinds(self, kind: type) -> list[Any]:
        return [event for event in self.offered if type(event) is kind]


def cluster_of(*names: str, **config) -> SimCluster:
    seen = pods(*names, at=1)
    world = World(
        name="w",
        nodes=(node("n1"), node("n2")),
        arrivals=(Arrival(at_ms=0, pods=seen),),
    )
    cluster = SimCluster(world, SimConfig(**config))
    cluster.start()
    return cluster


async def started(cluster: SimCluster, state: Any = None) -> tuple[Owner, IngestShell]:
    owner = Owner(IngestCore(1), state)
    shell = owner.shell = IngestShell(cluster)
    shell.start(owner)
    return owner, shell


async def bind(cluster: SimCluster, name: str, on: str = "n1") -> None:
    revision = cluster.pods[f"uid-{name}"].revision
    await cluster.bind([BindRequest(f"uid-{name}", "default", name, on, revision)])


async def test_the_first_owner_lists_and_then_watches():
    cluster = cluster_of("a", "b")
    owner, shell = await started(cluster)
    await owner.until(lambda: owner.state.revision == cluster.revision)
    assert [event.kind for event in owner.kinds(ListBegan)] == ["nodes", "budgets", "gangs", "pods"]
    assert len(owner.state.pods) == 2
    await bind(cluster, "b")
    await owner.until(lambda: owner.state.revision == cluster.revision)
    assert len(owner.kinds(PodsBoundSeen)) == 1
    await shell.stop()


async def test_a_process_that_stands_by_follows_and_says_when_it_leads():
    cluster, leads = cluster_of("a", "b"), asyncio.Event()
    owner = Owner(IngestCore(1))
    owner.shell = IngestShell(cluster, leads.wait)
    owner.shell.start(owner)
    await owner.until(lambda: owner.state.revision == cluster.revision)
    await bind(cluster, "b")
    await owner.until(lambda: owner.state.revision == cluster.revision)
    assert len(owner.kinds(PodsBoundSeen)) == 1
    assert WorldListed(True) not in owner.decided
    await owner.shell.stop()
    # Another term.
    owner.shell = IngestShell(cluster, leads.wait)
    owner.shell.start(owner)
    leads.set()
    await owner.until(lambda: WorldListed(True) in owner.decided)
    await owner.shell.stop()


async def test_a_process_that_stood_by_before_leads_from_its_start():
    cluster = cluster_of("a", "b")
    owner = Owner(IngestCore(1))
    owner.shell = IngestShell(cluster, asyncio.Event().wait)
    owner.shell.start(owner)
    await owner.until(lambda: owner.state.revision == cluster.revision)
    await owner.shell.stop()
    owner.steps.reload()
    second, shell = await started(cluster, owner.state)
    await second.until(lambda: WorldListed(True) in second.decided)
    assert second.kinds(ListBegan) == []
    await shell.stop()


async def test_failed_first_lists_are_repeated_from_the_start():
    cluster = cluster_of("a")
    fine = cluster.list_all

    async def failing(kind: str) -> Any:
        if kind == "budgets":
            cluster.list_all = fine  # type: ignore[method-assign]
            raise TimeoutError
        return await fine(kind)

    cluster.list_all = failing  # type: ignore[method-assign]
    owner, shell = await started(cluster)
    await owner.until(lambda: owner.state.revision == cluster.revision)
    listed = [event.kind for event in owner.kinds(ListBegan)]
    assert listed == ["nodes", "nodes", "budgets", "gangs", "pods"]
    await shell.stop()


async def test_a_later_owner_resumes_without_listing():
    cluster = cluster_of("a", "b")
    first, shell = await started(cluster)
    await first.until(lambda: first.state.revision == cluster.revision)
    await shell.stop()
    await bind(cluster, "a")
    second, shell = await started(cluster, first.state)
    await second.until(lambda: second.state.revision == cluster.revision)
    assert not second.kinds(ListBegan)
    assert len(second.kinds(PodsBoundSeen)) == 1
    await shell.stop()


class Parts(SimCluster):
    """A cluster of one node that is watched in parts."""

    def __init__(self, *watched: Watched) -> None:
        super().__init__(World(name="w", nodes=(node("n1"),), arrivals=()))
        self.asked: list[tuple[int, dict[str, int]]] = []
        self.part = {"nodes": "n", "budgets": "b", "gangs": "g", "pods": "p"}
        self._told = watched

    async def newest_revision(self) -> int:
        return max([self.revision, *(mark for one in self._told for mark in one.marks.values())])

    async def list_all(self, kind: str) -> Watched:
        listed = await super().list_all(kind)
        return Watched(listed.revision, listed.events, {self.part[kind]: listed.revision})

    async def watch(self, since: int, marks: Marks = NO_MARKS) -> AsyncIterator[Watched]:
        self.asked.append((since, dict(marks)))
        for watched in self._told:
            yield watched
        await asyncio.sleep(3_600)


async def test_a_later_owner_resumes_each_part_where_it_was():
    cordoned = NodesSeen((node("n1", unschedulable=True),))
    cluster = Parts(Watched(1, (cordoned, pods("a", at=9)), {"n": 7, "p": 9}))
    first, shell = await started(cluster)
    await first.until(lambda: first.state.marks.get("p") == 9)
    assert first.state.nodes["uid-n1"].node.unschedulable
    await shell.stop()
    assert cluster.asked == [(1, {"n": 1, "b": 1, "g": 1, "p": 1})]
    assert first.together[-1] == (
        *(cordoned, pods("a", at=9)),
        WatchAdvanced(1, (("n", 7), ("p", 9))),
    )
    first.steps.reload()
    second, shell = await started(cluster, first.state)
    await second.until(lambda: len(cluster.asked) == 2)
    assert cluster.asked[1] == (1, {"n": 7, "b": 1, "g": 1, "p": 9})
    await shell.stop()


async def test_a_list_that_broke_off_is_repeated_before_the_watch():
    cluster = Parts()
    first, shell = await started(cluster)
    await first.until(lambda: first.state.revision == cluster.revision)
    await shell.stop()
    budget = Budget(uid="u", namespace="default", name="b", allowed=1)
    first.steps.when(ListBegan("budgets", 8, (("b", 8),)), BudgetsSeen((budget,)), Configured({}))
    first.steps.reload()
    second, shell = await started(cluster, first.state)
    await second.until(lambda: len(cluster.asked) == 2)
    assert [event.kind for event in second.kinds(ListBegan)] == ["budgets"]
    await second.until(lambda: not second.state.broken_off)
    await shell.stop()


async def test_a_delivery_that_no_record_holds_goes_in_parts():
    large = [pods(*(f"{part}-{i}" for i in range(20_000)), at=2) for part in "ab"]
    cluster = Parts(Watched(9, tuple(large), {"p": 9}))
    owner, shell = await started(cluster)
    await owner.until(lambda: owner.state.marks.get("p") == 9)
    assert len(owner.state.pods) == 40_000
    assert owner.together[-1] == (WatchAdvanced(9, (("p", 9),)),)
    await shell.stop()


async def test_an_owner_that_is_too_far_behind_lists_and_finds_deletes():
    cluster = cluster_of("a", "b", "c")
    first, shell = await started(cluster)
    await first.until(lambda: first.state.revision == cluster.revision)
    await shell.stop()
    cluster.delete(["uid-a"])
    await bind(cluster, "b")
    cluster.forget_history()
    second, shell = await started(cluster, first.state)
    await second.until(lambda: second.state.revision == cluster.revision)
    assert len(second.kinds(ListBegan)) == 4
    assert sorted(second.state.pods.slots) == ["uid-b", "uid-c"]
    await shell.stop()


async def test_a_doubted_list_is_asked_for_and_confirmed():
    cluster = cluster_of("a", "b", "c")
    first, shell = await started(cluster)
    await first.until(lambda: first.state.revision == cluster.revision)
    await shell.stop()
    cluster.delete(["uid-a", "uid-b"])
    cluster.forget_history()
    second, shell = await started(cluster, first.state)
    await second.until(lambda: list(second.state.pods.slots) == ["uid-c"])
    assert [event.kind for event in second.kinds(ListBegan)].count("pods") == 2
    await bind(cluster, "c")
    await second.until(lambda: second.state.revision == cluster.revision)
    await shell.stop()


async def test_broken_watches_are_opened_again():
    cluster = cluster_of("a", "b")
    owner, shell = await started(cluster)
    await owner.until(lambda: owner.state.revision == cluster.revision)
    cluster.break_watches()
    await bind(cluster, "a")
    await owner.until(lambda: owner.state.revision == cluster.revision)
    assert len(owner.kinds(ListBegan)) == 4
    await shell.stop()


async def test_a_silent_cluster_is_asked_again():
    cluster = cluster_of("a")
    fine = cluster.list_all
    failures = iter([OSError("refused"), TimeoutError(), ValueError("not a list")])

    async def failing(kind: str) -> Any:
        for error in failures:
            raise error
        return await fine(kind)

    cluster.list_all = failing  # type: ignore[method-assign]
    owner, shell = await started(cluster)
    await owner.until(lambda: owner.state.revision == cluster.revision)
    assert len(owner.state.pods) == 1
    await shell.stop()


async def test_stop_ends_even_when_a_list_was_just_asked_for():
    cluster = cluster_of("a")
    owner, shell = await started(cluster)
    await owner.until(lambda: owner.state.revision == cluster.revision)

    async def silent(_kind: str) -> Any:
        await asyncio.sleep(3_600)

    cluster.list_all = silent  # type: ignore[assignment,method-assign]
    shell.effect(1, ListAsked(1, "pods"))
    async with asyncio.timeout(1):
        await shell.stop()


async def test_nothing_is_offered_after_stop_or_above_the_bound():
    cluster = cluster_of("a")
    owner, shell = await started(cluster)
    await owner.until(lambda: owner.state.revision == cluster.revision)
    owner.waiting = [WatchAdvanced(1)] * (SUBMISSIONS_MAX + 1)
    before = len(owner.offered)
    await bind(cluster, "a")
    await asyncio.sleep(0.01)
    assert len(owner.offered) == before
    await shell.stop()
    owner.waiting = []
    await asyncio.sleep(0.01)
    assert len(owner.offered) == before


async def test_a_flood_is_spread_over_turns():
    cluster = cluster_of(*(f"p{i}" for i in range(70_000)))
    owner, shell = await started(cluster)
    await asyncio.sleep(0.05)
    offered = sum(len(split(event.uids)) for event in owner.kinds(PodsSeen))
    assert 0 < offered <= 40_000
    await owner.until(lambda: len(owner.state.pods) == 70_000)
    await shell.stop()


@pytest.mark.parametrize("repeated", [False, True])
def test_equal_singles_become_a_column(repeated):
    events = [pods("a", at=1), pods("a" if repeated else "b", at=2)]
    result = list(grouped(events))
    if repeated:
        assert result == events
    else:
        assert result == [PodsSeen(SMALL, "uid-a\nuid-b", "a\nb", pack([1, 2]))]


def test_different_observations_stay_apart_and_in_order():
    events: list[Event] = [
        pods("a", at=1),
        pods("b", at=2, ordered_ms=5),
        pods("c", at=3, on="n1", ordered_ms=5),
        PodsBoundSeen("uid-a", "n1", pack([4])),
        PodsBoundSeen("uid-b", "n2", pack([5])),
        PodsDeletedSeen("uid-a"),
        PodsDeletedSeen("uid-b"),
        NodesSeen((node("n1"),)),
        NodesSeen((node("n2"),)),
    ]
    assert list(grouped(events)) == [
        events[0],
        PodsSeen(SMALL, "uid-b\nuid-c", "b\nc", pack([2, 3]), nodes="-\nn1", ordered_ms=5),
        PodsBoundSeen("uid-a\nuid-b", "n1\nn2", pack([4, 5])),
        PodsDeletedSeen("uid-a\nuid-b"),
        NodesSeen((node("n1"), node("n2"))),
    ]


def test_large_columns_are_cut():
    names = [f"p{i}" for i in range(40_000)]
    parts: list[Any] = list(grouped([pods(*names, at=1)]))
    assert [len(part.revisions) // 8 for part in parts] == [16_384, 16_384, 7_232]
    assert "\n".join(part.names for part in parts) == "\n".join(names)
