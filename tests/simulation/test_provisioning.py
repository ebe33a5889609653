"""Worlds whose gangs ask an autoscaler for nodes, with all kinds of faults: it answers late, makes
nodes, fails and revokes. Nobody waits for nothing, and no request outlives its need.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from msgspec.structs import replace

from muster.simulation.run import simulate
from muster.simulation.scenario import HEAL_S, make_scenario
from muster.simulation.worlds import ARRIVALS_MS, GIB, make_spec, make_world
from services.queueing.core.gangs import provisioning, request_timing
from shared.events.observed import PodsSeen
from shared.model.cluster_objects import Namespace, ProvisioningRequest
from shared.model.columns import join, split
from shared.model.groups.provisioning import ACCEPTED, ENDS, PHASES, PROVISIONED
from shared.model.objects import Gang
from shared.model.world import Arrival, World
from shared.ports.cluster import NodesRequest
from shared.simulated.cluster import SimCluster
from tests.parity.planted.patching import planted
from tests.scenarios.scene import node
from tests.simulation.planted import IS_LONG, Bug, Problem

pytestmark = [pytest.mark.simulation, pytest.mark.slow]
CLASS = "check-capacity.autoscaling.x-k8s.io"
WRITE = SimCluster.request_nodes
SOON_MS, LOST = 1_000, 0.3
COVERED_BY = 6
MEMBER_MILLI = 20_000


def make_provisioning_world(seed: int) -> World:
    """Return a seed's world in which every gang may ask for nodes, and some must: no node is large
    enough for their members.
    """
    base, rng = make_world(seed), random.Random(f"{seed}/growing")
    gangs, arrivals = [replace(gang, provisioning=CLASS) for gang in base.gangs], []
    for number in range(rng.randint(3, 5)):
        key, count = f"default/grow-{number}", rng.randint(1, 3)
        gangs.append(Gang(key=key, min_count=count, timeout_ms=20_000, provisioning=CLASS))
        names = [f"grow-{number}-{member}" for member in range(count)]
        seen = PodsSeen(
            spec=make_spec(MEMBER_MILLI, GIB, priority=rng.choice((0, 5))),
            uids=join(f"{name}-uid" for name in names),
            names=join(names),
            revisions=b"",
            gang=key,
        )
        arrivals.append(Arrival(at_ms=rng.randrange(ARRIVALS_MS), pods=seen))
    arrivals = sorted((*base.arrivals, *arrivals), key=lambda one: one.at_ms)
    objects = (Namespace(uid="uid-default", name="default"),)
    return replace(base, gangs=tuple(gangs), arrivals=tuple(arrivals), objects=objects)


class Autoscaler:
    """Answers the requests of one run's cluster."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"{seed}/autoscaler")
        self.cluster: SimCluster | None = None
        self.made = 0
        self.seen: Counter[str] = Counter()

    async def request_nodes(self, cluster: SimCluster, asked: Sequence[NodesRequest]) -> list[str]:
        """Write the requests, and look at new ones after a while."""
        self.cluster = cluster
        is_healed = asyncio.get_running_loop().time() > HEAL_S
        if not is_healed and self.rng.random() < LOST:
            raise ConnectionError("lost")
        before = dict(cluster.objects)
        messages = await WRITE(cluster, asked)
        for uid in cluster.objects:
            if uid not in before:
                self._later(uid, ACCEPTED)
        return messages

    def _later(self, uid: str, phase: str) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(self.rng.uniform(0.05, 3.0), self._answer, uid, phase)

    def _answer(self, uid: str, phase: str) -> None:
        assert self.cluster is not None
        request = self.cluster.objects.get(uid)
        if not isinstance(request, ProvisioningRequest):
            return
        self.seen[phase] += 1
        self.cluster.set_object(replace(request, phase=phase))
        is_healed = asyncio.get_running_loop().time() > HEAL_S
        if phase == ACCEPTED:
            self._later(uid, self.rng.choice((PROVISIONED, PROVISIONED, *ENDS)))
        elif phase == PROVISIONED:
            for _ in range(self.rng.randint(1, 2)):
                self.made += 1
                self.cluster.set_node(node(f"made-{self.made}", MEMBER_MILLI + 2_000))
            if not is_healed:
                self._later(uid, self.rng.choice(ENDS))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what is lost or failed be repeated while the run still moves."""
    monkeypatch.setattr(request_timing, "PROVISIONING_UNSEEN_MS", SOON_MS)
    monkeypatch.setattr(provisioning, "PROVISIONING_RETRY_MS", SOON_MS)
    monkeypatch.setattr(provisioning, "PROVISIONING_RETRY_MS_MAX", SOON_MS)


def play(seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Problem], Counter[str]]:
    """Return what is wrong with a run, and what its autoscaler did."""
    autoscaler = Autoscaler(seed)

    async def request_nodes(cluster: SimCluster, asked: Sequence[NodesRequest]) -> list[str]:
        return await autoscaler.request_nodes(cluster, asked)

    monkeypatch.setattr(SimCluster, "request_nodes", request_nodes)
    world = make_provisioning_world(seed)
    result = simulate(make_scenario(seed, world), redecide=seed % 4 == 0)
    cluster = autoscaler.cluster
    more = list(_wrong_requests(world, cluster)) if cluster is not None else []
    return [*result.problems, *more], autoscaler.seen


def _wrong_requests(world: World, cluster: SimCluster) -> Iterator[Problem]:
    """Yield the gangs that have a request and need none, or the other way round."""
    found = cluster.objects.values()
    asking = {one.gang: one.phase for one in found if isinstance(one, ProvisioningRequest)}
    for gang in world.gangs:
        pods = [
            cluster.pods[uid]
            for arrival in world.arrivals
            if arrival.pods.gang == gang.key
            for uid in split(arrival.pods.uids)
            if uid in cluster.pods
        ]
        placed = sum(bool(pod.node) for pod in pods)
        if placed >= gang.min_count and gang.key in asking:
            yield "requests", f"{gang.key} has a request although it has started"
        waits = not placed and len(pods) >= gang.min_count
        is_helped = asking.get(gang.key, ENDS[0]) not in ENDS
        if gang.key.startswith("default/grow") and waits and not is_helped:
            yield "requests", f"{gang.key} waits without a request that may help"


@pytest.mark.parametrize("seed", range(24 if IS_LONG else 2))
def test_who_needs_nodes_asks_and_nobody_else(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problems, seen = play(seed, monkeypatch)
    assert problems == [], f"seed {seed}"
    assert seen[ACCEPTED]


def test_every_answer_occurs(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    for seed in range(4, 4 + COVERED_BY):
        seen += play(seed, monkeypatch)[1]
        if {*PHASES} <= seen.keys():
            return
    assert sorted({*PHASES} - seen.keys()) == []


TIMING, EVENTS = (
    f"services.queueing.core.gangs.{name}" for name in ("request_timing", "provisioning")
)
BUGS = (
    Bug(
        "lost-request-never-repeated",
        TIMING,
        ("again_ms = one.sent_ms + PROVISIONING_UNSEEN_MS", "again_ms = 1 << 50"),
        by=("requests",),
        first=(5, 1),
    ),
    Bug(
        "request-kept-after-the-start",
        TIMING,
        ("return not (gang.committed or gang.started)", "return True"),
        by=("requests",),
        first=(5, 1),
    ),
    Bug(
        "deleted-request-not-forgotten",
        EVENTS,
        ("one.uid = one.name = one.phase", "one.name = one.phase"),
        by=("requests",),
        first=(5, 1),
    ),
    Bug(
        "not-asked-after-a-failure",
        EVENTS,
        ("one.until_ms = state.now_ms + wait_ms", "one.until_ms = 1 << 50"),
        by=("requests",),
        first=(5, 1),
    ),
    Bug(
        "effect-never-over",
        "services.binding.core.provisioning",
        ("    state.provisioning_effect = NO_EFFECT\n", ""),
        by=("requests",),
        first=(5, 1),
    ),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_change_is_found_by_its_rule(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    with planted(bug):
        found = any(bug.found_by(play(seed, monkeypatch)[0]) for seed in bug.first)
    assert found
