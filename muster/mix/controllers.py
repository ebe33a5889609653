"""The controllers of a mix: they create pods, end and replace them, and let nodes fail.

They do what Job, JobSet and ReplicaSet controllers and kubelets do in a cluster, with one liberty:
a lost pod is replaced at once. Which node a pod gets is the scheduler's affair.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from msgspec import structs

from muster.flood.book import Seen
from muster.flood.plan import Action, AddNodes, AddPods, FailNodes, RemovePods
from muster.flood.workload import Arrivals, CreatePods, Template
from muster.mix.accounts import HOUR_MS, Account, Kind
from muster.mix.draw import NAMESPACE, Coming, Outage, jobs_of, nodes_of, outages_of
from muster.mix.mix import Inference, Jobs, Mix, Trace
from muster.mix.usage import Amounts, Usage, requested
from shared.model.groups.topology import Topology
from shared.model.objects import Gang, Node

GANG_TIMEOUT_MS = 300_000
SAMPLES = 240
"""Intervals into which the horizon is divided for the series."""

_Entry = tuple[float, int, Callable[[Any, float], None], Any]
"""When something is due, a number that orders what is due together, what it does, and with what."""


class _Class:
    """Equal pods of one class of workloads."""

    def __init__(self, account: Account, template: Template, topology_key: str = "") -> None:
        self.account, self.template = account, template
        self.amounts: Amounts = requested(template.spec)
        self.topology = Topology((topology_key,)) if topology_key else None
        self.step = CreatePods(0, ((template, 1),), NAMESPACE, Arrivals())


@dataclass(eq=False)
class _Job:
    """A gang, an array, or a Deployment. `unbound`: members of a gang without a node. `attempt`
    counts the starts of a gang, and `is_ending` once a member has ended; `left`: pods of an array
    that have not.
    """

    of: _Class
    size: int
    came_ms: float = 0.0
    durations_ms: Sequence[int] = ()
    numbers: dict[int, None] = field(default_factory=dict)
    unbound: int = 0
    left: int = 0
    attempt: int = 0
    is_ending: bool = False
    has_started: bool = False


@dataclass(eq=False)
class _Pod:
    """A living pod. `place`: which one of its array. `came_ms`: when it, or the first pod in its
    place, came. `node`: empty = none yet.
    """

    job: _Job
    place: int
    came_ms: float
    is_first: bool = True
    node: str = ""
    bound_ms: float = 0.0


class Controllers:
    """`act` carries out what they want. Times are ms since the start."""

    def __init__(self, mix: Mix) -> None:
        """Draw everything random; nothing happens before `due`."""
        self.nodes = nodes_of(mix)
        self.usage = Usage(self.nodes)
        self.pods_created = 0
        self.nodes_failed = 0
        self.waiting: list[list[int]] = []
        """For each sample, the pods of each class without a node."""
        self._by_name: dict[str, Node] = {node.name: node for node in self.nodes}
        self._made: dict[str, int] = {}  # name -> how often the node was made anew
        self._outages: dict[str, int] = {}  # name -> open outages
        self._pods: dict[int, _Pod] = {}
        self._actions: list[Action] = []
        levels = [
            {node.name: node.labels[key] for node in self.nodes if key in node.labels}
            for key in mix.levels
        ]
        self._accounts = {one.name: Account(one.name, _kind_of(one), levels) for one in mix.classes}
        self._topologies = {one.name: one.topology_key for one in mix.jobs}
        self._like: dict[tuple[Any, ...], _Class] = {}
        self._deployments = [
            (one, [_Job(self._class(one.name, one.template), 1) for _ in range(one.count)])
            for one in mix.inference
        ]
        self._agenda: list[_Entry] = []
        self._count = 0
        for coming in jobs_of(mix):
            self._at(coming.at_ms, self._come, coming)
        for outage in outages_of(mix, self.nodes):
            self._at(outage.from_ms, self._fail, outage)
            self._at(outage.to_ms, self._repair, outage)
        for at_ms in range(0, mix.horizon_ms if mix.inference else 0, HOUR_MS):
            self._at(at_ms, self._scale, at_ms // HOUR_MS)
        for place in range(1, SAMPLES + 1):
            self._at(mix.horizon_ms * place // SAMPLES, self._sample, None)

    @property
    def accounts(self) -> list[Account]:
        """Return the accounts of all classes."""
        return list(self._accounts.values())

    @property
    def running(self) -> int:
        """Return the number of pods with a node."""
        return len(self._pods) - sum(one.waiting for one in self.accounts)

    def _class(self, name: str, template: Template) -> _Class:
        """Return what equal pods of a class have in common."""
        # Templates hold dicts, so equal ones are found by what they are made of.
        key = name, template.spec, template.labels
        if key not in self._like:
            account, topology_key = self._accounts[name], self._topologies.get(name, "")
            self._like[key] = _Class(account, template, topology_key)
        return self._like[key]

    def _at(self, at_ms: float, do: Callable[[Any, float], None], argument: Any) -> None:
        self._count += 1
        heappush(self._agenda, (at_ms, self._count, do, argument))

    def next_ms(self) -> float:
        """Return when something is due next."""
        return self._agenda[0][0] if self._agenda else float("inf")

    def due(self, now_ms: float) -> list[Action]:
        """Do what is due, and return what is to be carried out."""
        while self._agenda and self._agenda[0][0] <= now_ms:
            at_ms, _, do, argument = heappop(self._agenda)
            do(argument, at_ms)
        return self._taken()

    def take(self, seen: Seen, now_ms: float) -> list[Action]:
        """Take in what the cluster has shown, and return what is to be carried out."""
        for number, at_ms, node in zip(seen.bound, seen.bound_ms, seen.nodes, strict=True):
            if number in self._pods:
                self._bound(number, at_ms, node, now_ms)
        for number in seen.gone:
            if number in self._pods:
                self._pods[number].job.of.account.evicted += 1
                self._lost(number, now_ms)
        return self._taken()

    def _taken(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions

    # ---------------------------------------------------------------------- what is to happen

    def _come(self, coming: Coming, at_ms: float) -> None:
        like = self._class(coming.name, coming.template)
        job = _Job(like, coming.size, at_ms, coming.durations_ms)
        job.of.account.of(job.size).came += 1
        job.left = job.size
        if coming.is_gang:
            self._start_gang(job, at_ms)
        else:
            self._create(job, range(job.size), at_ms)

    def _start_gang(self, job: _Job, at_ms: float) -> None:
        job.attempt += 1
        job.unbound = job.size
        key = f"{NAMESPACE}/gang-{self.pods_created}/pods"
        gang = Gang(
            key=key, min_count=job.size, timeout_ms=GANG_TIMEOUT_MS, topology=job.of.topology
        )
        self._create(job, range(job.size), at_ms, key, (gang,))

    def _create(
        self,
        job: _Job,
        places: Sequence[int],
        at_ms: float,
        gang: str = "",
        gangs: tuple[Gang, ...] = (),
        is_first: bool = True,
    ) -> None:
        numbers = range(self.pods_created, self.pods_created + len(places))
        self.pods_created = numbers.stop
        for number, place in zip(numbers, places, strict=True):
            self._pods[number] = _Pod(job, place, at_ms, is_first)
            job.numbers[number] = None
        job.of.account.waiting += len(numbers)
        self._actions.append(AddPods(job.of.template, numbers, job.of.step, gang, gangs))

    def _remove(self, numbers: Iterable[int], now_ms: float) -> None:
        """Delete pods that are no longer wanted."""
        removed = list(numbers)
        for number in removed:
            self._forget(number, now_ms)
        self._actions.append(RemovePods(removed))

    def _forget(self, number: int, now_ms: float) -> _Pod:
        pod = self._pods.pop(number)
        del pod.job.numbers[number]
        if pod.node:
            self.usage.release(pod.node, pod.job.of.amounts, now_ms)
        else:
            pod.job.of.account.waiting -= 1
        return pod

    def _end_members(self, ending: tuple[_Job, int, list[int]], now_ms: float) -> None:
        job, attempt, numbers = ending
        if job.attempt == attempt:
            job.is_ending = True
            self._remove([number for number in numbers if number in self._pods], now_ms)
            self._end_if_empty(job, now_ms)

    def _end_if_empty(self, job: _Job, now_ms: float) -> None:
        if not job.numbers:
            job.attempt += 1  # what is due for this one is void
            self._complete(job, now_ms)

    def _end_pod(self, number: int, now_ms: float) -> None:
        if number in self._pods:
            job = self._pods[number].job
            self._remove([number], now_ms)
            job.left -= 1
            if not job.left:
                self._complete(job, now_ms)

    def _complete(self, job: _Job, now_ms: float) -> None:
        account = job.of.account.of(job.size)
        account.ended += 1
        account.completions_ms.append(now_ms - job.came_ms)

    def _scale(self, hour: int, now_ms: float) -> None:
        for inference, deployments in self._deployments:
            wanted = inference.replicas[hour % len(inference.replicas)]
            for job in deployments:
                self._look(job)
                more = wanted - len(job.numbers)
                if more > 0:
                    job.of.account.of(1).came += more
                    self._create(job, [0] * more, now_ms)
                elif more < 0:
                    self._remove(self._superfluous(job, -more), now_ms)

    def _superfluous(self, job: _Job, count: int) -> list[int]:
        """Return the pods that a ReplicaSet deletes first: those without a node, then the
        youngest.
        """
        return sorted(job.numbers, key=lambda number: (bool(self._pods[number].node), -number))[
            :count
        ]

    def _look(self, job: _Job) -> None:
        pods = (self._pods[number] for number in job.numbers)
        job.of.account.look([pod.node for pod in pods if pod.node])

    def _fail(self, outage: Outage, now_ms: float) -> None:
        failing = [name for name in outage.names if not self._outages.get(name)]
        for name in outage.names:
            self._outages[name] = self._outages.get(name, 0) + 1
        if not failing:
            return
        for name in failing:
            self.usage.set_up(name, False, now_ms)
        self.nodes_failed += len(failing)
        self._actions.append(FailNodes(tuple(failing)))
        gone = set(failing)
        self._collect([number for number, pod in self._pods.items() if pod.node in gone], now_ms)

    def _repair(self, outage: Outage, now_ms: float) -> None:
        back: list[Node] = []
        for name in outage.names:
            self._outages[name] -= 1
            if not self._outages[name]:
                self.usage.set_up(name, True, now_ms)
                made = self._made[name] = self._made.get(name, 1) + 1
                back.append(structs.replace(self._by_name[name], uid=f"node.{name}.{made}"))
        if back:
            self._actions.append(AddNodes(tuple(back)))

    def _sample(self, _nothing: None, now_ms: float) -> None:
        self.usage.sample(now_ms)
        self.waiting.append([one.waiting for one in self.accounts])

    # --------------------------------------------------------------------- what has happened

    def _bound(self, number: int, at_ms: float, node: str, now_ms: float) -> None:
        pod = self._pods[number]
        job, account = pod.job, pod.job.of.account
        pod.node, pod.bound_ms = node, at_ms
        account.waiting -= 1
        self.usage.charge(node, job.of.amounts, at_ms)
        if account.kind == "training":
            job.unbound -= 1
            if not job.unbound:
                self._gang_starts(job, at_ms)
        else:
            if pod.is_first:
                account.of(job.size).waits_ms.append(at_ms - pod.came_ms)
            if account.kind == "batch":
                self._at(at_ms + job.durations_ms[pod.place], self._end_pod, number)
        if not self.usage.is_up(node):
            self._collect([number], now_ms)

    def _gang_starts(self, job: _Job, at_ms: float) -> None:
        if not job.has_started:
            job.has_started = True
            job.of.account.of(job.size).waits_ms.append(at_ms - job.came_ms)
        self._look(job)
        together: dict[int, list[int]] = {}
        for number in job.numbers:
            runs_ms = job.durations_ms[self._pods[number].place]
            together.setdefault(runs_ms, []).append(number)
        for runs_ms, numbers in together.items():
            self._at(at_ms + runs_ms, self._end_members, (job, job.attempt, numbers))

    def _collect(self, numbers: list[int], now_ms: float) -> None:
        """Delete pods whose node has failed."""
        if numbers:
            self._actions.append(RemovePods(numbers))
        for number in numbers:
            self._pods[number].job.of.account.failed += 1
        for number in numbers:
            if number in self._pods:  # else its gang was lost with another one
                self._lost(number, now_ms)

    def _lost(self, number: int, now_ms: float) -> None:
        """Replace a pod that was evicted, or whose node failed."""
        pod = self._forget(number, now_ms)
        job, account = pod.job, pod.job.of.account
        self._lose_work(pod, now_ms)
        if job.is_ending:
            self._end_if_empty(job, now_ms)
        elif account.kind == "training":
            for other in job.numbers:
                self._lose_work(self._pods[other], now_ms)
            self._remove(job.numbers, now_ms)
            account.restarts += 1
            self._start_gang(job, now_ms)
        else:
            is_replica = account.kind == "inference"
            if is_replica:
                account.of(1).came += 1
            came_ms = now_ms if is_replica or not pod.is_first else pod.came_ms
            is_first = is_replica or (pod.is_first and not pod.node)
            self._create(job, [pod.place], came_ms, is_first=is_first)

    def _lose_work(self, pod: _Pod, now_ms: float) -> None:
        if pod.node and pod.job.of.account.kind != "inference":
            pod.job.of.account.lose(pod.job.of.amounts, now_ms - pod.bound_ms)


def _kind_of(one: Jobs | Inference | Trace) -> Kind:
    if isinstance(one, Inference):
        return "inference"
    return "training" if isinstance(one, Jobs) and one.is_gang else "batch"
