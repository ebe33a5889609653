"""Leader election: one of several candidates leads, and a candidate that is not certain to lead
writes nothing.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, cast

import pytest
from aiohttp import web

from muster.app.virtual_time import VirtualLoop
from shared.kubernetes.client.client import KubeClient, Response
from shared.kubernetes.client.credentials import Credentials
from shared.kubernetes.client.http_wire import NotSent
from shared.kubernetes.client.lease import Elector, LeaseLost
from shared.model.election import Election
from tests.support.kube_credentials import write_kubeconfig
from tests.unit.kubernetes.fake_api import LEASES, FakeApi, status

ELECTION = Election("muster", lease_s=15, renew_s=10.0, retry_s=0.005)
LEASE = f"{LEASES}/muster"


class Clock:
    """A clock that a test moves, s."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def elector(api: FakeApi, clock: Clock, tmp_path) -> AsyncIterator[Callable[..., Elector]]:
    path = write_kubeconfig(tmp_path / "kubeconfig", api.url, tmp_path / "ca.crt", "secret")
    clients: list[KubeClient] = []

    def make(identity: str, election: Election = ELECTION) -> Elector:
        clients.append(KubeClient(Credentials(str(path))))
        return Elector(clients[-1], election, identity, clock)

    yield make
    for client in clients:
        await client.close()


def silent(_why: str) -> None:
    """Ignore the status."""


def spec(api: FakeApi) -> dict:
    found = api.leases["muster"]["spec"]
    assert isinstance(found, dict)
    return found


async def leads(elector: Elector) -> Elector:
    async with asyncio.timeout(30):
        await elector.acquire(silent)
    return elector


async def until_asked(api: FakeApi, times: int) -> None:
    """Wait for so many more requests about the Lease."""
    target = len(api.requests) + times
    async with asyncio.timeout(30):
        while len(api.requests) < target:  # noqa: ASYNC110 (there is no signal)
            await asyncio.sleep(0.002)


async def is_held(elector: Elector) -> bool:
    """Return whether a write has to wait."""
    writing = asyncio.create_task(elector.may_write())
    for _ in range(3):
        await asyncio.sleep(0)
    held = not writing.done()
    writing.cancel()
    with suppress(asyncio.CancelledError):
        await writing
    return held


async def test_the_first_candidate_creates_the_lease(elector, api: FakeApi):
    first = elector("first")
    assert await is_held(first)
    await leads(first)
    assert not await is_held(first)
    found = spec(api)
    assert (found["holderIdentity"], found["leaseDurationSeconds"]) == ("first", 15)
    assert found["acquireTime"] == found["renewTime"]
    assert found["leaseTransitions"] == 0


async def test_the_second_candidate_waits_until_the_lease_has_expired(
    elector, api: FakeApi, clock: Clock
):
    await leads(elector("first"))
    decided: list[str] = []
    second = elector("second")
    waiting = asyncio.create_task(second.acquire(decided.append))
    await until_asked(api, 3)
    clock.now_s += 15.0  # not longer than it says
    await until_asked(api, 3)
    assert not waiting.done()
    clock.now_s += 0.1
    await asyncio.wait_for(waiting, 30)
    assert decided == ["first leads"]
    assert (spec(api)["holderIdentity"], spec(api)["leaseTransitions"]) == ("second", 1)


async def test_a_renewed_lease_does_not_expire(elector, api: FakeApi, clock: Clock):
    first = await leads(elector("first"))
    waiting = asyncio.create_task(elector("second").acquire(silent))
    keeping = asyncio.create_task(first.keep())
    for _ in range(5):
        renewed = spec(api)["renewTime"]
        clock.now_s += 5.0
        async with asyncio.timeout(30):
            while spec(api)["renewTime"] == renewed:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        await until_asked(api, 4)
    assert not waiting.done()
    assert spec(api)["holderIdentity"] == "first"
    for task in (waiting, keeping):
        task.cancel()
    await asyncio.gather(waiting, keeping, return_exceptions=True)


