"""Turns the steps of a workload into stages of timed actions: all of a flood but its answers."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeVar

from msgspec import structs

from muster.flood.arrivals import times_ms
from muster.flood.workload import (
    Barrier,
    CreateNodes,
    CreateObjects,
    CreatePods,
    DeleteNodes,
    DeletePods,
    Sleep,
    Step,
    Template,
    Workload,
)
from shared.kubernetes.objects.labels import HOSTNAME_LABEL, ZONE_LABEL
from shared.model.cluster_objects import ClusterObject
from shared.model.groups.topology import Topology
from shared.model.objects import Gang, Node

T = TypeVar("T")
WINDOW_PODS = 1_000
"""Of this many pods that come together, those of one template are created together."""


@dataclass(frozen=True)
class AddNodes:
    """Create nodes."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class FailNodes:
    """Delete nodes, by name."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class AddPods:
    """Create pods of one template, by their numbers in the flood; with their gang, if it is new."""

    template: Template
    numbers: Sequence[int]
    step: CreatePods
    gang: str = ""
    gangs: tuple[Gang, ...] = ()


@dataclass(frozen=True)
class RemovePods:
    """Delete pods."""

    numbers: Sequence[int]


Action = AddNodes | FailNodes | AddPods | RemovePods


@dataclass
class Plan:
    """`stages` are (ms since the stage began, action) in order; after each stage the flood waits
    for its pods. `steps` are the pods' numbers by step. The nodes and objects exist before.
    """

    name: str
    nodes: tuple[Node, ...] = ()
    objects: tuple[ClusterObject, ...] = ()
    written: tuple[Mapping[str, Any], ...] = ()
    """The objects as they were written."""
    stages: list[list[tuple[int, Action]]] = field(default_factory=list)
    steps: list[tuple[range, CreatePods]] = field(default_factory=list)

    @property
    def pods(self) -> int:
        """Return the number of all pods."""
        return self.steps[-1][0].stop if self.steps else 0

    def numbers(self, is_wanted: bool) -> Iterator[range]:
        """Yield the numbers of pods that barriers wait for, or that are measured."""
        for numbers, step in self.steps:
            if not step.stays if is_wanted else step.is_measured:
                yield numbers


class _Planning:
    """The steps so far."""

    def __init__(self, workload: Workload) -> None:
        self._seed = workload.seed
        self.plan = Plan(workload.name, stages=[[]])
        self._at_ms = 0
        self._pods = 0
        self._nodes: dict[str, list[str]] = {}
        self._made: dict[str, int] = {}
        self._old: dict[str, list[int]] = {}

    def take(self, place: int, step: Step) -> None:
        chance = random.Random(f"flood-{self._seed}-{place}")
        if isinstance(step, Barrier):
            self._next_stage()
        elif isinstance(step, Sleep):
            self._at_ms += step.duration_ms
        elif isinstance(step, CreateObjects):
            self.plan.objects += step.objects
            self.plan.written += step.written
        elif isinstance(step, CreateNodes):
            self._create_nodes(step, chance)
        elif isinstance(step, DeleteNodes):
            self._delete_nodes(step, chance)
        elif isinstance(step, DeletePods):
            self._delete_pods(step, chance)
        elif step.gang_size:
            self._create_gangs(step, chance)
        else:
            self._create_pods(step, chance)

    def _next_stage(self) -> None:
        stage = self.plan.stages[-1]
        stage.sort(key=lambda timed: timed[0])
        if self._at_ms > (stage[-1][0] if stage else 0):
            stage.append((self._at_ms, RemovePods(())))  # sleep to the end
        self.plan.stages.append([])
        self._at_ms = 0

    def done(self) -> Plan:
        self._next_stage()
        self.plan.stages.pop()
        return self.plan

    def _add(self, at_ms: int, action: Action) -> None:
        self.plan.stages[-1].append((self._at_ms + at_ms, action))

    def _create_nodes(self, step: CreateNodes, chance: random.Random) -> None:
        first = self._made.get(step.prefix, 0)
        self._made[step.prefix] = first + step.count
        nodes = [_node(step, first + number) for number in range(step.count)]
        if not step.runs_for_ms:
            self._nodes.setdefault(step.prefix, []).extend(node.name for node in nodes)
        times = times_ms(step.arrivals, step.count, chance)
        for at_ms, together in _together(times, nodes):
            if len(self.plan.stages) == 1 and self._at_ms + at_ms == 0:
                self.plan.nodes += tuple(together)
            else:
                self._add(at_ms, AddNodes(tuple(together)))
            if step.runs_for_ms:
                names = tuple(node.name for node in together)
                self._add(at_ms + step.runs_for_ms, FailNodes(names))

    def _delete_nodes(self, step: DeleteNodes, chance: random.Random) -> None:
        left = self._nodes.get(step.prefix, [])
        gone = chance.sample(left, min(step.count, len(left)))
        self._nodes[step.prefix] = [name for name in left if name not in set(gone)]
        for at_ms, names in _together(times_ms(step.arrivals, len(gone), chance), gone):
            self._add(at_ms, FailNodes(tuple(names)))

    def _delete_pods(self, step: DeletePods, chance: random.Random) -> None:
        old = self._old.get(step.namespace, [])
        count = min(step.count or len(old), len(old))
        gone, self._old[step.namespace] = old[:count], old[count:]
        for at_ms, numbers in _together(times_ms(step.arrivals, count, chance), gone):
            self._add(at_ms, RemovePods(numbers))

    def _create_pods(self, step: CreatePods, chance: random.Random) -> None:
        numbers = self._numbers(step)
        old = self._old.setdefault(step.namespace, [])
        for at_ms, together in _together(times_ms(step.arrivals, step.count, chance), numbers):
            for template, same in _by_template(step, together, chance):
                self._add(at_ms, AddPods(template, same, step))
            if step.replaces and old:
                self._add(at_ms, RemovePods(old[: len(together)]))
                del old[: len(together)]
        old.extend(numbers)

    def _create_gangs(self, step: CreatePods, chance: random.Random) -> None:
        numbers, size = self._numbers(step), step.gang_size
        for place, at_ms in enumerate(times_ms(step.arrivals, step.count, chance)):
            first = numbers.start + place * size
            key = f"{step.namespace}/gang-{first}/pods"
            gangs: tuple[Gang, ...] = (
                Gang(
                    key=key,
                    min_count=step.min_count,
                    timeout_ms=step.timeout_ms,
                    topology=Topology((step.topology_key,)) if step.topology_key else None,
                ),
            )
            for template, same in _by_template(step, range(first, first + size), chance):
                self._add(at_ms, AddPods(template, same, step, key, gangs))
                gangs = ()
        self._old.setdefault(step.namespace, []).extend(numbers)

    def _numbers(self, step: CreatePods) -> range:
        numbers = range(self._pods, self._pods + step.pods)
        self._pods = numbers.stop
        self.plan.steps.append((numbers, step))
        return numbers


def _together(times: Sequence[int], things: Sequence[T]) -> Iterator[tuple[int, Sequence[T]]]:
    """Yield each time with what comes then."""
    first = 0
    for at_ms, same in groupby(times):
        count = sum(1 for _ in same)
        yield at_ms, things[first : first + count]
        first += count


def _by_template(
    step: CreatePods, numbers: Sequence[int], chance: random.Random
) -> Iterator[tuple[Template, Sequence[int]]]:
    if len(step.mix) == 1:
        yield step.mix[0][0], numbers
        return
    templates, weights = zip(*step.mix, strict=True)
    for start in range(0, len(numbers), WINDOW_PODS):
        window = numbers[start : start + WINDOW_PODS]
        found: dict[str, tuple[Template, list[int]]] = {}
        chosen = chance.choices(templates, weights, k=len(window))
        for number, one in zip(window, chosen, strict=True):
            found.setdefault(one.name, (one, []))[1].append(number)
        yield from found.values()


def _node(step: CreateNodes, number: int) -> Node:
    name = f"{step.prefix}-{number}"
    zone = {ZONE_LABEL: step.zones[number % len(step.zones)]} if step.zones else {}
    labels = dict(sorted((step.made.labels | {HOSTNAME_LABEL: name} | zone).items()))
    return structs.replace(step.made, name=name, uid=f"node.{name}", labels=labels)


def plan_of(workload: Workload) -> Plan:
    """Return the plan of a workload; it depends on the workload and its seed alone."""
    planning = _Planning(workload)
    for place, step in enumerate(workload.steps):
        planning.take(place, step)
    return planning.done()
