"""The scenario of a seed: a world, and all its faults with their times.

Pairs of service and crash point are not drawn but scheduled over the seeds, so that each pair
recurs. Everything else is drawn from streams of the seed.
"""

import random
from dataclasses import dataclass
from typing import Any

from muster.app.journals import all_journals
from muster.simulation.bus import BusFaults
from muster.simulation.network import NetworkFaults
from muster.simulation.worlds import make_world
from shared.extenders.port import ExtenderCalls
from shared.machine.crash import CrashPoint
from shared.machine.snapshots import SnapshotPolicy
from shared.model.ids import SERVICES, JournalName
from shared.model.world import World

PLACEMENTS = 3
HEAL_S = 22.0
ARRIVALS_MS_MAX = 18_000
"""A longer world is played faster, so that all of it meets the faults."""
DEADLINE_S = 150.0
CRASHES = 3

_NO_EFFECTS = "its core demands no effects, so there is none to crash beside"
_NO_OUTCOMES = "it observes nothing outside, so no outcome reaches it"


def _not_applicable() -> dict[tuple[str, CrashPoint], str]:
    found: dict[tuple[str, CrashPoint], str] = {}
    for service in SERVICES:
        if service not in ("binding", "ingest"):
            found[(service, CrashPoint.BEFORE_EFFECT)] = _NO_EFFECTS
            found[(service, CrashPoint.AFTER_EFFECT)] = _NO_EFFECTS
        if service not in ("binding", "ingest"):
            found[(service, CrashPoint.BEFORE_OUTCOME)] = _NO_OUTCOMES
            found[(service, CrashPoint.AFTER_OUTCOME)] = _NO_OUTCOMES
    return found


NOT_APPLICABLE = _not_applicable()
LIST_CRASHES = (("ingest", CrashPoint.BEFORE_EFFECT), ("ingest", CrashPoint.AFTER_EFFECT))
PAIRS = tuple(
    (service, point)
    for point in CrashPoint
    for service in SERVICES
    if (service, point) not in NOT_APPLICABLE
)
"""Each service at each crash point that it can reach."""


@dataclass(frozen=True)
class Crash:
    """The owner of `journal` dies when it next reaches `point` (after `skips` times)."""

    at_s: float
    journal: JournalName
    point: CrashPoint
    skips: int
    down_s: float


@dataclass(frozen=True)
class Takeover:
    """A second owner claims beside the first, which continues if it is a ghost."""

    at_s: float
    journal: JournalName
    ghost: bool
    for_s: float


@dataclass(frozen=True)
class Jump:
    """The clock of a journal's owner jumps."""

    at_s: float
    journal: JournalName
    by_ms: int


@dataclass(frozen=True)
class Mutation:
    """Another client changes the cluster; the details are drawn when it happens."""

    at_s: float
    kind: str


MUTATIONS = (
    "delete-pending",
    "delete-bound",
    "delete-any",
    "foreign-bind",
    "foreign-bind",
    "foreign-pod",
    "node-delete",
    "node-add",
    "node-cordon",
    "node-uncordon",
    "node-shrink",
    "node-grow",
    "ungate",
    "ungate",
    "budget",
    "gang-version",
    "history-compacted",
    "watches-broken",
)


SPREADERS = "services"
"""Mutations for worlds in which Services and controllers select pods."""
TREES = "hyper-nodes"
QUEUES = "queues"
"""Mutations for worlds with HyperNodes."""
REMADE = "node-remade"
"""The largest number of these, drawn from a separate stream."""
REMADE_MAX = 3


@dataclass(frozen=True)
class Restore:
    """The cluster is backed up and restored from the backup. `is_bumped`: to a revision above all
    others.
    """

    backup_s: float
    at_s: float
    is_bumped: bool


@dataclass(frozen=True)
class Scenario:
    """Everything about one run."""

    seed: int
    world: World
    config: dict[str, Any]
    refuses: bool
    policy: SnapshotPolicy
    standbys: bool
    crashes: tuple[Crash, ...]
    kills: tuple[tuple[float, JournalName], ...]
    takeovers: tuple[Takeover, ...]
    jumps: tuple[Jump, ...]
    mutations: tuple[Mutation, ...]
    tears: tuple[tuple[float, JournalName], ...]
    reset_s: float | None
    hunts_holds: bool
    bus: BusFaults
    network: NetworkFaults
    placements: int = PLACEMENTS
    heal_s: float = HEAL_S
    deadline_s: float = DEADLINE_S
    speed: float = 1.0
    judges: ExtenderCalls | None = None  # stands in for extenders
    restore: Restore | None = None


CONFIG: dict[str, Any] = {
    "queueing": {
        "backoff_initial_ms": 200,
        "backoff_max_ms": 6_000,
        "confirm_ms": 4_000,
        "gang_preemption": True,
        "group_conditions": True,
        "looks_per_s": 50,
    },
}


def pairs_of(seed: int) -> list[tuple[str, CrashPoint]]:
    """Return the crashes that this seed adds to the coverage table."""
    return [PAIRS[(seed * CRASHES + index) % len(PAIRS)] for index in range(CRASHES)]