async def test_a_released_lease_is_taken_at_once(elector, api: FakeApi):
    first = await leads(elector("first"))
    await first.release()
    assert spec(api)["holderIdentity"] == ""
    with pytest.raises(NotSent):
        await first.may_write()
    await leads(elector("second"))
    assert spec(api)["holderIdentity"] == "second"


async def test_a_lease_is_released_during_an_unanswered_renewal(elector, api: FakeApi):
    """The server has renewed the Lease, but the answer was not awaited."""
    first = await leads(elector("first"))
    is_written = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        done = await api.answer(request)
        is_written.set()
        await asyncio.sleep(30)
        return done

    api.faults.append(("PUT", slow))
    keeping = asyncio.create_task(first.keep())
    await asyncio.wait_for(is_written.wait(), 30)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await first.release()
    assert spec(api)["holderIdentity"] == ""


@pytest.mark.parametrize("is_gone", [False, True])
async def test_a_lease_of_another_process_is_not_released(elector, api: FakeApi, is_gone: bool):
    first = await leads(elector("first"))
    if is_gone:
        api.leases.clear()
    else:
        api.revision += 1
        api.leases["muster"]["spec"]["holderIdentity"] = "second"
        api.leases["muster"]["metadata"]["resourceVersion"] = str(api.revision)
    await first.release()
    holders = [found["spec"]["holderIdentity"] for found in api.leases.values()]
    assert holders == ([] if is_gone else ["second"])


async def test_a_refused_release_is_reported(elector, api: FakeApi, caplog):
    first = await leads(elector("first"))

    api.fails("PUT", 503, "etcd is gone")
    with caplog.at_level("INFO", "muster.kube"):
        await first.release()
    assert "the lease kube-system/muster was not released: 503: etcd is gone" in caplog.text


async def test_a_restarted_holder_leads_at_once(elector, api: FakeApi):
    await leads(elector("first"))
    acquired = spec(api)["acquireTime"]
    await leads(elector("first"))
    assert spec(api)["acquireTime"] == acquired
    assert spec(api).get("leaseTransitions", 0) == 0


async def test_a_candidate_that_could_not_renew_writes_nothing_until_it_has(
    elector, api: FakeApi, clock: Clock, caplog
):
    first = await leads(elector("first"))

    async def broken(_request: web.Request) -> web.Response:
        return status(503, "etcd is gone")

    api.faults.extend([("PUT", broken)] * 3)
    clock.now_s += 10.1
    writing = asyncio.create_task(first.may_write())
    keeping = asyncio.create_task(first.keep())
    async with asyncio.timeout(30):
        while api.faults:
            assert not writing.done()
            await asyncio.sleep(0.002)
    await asyncio.wait_for(writing, 30)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert "is not renewed: nothing is written" in caplog.text


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_leader_that_slept_while_another_led_stops(elector, clock: Clock, leaves: bool):
    first, second = await leads(elector("first")), elector("second")
    taking = asyncio.create_task(second.acquire(silent))
    async with asyncio.timeout(30):
        while not taking.done():
            clock.now_s += 4.0
            await asyncio.sleep(0.01)
    if leaves:
        await second.release()
    writing = asyncio.create_task(first.may_write())
    with pytest.raises(LeaseLost, match="another one" if leaves else "second"):
        await asyncio.wait_for(first.keep(), 30)
    with pytest.raises(NotSent):
        await writing
    # Fields of other clients stay as they are.
    await first.release()
    assert second.identity == "second"


async def test_a_lease_that_is_deleted_is_made_again(elector, api: FakeApi):
    first = await leads(elector("first"))
    del api.leases["muster"]
    keeping = asyncio.create_task(first.keep())
    async with asyncio.timeout(30):
        while "muster" not in api.leases:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    assert spec(api)["holderIdentity"] == "first"
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


async def test_a_deleted_lease_is_left_to_its_holder_until_it_expires(
    elector, api: FakeApi, clock: Clock
):
    await leads(elector("first"))
    waiting = asyncio.create_task(elector("second").acquire(silent))
    await until_asked(api, 3)
    del api.leases["muster"]
    await until_asked(api, 3)
    assert not waiting.done()
    assert not api.leases
    clock.now_s += 15.1
    await asyncio.wait_for(waiting, 30)
    assert spec(api)["holderIdentity"] == "second"


