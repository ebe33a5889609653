"""`muster serve`: owns some of the mesh's journals until it is stopped."""

import asyncio
import signal
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster import __version__
from muster.app.event_loop import loop_factory
from muster.app.journals import all_journals, partitions, topics
from muster.app.mesh import OUTSIDE, Mesh, default_owner
from muster.app.runner import first_error
from muster.cli.addresses.bus import BusAddress, parse_bus
from muster.cli.addresses.cluster import open_cluster, parse_cluster
from muster.cli.errors import Fault, UsageFault
from muster.cli.options.release import NOTHING_ASKED, AskedRelease, with_release
from muster.cli.options.services import mesh_config, of_this_version, parse_settings
from muster.cli.profiles import (
    binders_of,
    extender_calls_of,
    read_profiles,
    scheduler_names,
    with_profiles,
)
from muster.cli.recorded_run import naming
from muster.cli.run_directory import SNAPSHOTS
from services.ingest.core.state import WrongCluster
from shared.machine.reset import EpochBus, EpochStore, epochs
from shared.machine.runtime import EpochOver
from shared.machine.snapshots import SnapshotPolicy
from shared.model.election import Election
from shared.model.ids import JournalName, service_of
from shared.ports.bus import Bus
from shared.ports.cluster import Cluster
from shared.ports.snapshots import SnapshotStore
from shared.snapshots.directory import DirectorySnapshots

if TYPE_CHECKING:
    from muster.app.leader_election import Leadership

EPOCH_POLL_S = 0.5
_CONTROL = "epochs/0"


@dataclass(frozen=True)
class Serving:
    """Journals, bus, cluster and settings, in words of the command line."""

    services: list[str]
    bus: str
    cluster: str
    placements: int
    run_dir: Path
    owner: str | None
    settings: list[str]
    kubeconfig: str = ""
    schedulers: list[str] = field(default_factory=list)
    config: Path | None = None
    leader_elect: bool | None = None
    release: AskedRelease = NOTHING_ASKED


def serve(what: Serving, metrics: tuple[str, int] | None, policy: SnapshotPolicy) -> None:
    """Own the journals until SIGTERM or SIGINT. Raises UsageFault, Fault, BusUnavailable."""
    journals = chosen_journals(what.services, what.placements)
    address = parse_bus(what.bus)
    release = what.release.chosen(what.kubeconfig)
    profiles = read_profiles(what.config, what.schedulers, release)
    settings = of_this_version(mesh_config(parse_settings(what.settings)))
    settings = with_release(settings, release)
    config = with_profiles(settings, profiles)
    names = scheduler_names(profiles, what.schedulers)
    kube = None
    if what.kubeconfig:
        from muster.app.leader_election import election_of

        election = election_of(what.leader_elect, profiles, names) if _outside(journals) else None
        kube = _Kube(what, names, election, address.identity)
        kube.cluster.release = release.release()
    elif what.leader_elect:
        raise UsageFault("--leader-elect: requires --kubeconfig")
    if kube is None and profiles is not None and profiles.extenders:
        raise UsageFault(
            "--config: extenders need --kubeconfig: they get objects of a live cluster"
        )
    if kube is not None:
        config = kube.config(config)
    store = DirectorySnapshots(what.run_dir / SNAPSHOTS)
    mesh = Mesh(
        bus_of=_not_open,
        store=store,
        cluster=_simulated(what, journals) if kube is None else kube.cluster,
        placements=what.placements,
        config=config,
        policy=policy,
        owner=what.owner or default_owner(),
        pace=address.pace,
        extender_calls=None if kube is None else extender_calls_of(profiles, kube.cluster),
        binders=binders_of(profiles, writes=True),
    )
    with asyncio.Runner(loop_factory=loop_factory()) as loop:
        if kube is not None and _outside(journals):
            mesh.config = of_cluster(config, loop.run(kube.open(_outside(journals))))
        try:
            with naming(address.place):
                process = _Process(mesh, store, address, journals, metrics, kube)
                while loop.run(process.until_stopped()):
                    print("a reset closed this epoch: joining the next", flush=True)
        except WrongCluster as error:
            raise UsageFault(
                f"{error}; or choose another prefix than in --bus {what.bus}"
            ) from error
        finally:
            if kube is not None:
                loop.run(kube.cluster.close())


def of_cluster(config: dict[str, Any], cluster: str) -> dict[str, Any]:
    """Return the services' configuration with the identity of the cluster that binding
    writes to.
    """
    return {**config, "binding": {**config.get("binding", {}), "cluster": cluster}}


