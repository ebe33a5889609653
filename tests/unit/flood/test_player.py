"""A flood is played open loop: a target that is late makes latencies longer."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from muster.app.virtual_time import VirtualLoop
from muster.flood.book import Seen
from muster.flood.figures import About, summarise
from muster.flood.journals import Told
from muster.flood.plan import Action, AddPods, Plan, RemovePods, plan_of
from muster.flood.player import Player, Progress
from muster.flood.workload import (
    Arrivals,
    Barrier,
    CreatePods,
    DeletePods,
    Step,
    Template,
    Workload,
)
from shared.model.objects import PodSpec

TEMPLATE = Template("a", PodSpec(), (), False, False, {})
ABOUT = About(1, "in-process", "muster", "", 2, 0)


class Scheduler:
    """A target that binds every pod `binds_ms` after it came, but nothing while it is `frozen`
    (from, until; ms).
    """

    def __init__(self, binds_ms: float, frozen: tuple[float, float] = (0, 0)) -> None:
        self.binds_ms, self.frozen = binds_ms, frozen
        self.alive: dict[int, float] = {}
        self.gone: list[int] = []

    def start(self) -> None:
        self.loop = asyncio.get_running_loop()

    def now_ms(self) -> float:
        return 1_000 * self.loop.time()

    def act(self, action: Action) -> None:
        if isinstance(action, AddPods):
            self.alive |= dict.fromkeys(action.numbers, self._bound_ms())
        elif isinstance(action, RemovePods):
            self.gone += action.numbers
            for number in action.numbers:
                self.alive.pop(number, None)

    def _bound_ms(self) -> float:
        bound_ms, (begin_ms, end_ms) = self.now_ms() + self.binds_ms, self.frozen
        return end_ms if begin_ms <= bound_ms < end_ms else bound_ms

    def seen(self) -> Seen:
        done = {pod: at_ms for pod, at_ms in self.alive.items() if at_ms <= self.now_ms()}
        gone, self.gone = self.gone, []
        return Seen(list(done), list(done.values()), gone)

    async def settle(self) -> None:
        pass

    def processor_s(self) -> float:
        return self.loop.time() / 2

    def api_writes(self) -> int:
        return 3 * sum(1 for at_ms in self.alive.values() if at_ms <= self.now_ms())


def pods(count: int, arrivals: Arrivals, **others) -> CreatePods:
    return CreatePods(count, ((TEMPLATE, 1),), "default", arrivals, **others)


def played(target: Scheduler, *steps: Step, limit_s: float = 60) -> tuple[Player, bool]:
    shown: list[Progress] = []
    player = Player(plan_of(Workload("w", 1, steps)), target, limit_s, shown.append)
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        is_complete = runner.run(player.play())
    assert shown
    return player, is_complete


def summary_of(player: Player, told: Told | None = None):
    return summarise(player.book, ABOUT, told, True)


def test_latency_is_that_of_the_pods_and_rate_that_of_the_measured_ones():
    first = pods(100, Arrivals(), is_measured=False)
    player, is_complete = played(
        Scheduler(50), first, Barrier(), pods(101, Arrivals("even", 100.0)), Barrier()
    )
    assert is_complete
    found = summary_of(player)
    assert (found.pods, found.bound, found.measured, found.measured_bound) == (201, 201, 101, 101)
    assert found.seconds == pytest.approx(1.05, abs=0.002)
    assert found.pods_per_second == pytest.approx(101 / 1.05, rel=0.01)
    assert found.latency_ms is not None
    assert (found.latency_ms.p50, found.latency_ms.max) == pytest.approx((50, 50), abs=1)
    assert found.api_writes_per_pod == 3
    assert found.processor_us_per_pod == pytest.approx(1e6 * 1.1 / 2 / 201, rel=0.1)


def test_a_stall_delays_all_pods_that_come_meanwhile():
    """One pod in ten came in the second of the stall; a closed loop would have seen one of them."""
    player, _ = played(Scheduler(1, (2_000, 3_000)), pods(1_000, Arrivals("even", 100.0)))
    latencies_ms = player.book.latencies_ms()
    assert np.count_nonzero(latencies_ms > 100) == pytest.approx(90, abs=1)
    assert latencies_ms.max() == pytest.approx(1_000, abs=2)


def test_a_barrier_waits_for_pods_that_are_to_be_bound():
    stuck = pods(5, Arrivals(), stays=True)
    player, is_complete = played(Scheduler(1e9), stuck, Barrier())
    assert is_complete
    player, is_complete = played(Scheduler(1e9), pods(5, Arrivals()), Barrier(), limit_s=0.05)
    assert not is_complete
    assert summary_of(player).waiting == 5


def test_a_pod_that_is_deleted_before_its_bind_is_not_awaited():
    player, is_complete = played(
        Scheduler(1e9), pods(5, Arrivals()), DeletePods("default", 0, Arrivals()), Barrier()
    )
    assert is_complete
    found = summary_of(player)
    assert (found.pods, found.bound, found.gone, found.waiting) == (5, 0, 5, 0)
    assert found.latency_ms is None


def test_the_series_add_up():
    player, _ = played(Scheduler(250), pods(100, Arrivals("even", 100.0)))
    told = Told([(0, 10), (50, 20), (150, 40)], [[(0, 30)], [(50, 20), (150, 50)]])
    found = summary_of(player, told)
    series = found.series
    assert (sum(series.created), sum(series.bound), series.waiting[-1]) == (100, 100, 0)
    assert max(series.waiting) == pytest.approx(25, abs=10)
    assert series.batch_pods[:2] == [15.0, 40.0]
    assert series.shard_pods[0][:2] == [30, 0]
    assert series.shard_pods[1][:2] == [20, 50]
    assert found.shard_imbalance == 1.4
    assert series.processors[2] == pytest.approx(0.5, abs=0.01)
    lengths: Sequence[Sequence[object]] = [series.created, series.bound, series.waiting]
    lengths = [*lengths, series.batch_pods, *series.shard_pods, series.processors]
    assert len({len(one) for one in lengths}) == 1


def test_a_bind_counts_once_also_of_a_pod_that_went_meanwhile():
    player = Player(Plan("w", steps=[(range(2), pods(2, Arrivals()))]), Scheduler(0), 1, print)
    player.book.come([0, 1], 5.0)
    player.book.take(Seen([0], [7.0], []))
    player.book.take(Seen([], [], [1]))
    player.book.take(Seen([0, 1], [9.0, 9.0], [0]))
    assert player.book.bound_ms.tolist() == [7.0, 9.0]
    assert (player.book.bound, player.book.awaited) == (2, 0)