async def test_fields_that_others_wrote_stay(elector, api: FakeApi):
    await leads(elector("first"))
    api.revision += 1
    api.leases["muster"]["metadata"] |= {
        "annotations": {"why": "because"},
        "resourceVersion": str(api.revision),
    }
    await leads(elector("first"))
    assert api.leases["muster"]["metadata"]["annotations"] == {"why": "because"}


async def test_an_answer_that_is_late_renews_from_when_it_was_asked_for(
    elector, api: FakeApi, clock: Clock
):
    first = elector("first")

    async def slow(_request: web.Request) -> None:
        clock.now_s += 10.1

    api.faults.append((f"POST {LEASES}", slow))
    await leads(first)
    assert await is_held(first)


async def test_of_two_candidates_that_create_the_lease_one_leads(elector, api: FakeApi):
    first, second = elector("first"), elector("second")

    async def taken(_request: web.Request) -> None:
        await leads(second)

    api.faults.append((f"POST {LEASES}", taken))
    waiting = asyncio.create_task(first.acquire(silent))
    await until_asked(api, 6)
    assert not waiting.done()
    assert spec(api)["holderIdentity"] == "second"
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_only_reads_are_sent_while_leadership_is_uncertain(
    elector, api: FakeApi, clock: Clock, cluster
):
    first = await leads(elector("first"))
    api.pod("waits")
    cluster.client.may_write = first.may_write
    await cluster.open()
    clock.now_s += 10.1
    await cluster.client.get("/api/v1/nodes")
    body = json.dumps({"metadata": {}, "target": {"name": "n"}}).encode()
    path = "/api/v1/namespaces/default/pods/waits/binding"
    writing = asyncio.create_task(cluster.client.request("POST", path, body))
    await cluster.client.get("/api/v1/nodes")
    assert not writing.done()
    await leads(first)
    assert (await asyncio.wait_for(writing, 30)).ok


class SlowServer:
    """Keeps one Lease; each answer is delayed."""

    def __init__(self, answer_s: float) -> None:
        self.answer_s = answer_s
        self.lease = b""

    async def request(self, method: str, _path: str, body: bytes = b"") -> Response:
        await asyncio.sleep(self.answer_s)
        if method == "GET" and not self.lease:
            return Response(404, b"")
        self.lease = body or self.lease
        return Response(200, self.lease)


@pytest.mark.parametrize("answer_s", [0.01, 3.0, 5.0])
def test_a_server_that_takes_half_of_the_deadline_holds_up_no_write(answer_s: float):
    election = Election("muster", lease_s=15, renew_s=10.0, retry_s=2.0)
    held: list[float] = []

    async def lead() -> None:
        clock = asyncio.get_running_loop().time
        leader = Elector(cast(Any, SlowServer(answer_s)), election, "first", clock)
        async with asyncio.timeout(60):
            await leader.acquire(silent)
        keeping = asyncio.create_task(leader.keep())
        while clock() < 120:
            if await is_held(leader):
                held.append(clock())
            await asyncio.sleep(0.1)
        keeping.cancel()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(lead())
    assert held == []


def test_a_lease_that_is_given_up_is_taken_within_half_a_second():
    """Whatever the time between two renewals is."""
    election = Election("muster", lease_s=15, renew_s=10.0, retry_s=2.0)

    async def hand_over() -> float:
        clock = asyncio.get_running_loop().time
        server = cast(Any, SlowServer(0.005))
        first, second = (Elector(server, election, name, clock) for name in ("first", "second"))
        await first.acquire(silent)
        taking = asyncio.create_task(second.acquire(silent))
        await asyncio.sleep(7.3)
        await first.release()
        began_s = clock()
        await taking
        return clock() - began_s

    for _ in range(20):
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            assert runner.run(hand_over()) <= 0.5