class _Kube:
    """A live cluster: its client, its configuration, its start."""

    def __init__(
        self, what: Serving, names: Sequence[str], election: Election | None, identity: str
    ) -> None:
        """Make an unconnected client. Raises UsageFault."""
        # The client takes 120 ms to import; only commands that use it load it.
        from muster.app.leader_election import Candidate
        from muster.cli.addresses import kube

        if what.cluster:
            raise UsageFault("--cluster and --kubeconfig exclude each other")
        self.cluster = kube.kube_cluster(what.kubeconfig, names)
        self._names, self._address = names, kube
        self._candidate = Candidate(election, what.kubeconfig, identity, is_shared=True)

    def config(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return the services' configuration with what a live cluster needs."""
        return self._address.kube_config(config, self._names)

    async def open(self, services: Sequence[str]) -> str:
        """Connect for these services and return the cluster's identity. Raises UsageFault,
        Fault.
        """
        await self._address.open_kube(self.cluster, self._candidate.election, services)
        try:
            return await self.cluster.identity()
        except (OSError, TimeoutError) as error:
            raise Fault(f"the cluster does not answer: {error}") from error

    def leading(
        self, on_status: Callable[[str], None]
    ) -> AbstractAsyncContextManager["Leadership"]:
        """Lead together with the other processes of the mesh; see Candidate."""
        return self._candidate.leading(self.cluster, on_status)


def _simulated(what: Serving, journals: list[JournalName]) -> Cluster:
    """Return an unconnected client. Raises UsageFault."""
    if what.cluster:
        parse_cluster("--cluster", what.cluster)
    elif _outside(journals):
        raise UsageFault("--cluster or --kubeconfig: is required for ingest and binding")
    return open_cluster(what.cluster)


def _outside(journals: Sequence[JournalName]) -> list[str]:
    """Return those of the services that call the cluster."""
    return [service for name in journals if (service := service_of(name)) in OUTSIDE]


def _not_open(journal: JournalName) -> Bus:
    raise AssertionError(f"{journal}: the bus is not open yet")


def chosen_journals(services: Sequence[str], placements: int) -> list[JournalName]:
    """Return the journals; `placement` stands for all its partitions, `all` for the whole mesh.
    Raises UsageFault.
    """
    known = all_journals(placements)
    found: list[JournalName] = []
    for word in services:
        matching = [name for name in known if word in ("all", name, service_of(name))]
        if not matching:
            raise UsageFault(f"{word}: must be one of all, {', '.join(known)}, or a service's name")
        found.extend(name for name in matching if name not in found)
    return found


@dataclass
class _Process:
    """The journals of one process and what they need."""

    mesh: Mesh
    store: SnapshotStore
    address: BusAddress
    journals: list[JournalName]
    metrics: tuple[str, int] | None
    kube: _Kube | None

    async def until_stopped(self) -> bool:
        """Serve one epoch; return whether a reset closed it (otherwise the process was stopped)."""
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        work = asyncio.create_task(self._serve_epoch())
        stop = asyncio.create_task(stopped.wait())
        await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
        is_over = work.done()
        work.cancel()
        stop.cancel()
        await asyncio.gather(work, stop, return_exceptions=True)
        if is_over:
            work.result()
        return is_over

    async def _serve_epoch(self) -> None:
        """Serve until a reset closes the epoch. Raises Fault, also when another process leads."""
        mesh, leader = self.mesh, "no election"

        def on_status(state: str) -> None:
            nonlocal leader
            leader = state

        async with AsyncExitStack() as stack:
            epoch = await _epoch(self.address, mesh.placements)
            clients = self.address.clients(topics(mesh.placements, epoch))
            stack.push_async_callback(clients.close)
            await clients.open(self.journals)
            mesh.epoch, mesh.store = epoch, EpochStore(self.store, epoch)
            mesh.bus_of = lambda journal: EpochBus(clients.opened[journal], epoch)
            if self.metrics is not None:
                # Imported here: most processes serve nothing.
                from muster.app.health import health_server

                server = health_server(mesh, self.journals, self.metrics, lambda: leader)
                await stack.enter_async_context(server)
            lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            if self.kube is not None:
                leadership = await stack.enter_async_context(self.kube.leading(on_status))
                await leadership.begin()
                lost = leadership.lost
            print(
                f"muster {__version__} serving {' '.join(self.journals)} as {mesh.owner}",
                flush=True,
            )
            work = asyncio.create_task(mesh.serve(self.journals))
            try:
                await asyncio.wait((work, lost), return_when=asyncio.FIRST_COMPLETED)
                if not work.done():
                    lost.result()
                _until_epoch_over(work)
            finally:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)


def _until_epoch_over(work: asyncio.Task[None]) -> None:
    """Return if a reset ended the work. Raises any other cause."""
    try:
        work.result()
    except BaseExceptionGroup as group:
        error = first_error(group)
        if isinstance(error, EpochOver):
            return
        raise error from group
    raise Fault("the services ended unexpectedly")


async def _epoch(address: BusAddress, placements: int) -> int:
    """Return the epoch in force, waiting while one is being opened."""
    clients = address.clients(partitions(placements))
    await clients.open([_CONTROL])
    try:
        while True:
            known = await epochs(clients.opened[_CONTROL])
            if not known:
                return 1
            if known[-1].is_open:
                return known[-1].number
            await asyncio.sleep(EPOCH_POLL_S)
    finally:
        await clients.close()
