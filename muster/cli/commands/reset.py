"""`muster reset`: close the epoch in force and open the next (shared/machine/reset.py says how)."""

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from muster.app.journals import all_journals, partitions
from muster.app.mesh import WallClock, default_owner
from muster.cli.addresses.bus import Clients, parse_bus
from muster.cli.addresses.cluster import open_cluster, parse_cluster
from muster.cli.errors import Fault, UsageFault
from shared.machine.reset import EPOCHS, Epoch, ResetFailed, epochs, renamed, reset
from shared.machine.runtime import Host
from shared.model.ids import service_of
from shared.ports.cluster import Cluster


class ClosableCluster(Cluster, Protocol):
    """A cluster behind a connection."""

    async def close(self) -> None:
        """Close the connection."""
        ...


def reset_mesh(
    bus: str,
    cluster: str,
    kubeconfig: str,
    schedulers: Sequence[str],
    placements: int,
    reason: str,
) -> str:
    """Reset and report the result. Raises UsageFault, Fault, BusUnavailable."""
    address = parse_bus(bus)
    if bool(cluster) == bool(kubeconfig):
        raise UsageFault("reset: name a --cluster or a --kubeconfig")
    client: ClosableCluster
    if kubeconfig:
        from muster.cli.addresses.kube import kube_cluster

        client = kube_cluster(kubeconfig, schedulers)
    else:
        client = open_cluster(parse_cluster("--cluster", cluster))
    try:
        opened = asyncio.run(_reset(address.clients, client, placements, reason))
    except ResetFailed as error:
        raise Fault(f"reset: {error}") from error
    return f"epoch {opened.number} is open; services that wait for it start by themselves"


async def _reset(
    make_clients: Callable[[Mapping[str, int]], Clients],
    cluster: ClosableCluster,
    placements: int,
    reason: str,
) -> Epoch:
    control = make_clients(partitions(placements))
    await control.open([EPOCHS])
    try:
        known = await epochs(control.opened[EPOCHS])
    finally:
        await control.close()
    old = known[-1].number if known else 1
    topics = {
        service_of(renamed(f"{service}/0", epoch)): count
        for epoch in (old, old + 1)
        for service, count in partitions(placements).items()
    }
    clients = make_clients({**partitions(placements), **topics})
    await clients.open([EPOCHS])
    host = Host(WallClock(), default_owner(), lambda: uuid.uuid4().hex)
    try:
        return await reset(clients.opened[EPOCHS], cluster, host, all_journals(placements), reason)
    finally:
        await clients.close()
        await cluster.close()
