"""Health and metrics over HTTP: `/livez`, `/readyz` and `/metrics`; any other path is 404.

It answers on the loop that does the work, so a process whose loop hangs does not answer `/livez`.
A process that stands by is ready: it takes over when it has to.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from muster.app.mesh import Mesh
from muster.cli.errors import UsageFault
from muster.metrics.collector import registry_with
from muster.metrics.follow import Followed
from muster.metrics.lag import Lag
from shared.model.ids import INGEST, JournalName
from shared.model.text import one_line

OK, UNAVAILABLE = 200, 503


class Check(NamedTuple):
    """The result of a check: whether it passed, and its state in words."""

    is_ok: bool
    text: str


Checks = Mapping[str, Callable[[], Check]]


def checks_of(
    mesh: Mesh, journals: Sequence[JournalName], leader: Callable[[], str] | None = None
) -> dict[str, Callable[[], Check]]:
    """Return the checks of `/readyz`, by name. `leader` returns who leads; None = no election."""
    checks: dict[str, Callable[[], Check]] = {}
    if leader is not None:
        checks["leader"] = lambda: Check(True, leader())
    checks["bus"] = lambda: _bus(mesh)
    checks["journals"] = lambda: _journals(mesh, journals)
    checks["watches"] = lambda: _watches(mesh)
    return checks


def _bus(mesh: Mesh) -> Check:
    outages = {name: member.outage for name, member in mesh.members.items() if member.outage}
    if not outages:
        return Check(True, "reachable")
    name = min(outages)
    return Check(False, f"no answer for {name}: {outages[name]}")


def _journals(mesh: Mesh, journals: Sequence[JournalName]) -> Check:
    """Check that each journal has an owner: this process, or one that this one stands by for."""
    owned = [name for name in journals if name in mesh.members and mesh.members[name].owner]
    standing_by = [
        f"{name} (owner {member.standing_by})"
        for name, member in mesh.members.items()
        if member.standing_by and member.owner is None
    ]
    parts = [f"owns {' '.join(owned)}"] if owned else []
    parts += [f"stands by for {', '.join(standing_by)}"] if standing_by else []
    is_ok = not mesh.members or len(owned) + len(standing_by) == len(journals)
    return Check(is_ok, "; ".join(parts) or "not started")


def _watches(mesh: Mesh) -> Check:
    """Check that the watches of a live cluster deliver, if this process owns ingest."""
    ingest = mesh.members.get(INGEST)
    stale = getattr(mesh.cluster, "stale_watches", None)
    if ingest is None or ingest.owner is None or stale is None:
        return Check(True, "not needed here")
    if not mesh.cluster.caught_up.is_set():  # type: ignore[attr-defined]
        return Check(False, "the first lists are being read")
    late: dict[str, float] = stale()
    if not late:
        return Check(True, "fresh")
    return Check(False, ", ".join(f"{kind} fails for {late[kind]:.0f} s" for kind in sorted(late)))


@asynccontextmanager
async def health_server(
    mesh: Mesh,
    journals: Sequence[JournalName],
    address: tuple[str, int],
    leader: Callable[[], str] | None = None,
) -> AsyncIterator[None]:
    """Serve health and metrics of a mesh while the context is open. Raises UsageFault."""
    host, port = address
    # A simulated cluster has no objects that cannot be used.
    left_out = getattr(mesh.cluster, "left_out", None)
    counts = dict if left_out is None else left_out.counts
    followed = Followed()
    mesh.follow = followed.attach
    lag = Lag(mesh.owners)
    registry = registry_with(followed, mesh.owners, counts, lag)
    async with AsyncExitStack() as stack:
        try:
            checks = checks_of(mesh, journals, leader)
            server = served(registry, checks, host, port, lag.measure)
            await stack.enter_async_context(server)
        except OSError as error:
            raise UsageFault(f"--metrics-port {host}:{port}: {error.strerror}") from error
        yield


@asynccontextmanager
async def served(
    registry: CollectorRegistry,
    checks: Checks,
    host: str,
    port: int,
    before_scrape: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[None]:
    """Serve while the context is open. Raises OSError if the address cannot be used."""

    async def livez(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_request: web.Request) -> web.Response:
        found = {name: check() for name, check in checks.items()}
        lines = [f"[{'+' if one.is_ok else '-'}]{name} {one.text}" for name, one in found.items()]
        text = "".join(f"{one_line(line)}\n" for line in lines)
        is_ready = all(one.is_ok for one in found.values())
        return web.Response(text=text, status=OK if is_ready else UNAVAILABLE)

    async def metrics(_request: web.Request) -> web.Response:
        if before_scrape is not None:
            await before_scrape()
        return web.Response(
            body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    app = web.Application()
    app.add_routes(
        [web.get("/livez", livez), web.get("/readyz", readyz), web.get("/metrics", metrics)]
    )
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield
    finally:
        await runner.cleanup()
