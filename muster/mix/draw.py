"""Everything random about a mix, drawn from its seed before it is played: when jobs come and how
long they run, and when nodes fail and are back. Each class and each domain has chance of its own,
so that another class or another failure changes nothing else.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from msgspec import structs

from muster.flood.arrivals import endless_ms
from muster.flood.plan import Plan
from muster.flood.workload import Arrivals, CreatePods, Template
from muster.mix.mix import Failures, Inference, Jobs, Mix, Nodes, Trace
from shared.kubernetes.objects.labels import HOSTNAME_LABEL
from shared.model.columns import split
from shared.model.objects import Node

NAMESPACE = "default"
LOOK_MS, LOOKS = 50, 20
"""Members of a gang end within a second, as kubelets notice: nodes become free one by one."""
PODS_MAX = 1 << 40
"""More pods than any mix creates."""


@dataclass(frozen=True)
class Coming:
    """A job that comes at `at_ms`. `durations_ms`: one for each pod. Those of a gang differ by what
    kubelets take to notice its end.
    """

    at_ms: int
    name: str
    template: Template
    size: int
    durations_ms: tuple[int, ...]
    is_gang: bool = False


@dataclass(frozen=True)
class Outage:
    """Nodes that are gone within these times, by name. `is_back`: they return within the run."""

    from_ms: int
    to_ms: int
    names: tuple[str, ...]


def plan_of(mix: Mix) -> Plan:
    """Return what a target of floods must know: nodes, and what pods may be like."""
    classes: tuple[Jobs | Inference, ...] = (*mix.jobs, *mix.inference)
    templates = tuple((one.template, 1) for one in classes)
    gang_size = max((size for one in mix.jobs if one.is_gang for size, _ in one.sizes), default=0)
    step = CreatePods(0, templates, NAMESPACE, Arrivals(), gang_size=gang_size)
    return Plan(mix.name, nodes_of(mix), steps=[(range(PODS_MAX), step)])


def nodes_of(mix: Mix) -> tuple[Node, ...]:
    """Return all nodes with their labels."""
    own = (_node(group, number) for group in mix.nodes for number in range(group.count))
    return (*own, *(node for trace in mix.traces for node in trace.world.nodes))


def _node(group: Nodes, number: int) -> Node:
    name = f"{group.prefix}-{number}"
    domains = {key: f"{group.prefix}-{number // size}" for key, size in group.domains}
    labels = dict(sorted((group.made.labels | {HOSTNAME_LABEL: name} | domains).items()))
    return structs.replace(group.made, name=name, uid=f"node.{name}", labels=labels)


def jobs_of(mix: Mix) -> list[Coming]:
    """Return all jobs in the order in which they come."""
    found = [coming for jobs in mix.jobs for coming in _jobs(mix, jobs)]
    found += [coming for trace in mix.traces for coming in _traced(mix, trace)]
    return sorted(found, key=lambda coming: coming.at_ms)


def _jobs(mix: Mix, jobs: Jobs) -> Iterator[Coming]:
    chance = random.Random(f"mix-{mix.seed}-{jobs.name}")
    times = random.Random(f"mix-{mix.seed}-{jobs.name}-times")
    sizes, weights = zip(*jobs.sizes, strict=True)
    for at_ms in takewhile(lambda ms: ms < mix.horizon_ms, endless_ms(jobs.arrivals, times)):
        (size,) = chance.choices(sizes, weights)
        if jobs.is_gang:
            runs_ms = jobs.durations.draw(chance)
            later_ms = (LOOK_MS * chance.randrange(LOOKS) for _ in range(size))
            durations = tuple(runs_ms + more_ms for more_ms in later_ms)
        else:
            durations = tuple(jobs.durations.draw(chance) for _ in range(size))
        yield Coming(at_ms, jobs.name, jobs.template, size, durations, jobs.is_gang)


def _traced(mix: Mix, trace: Trace) -> Iterator[Coming]:
    """Yield the pods of a trace; those without an end run beyond the horizon."""
    for arrival in trace.world.arrivals:
        if arrival.at_ms < mix.horizon_ms:
            pods = arrival.pods
            template = Template(trace.name, pods.spec, pods.labels, pods.gated, False, {})
            ends_ms = (arrival.lifetime_ms or mix.horizon_ms,)
            for _ in split(pods.uids):
                yield Coming(arrival.at_ms, trace.name, template, 1, ends_ms)


def outages_of(mix: Mix, nodes: tuple[Node, ...]) -> list[Outage]:
    """Return when which nodes fail, in order of time."""
    found = [outage for one in mix.failures for outage in _outages(mix, one, nodes)]
    return sorted(found, key=lambda outage: (outage.from_ms, outage.names))


def _outages(mix: Mix, failures: Failures, nodes: tuple[Node, ...]) -> Iterator[Outage]:
    domains: dict[str, list[str]] = {}
    for node in nodes:
        if failures.domain in node.labels:
            domains.setdefault(node.labels[failures.domain], []).append(node.name)
    for value, names in domains.items():
        chance = random.Random(f"mix-{mix.seed}-{failures.domain}-{value}")
        at_ms = 0.0
        while (at_ms := at_ms + chance.expovariate(1 / failures.mean_ms)) < mix.horizon_ms:
            back_ms = at_ms + failures.repairs.draw(chance)
            yield Outage(int(at_ms), int(back_ms), tuple(names))
            at_ms = back_ms
