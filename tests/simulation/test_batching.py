"""Batch on equals batch off, decision by decision: the whole mesh on worlds with all rules at once.

`MUSTER_SEEDS` changes how many worlds are played; `make seeds` plays 510.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from muster.app.journals import all_journals
from muster.app.mesh import Mesh
from muster.app.pacing import VIRTUAL
from muster.app.virtual_time import VirtualLoop, virtual_host
from shared.bus.memory import MemoryBus, MemoryLog
from shared.events.base import Event
from shared.events.placement import (
    GangHeld,
    GangNominated,
    GangOffered,
    Nominated,
    Refused,
    Reserved,
)
from shared.events.queueing import Dispatched, Parked
from shared.machine.record import decode, own_events
from shared.model.columns import size, unpack, unpack_totals
from shared.model.ids import QUEUEING, JournalName, Position, placement
from shared.simulated.cluster import SimCluster
from shared.simulated.config import SimConfig
from shared.snapshots.memory import MemorySnapshots
from tests.parity.planted.patching import planted
from tests.simulation.mixed_worlds import Changes, make_mixed_world
from tests.simulation.planted import Bug

WORLDS = int(os.environ.get("MUSTER_SEEDS", "12"))
CHUNK = 6
LASTS_S = 45.0
PLENTY = 10**9
"""Limits of work that no step reaches: single cycles are more work, and a cut lets others between.
"""
OFF = {"batch": False}
PODS_MIN = 100
KINDS = {"batches", "refused", "held", "nominated", "volumes", "spread", "affinity"}

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


class Played(NamedTuple):
    """What a run decided: by shard in order of its decisions, messages in the order of queueing's,
    and the nodes of pods at the end. `seen`: how often what was tested happened.
    """

    decisions: list[list[tuple[Any, ...]]]
    messages: list[tuple[int, str]]
    nodes: dict[str, str]
    seen: Counter[str]


def play(seed: int, placements: int, queueing: dict[str, Any], placing: dict[str, Any]) -> Played:
    """Play a world on virtual time."""
    loop, log = VirtualLoop(), MemoryLog()
    cluster = SimCluster(make_mixed_world(seed), SimConfig(seed=seed, grace_ms=300))
    waits = {"backoff_initial_ms": 200, "backoff_max_ms": 6_000, "gang_preemption": True}
    mesh = Mesh(
        bus_of=lambda _journal: MemoryBus(log),
        store=MemorySnapshots(),
        cluster=cluster,
        placements=placements,
        config={
            "ingest": {"default_spread": seed % 2 == 1, "volumes": True},
            "queueing": {"credit_units": PLENTY, **waits, **queueing},
            "placement": {"slice_units": PLENTY, **placing},
        },
        pace=VIRTUAL,
        host=virtual_host(loop, "muster"),
    )

    async def run() -> None:
        serving = asyncio.create_task(mesh.serve(all_journals(placements)))
        cluster.start()
        for at_s, change in Changes(seed, cluster).planned:
            loop.call_at(at_s, change)
        await asyncio.sleep(LASTS_S)
        cluster.stop()
        assert not serving.done(), serving.result()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(run())
    seen: Counter[str] = Counter()
    decisions = [
        [one for event in events(log, placement(shard)) for one in of_pods(event, seen)]
        for shard in range(placements)
    ]
    queue = list(events(log, QUEUEING))
    seen["batches"] += sum(size(one.ids) > 1 for one in queue if isinstance(one, Dispatched))
    parked = [one for one in queue if isinstance(one, Parked)]
    messages = [(pod, one.message) for one in parked for pod in unpack(one.ids).tolist()]
    nodes = {pod.name: pod.node for pod in cluster.pods.values()}
    return Played(decisions, messages, nodes, seen)


def events(log: MemoryLog, journal: JournalName) -> Iterator[Event]:
    """Yield the events of a journal."""
    for position, payload in enumerate(log._journal(journal).records):
        at = Position(position)
        yield from own_events(decode(payload, journal, at), journal, at)


def of_pods(event: Event, seen: Counter[str]) -> Iterator[tuple[Any, ...]]:
    """Yield a shard's decision pod by pod: its node with score and devices, or why it has none."""
    match event:
        case Reserved():
            pods, nodes = unpack(event.ids).tolist(), unpack(event.nodes).tolist()
            totals = unpack_totals(event.totals, len(pods)).tolist()
            masks = unpack(event.devices).tolist() if event.devices else [0] * len(pods)
            seen["volumes"] += bool(event.volumes)
            for one in zip(pods, nodes, totals, masks, strict=True):
                yield "reserved", event.sig, *one, event.volumes
        case Refused() if event.attempt:
            seen["refused"] += 1
            texts = " ".join(text for text, _nodes in event.reasons)
            seen.update({word for word in ("spread", "affinity") if word in texts})
            why = event.reasons, event.nodes, event.resolvable, event.preemptible, event.rejected
            for pod in unpack(event.ids).tolist():
                yield "refused", event.sig, pod, why
        case GangHeld():
            seen["held"] += 1
            yield "held", event.gang, event.ids, event.nodes, event.totals, event.volumes
        case GangOffered():
            yield "offered", event.gang, event.counts, event.reasons, event.nodes
        case Nominated():
            seen["nominated"] += 1
            yield "nominated", event.pod, event.node, event.victims
        case GangNominated():
            nominees = [(one.pod, one.node) for one in event.nominees]
            yield "gang nominated", event.gang, nominees


