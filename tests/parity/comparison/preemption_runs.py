"""Whole runs with preemption as questions to kube-scheduler: one for every placement, refusal and
choice of victims in the journals.

The knowledge of a shard, or of preemption, at a decision is read from the inputs that its records
consumed, without any code of the services. Where the journals of three shards meet, the cluster is
what each shard knew when it answered.
"""

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from muster.app.journals import all_journals
from muster.app.mesh import Mesh
from muster.app.virtual_time import SimClock, VirtualLoop, inline
from muster.checker.inputs.journals import Journal, Step, read_all
from shared.bus.memory import MemoryBus, MemoryLog
from shared.events.base import Event
from shared.events.binding import EvictionFailed
from shared.events.ingest import (
    BudgetCovers,
    BudgetSet,
    NodesSet,
    PodsAssigned,
    PodsGone,
    PodsNamed,
)
from shared.events.placement import (
    CandidatesFound,
    Nominated,
    NominationLost,
    NominationStale,
    Refused,
    Released,
    Reserved,
)
from shared.events.preemption import (
    DryRunAsked,
    EvictAsked,
    NominateAsked,
    NominationCleared,
    PreemptionClosed,
)
from shared.machine.runtime import Host
from shared.model.columns import as_numbers, size, split, unpack, unpack_totals
from shared.model.ids import INGEST, PREEMPTION, JournalName, placement
from shared.simulated.cluster import SimCluster
from shared.simulated.config import SimConfig
from shared.snapshots.memory import MemorySnapshots
from shared.worlds.manifests import manifests_world
from tests.parity.comparison.mesh_runs import World
from tests.parity.generators.case_builder import Object

EPOCH = datetime(2026, 1, 2, tzinfo=UTC)
GRACE_MS = 300


@dataclass(frozen=True)
class Promise:
    """A node nominated for a pod, which it gets once its victims have left."""

    pod: int
    node: str
    victims: frozenset[int]


@dataclass
class Known:
    """A shard's knowledge: its nodes, the pods on them with their start (ms), and nominations by
    ask.
    """

    nodes: dict[int, str] = field(default_factory=dict)
    placed: dict[int, tuple[str, int]] = field(default_factory=dict)
    promised: dict[int, Promise] = field(default_factory=dict)

    def copy(self) -> "Known":
        """Return a copy."""
        return Known(dict(self.nodes), dict(self.placed), dict(self.promised))

    def let_go(self, pod: int) -> None:
        """Drop the pod's nomination."""
        self.promised = {ask: one for ask, one in self.promised.items() if one.pod != pod}

    def node_of(self, pod: int) -> str:
        """Return the pod's nominated node, or an empty text."""
        return next((one.node for one in self.promised.values() if one.pod == pod), "")


@dataclass
class Decision:
    """One pod's placement, or refusal (`node` empty) for `reasons`; or, with `preempts`, who goes
    for it on which node (none: `message` says why), while `leaving` are on their way for others and
    budgets have so much `left`.
    """

    pod: int
    known: Known
    node: str = ""
    total: int = 0
    reasons: tuple[tuple[str, int], ...] = ()
    together: int = 1
    preempts: bool = False
    victims: Sequence[int] = ()
    violations: int = 0
    message: str = ""
    leaving: frozenset[int] = frozenset()
    left: dict[str, int] = field(default_factory=dict)
    full: frozenset[str] = frozenset()


@dataclass
class Played:
    """A run's decisions, those of shards first and then preemption's, and the pods' names by
    number.
    """

    decisions: list[Decision]
    names: dict[int, str]

    def case(self, world: World, one: Decision, full: Iterable[str] = ()) -> Object:
        """Return the question as a case; nodes that are `full` take no pod even after evictions."""
        objects = [self._with_left(each, one) for each in world.selecting]
        for name, node in world.nodes.items():
            if name in one.known.nodes.values():
                is_full = name in full or name in one.full
                objects.append(node | {"spec": {"unschedulable": True}} if is_full else node)
        since = sorted((ms, pod) for pod, (_node, ms) in one.known.placed.items())
        for number, (_ms, pod) in enumerate(since):
            if pod not in one.leaving:
                objects.append(self._placed(world, pod, one.known.placed[pod][0], number))
        for promise in one.known.promised.values():
            if promise.pod != one.pod:
                status = {"nominatedNodeName": promise.node}
                objects.append(world.pods[self.names[promise.pod]] | {"status": status})
        asked = world.pods[self.names[one.pod]]
        return {"objects": objects, "pods": [asked], "preempt": one.preempts}

    def _with_left(self, given: Object, one: Decision) -> Object:
        if given["kind"] != "PodDisruptionBudget":
            return given
        left = one.left.get(f"{given['metadata']['namespace']}/{given['metadata']['name']}", 0)
        return given | {"status": {"disruptionsAllowed": left}}

    def _placed(self, world: World, pod: int, node: str, number: int) -> Object:
        """Return an assigned pod. Of two pods with one start, the one known first is older, as in
        the mesh.
        """
        given = world.pods[self.names[pod]]
        start = (EPOCH + timedelta(seconds=number)).isoformat()
        status = {"phase": "Running", "startTime": start}
        return given | {"spec": given["spec"] | {"nodeName": node}, "status": status}


