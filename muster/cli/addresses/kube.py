"""Turns --kubeconfig and --scheduler-name into a checked client of a live cluster."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from muster.app.event_loop import keep_large_blocks_apart, loop_factory
from muster.cli.errors import Fault, UsageFault
from shared.kubernetes.client.access import NEEDED, missing_permissions
from shared.kubernetes.client.client import KubeClient
from shared.kubernetes.client.credentials import Credentials, KubeconfigError
from shared.kubernetes.cluster import KubeCluster
from shared.model.election import Election

SCHEDULER_NAME = "muster"
CONFIRM_MS = 40_000
"""The age at which a message is checked again where few pods wait; written again, it is younger
than a minute.
"""


def kube_cluster(kubeconfig: str, names: Sequence[str]) -> KubeCluster:
    """Return an unconnected client. Raises UsageFault."""
    credentials = Credentials(kubeconfig)
    try:
        credentials.check()
    except KubeconfigError as error:
        raise UsageFault(f"--kubeconfig {error}") from error
    keep_large_blocks_apart()
    return KubeCluster(KubeClient(credentials), scheduler_names(names))


def scheduler_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the schedulerName values of our pods."""
    return tuple(dict.fromkeys(names)) or (SCHEDULER_NAME,)


def kube_config(config: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the services' configuration for a live cluster: the schedulerNames of our pods, and
    that conditions are written.
    """
    ingest = {**config.get("ingest", {}), "schedulers": list(scheduler_names(names))}
    binding = {"status_patches": True, **config.get("binding", {})}
    shown = {"confirm_ms": CONFIRM_MS, "group_conditions": True}
    queueing = {**shown, **config.get("queueing", {})}
    return {**config, "ingest": ingest, "queueing": queueing, "binding": binding}


def server_version(kubeconfig: str) -> str:
    """Ask a live cluster for its version, such as 1.37. Raises UsageFault, Fault."""
    client = kube_cluster(kubeconfig, ()).client

    async def ask() -> bytes:
        try:
            await client.open()
            return await client.get("/version")
        finally:
            await client.close()

    try:
        with asyncio.Runner(loop_factory=loop_factory()) as loop:
            version = msgspec.json.decode(loop.run(ask()), type=_Version)
    except KubeconfigError as error:
        raise UsageFault(f"--kubeconfig {error}") from error
    except (OSError, TimeoutError, msgspec.DecodeError) as error:
        raise Fault(f"the cluster does not answer: {error}") from error
    # Some providers add a sign: 37+.
    digits = "".join(filter(str.isdigit, version.minor))
    if not version.major.isdigit() or not digits:
        raise Fault(f"/version: is {version.major}.{version.minor}, which is no version")
    return f"{version.major}.{digits}"


class _Version(msgspec.Struct):
    major: str
    minor: str


async def open_kube(
    cluster: KubeCluster, election: Election | None = None, services: Iterable[str] = NEEDED
) -> None:
    """Connect, and report what these services lack before anything starts. Raises UsageFault,
    Fault.
    """
    try:
        await cluster.open()
        groups_as = await cluster.groups_as()
        others = await cluster.other_groups()
        trees = await cluster.has_hyper_nodes()
        missing = await missing_permissions(
            cluster.client, groups_as, election, services, others, trees
        )
    except KubeconfigError as error:
        raise UsageFault(f"--kubeconfig {error}") from error
    except (OSError, TimeoutError) as error:
        raise Fault(f"the cluster does not answer: {error}") from error
    if missing:
        lease = f" (the Lease is {election})" if election and "leases" in missing[-1] else ""
        raise Fault(f"the cluster does not allow us to {', '.join(missing)}{lease}")
