"""Runs the whole mesh in this process against a live cluster until a signal, and reports its state.

It decides nothing about pods.
"""

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from muster.app.journals import all_journals
from muster.app.mesh import Mesh
from muster.app.runner import check_mesh
from muster.cli.output import Time, time_of
from services.queueing.core.state import QueueingState
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting.messages import gang_message, parked_message
from shared.model.ids import INGEST, QUEUEING, JournalName
from shared.model.text import counted
from shared.scheduling.api.custom.failures import Failure, failures

if TYPE_CHECKING:
    # Its client takes 120 ms to import, which only those who use it should pay.
    from muster.app.leader_election import Leadership
    from shared.kubernetes.cluster import KubeCluster

TICK_S = 0.2
CLAIM_S = 0.002
RATE_OVER_S = 2.0
REASONS_REST = 300
"""The next summary of waiting reasons starts after this many times the duration of the last one.
With 10,000 waiting signatures one takes 60 ms; with few it is made at every tick.
"""
REASONS_MAX = 3
GATED, WAITS = (Pod.GATED,), (Pod.PARKED, Pod.ASKING, Pod.PREEMPTING, Pod.BACKOFF, Pod.GANG_PENDING)


@dataclass
class Standing:
    """The present state of a live run. `reasons` are (pods, why they wait), most pods first;
    `left_out` counts the objects that cannot be used, by kind.
    """

    seconds: float = 0.0
    pending: int = 0
    gated: int = 0
    waiting: int = 0
    bound: int = 0
    bound_per_s: float = 0.0
    reasons: list[tuple[int, str]] = field(default_factory=list)
    requests: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    plugin_failures: list[Failure] = field(default_factory=list)


class LiveReason(Struct):
    """Why pods wait, and how many."""

    pods: int
    message: str


class LiveSummary(Struct, kw_only=True):
    """What `muster run --kubeconfig` has done by `time`, in `seconds`. `pending`: pods
    without a node, among them those with scheduling gates (`gated`) and those that fit nowhere
    (`unschedulable`). `bound`: pods that this process bound. `busy`, `unknown`: requests that the
    API server refused for load, and those whose answer was lost. `left_out`: objects that cannot be
    used, by kind. `reasons`: those of most pods.
    """

    run: str
    time: Time
    seconds: float
    pending: int
    gated: int
    unschedulable: int
    bound: int
    busy: int
    unknown: int
    events_sent: int
    events_dropped: int
    snapshots_bad: int
    left_out: dict[str, int]
    plugin_failures: list[Failure]
    reasons: list[LiveReason]


@dataclass
class LiveRunner:
    """One run. `show` is called a few times a second while it leads; it ends when that is lost."""

    cluster: "KubeCluster"
    mesh: Mesh
    show: Callable[[Standing], None]
    leadership: "Leadership"
    _marks: list[tuple[float, int]] = field(default_factory=list)
    _reasons: list[tuple[int, str]] = field(default_factory=list)
    _reasons_due_s: float = 0.0

    async def run(self) -> Standing:
        """Run until SIGINT or SIGTERM. Raises the error that ends the mesh."""
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        journals = all_journals(self.mesh.placements)
        mesh = asyncio.create_task(self._serve(journals))
        began_s, standing = loop.time(), Standing()
        try:
            while not stopped.is_set():
                check_mesh(mesh)
                if self.leadership.lost.done():
                    self.leadership.lost.result()
                if self.leadership.begun.is_set():
                    self.show(self._standing(loop.time() - began_s))
                else:
                    began_s = loop.time()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(TICK_S):
                        await stopped.wait()
        finally:
            await self.mesh.end(QUEUEING)
            await self.cluster.finish()
            if stopped.is_set():
                self._reasons_due_s = 0.0
                standing = self._standing(loop.time() - began_s)
            mesh.cancel()
            await asyncio.gather(mesh, return_exceptions=True)
            await asyncio.gather(*(owner.close() for owner in self.mesh.owners()))
        return standing

    async def _serve(self, journals: list[JournalName]) -> None:
        """Serve when this process leads; a new run before that, too, except that it decides
        nothing: it has read the cluster when it is to lead.
        """
        await self.leadership.is_known.wait()
        if (await self.mesh.bus_of(INGEST).bounds(INGEST))[1]:
            await self.leadership.begun.wait()
        if not self.leadership.begun.is_set():
            self.mesh.leads = self._leads
        await self.mesh.serve(journals, self._caught_up)

    async def _leads(self) -> None:
        """Wait until this process leads and has read what the one before it did."""
        await self.leadership.begun.wait()
        await self.cluster.catch_up()

    async def _caught_up(self) -> None:
        """Wait until a resumed run has read the changes since it ended: decided before that, it
        could use room that others took meanwhile. In a new run queueing itself waits for the first
        list.
        """
        ingest = self.mesh.members[INGEST]
        while ingest.owner is None:  # noqa: ASYNC110 (a claim sends no signal)
            await asyncio.sleep(CLAIM_S)
        if ingest.owner.state.revision:
            await self.cluster.caught_up.wait()
            while ingest.owner is None or ingest.owner.submitted:  # noqa: ASYNC110
                await asyncio.sleep(CLAIM_S)

    def _standing(self, seconds: float) -> Standing:
        bound = self.cluster.writes.counts.bound
        self._marks.append((seconds, bound))
        while seconds - self._marks[0][0] > RATE_OVER_S:
            del self._marks[0]
        first_s, first = self._marks[0]
        rate = (bound - first) / (seconds - first_s) if seconds > first_s else 0.0
        standing = Standing(seconds, bound=bound, bound_per_s=rate)
        standing.requests = self.requests()
        standing.left_out = self.cluster.left_out.counts()
        standing.plugin_failures = failures()
        member = self.mesh.members.get("queueing/0")
        if member is not None and member.owner is not None:
            _count(standing, member.owner.state)
            standing.reasons = self._why(member.owner.state)
        return standing

    def requests(self) -> dict[str, int]:
        """Return the counts of requests and of snapshots that cannot be used."""
        counts, events = self.cluster.writes.counts, self.cluster.events.counts
        return {
            "busy": counts.busy,
            "unknown": counts.unknown,
            "events_sent": events.sent,
            "events_dropped": events.dropped + events.failed,
            "snapshots_bad": sum(owner.stats.snapshots_bad for owner in self.mesh.owners()),
        }

    def _why(self, state: QueueingState) -> list[tuple[int, str]]:
        """Return why pods wait, cached for a short time."""
        began_s = time.monotonic()
        if began_s >= self._reasons_due_s:
            self._reasons = _reasons(state)
            now_s = time.monotonic()
            self._reasons_due_s = now_s + REASONS_REST * (now_s - began_s)
        return self._reasons


