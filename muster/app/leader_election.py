"""Leader election on one cluster: a `muster run`, or the services of one mesh, hold a Lease and
decide.
"""

import asyncio
import logging
import re
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from muster.cli.addresses.kube import SCHEDULER_NAME
from muster.cli.errors import Fault, UsageFault
from muster.cli.run_directory import IDENTITY
from shared.kubernetes.client.client import KubeClient
from shared.kubernetes.client.credentials import Credentials
from shared.kubernetes.client.lease import Elector, LeaseLost
from shared.kubernetes.cluster import KubeCluster
from shared.model.election import Election
from shared.model.profile import Configuration

log = logging.getLogger("muster.leader")

NAME_MAX = 253
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


def election_of(
    wanted: bool | None, config: Configuration | None, names: Sequence[str]
) -> Election | None:
    """Return the election that the option asks for, else the file, else the default. Raises
    UsageFault.
    """
    configured = None if config is None else config.election
    if wanted is False or (wanted is None and config is not None and configured is None):
        return None
    election = configured or Election()
    if not election.name:
        words = [name for name in names if name != SCHEDULER_NAME]
        election = msgspec.structs.replace(election, name="-".join((SCHEDULER_NAME, *words)))
    if len(election.name) > NAME_MAX or not _NAME.fullmatch(election.name):
        raise UsageFault(
            f"{election.name!r} cannot be the name of a Lease: set leaderElection.resourceName in "
            "a --config, or --no-leader-elect"
        )
    return election


def identity_in(folder: Path) -> str:
    """Return the unique, permanent identity of the folder. Raises UsageFault."""
    path = folder / IDENTITY
    try:
        if not path.exists():
            path.write_text(f"{socket.gethostname()}_{uuid.uuid4()}\n", encoding="utf-8")
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise UsageFault(f"--run-dir {folder}: {IDENTITY}: {error.strerror}") from error


@dataclass(frozen=True)
class Leadership:
    """Of this process: `begun` is set when it leads, `is_known` when it leads or stands by. `lost`
    fails with Fault when another process leads after that.
    """

    begun: asyncio.Event
    is_known: asyncio.Event
    lost: asyncio.Future[None]

    async def begin(self) -> None:
        """Wait until this process leads. Raises what ended its candidacy."""
        waiting = asyncio.create_task(self.begun.wait())
        try:
            await asyncio.wait((waiting, self.lost), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self.lost.done():
            self.lost.result()


@dataclass(frozen=True)
class Candidate:
    """A process that decides while it holds the Lease, or always without an election.

    Processes of one mesh have one identity and hold the Lease together (`is_shared`). One that ends
    leaves it to the others, so it expires after the last one.
    """

    election: Election | None
    kubeconfig: str
    identity: str
    is_shared: bool = False

    @asynccontextmanager
    async def leading(
        self, cluster: KubeCluster, on_status: Callable[[str], None]
    ) -> AsyncIterator[Leadership]:
        """Stand by, and lead from when it is possible until the context ends. Before and after that
        nothing is written to the cluster, except for events of what this process did. `on_status`
        is called with each new state in words.
        """
        begun, is_known = asyncio.Event(), asyncio.Event()
        if self.election is None:
            on_status("no election")
            begun.set()
            is_known.set()
            yield Leadership(begun, is_known, asyncio.get_running_loop().create_future())
            return
        # A separate connection, so that many binds at once do not delay the Lease.
        client = KubeClient(Credentials(self.kubeconfig))
        elector = Elector(client, self.election, self.identity)

        def stand_by(why: str) -> None:
            log.info("stands by (%s): %s", self.election, why)
            on_status(f"stands by ({self.election}): {why}")
            is_known.set()

        async def lead() -> None:
            await elector.acquire(stand_by)
            log.info("leads (%s) as %s", self.election, self.identity)
            on_status(f"leads ({self.election})")
            begun.set()
            is_known.set()
            await _keep(elector)

        cluster.client.may_write = elector.may_write
        leading = asyncio.create_task(lead(), name="lease")
        try:
            yield Leadership(begun, is_known, leading)
        finally:
            # Only events of what this process did are left to write.
            is_ours = begun.is_set() and not leading.done()
            leading.cancel()
            await asyncio.gather(leading, return_exceptions=True)
            if not self.is_shared:
                if is_ours:
                    cluster.client.may_write = None
                await elector.release()
            await client.close()


async def _keep(elector: Elector) -> None:
    """Renew the Lease until another process leads, then raise Fault."""
    try:
        await elector.keep()
    except LeaseLost as error:
        log.error("lost the lease %s to %s", elector.election, error.holder)
        raise Fault(
            f"{error.holder} leads now, and this process has stopped; start it again to stand by"
        ) from error