def played(world: World, folder: Any, shards: int, batch: bool, lasts_s: float) -> Played:
    """Return the decisions of a run on this world, on virtual time."""
    path = folder / "world.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": world.objects()}))
    log = MemoryLog()
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(
            _play(
                SimCluster(manifests_world([path]), SimConfig(grace_ms=GRACE_MS)),
                log,
                shards,
                batch,
                lasts_s,
            )
        )
    names = {str(one): str(one) for one in all_journals(shards)}
    records = {name: log._journal(JournalName(name)).records for name in names}
    journals, problems = read_all(records, names)
    assert problems == []
    return _read(journals, shards)


async def _play(
    cluster: SimCluster, log: MemoryLog, shards: int, batch: bool, lasts_s: float
) -> None:
    numbers = iter(range(1_000))
    mesh = Mesh(
        bus_of=lambda _journal: MemoryBus(log),
        store=MemorySnapshots(),
        cluster=cluster,
        placements=shards,
        config={"placement": {"batch": batch}},
        host=Host(SimClock(asyncio.get_running_loop()), "run", lambda: str(next(numbers)), inline),
    )
    cluster.start()
    serving = asyncio.create_task(mesh.serve(all_journals(shards)))
    try:
        await asyncio.sleep(lasts_s)
        if serving.done():
            serving.result()
    finally:
        cluster.stop()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


def _read(journals: dict[str, Journal], shards: int) -> Played:
    names: dict[int, str] = {}
    for step in journals[INGEST].steps:
        for event in step.own:
            if isinstance(event, PodsNamed):
                pods = (f"{event.namespace}/{name}" for name in split(event.names))
                names.update(zip(as_numbers(event.ids), pods, strict=True))
    made: list[Decision] = []
    answers: dict[tuple[str, int, int], Known] = {}
    for shard in range(shards):
        made += _of_shard(journals[placement(shard)], shard, answers)
    made += Arbiter(answers).read(journals[PREEMPTION])
    return Played(made, names)


def _of_shard(
    journal: Journal, shard: int, answers: dict[tuple[str, int, int], Known]
) -> Iterator[Decision]:
    """What it decided; `answers` gets what it knew at dry runs, by journal, position and ask."""
    known = Known()
    for step in journal.steps:
        for source, position, event in step.inputs:
            _learn(known, shard, event, _time_ms(step, source, position))
        for event in step.own:
            if isinstance(event, CandidatesFound):
                answers[journal.name, step.position, event.ask] = known.copy()
            yield from _decided(known, event, step.record.time_ms)


def _time_ms(step: Step, source: str, position: int) -> int:
    """Return the time at which the step applied this input, ms."""
    for part in step.record.consumed:
        if part.journal == source and part.start <= position < part.stop and part.time_ms >= 0:
            return part.time_ms
    return step.record.time_ms


def _learn(known: Known, shard: int, event: Event, now_ms: int) -> None:
    match event:
        case NodesSet() if event.shard == shard:
            names = (node.name for node in event.nodes)
            known.nodes.update(zip(as_numbers(event.ids), names, strict=True))
        case PodsAssigned() if event.shard == shard:
            for pod, node in zip(as_numbers(event.ids), as_numbers(event.nodes), strict=True):
                known.placed.setdefault(pod, (known.nodes[node], now_ms))
                known.let_go(pod)
        case PodsGone():
            for pod in as_numbers(event.ids):
                known.placed.pop(pod, None)
                known.let_go(pod)
        case NominationCleared():
            known.promised.pop(event.ask, None)


def _decided(known: Known, event: Event, now_ms: int) -> Iterator[Decision]:
    match event:
        case Refused():
            for pod in as_numbers(event.ids):
                yield Decision(pod, known.copy(), reasons=event.reasons)
        case Reserved():
            columns = (
                unpack(event.ids),
                unpack(event.nodes),
                unpack_totals(event.totals, size(event.ids)),
            )
            rows = list(zip(*(column.tolist() for column in columns), strict=True))
            for pod, node, total in rows:
                name = known.nodes[node]
                yield Decision(pod, known.copy(), name, total, together=len(rows))
                known.placed[pod] = name, now_ms
                known.let_go(pod)
        case Released():
            for pod in as_numbers(event.ids):
                known.placed.pop(pod, None)
        case Nominated():
            known.let_go(event.pod)
            promise = Promise(
                event.pod, known.nodes[event.node], frozenset(as_numbers(event.victims))
            )
            known.promised[event.ask] = promise
        case NominationLost():
            known.promised.pop(event.ask, None)