def make_scenario(seed: int, world: World | None = None, placements: int = PLACEMENTS) -> Scenario:
    """Return the scenario of a seed. The same seed makes the same scenario."""
    rng = random.Random(f"{seed}/scenario")
    pairs = pairs_of(seed)
    cut = rng.random() < 0.25 or any(point.value.endswith("cut") for _service, point in pairs)
    names = all_journals(placements)
    world = world if world is not None else make_world(seed)
    last_ms = max((arrival.at_ms for arrival in world.arrivals), default=0)
    return Scenario(
        seed=seed,
        world=world,
        config=CONFIG,
        refuses=rng.random() < 0.5,
        policy=SnapshotPolicy(
            every_records=rng.choice((10, 20, 30)),
            every_ms=rng.choice((2_000, 3_000, 4_000)),
            keep=4,
            cut=cut,
            check=True,
        ),
        standbys=rng.random() < 0.5,
        crashes=tuple(_crash(rng, pair, placements) for pair in pairs),
        kills=tuple((rng.uniform(2, HEAL_S), rng.choice(names)) for _ in range(rng.randint(0, 2))),
        takeovers=tuple(_takeover(rng, names) for _ in range(rng.randint(1, 2))),
        jumps=tuple(
            Jump(rng.uniform(1, HEAL_S), rng.choice(names), rng.choice((-9_000, 5_000, 60_000)))
            for _ in range(rng.randint(0, 2))
        ),
        mutations=_mutations(rng, pairs) + _remakes(random.Random(f"{seed}/remade")),
        tears=tuple((rng.uniform(8, HEAL_S - 1), rng.choice(names)) for _ in range(2)),
        hunts_holds=rng.random() < 0.5,
        reset_s=rng.uniform(9, 14) if seed % 10 == 7 else None,
        bus=_bus_faults(rng),
        network=_network_faults(rng, pairs),
        placements=placements,
        speed=max(1.0, last_ms / ARRIVALS_MS_MAX),
        restore=None if world.objects else _restore(random.Random(f"{seed}/restore")),
    )


def _journal_of(rng: random.Random, service: str, placements: int) -> JournalName:
    shard = rng.randrange(placements) if service == "placement" else 0
    return JournalName(f"{service}/{shard}")


def _crash(rng: random.Random, pair: tuple[str, CrashPoint], placements: int) -> Crash:
    service, point = pair
    late = point.value.endswith(("snapshot", "cut"))
    return Crash(
        at_s=rng.uniform(8 if late else 1, 15),
        journal=_journal_of(rng, service, placements),
        point=point,
        skips=0 if late else rng.choice((0, 0, 1, 3, 9)),
        down_s=rng.choice((0.05, 0.3, 1.0, 5.5)),
    )


def _takeover(rng: random.Random, names: list[JournalName]) -> Takeover:
    return Takeover(
        at_s=rng.uniform(2, HEAL_S - 4),
        journal=rng.choice(names),
        ghost=rng.random() < 0.7,
        for_s=rng.uniform(0.5, 3.5),
    )


def _bus_faults(rng: random.Random) -> BusFaults:
    if rng.random() < 0.1:
        return BusFaults()
    return BusFaults(
        append_fails=rng.choice((0.0, 0.004, 0.015)),
        unavailable=rng.choice((0.0, 0.01)),
        lag_spike=rng.choice((0.0, 0.02, 0.1)),
        lag_spike_s=rng.choice((0.1, 0.5, 2.0)),
    )


def _lists_doubted(pairs: list[tuple[str, CrashPoint]]) -> bool:
    """Return whether a crash waits for ingest to request a list, which it does after a
    stale one.
    """
    return any(pair in pairs for pair in LIST_CRASHES)


def _mutations(rng: random.Random, pairs: list[tuple[str, CrashPoint]]) -> tuple[Mutation, ...]:
    drawn = [
        Mutation(rng.uniform(2, HEAL_S - 1), rng.choice(MUTATIONS))
        for _ in range(rng.randint(10, 18))
    ]
    if _lists_doubted(pairs):
        drawn += [Mutation(rng.uniform(10, HEAL_S - 2), "history-compacted") for _ in range(4)]
    return tuple(sorted(drawn, key=lambda mutation: mutation.at_s))


def _restore(rng: random.Random) -> Restore | None:
    """Draw a restore for one in six seeds."""
    if rng.random() >= 1 / 6:
        return None
    backup_s = rng.uniform(1.5, HEAL_S - 5)
    at_s = min(backup_s + rng.uniform(0.3, 6), HEAL_S - 1)
    return Restore(backup_s, at_s, is_bumped=rng.random() < 0.4)


def _remakes(rng: random.Random) -> tuple[Mutation, ...]:
    count = max(0, rng.randint(-REMADE_MAX, REMADE_MAX))
    return tuple(Mutation(rng.uniform(2, HEAL_S - 1), REMADE) for _ in range(count))


def _network_faults(rng: random.Random, pairs: list[tuple[str, CrashPoint]]) -> NetworkFaults:
    if _lists_doubted(pairs):
        return NetworkFaults(watch_gone=0.3, stale_list=0.8)
    if rng.random() < 0.1:
        return NetworkFaults()
    return NetworkFaults(
        lost=rng.choice((0.0, 0.02)),
        unanswered=rng.choice((0.0, 0.04)),
        late=rng.choice((0.0, 0.03, 0.06)),
        busy=rng.choice((0.0, 0.03)),
        refused=rng.choice((0.0, 0.02)),
        watch_gone=rng.choice((0.0, 0.3)),
        stale_list=rng.choice((0.0, 0.4)),
        touched=rng.choice((0.0, 0.04)),
        lag_spike=rng.choice((0.0, 0.02, 0.08)),
    )
