"""Plays a world against the whole mesh in this process until the run is complete.

A run is complete when every pod has arrived and is bound or waits with a message that brute force
confirms (muster/checker/brute_force.py). It decides nothing about pods.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from muster.app.journals import all_journals
from muster.app.mesh import Mesh
from muster.checker.brute_force import Final, Verdict, Waiting, confirm
from muster.checker.filters.fits import Load
from muster.checker.filters.inter_pod_rules import named
from muster.checker.gangs.hyper_nodes import with_labels, with_topology
from muster.cli.errors import Fault
from muster.cli.profiles import hard_by_default
from muster.explain.tally import Tally
from shared.events.observed import PodsSeen
from shared.machine.runtime import HEARTBEAT_MS
from shared.model.cluster_objects import HyperNode, Namespace
from shared.model.columns import split
from shared.model.objects import PodSpec
from shared.model.pod_rules.default_spread import Spreader, Spreaders
from shared.model.profile import Profile
from shared.model.release import version_of
from shared.model.world import World
from shared.ports.bus import Bus
from shared.simulated.cluster import SimCluster

TICK_S = 0.1
QUIET_S = 1.0
"""After this long without a change in the cluster, check whether the run is complete."""
CHECK_S_MAX = 3_600.0
"""The longest time between two checks on virtual time; each unsuccessful one doubles it."""
START_S = 30.0
GATE_MS_MAX = 30_000
"""On the wall clock a run may be complete while gangs with a longer permit timeout still wait."""

PLACING, TIMEOUTS, CHECKING = "placing", "waiting for permit timeouts of gangs", "checking"


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
    world_s: float = 0.0
    phase: str = PLACING


@dataclass
class Outcome:
    """The result of a run. `complete` is False if the time limit or the user ended it (then
    `is_interrupted`, and nothing was checked). It took `seconds` of real time and `world_s` of the
    world.
    """

    complete: bool
    tally: Tally
    final: Final
    verdict: Verdict
    seconds: float = 0.0
    world_s: float = 0.0
    is_interrupted: bool = False


@dataclass
class Runner:
    """One run. `show` is called a few times a second (`is_virtual`: the loop must call `refresh`).
    On virtual time the run waits for permit timeouts of any length.
    """

    world: World
    cluster: SimCluster
    mesh: Mesh
    reader: Bus
    time_limit_s: float
    show: Callable[[Progress], None]
    profiles: dict[str, Profile] = field(default_factory=dict)
    is_virtual: bool = False
    _seen: dict[str, PodsSeen] = field(default_factory=dict)
    _spreaders: Spreaders = field(default_factory=Spreaders)
    _progress: Progress = field(default_factory=lambda: Progress(0))
    _read: int = 0
    _changed: bool = False
    _began_s: float = field(default_factory=time.monotonic)

    async def run(self) -> Outcome:
        """Play the world to its end, or to the time limit. A cancelled run returns what it has."""
        for arrival in self.world.arrivals:
            for uid in split(arrival.pods.uids):
                self._seen[uid] = arrival.pods
        self._progress.total = len(self._seen)
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
        except asyncio.CancelledError:
            await tally.catch_up()
            return self._outcome(False, tally, self.final(tally), Verdict(), True)
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
        check_s = QUIET_S
        progress = self._progress
        proven: set[int] = set()
        while True:
            left_s = max(0.0, began_s + self.time_limit_s - clock())
            await asyncio.sleep(min(self._rest_s(check_s), left_s))
            check_mesh(mesh)
            progress.world_s = clock() - began_s
            self.refresh()
            if self._changed:
                quiet_s, check_s, self._changed = clock(), QUIET_S, False
                progress.phase = PLACING
                proven.clear()
            late = progress.world_s >= self.time_limit_s
            if not late and not (self.cluster.arrived and clock() - quiet_s >= check_s):
                continue
            await tally.catch_up()
            gates_open = self._has_open_timeout(tally)
            progress.phase = TIMEOUTS if gates_open else CHECKING
            if late or not gates_open:
                # Messages of waiting pods become true when nothing changes any more.
                self.cluster.keep_pods()
                final = self.final(tally)
                gangs_wait = any(pod.gang for pod in final.waiting)
                verdict = confirm(final, self.profiles, proven if gangs_wait else None)
                done = self.cluster.arrived and not verdict.problems and not gates_open
                if done or late:
                    if self.is_virtual:  # what services have only read is recorded in a second
                        await asyncio.sleep(2 * HEARTBEAT_MS / 1000)
                        await tally.catch_up()
                    return self._outcome(done, tally, final, verdict)
            quiet_s = clock()
            check_s = min(2 * check_s, CHECK_S_MAX) if self.is_virtual else QUIET_S

    def _outcome(
        self,
        complete: bool,
        tally: Tally,
        final: Final,
        verdict: Verdict,
        is_interrupted: bool = False,
    ) -> Outcome:
        seconds, world_s = time.monotonic() - self._began_s, self._progress.world_s
        return Outcome(complete, tally, final, verdict, seconds, world_s, is_interrupted)

    def _rest_s(self, check_s: float) -> float:
        """Return how long to wait before the next look at the cluster."""
        if not self.is_virtual:
            return TICK_S
        if self.cluster.arrived:
            return check_s
        return max(QUIET_S, self.cluster.next_s() or 0.0)

    def refresh(self) -> None:
        """Count the changes in the cluster and show the progress."""
        progress, history = self._progress, self.cluster.history
        for happened in history[self._read :]:
            kind = happened.kind
            self._changed = self._changed or kind != "touch"
            progress.created += kind == "create"
            progress.bound += kind in ("bind", "late-bind", "foreign-bind")
            if kind == "delete":
                progress.gone += 1
                progress.bound -= bool(happened.node)
            progress.evicted += kind == "evict"
        self._read = len(history)
        progress.seconds = time.monotonic() - self._began_s
        self.show(progress)

    def _has_open_timeout(self, tally: Tally) -> bool:
        """Return whether a gang still waits for a permit timeout that the run waits for."""
        gates = {gang.key: gang.timeout_ms for gang in self.world.gangs}
        answered = tally.gangs_committed | tally.gangs_timed_out
        return any(
            self.is_virtual or gates.get(tally.gang_keys.get(gang, ""), 0) <= GATE_MS_MAX
            for gang in tally.gangs_tried - answered
        )

    def final(self, tally: Tally) -> Final:
        """Return the present cluster with the messages and devices from the journals."""
        numbers = tally.by_uid()
        trees = [one for one in self.world.objects if isinstance(one, HyperNode)]
        final = Final(
            with_labels(sorted(self.cluster.nodes.values(), key=lambda node: node.name), trees),
            gangs={gang.key: with_topology(gang, trees) for gang in self.world.gangs},
            namespaces={
                one.name: one.labels for one in self.world.objects if isinstance(one, Namespace)
            },
            version=version_of(self.mesh.config),
        )
        for pod in self.cluster.pods.values():
            seen, number = self._seen[pod.uid], numbers.get(pod.uid, 0)
            spec = named(seen.spec, seen.namespace, seen.labels, seen.terminating)
            if pod.node:
                mask = tally.pods[number].device_mask if number else 0
                final.loads.setdefault(pod.node, Load()).add(number or -len(numbers), spec, mask)
                final.running[seen.gang] += 1
                final.homes.setdefault(seen.gang, set()).add(pod.node)
            else:
                spec = self._spread(spec, seen)
                message = tally.message(number) if number else ""
                name = f"{seen.namespace}/{pod.name}"
                waiting = Waiting(number, name, spec, message, seen.gang, pod.gated)
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
