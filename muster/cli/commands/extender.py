"""`muster extender`: answers kube-scheduler's questions until it is stopped."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from muster import __version__
from muster.app.event_loop import loop_factory
from muster.cli.addresses.bus import parse_address
from muster.cli.addresses.kube import kube_cluster, open_kube
from muster.cli.errors import UsageFault
from muster.cli.options.release import AskedRelease, with_release
from muster.cli.profiles import read_profiles, with_profiles
from muster.extender.binds import Binder
from muster.extender.server import VERBS, Follower, served
from muster.extender.view import ClusterView
from muster.user_plugins.load import load
from services.ingest.core.state import WrongCluster
from shared.kubernetes.cluster import KubeCluster
from shared.model.profile import Configuration, Profile

NO_SCHEDULER = ""
"""The schedulerName of no pod: kube-scheduler's questions tell of pods without a node."""


def serve_extender(
    kubeconfig: str,
    config: Path | None,
    plugins: Sequence[Path],
    release: AskedRelease,
    listen: str,
) -> None:
    """Answer until SIGTERM or SIGINT. Raises UsageFault, Fault."""
    if not kubeconfig:
        raise UsageFault("extender: name a --kubeconfig")
    address = parse_address("--listen", listen)
    if plugins:
        load(plugins)
    followed = release.chosen(kubeconfig)
    profiles = read_profiles(config, (), followed)
    if profiles is not None:
        _check(config, profiles)
    cluster = kube_cluster(kubeconfig, [NO_SCHEDULER])
    cluster.release = followed.release()
    chosen = with_release({}, followed)
    options: dict[str, Any] = with_profiles(chosen, profiles)
    options["ingest"] = {**options["ingest"], "schedulers": []}
    view = ClusterView(options, () if profiles is None else profiles.profiles)
    with asyncio.Runner(loop_factory=loop_factory()) as loop:
        try:
            loop.run(_serve(cluster, view, address))
        except WrongCluster as error:
            raise UsageFault(str(error)) from error


def _check(path: Path | None, config: Configuration) -> None:
    """Check that the configuration holds nothing but filters and scores, which are all that an
    extender can add. Raises UsageFault.
    """
    if config.extenders:
        raise UsageFault(f"--config {path}: extenders: muster extender asks no other extenders")
    for profile in config.profiles:
        if others := _other_plugins(profile):
            raise UsageFault(
                f"--config {path}: profile {profile.name}: {', '.join(others)}: muster extender "
                "only filters and scores nodes: run such plugins with muster run"
            )


def _other_plugins(profile: Profile) -> list[str]:
    """Return the users' plugins that do something else."""
    sorting = () if profile.queue_sort is None else (profile.queue_sort,)
    at_bind = (*profile.permit, *profile.pre_bind, *profile.bind, *profile.post_bind)
    others = (*profile.pre_enqueue, *sorting, *profile.reserve, *profile.post_filter, *at_bind)
    return list(dict.fromkeys(one.name for one in others))


async def _serve(cluster: KubeCluster, view: ClusterView, address: tuple[str, int]) -> None:
    host, port = address
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)

    def why_unready() -> str:
        if not cluster.caught_up.is_set():
            return "the first lists of the cluster are being read"
        late = cluster.stale_watches()
        return ", ".join(f"the watch of {kind} fails for {late[kind]:.0f} s" for kind in late)

    async with AsyncExitStack() as stack:
        stack.push_async_callback(cluster.close)
        await open_kube(cluster, services=["extender"])
        binder = Binder(view, cluster.client)
        stack.push_async_callback(binder.close)
        follower = Follower(view, cluster, binder)
        try:
            await stack.enter_async_context(served(view, binder, address, why_unready))
        except OSError as error:
            raise UsageFault(f"--listen {host}:{port}: {error.strerror}") from error
        follower.start()
        stack.push_async_callback(follower.stop)
        print(
            f"muster {__version__} answers at http://{host}:{port}: {' '.join(VERBS)}", flush=True
        )
        stop = asyncio.create_task(stopped.wait())
        await asyncio.wait((stop, follower.failed), return_when=asyncio.FIRST_COMPLETED)
        if follower.failed.done():
            stop.cancel()
            follower.failed.result()
