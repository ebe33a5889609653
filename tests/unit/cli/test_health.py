"""`/livez`, `/readyz` and `/metrics`: what they answer while a process works, waits or fails."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from muster.app.health import Check, Checks, checks_of, served
from muster.app.mesh import Mesh
from shared.adapters.metrics import registry_of
from shared.bus.memory import MemoryBus, MemoryLog
from shared.model.ids import INGEST, PERMIT
from shared.ports.bus import BusUnavailable
from shared.snapshots.memory import MemorySnapshots
from tests.support.server_process import free_ports
from tests.unit.cli.test_mesh import idle_cluster, until_owned


@asynccontextmanager
async def client(checks: Checks) -> AsyncIterator[aiohttp.ClientSession]:
    (port,) = free_ports(1)
    async with (
        served(registry_of(list), checks, "127.0.0.1", port),
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):
        yield session


async def test_a_ready_process_answers_200_with_the_state_of_each_check():
    leads = {"leader": lambda: Check(True, "leads"), "bus": lambda: Check(True, "reachable")}
    async with client(leads) as session:
        async with session.get("/readyz") as answer:
            assert (answer.status, await answer.text()) == (
                200,
                "[+]leader leads\n[+]bus reachable\n",
            )
        async with session.get("/livez") as answer:
            assert (answer.status, await answer.text()) == (200, "ok\n")
        async with session.get("/metrics") as answer:
            assert answer.status == 200
            assert "# TYPE muster_records_total counter" in await answer.text()


async def test_a_failed_check_makes_the_process_unready_and_leaves_it_alive():
    failed = {"bus": lambda: Check(False, "no answer\nHTTP/1.1 200")}
    async with client(failed) as session:
        async with session.get("/readyz") as answer:
            assert answer.status == 503
            assert (await answer.text()).splitlines() == ["[-]bus no answer HTTP/1.1 200"]
        async with session.get("/livez") as answer:
            assert answer.status == 200


@pytest.mark.parametrize("path", ["/", "/healthz", "/configz", "/metrics/x"])
async def test_other_paths_are_not_found(path):
    async with client({}) as session, session.get(path) as answer:
        assert answer.status == 404


def mesh(**more: object) -> Mesh:
    log = MemoryLog()
    made = Mesh(lambda _journal: MemoryBus(log), MemorySnapshots(), idle_cluster())
    for name, value in more.items():
        setattr(made.cluster, name, value)
    return made


async def test_a_mesh_is_ready_once_it_owns_its_journals_and_while_the_bus_answers():
    one = mesh()
    checks = checks_of(one, [PERMIT])
    assert list(checks) == ["bus", "journals", "watches"]
    assert checks["journals"]() == (True, "not started")
    serving = await until_owned(one, [PERMIT])
    assert checks["journals"]() == (True, "owns permit/0")
    assert checks["bus"]() == (True, "reachable")
    one.members[PERMIT].on_bus_failed(BusUnavailable("refused"))
    assert checks["bus"]() == (False, "no answer for permit/0: refused")
    serving.cancel()


async def test_a_mesh_is_not_ready_while_a_watch_fails():
    failing = {"nodes": 31.4}

    class Caught:
        @staticmethod
        def is_set() -> bool:
            return True

    one = mesh(stale_watches=lambda: failing, caught_up=Caught)
    checks = checks_of(one, [INGEST], lambda: "leads (kube-system/muster)")
    assert checks["leader"]() == (True, "leads (kube-system/muster)")
    serving = await until_owned(one, [INGEST])
    assert checks["watches"]() == (False, "nodes fails for 31 s")
    failing.clear()
    assert checks["watches"]() == (True, "fresh")
    serving.cancel()