def _count(standing: Standing, state: QueueingState) -> None:
    counts = state.pods.counts
    standing.gated = counts[Pod.GATED]
    standing.waiting = sum(counts[code] for code in WAITS)
    standing.pending = sum(counts[Pod.GATED : Pod.BOUND])


def _reasons(state: QueueingState) -> list[tuple[int, str]]:
    """Return (pods, reason), most pods first."""
    counts = state.pods.counts
    reasons: dict[str, int] = {}
    for sig in state.sigs.values():
        if sig.parked_live:
            text = parked_message(sig, state.config)
            reasons[text] = reasons.get(text, 0) + sig.parked_live
    for plugin, held in state.permit_rejected.items():
        reasons[f"refused by permit plugin {plugin}"] = len(held)
    for gang in state.gangs.values() if counts[Pod.GANG_PENDING] else ():
        text = gang_message(gang)
        if text:
            reasons[text] = reasons.get(text, 0) + gang.waiting
    pairs = sorted(((pods, text) for text, pods in reasons.items()), reverse=True)
    return pairs[:REASONS_MAX]


def line_of(standing: Standing) -> str:
    """Return the state as one line."""
    parts = [
        f"{standing.pending:,} pending",
        f"{standing.waiting:,} unschedulable",
        f"{standing.bound:,} bound",
        f"{standing.bound_per_s:,.0f} bound/s",
    ]
    if standing.requests.get("events_dropped"):
        parts.append(f"{counted(standing.requests['events_dropped'], 'event')} dropped")
    if standing.requests.get("snapshots_bad"):
        parts.append(counted(standing.requests["snapshots_bad"], "bad snapshot"))
    if standing.left_out:
        parts += [
            "left out: " + " and ".join(f"{n:,} {kind}" for kind, n in standing.left_out.items())
        ]
    parts += map(str, standing.plugin_failures)
    if standing.gated:
        parts.insert(2, f"{standing.gated:,} gated")
    return ", ".join(parts)


def summary_of(standing: Standing, run: Path, time_ms: int) -> LiveSummary:
    """Return the state at a time for programs."""
    return LiveSummary(
        run=str(run),
        time=time_of(time_ms),
        seconds=round(standing.seconds, 1),
        pending=standing.pending,
        gated=standing.gated,
        unschedulable=standing.waiting,
        bound=standing.bound,
        busy=standing.requests.get("busy", 0),
        unknown=standing.requests.get("unknown", 0),
        events_sent=standing.requests.get("events_sent", 0),
        events_dropped=standing.requests.get("events_dropped", 0),
        snapshots_bad=standing.requests.get("snapshots_bad", 0),
        left_out=standing.left_out,
        plugin_failures=standing.plugin_failures,
        reasons=[LiveReason(pods, text) for pods, text in standing.reasons],
    )
