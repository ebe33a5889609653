"""The composition root: builds members for journals and keeps them running.

One process may own all journals (`muster run`) or a few (`muster serve`); the difference is only
which names are asked for. Nothing here decides anything about pods.
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
from types import MappingProxyType
from typing import Any

from muster.app.pacing import GC_THRESHOLDS, ONE_PROCESS, Pace, rhythm
from services.binding.core.core import BindingCore
from services.binding.core.state import BindingState
from services.binding.shell import BindingShell
from services.ingest.core.core import IngestCore
from services.ingest.core.state import IngestState, WrongCluster
from services.ingest.shell import IngestShell
from services.permit.core.core import PermitCore
from services.placement.core.core import PlacementCore
from services.placement.shell import PlacementShell
from services.preemption.core.core import PreemptionCore
from services.queueing.core.core import QueueingCore
from shared.extenders.port import Binders, Judges
from shared.machine.core import Core
from shared.machine.member import Member
from shared.machine.reset import renamed
from shared.machine.runtime import Host, Owner, QuietShell, Shell
from shared.machine.snapshots import SnapshotPolicy
from shared.model.ids import INGEST, placement, service_of
from shared.ports.bus import Bus, BusUnavailable, JournalName, split_journal
from shared.ports.cluster import Cluster
from shared.ports.snapshots import SnapshotStore

log = logging.getLogger("muster.mesh")

OUTSIDE = ("ingest", "binding")
"""The services that speak to the cluster."""


class WallClock:
    """The machine's clock as the operating system tells it."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000


def all_journals(placements: int) -> list[str]:
    """Every journal of a mesh with so many placement shards, in the order of the flow."""
    shards = [placement(shard) for shard in range(placements)]
    return ["ingest/0", "queueing/0", *shards, "permit/0", "preemption/0", "binding/0"]


def partitions(placements: int) -> dict[str, int]:
    """Service -> how many journals it has (what a bus with topics must provide)."""
    ones = ("ingest", "queueing", "permit", "preemption", "binding", "epochs")
    return {**dict.fromkeys(ones, 1), "placement": placements}


def topics(placements: int, epoch: int) -> dict[str, int]:
    """The same for one epoch (what its journals are called in a bus with topics)."""
    return {
        split_journal(renamed(f"{service}/0", epoch))[0]: count
        for service, count in partitions(placements).items()
    }


def make_core(journal: str, placements: int) -> Core[Any]:
    """The core of one journal."""
    service, _, partition = journal.partition("/")
    makers: dict[str, Callable[[], Core[Any]]] = {
        "ingest": lambda: IngestCore(placements),
        "queueing": lambda: QueueingCore(placements),
        "placement": lambda: PlacementCore(int(partition), placements),
        "permit": lambda: PermitCore(placements),
        "preemption": lambda: PreemptionCore(placements),
        "binding": lambda: BindingCore(placements),
    }
    return makers[service]()


def readers_of(journal: str, placements: int) -> tuple[str, ...]:
    """The journals whose owners consume this one."""
    return tuple(
        name for name in all_journals(placements) if journal in make_core(name, placements).sources
    )


class MeshMember(Member):
    """Tells of an outage of the bus, once for each, and of snapshots that cannot be used. With
    `config` it owns no journal of another cluster, and tells of other schedulers.
    """

    told = -1
    config: Mapping[str, Any] = MappingProxyType({})

    def failed(self, error: Exception) -> None:
        if self.told != self.terms:
            self.told = self.terms
            log.warning("%s: no answer from the bus, asking again: %s", self.journal, error)

    def looked(self, owner: Owner[Any]) -> None:
        """Raises WrongCluster."""
        state = owner.state
        ours = self.config.get("binding", {}).get("cluster", "")
        found = state.cluster if isinstance(state, IngestState) else ""
        if isinstance(state, BindingState):
            found = state.config.cluster
        if ours and found and ours != found:
            raise WrongCluster(
                f"{self.journal}: this journal is of cluster {found}, but the cluster watched now "
                f"is {ours}; check the kubeconfig, or run 'muster reset'"
            )
        if isinstance(state, IngestState) and state.cluster:
            before = set(state.config.schedulers)
            names = set(self.config.get("ingest", {}).get("schedulers", before))
            if names != before:
                log.warning(
                    "%s: was for pods of schedulers %s, is asked for those of %s: if both are "
                    "wanted, give all names to one mesh, or each mesh a prefix of its own",
                    self.journal,
                    ", ".join(sorted(before)),
                    ", ".join(sorted(names)),
                )

    def claimed(self, owner: Owner[Any]) -> None:
        for text in owner.stats.bad_snapshots:
            log.warning("%s: a snapshot was passed over: %s", self.journal, text)


@dataclass
class Mesh:
    """What members share. `bus_of` gives each instance a client of its own; `shared_bus` closes
    the store beneath when the mesh ends.
    """

    bus_of: Callable[[str], Bus]
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
    judges: Judges | None = None
    binders: Binders | None = None
    members: dict[str, Member] = field(default_factory=dict)

    def member(self, journal: str) -> Member:
        """A member for one journal; its owners get fresh memory each term."""
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

        member = MeshMember(JournalName(journal), bus, host, make_owner)
        member.config = self.config
        return member

    def _shell(self, journal: str) -> Shell:
        if journal.startswith("ingest/"):
            return IngestShell(self.cluster)
        if journal.startswith("binding/"):
            return BindingShell(self.cluster, self.binders, self.judges)
        if journal.startswith("placement/") and self.judges is not None:
            return PlacementShell(self.judges)
        return QuietShell()

    async def serve(
        self, journals: Sequence[str], caught_up: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Keep these journals owned until cancelled; the first halt ends them all. Nothing is
        decided before ingest has `caught_up`.
        """
        self.members = {journal: self.member(journal) for journal in journals}
        before = gc.get_threshold()
        gc.set_threshold(*GC_THRESHOLDS)
        try:
            # None is changed before all can be read, or stood by for when it is not ours.
            for journal, member in self.members.items():
                if len(journals) > 1 or service_of(journal) in OUTSIDE:
                    await self._look(member)
            async with asyncio.TaskGroup() as group:
                for journal, member in self.members.items():
                    group.create_task(member.serve(), name=journal)
                    if caught_up is not None and journal == INGEST:
                        await caught_up()
        finally:
            # Whoever goes on in this process may leave more behind than a mesh does.
            gc.set_threshold(*before)

    async def _look(self, member: Member) -> None:
        owner = member.make_owner()
        with suppress(BusUnavailable):  # the member asks again
            await owner.look()
            member.looked(owner)
            member.first = owner

    def owners(self) -> list[Owner[Any]]:
        """The owners in force in this process."""
        return [member.owner for member in self.members.values() if member.owner is not None]


def default_owner() -> str:
    """The name under which this process claims: stable where the platform gives a stable one."""
    return os.environ.get("MUSTER_OWNER") or os.uname().nodename
