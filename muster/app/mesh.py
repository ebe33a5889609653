"""The composition root: builds members for journals and keeps them running.

One process may own all journals (`muster run`) or some of them (`muster serve`). Nothing here
decides anything about pods.
"""

import asyncio
import gc
import logging
import os
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from types import MappingProxyType
from typing import Any

from muster.app.journals import all_journals
from muster.app.pacing import GC_THRESHOLDS, ONE_PROCESS, Pace, rhythm
from services.binding.core.state import BindingState
from services.binding.shell import BindingShell
from services.ingest.core.state import IngestState, WrongCluster
from services.ingest.shell import IngestShell
from services.placement.shell import PlacementShell
from shared.extenders.port import Binders, ExtenderCalls
from shared.machine.core import Core
from shared.machine.member import Member
from shared.machine.runtime import Host, Owner, QuietShell, Shell
from shared.machine.snapshots import SnapshotPolicy
from shared.model.ids import INGEST, JournalName, service_of
from shared.ports.bus import Bus, BusUnavailable
from shared.ports.cluster import Cluster
from shared.ports.snapshots import SnapshotStore

log = logging.getLogger("muster.mesh")

OUTSIDE = ("ingest", "binding")
"""The services that talk to the cluster."""


class WallClock:
    """The wall clock of the operating system."""

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000


def make_core(journal: JournalName, placements: int) -> Core[Any]:
    """Return the core of one journal: for `name/0` it is `NameCore` in services/name/core/core.py.
    A core takes the number of shards; placement's core also takes its own shard.
    """
    service, _, partition = journal.partition("/")
    module = import_module(f"services.{service}.core.core")
    kind: Callable[..., Core[Any]] = getattr(module, f"{service.title()}Core")
    return kind(int(partition), placements) if service == "placement" else kind(placements)


def readers_of(journal: JournalName, placements: int) -> tuple[JournalName, ...]:
    """Return the journals whose owners consume this one."""
    return tuple(
        name for name in all_journals(placements) if journal in make_core(name, placements).sources
    )


class MeshMember(Member):
    """A member that logs each outage of the bus once, and snapshots that cannot be used.

    With `config` it refuses journals of another cluster and warns about other schedulers.
    """

    outage = ""
    standing_by_s = 0.0
    config: Mapping[str, Any] = MappingProxyType({})
    follow: Callable[[Owner[Any]], None] | None = None

    def on_bus_failed(self, error: Exception) -> None:
        if not self.outage:
            log.warning("%s: no answer from the bus, retrying: %s", self.journal, error)
        self.outage = str(error) or type(error).__name__

    def on_standing_by(self) -> None:
        self.outage, self.standing_by_s = "", time.monotonic()
        log.info("stands by for %s (owner %s)", self.journal, self.standing_by)

    def on_lost(self) -> None:
        log.warning("%s: another process has claimed it", self.journal)

    def on_folded(self, owner: Owner[Any]) -> None:
        """Check that the journal belongs to this cluster. Raises WrongCluster."""
        state = owner.state
        expected = self.config.get("binding", {}).get("cluster", "")
        found = state.cluster if isinstance(state, IngestState) else ""
        if isinstance(state, BindingState):
            found = state.config.cluster
        if expected and found and expected != found:
            raise WrongCluster(
                f"{self.journal}: this journal is of cluster {found}, but the cluster watched now "
                f"is {expected}; check the kubeconfig, or run 'muster reset'"
            )
        if isinstance(state, IngestState) and state.cluster:
            before = set(state.config.schedulers)
            names = set(self.config.get("ingest", {}).get("schedulers", before))
            if names != before:
                log.warning(
                    "%s: recorded for pods of schedulers %s, started for those of %s: to schedule "
                    "both, give all names to one mesh, or each mesh its own prefix",
                    self.journal,
                    ", ".join(sorted(before)),
                    ", ".join(sorted(names)),
                )

    def on_claimed(self, owner: Owner[Any]) -> None:
        self.outage = ""
        if self.standing_by:
            seconds = time.monotonic() - self.standing_by_s
            log.info("took over %s from %s after %.1f s", self.journal, self.standing_by, seconds)
        for text in owner.stats.bad_snapshots:
            log.warning("%s: skipped a snapshot: %s", self.journal, text)
        if self.follow is not None:
            self.follow(owner)