def differences(on: Played, off: Played) -> list[Any]:
    """Return the first difference of each kind."""
    pairs = [*zip(on.decisions, off.decisions, strict=True), (on.messages, off.messages)]
    pairs.append((sorted(on.nodes.items()), sorted(off.nodes.items())))
    found = []
    for ours, theirs in pairs:
        if ours != theirs:
            both = (one for one in zip(ours, theirs, strict=False) if one[0] != one[1])
            found.append(next(both, ("lengths", len(ours), len(theirs))))
    return found


def whole_mesh(seed: int) -> tuple[Played, Played]:
    """Return a run with batches, and one in which queueing sends each pod by itself and the shard
    caches nothing. Pods go in strict order: the reorder window lets batches go first.
    """
    strict = {"strict_order": True}
    return play(seed, 1, strict, {}), play(seed, 1, {**strict, "max_batch": 1}, OFF)


def three_shards(seed: int) -> tuple[Played, Played]:
    """Return a run with batches, and one in which shards place the same dispatches by single cycles
    that cache nothing. Queueing chooses a shard for a dispatch, so its batches must be the same.
    """
    return play(seed, 3, {}, {}), play(seed, 3, {}, OFF)


PAIRS = pytest.mark.parametrize("pair", [whole_mesh, three_shards], ids=lambda one: one.__name__)


@PAIRS
@pytest.mark.parametrize("chunk", range(-(-WORLDS // CHUNK)))
def test_batch_on_equals_batch_off_decision_by_decision(chunk, pair):
    seen: Counter[str] = Counter()
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        on, off = pair(seed)
        assert differences(on, off) == [], f"seed {seed}"
        assert sum(map(len, on.decisions)) > PODS_MIN
        seen += on.seen
    assert chunk or seen.keys() >= KINDS, f"never occurred: {KINDS - seen.keys()}"


BUGS = (
    Bug(
        "rules-do-not-count-the-batch",
        "shared.scheduling.cycle.inter_pod_rules",
        ("        self.counts.move(self.sig, row)\n", "        pass\n"),
    ),
    Bug(
        "a-chosen-node-is-kept-too-long",
        "shared.scheduling.cycle.sweep",
        (
            "((-total << ROW_BITS) | row) > last:",
            "((-total << ROW_BITS) | row) > last + (3 << 32):",
        ),
    ),
)
OF_QUEUEING = Bug(
    "batches-pass-older-pods",
    "services.queueing.core.scheduling_queue",
    ("ids if limit is None else ids[: max(1, int(np.searchsorted(seqs, limit)))]", "ids"),
)


@pytest.mark.parametrize(
    ("pair", "bug"),
    [
        *((pair, bug) for pair in (whole_mesh, three_shards) for bug in BUGS),
        (whole_mesh, OF_QUEUEING),
    ],
    ids=lambda one: getattr(one, "name", "") or one.__name__,
)
def test_a_change_is_noticed(pair, bug):
    with planted(bug):
        assert any(differences(*pair(seed)) for seed in range(CHUNK))