@dataclass
class Run:
    """A dry run: who is on the way out when it is asked for, what shards know as they answer it,
    and who was chosen since, by this one or another.
    """

    leaving: frozenset[int]
    chosen: dict[int, Promise] = field(default_factory=dict)
    known: dict[int, tuple[Known, CandidatesFound]] = field(default_factory=dict)


@dataclass
class Arbiter:
    """Reads preemption's journal: the shards' answers and the chosen victims."""

    answers: dict[tuple[str, int, int], Known]
    runs: dict[int, Run] = field(default_factory=dict)
    run_of: dict[int, Run] = field(default_factory=dict)
    chosen: dict[int, frozenset[int]] = field(default_factory=dict)
    evicted: set[int] = field(default_factory=set)
    allowed: dict[int, tuple[str, int]] = field(default_factory=dict)
    covered: dict[int, set[int]] = field(default_factory=dict)

    def read(self, journal: Journal) -> Iterator[Decision]:
        """Yield preemption's decisions."""
        for step in journal.steps:
            for source, position, event in step.inputs:
                self._learn(source, position, event)
            for event in step.own:
                yield from self._decided(event)

    def _learn(self, source: str, position: int, event: Event) -> None:
        match event:
            case BudgetSet():
                self.allowed.setdefault(event.budget, (event.name, event.allowed))
                self.covered.setdefault(event.budget, set()).update(as_numbers(event.covered))
            case BudgetCovers():
                self.covered.setdefault(event.budget, set()).update(as_numbers(event.ids))
            case CandidatesFound():
                known = self.answers[source, position, event.ask]
                self.runs[event.ask].known[event.shard] = known, event
            case NominationStale():
                self.chosen.pop(event.ask, None)
                for run in self.runs.values():
                    run.chosen.pop(event.ask, None)
            case Nominated() if event.ask in self.chosen:
                self.chosen[event.ask] = frozenset(as_numbers(event.victims))
            case EvictionFailed():
                self.chosen[event.ask] -= set(as_numbers(event.ids))

    def _decided(self, event: Event) -> Iterator[Decision]:
        match event:
            case DryRunAsked():
                run = self.runs[event.ask] = Run(self._leaving())
                self.run_of |= dict.fromkeys((event.pod, *as_numbers(event.others)), run)
            case NominateAsked():
                yield self._choice(self.run_of[event.pod], event)
                self.chosen[event.ask] = frozenset(as_numbers(event.victims))
            case EvictAsked():
                self.evicted.add(event.ask)
            case PreemptionClosed() | NominationCleared():
                if isinstance(event, PreemptionClosed) and event.message:
                    yield self._decision(event.pod, message=event.message)
                if event.ask not in self.evicted:
                    self.chosen.pop(event.ask, None)

    def _leaving(self) -> frozenset[int]:
        return frozenset().union(*self.chosen.values())

    def _choice(self, run: Run, event: NominateAsked) -> Decision:
        known, found = run.known[event.shard]
        victims, node = as_numbers(event.victims), known.nodes[event.node]
        offered = (*found.candidates, *found.series)
        chosen = (event.node, event.victims)
        [violations] = {one.violations for one in offered if (one.node, one.victims) == chosen}
        made = self._decision(event.pod, node=node, victims=victims, violations=violations)
        for other in self.runs.values():
            other.chosen[event.ask] = Promise(event.pod, node, frozenset(victims))
        return made

    def _decision(self, pod: int, **made: Any) -> Decision:
        """In the cluster as the shards knew it when they answered the dry run, with what was
        chosen since.
        """
        run, known = self.run_of[pod], Known()
        for one, _found in run.known.values():
            known.nodes |= one.nodes
            known.placed |= one.placed
            known.promised |= one.promised
        known.promised |= run.chosen
        promised = [one.victims for one in known.promised.values() if one.pod != pod]
        mine = [one.victims for one in run.chosen.values()]
        chosen = run.leaving.union(*mine)
        leaving = chosen.union(*promised)
        left = self._left(chosen)
        alone = [pod for pod in leaving.difference(*mine, *promised) if pod in known.placed]
        full = frozenset(known.placed[pod][0] for pod in alone)
        made |= {"leaving": leaving, "left": left, "full": full}
        return Decision(pod, known, preempts=True, **made)

    def _left(self, chosen: frozenset[int]) -> dict[str, int]:
        """The allowances of budgets: only preemption ends a pod here, and no allowance
        grows back.
        """
        return {
            name: max(0, allowed - len(self.covered[budget] & chosen))
            for budget, (name, allowed) in self.allowed.items()
        }