@dataclass
class Mesh:
    """The parts that members share. `bus_of` makes a bus client for each member; `shared_bus`
    closes the store below when the mesh ends. `follow` gets each owner that has just claimed.
    `leads` waits until this process leads: before that nothing is decided about a new world.
    """

    bus_of: Callable[[JournalName], Bus]
    store: SnapshotStore
    cluster: Cluster
    placements: int = 1
    config: dict[str, Any] = field(default_factory=dict)
    policy: SnapshotPolicy = field(default_factory=SnapshotPolicy)
    owner: str = "muster"
    epoch: int = 1
    pace: Pace = ONE_PROCESS
    is_alone: bool = False
    host: Host | None = None
    extender_calls: ExtenderCalls | None = None
    binders: Binders | None = None
    follow: Callable[[Owner[Any]], None] | None = None
    leads: Callable[[], Awaitable[object]] | None = None
    members: dict[str, MeshMember] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def member(self, journal: JournalName) -> MeshMember:
        """Return a member for one journal. Its owner starts with empty memory in each term."""
        bus = self.bus_of(journal)
        host = self.host or Host(WallClock(), self.owner, lambda: uuid.uuid4().hex)
        policy = replace(self.policy, readers=readers_of(journal, self.placements))

        def make_owner() -> Owner[Any]:
            core = make_core(journal, self.placements)
            shell = self._shell(journal)
            return Owner(
                core,
                bus,
                self.store,
                host,
                shell,
                self.config,
                policy,
                self.epoch,
                rhythm(core, self.pace, self.is_alone),
            )

        member = MeshMember(journal, bus, host, make_owner)
        member.config, member.follow = self.config, self.follow
        return member

    def _shell(self, journal: JournalName) -> Shell:
        if journal.startswith("ingest/"):
            return IngestShell(self.cluster, self.leads)
        if journal.startswith("binding/"):
            return BindingShell(self.cluster, self.binders, self.extender_calls)
        if journal.startswith("placement/") and self.extender_calls is not None:
            return PlacementShell(self.extender_calls)
        return QuietShell()

    async def serve(
        self,
        journals: Sequence[JournalName],
        caught_up: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Own these journals until cancelled; the first halt ends all of them. Nothing is decided
        before ingest has caught up (`caught_up`).
        """
        self.members = {journal: self.member(journal) for journal in journals}
        before = gc.get_threshold()
        gc.set_threshold(*GC_THRESHOLDS)
        try:
            # Change no journal before all can be read, and none of another cluster.
            for journal, member in self.members.items():
                if len(journals) > 1 or service_of(journal) in OUTSIDE:
                    await self._look(member)
            async with asyncio.TaskGroup() as group:
                for journal, member in self.members.items():
                    self._tasks[journal] = group.create_task(member.serve(), name=journal)
                    if caught_up is not None and journal == INGEST:
                        await caught_up()
        finally:
            # Other code in this process may need other collector settings than a mesh.
            gc.set_threshold(*before)

    async def end(self, journal: JournalName) -> None:
        """Stop serving one journal; the others go on."""
        task = self._tasks.get(journal)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _look(self, member: Member) -> None:
        owner = member.make_owner()
        with suppress(BusUnavailable):  # the member retries
            await owner.read_ahead()
            member.on_folded(owner)
            member.first = owner

    def owners(self) -> list[Owner[Any]]:
        """Return the present owners in this process."""
        return [member.owner for member in self.members.values() if member.owner is not None]


def default_owner() -> str:
    """Return the name under which this process claims: stable if the platform has a stable one."""
    return os.environ.get("MUSTER_OWNER") or os.uname().nodename
