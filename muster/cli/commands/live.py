"""`muster run --kubeconfig`: the whole mesh in one process, scheduling a live cluster's pods."""

import asyncio
import logging
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster import __version__
from muster.app.embedded_bus import embedded_bus
from muster.app.event_loop import loop_factory
from muster.app.journals import all_journals
from muster.app.leader_election import Candidate, election_of, identity_in
from muster.app.live import LiveRunner, Standing, line_of
from muster.app.mesh import Mesh
from muster.app.pacing import LIVE
from muster.cli.addresses.kube import kube_cluster, kube_config, open_kube
from muster.cli.display import JsonLines, LiveDisplay
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
from muster.cli.run_directory import FORMAT, JOURNALS, SNAPSHOTS, continued_run
from services.ingest.core.state import WrongCluster
from shared.kubernetes.cluster import KubeCluster
from shared.machine.reset import EpochBus, EpochStore, epochs
from shared.machine.snapshots import SnapshotPolicy
from shared.model.ids import INGEST
from shared.model.release import V1_35
from shared.ports.bus import Bus
from shared.snapshots.directory import DirectorySnapshots

log = logging.getLogger("muster.run")

SNAPSHOT_MS = 30_000
DEFAULT_FOLDER = Path("runs/live")


@dataclass(frozen=True)
class LiveOptions:
    """The words of the command line."""

    kubeconfig: str
    schedulers: list[str]
    placements: int
    bus: str
    run_dir: Path | None
    settings: list[str]
    config: Path | None = None
    leader_elect: bool | None = None
    cut_journals: bool = False
    metrics: tuple[str, int] | None = None
    release: AskedRelease = NOTHING_ASKED

    def meta(self) -> dict[str, Any]:
        """Return the settings that must not change while a run continues in its folder, and the
        newest version that it was continued with.
        """
        return {
            "format": FORMAT,
            "live": True,
            "version": __version__,
            "placements": self.placements,
        }


def run_live(options: LiveOptions, output: str) -> None:
    """Schedule until stopped. Raises UsageFault, Fault."""
    release = options.release.chosen(options.kubeconfig)
    profiles = read_profiles(options.config, options.schedulers, release)
    names = scheduler_names(profiles, options.schedulers)
    election = election_of(options.leader_elect, profiles, names)
    cluster = kube_cluster(options.kubeconfig, names)
    cluster.release = release.release()
    chosen = of_this_version(mesh_config(parse_settings(options.settings)))
    settings = with_profiles(with_release(chosen, release), profiles)
    config = kube_config(settings, names)
    folder = options.run_dir or DEFAULT_FOLDER
    continued_run(folder, options.meta())
    candidate = Candidate(election, options.kubeconfig, identity_in(folder))
    try:
        with (
            naming(str(folder / JOURNALS)),
            embedded_bus(options.bus, folder / JOURNALS) as client,
            asyncio.Runner(loop_factory=loop_factory()) as loop,
        ):
            mesh = Mesh(
                client,
                DirectorySnapshots(folder / SNAPSHOTS),
                cluster,
                placements=options.placements,
                config=config,
                pace=LIVE,
                is_alone=True,
                policy=SnapshotPolicy(every_ms=SNAPSHOT_MS, cut=options.cut_journals),
                extender_calls=extender_calls_of(profiles, cluster),
                binders=binders_of(profiles, writes=True),
            )
            lines = JsonLines(folder) if output == "json" else None
            standing = loop.run(_schedule(cluster, mesh, candidate, options, lines))
    except WrongCluster as error:
        raise UsageFault(f"{error}; or name another --run-dir than {folder}") from error
    if lines is not None:
        lines.print(standing)
    else:
        print(f"stopped after {standing.seconds:.1f} s: {line_of(standing)}")


async def _schedule(
    cluster: KubeCluster,
    mesh: Mesh,
    candidate: Candidate,
    options: LiveOptions,
    lines: JsonLines | None,
) -> Standing:
    """Schedule until stopped; show the state as `lines`, or to a person if that is None."""
    await open_kube(cluster, candidate.election)
    log.info(
        "muster %s for pods of %s on %s: as kube-scheduler %s, %s, Lease %s, run directory %s",
        __version__,
        ", ".join(mesh.config["ingest"]["schedulers"]),
        cluster.client.credentials.host,
        mesh.config.get("placement", {}).get("compatibility", V1_35),
        "default profile" if options.config is None else f"profiles of {options.config}",
        candidate.election or "none",
        options.run_dir or DEFAULT_FOLDER,
    )
    leader = "not known yet"

    def on_status(state: str) -> None:
        nonlocal leader
        leader = state

    async with AsyncExitStack() as stack:
        stack.push_async_callback(cluster.close)
        if options.metrics is not None:
            # Imported here: most processes serve nothing.
            from muster.app.health import health_server

            journals = all_journals(mesh.placements)
            server = health_server(mesh, journals, options.metrics, lambda: leader)
            await stack.enter_async_context(server)
        client = mesh.bus_of
        epoch = await _epoch(client(INGEST))
        mesh.epoch, mesh.store = epoch, EpochStore(mesh.store, epoch)
        mesh.bus_of = lambda journal: EpochBus(client(journal), epoch)
        leadership = await stack.enter_async_context(candidate.leading(cluster, on_status))
        display = lines or stack.enter_context(LiveDisplay(sys.stderr))
        runner = LiveRunner(cluster, mesh, display.show, leadership)
        standing = await runner.run()
    # Events were written until now.
    standing.requests = runner.requests()
    return standing


async def _epoch(bus: Bus) -> int:
    """Return the epoch in force. Raises Fault while a reset is half done."""
    known = await epochs(bus)
    if known and not known[-1].is_open:
        raise Fault("a reset was not finished: run 'muster reset' again")
    return known[-1].number if known else 1
