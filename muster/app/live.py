"""The whole mesh in this process against a live cluster, until somebody says stop; and what to show
meanwhile. It decides nothing about pods.
"""

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from muster.app.mesh import Mesh, all_journals
from muster.app.runner import check_mesh
from services.queueing.core.state import QueueingState
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting.messages import gang_message, parked_message
from shared.kubernetes.cluster import KubeCluster
from shared.model.ids import INGEST

TICK_S = 0.2
CLAIM_S = 0.002
RATE_OVER_S = 2.0
REASONS_REST = 300
"""Summing up why pods wait takes 60 ms with 10,000 waiting signatures. So the next sum begins after
so many times what the last one took: at every tick where few wait.
"""
REASONS_MAX = 3
GATED, WAITS = (Pod.GATED,), (Pod.PARKED, Pod.ASKING, Pod.PREEMPTING, Pod.BACKOFF, Pod.WAITING)


@dataclass
class Standing:
    """How things stand now; `reasons` are (pods, why they wait), most pods first; `left_out` counts
    objects that cannot be used, by kind.
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


@dataclass
class LiveRunner:
    """One run. `show` is called a few times a second, as is `check`, which raises what ends it."""

    cluster: KubeCluster
    mesh: Mesh
    show: Callable[[Standing], None]
    check: Callable[[], None] = lambda: None
    _marks: list[tuple[float, int]] = field(default_factory=list)
    _reasons: list[tuple[int, str]] = field(default_factory=list)
    _reasons_due_s: float = 0.0

    async def run(self) -> Standing:
        """Until SIGINT or SIGTERM. Raises what ends the mesh by itself."""
        told = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, told.set)
        journals = all_journals(self.mesh.placements)
        mesh = asyncio.create_task(self.mesh.serve(journals, self._caught_up))
        began_s = loop.time()
        try:
            while not told.is_set():
                check_mesh(mesh)
                self.check()
                self.show(self._standing(loop.time() - began_s))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(TICK_S):
                        await told.wait()
            self._reasons_due_s = 0.0
            return self._standing(loop.time() - began_s)
        finally:
            mesh.cancel()
            await asyncio.gather(mesh, return_exceptions=True)
            await asyncio.gather(*(owner.close() for owner in self.mesh.owners()))
            await self.cluster.close()

    async def _caught_up(self) -> None:
        """A run that goes on knows the world as it was when it ended: what others took since then
        would be taken once more. The first list of a world holds up queueing by itself.
        """
        ingest = self.mesh.members[INGEST]
        while ingest.owner is None:  # noqa: ASYNC110 (a claim tells nobody)
            await asyncio.sleep(CLAIM_S)
        if ingest.owner.state.revision:
            await self.cluster.caught_up.wait()
            while ingest.owner is None or ingest.owner.offers:  # noqa: ASYNC110
                await asyncio.sleep(CLAIM_S)

    def _standing(self, seconds: float) -> Standing:
        bound = self.cluster.writes.counts.bound
        self._marks.append((seconds, bound))
        while seconds - self._marks[0][0] > RATE_OVER_S:
            del self._marks[0]
        first_s, first = self._marks[0]
        rate = (bound - first) / (seconds - first_s) if seconds > first_s else 0.0
        standing = Standing(seconds, bound=bound, bound_per_s=rate)
        counts, events = self.cluster.writes.counts, self.cluster.events.counts
        standing.requests = {
            "busy": counts.busy,
            "unknown": counts.unknown,
            "events_sent": events.sent,
            "events_dropped": events.dropped + events.failed,
            "snapshots_bad": sum(owner.stats.snapshots_bad for owner in self.mesh.owners()),
        }
        standing.left_out = self.cluster.left_out.counts()
        member = self.mesh.members.get("queueing/0")
        if member is not None and member.owner is not None:
            _count(standing, member.owner.state)
            standing.reasons = self._why(member.owner.state)
        return standing

    def _why(self, state: QueueingState) -> list[tuple[int, str]]:
        """Why pods wait, as of a short time ago."""
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
    """How many pods wait for what, most pods first."""
    counts = state.pods.counts
    reasons: dict[str, int] = {}
    for sig in state.sigs.values():
        if sig.parked_live:
            text = parked_message(sig, state.config)
            reasons[text] = reasons.get(text, 0) + sig.parked_live
    for plugin, held in state.held.items():
        reasons[f"refused by permit plugin {plugin}"] = len(held)
    for gang in state.gangs.values() if counts[Pod.WAITING] else ():
        text = gang_message(gang)
        if text:
            reasons[text] = reasons.get(text, 0) + gang.waiting
    pairs = sorted(((pods, text) for text, pods in reasons.items()), reverse=True)
    return pairs[:REASONS_MAX]


def line_of(standing: Standing) -> str:
    """One line for people."""
    parts = [
        f"{standing.pending:,} pending",
        f"{standing.waiting:,} unschedulable",
        f"{standing.bound:,} bound",
        f"{standing.bound_per_s:,.0f} bound/s",
    ]
    if standing.requests.get("events_dropped"):
        parts.append(f"{standing.requests['events_dropped']:,} events dropped")
    if standing.requests.get("snapshots_bad"):
        parts.append(f"{standing.requests['snapshots_bad']:,} bad snapshots")
    if standing.left_out:
        parts += [
            "left out: " + " and ".join(f"{n:,} {kind}" for kind, n in standing.left_out.items())
        ]
    if standing.gated:
        parts.insert(2, f"{standing.gated:,} gated")
    return ", ".join(parts)


def result_of(standing: Standing) -> dict[str, Any]:
    """What a run came to, for programs."""
    return {
        "seconds": round(standing.seconds, 1),
        "pending": standing.pending,
        "gated": standing.gated,
        "unschedulable": standing.waiting,
        "bound": standing.bound,
        **standing.requests,
        "left_out": standing.left_out,
        "reasons": [{"pods": pods, "message": text} for pods, text in standing.reasons],
    }
