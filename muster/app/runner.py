"""Plays a world against the whole mesh in this process until the run is complete.

A run is complete when every pod is bound or waits with a message that brute force confirms
(muster/checker/brute_force.py). It decides nothing about pods.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from muster.app.journals import all_journals
from muster.app.mesh import Mesh
from muster.checker.brute_force import Final, Verdict, Waiting, confirm
from muster.checker.filters.fits import Load
from muster.checker.filters.inter_pod_rules import named
from muster.cli.errors import Fault
from muster.cli.profiles import hard_by_default
from muster.explain.tally import Tally
from shared.events.observed import PodsSeen
from shared.model.cluster_objects import Namespace
from shared.model.columns import split
from shared.model.default_spread import Spreader, Spreaders
from shared.model.objects import PodSpec
from shared.model.profile import Profile
from shared.model.world import World
from shared.ports.bus import Bus
from shared.simulated.cluster import SimCluster

TICK_S = 0.1
QUIET_S = 1.0
"""After this long without a change in the cluster, check whether the run is complete."""
START_S = 30.0
GATE_MS_MAX = 30_000
"""A run may be complete while gangs with a longer permit timeout still wait."""


@dataclass
class Progress:
    """Progress of a run, counted from the cluster's history. `bound` is how many pods have a node
    now, as in the summary.
    """

    total: int
    created: int = 0
    bound: int = 0
    gone: int = 0
    evicted: int = 0
    seconds: float = 0.0


@dataclass
class Outcome:
    """The result of a run. `complete` is False if the time limit ended it."""

    complete: bool
    tally: Tally
    final: Final
    verdict: Verdict


@dataclass
class Runner:
    """One run. `show` is called a few times a second."""

    world: World
    cluster: SimCluster
    mesh: Mesh
    reader: Bus
    time_limit_s: float
    show: Callable[[Progress], None]
    profiles: dict[str, Profile] = field(default_factory=dict)
    _seen: dict[str, PodsSeen] = field(default_factory=dict)
    _spreaders: Spreaders = field(default_factory=Spreaders)
    _read: int = 0

    async def run(self) -> Outcome:
        """Play the world to its end, or to the time limit."""
        for arrival in self.world.arrivals:
            for uid in split(arrival.pods.uids):
                self._seen[uid] = arrival.pods
        for one in self.world.objects:
            if isinstance(one, Spreader):
                self._spreaders.put(one)
        journals = all_journals(self.mesh.placements)
        tally = Tally(self.reader, journals)
        backlog = all(arrival.at_ms == 0 for arrival in self.world.arrivals)
        if backlog:
            # It exists before the first list and is part of it.
            self.cluster.start()
        mesh = asyncio.create_task(self.mesh.serve(journals), name="mesh")
        try:
            await self._until_owned(mesh, len(journals))
            if not backlog:
                self.cluster.start()
            return await self._watch(mesh, tally)
        finally:
            self.cluster.stop()
            mesh.cancel()
            await asyncio.gather(mesh, return_exceptions=True)

    async def _until_owned(self, mesh: asyncio.Task[None], journals: int) -> None:
        clock = asyncio.get_running_loop().time
        began_s = clock()
        while len(self.mesh.owners()) < journals:
            check_mesh(mesh)
            if clock() - began_s > START_S:
                raise Fault(f"the services did not start within {START_S:.0f} s")
            await asyncio.sleep(0.01)

    async def _watch(self, mesh: asyncio.Task[None], tally: Tally) -> Outcome:
        clock = asyncio.get_running_loop().time
        began_s = quiet_s = clock()
        progress = Progress(len(self._seen))
        proven: set[int] = set()
        while True:
            await asyncio.sleep(TICK_S)
            check_mesh(mesh)
            progress.seconds = clock() - began_s
            if self._count(progress):
                quiet_s = clock()
                proven.clear()
            self.show(progress)
            late = progress.seconds > self.time_limit_s
            if late or (self.cluster.arrived and clock() - quiet_s > QUIET_S):
                await tally.catch_up()
                final = self.final(tally)
                gangs_wait = any(pod.gang for pod in final.waiting)
                verdict = confirm(final, self.profiles, proven if gangs_wait else None)
                all_came = self.cluster.arrived
                done = all_came and not verdict.problems and not self._has_open_timeout(tally)
                if done or late:
                    return Outcome(done, tally, final, verdict)
                quiet_s = clock()

    def _count(self, progress: Progress) -> bool:
        """Count the changes in the cluster; return whether any of them matters."""
        history = self.cluster.history
        matters = False
        for happened in history[self._read :]:
            kind = happened.kind
            matters = matters or kind != "touch"
            progress.created += kind == "create"
            progress.bound += kind in ("bind", "late-bind", "foreign-bind")
            if kind == "delete":
                progress.gone += 1
                progress.bound -= bool(happened.node)
            progress.evicted += kind == "evict"
        self._read = len(history)
        return matters

    def _has_open_timeout(self, tally: Tally) -> bool:
        """Return whether a gang still waits for a permit timeout that ends soon."""
        gates = {gang.key: gang.timeout_ms for gang in self.world.gangs}
        answered = tally.gangs_committed | tally.gangs_timed_out
        return any(
            gates.get(tally.gang_keys.get(gang, ""), 0) <= GATE_MS_MAX
            for gang in tally.gangs_tried - answered
        )

    def final(self, tally: Tally) -> Final:
        """Return the present cluster with the messages and devices from the journals."""
        numbers = tally.by_uid()
        final = Final(
            sorted(self.cluster.nodes.values(), key=lambda node: node.name),
            gangs={gang.key: gang for gang in self.world.gangs},
            namespaces={
                one.name: one.labels for one in self.world.objects if isinstance(one, Namespace)
            },
            is_divided=self.mesh.placements > 1,
        )
        for pod in self.cluster.pods.values():
            seen, number = self._seen[pod.uid], numbers.get(pod.uid, 0)
            spec = named(seen.spec, seen.namespace, seen.labels, seen.terminating)
            if pod.node:
                mask = tally.pods[number].device_mask if number else 0
                final.loads.setdefault(pod.node, Load()).add(number or -len(numbers), spec, mask)
                final.running[seen.gang] += 1
            else:
                spec = self._spread(spec, seen)
                message = tally.message(number) if number else ""
                waiting = Waiting(number, pod.name, spec, message, seen.gang, pod.gated)
                waiting.permit_rejected_by = tally.gate(number)
                final.waiting.append(waiting)
        return final

    def _spread(self, spec: PodSpec, seen: PodsSeen) -> PodSpec:
        """Return the spec with its profile's default spread constraints, if it has none itself."""
        profile = self.profiles.get(spec.scheduler)
        if profile is None or spec.spread or not hard_by_default(profile):
            return spec
        selector = self._spreaders.selector(seen.namespace, seen.labels, seen.owner)
        return replace(spec, spread=profile.constraints(replace(spec, spread_by=selector)))


def check_mesh(mesh: asyncio.Task[None]) -> None:
    """Raise the error that ended the mesh, if it ended."""
    if not mesh.done():
        return
    try:
        mesh.result()
    except BaseExceptionGroup as group:
        raise first_error(group) from group
    raise Fault("the services ended unexpectedly")


def first_error(error: BaseException) -> BaseException:
    """Return the first single error of nested groups; the others follow from it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
