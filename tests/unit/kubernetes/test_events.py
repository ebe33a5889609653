"""Events have kube-scheduler's text, never delay a bind, and are counted when they are lost."""

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web

from muster.app.virtual_time import VirtualLoop
from shared.kubernetes.client.client import Response
from shared.kubernetes.client.http_wire import NotSent
from shared.kubernetes.cluster import KubeCluster
from shared.kubernetes.writing import event_queue, unconfirmed_binds
from shared.kubernetes.writing import events as kube_events
from shared.kubernetes.writing.events import KubeEvents
from shared.kubernetes.writing.write_concurrency import WriteWindow
from shared.model.api_outcome import Answer
from shared.ports.cluster import PastBind, PodRef
from tests.unit.kubernetes.fake_api import FakeApi
from tests.unit.kubernetes.test_writing import ref, request


async def posted_events(api: FakeApi, count: int) -> list[dict[str, Any]]:
    """Return the first `count` events."""
    async with asyncio.timeout(5):
        # Polled: the sender gives no signal.
        while len(api.events) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return [body for _method, body in api.events]


async def test_a_bind_gets_an_event(cluster: KubeCluster, api: FakeApi):
    api.pod("a")
    await cluster.bind([request(api, "a")])
    (event,) = await posted_events(api, 1)
    assert (event["type"], event["reason"], event["action"]) == ("Normal", "Scheduled", "Binding")
    assert event["note"] == "Successfully assigned default/a to node-0"
    assert event["reportingController"] == "muster"
    assert event["regarding"]["uid"] == "uid-a"
    assert "related" not in event


async def test_a_bind_with_a_lost_answer_gets_its_event_when_it_is_read(
    cluster: KubeCluster, api: FakeApi
):
    async def commit_and_fail(request_: web.Request) -> web.StreamResponse:
        await api.answer(request_)
        return web.json_response({}, status=500)

    api.pod("a")
    api.faults.append(("binding", commit_and_fail))
    (read,) = await cluster.bind([request(api, "a")])
    assert read.answer is Answer.UNKNOWN
    await cluster.read([ref(api, "a")] * 2)
    (event,) = await posted_events(api, 1)
    assert event["reason"] == "Scheduled"
    assert cluster.writes.counts.bound == 1


async def test_a_bind_that_only_the_watch_showed_gets_an_event(
    cluster: KubeCluster, api: FakeApi, monkeypatch
):
    """The pod is not read back: the watch has settled its bind."""
    monkeypatch.setattr(unconfirmed_binds, "LOOK_AFTER_S", 0.05)

    async def commit_and_fail(request_: web.Request) -> web.StreamResponse:
        await api.answer(request_)
        return web.json_response({}, status=500)

    async def fail(_request: web.Request) -> web.StreamResponse:
        return web.json_response({}, status=500)

    for name, fault in (("a", commit_and_fail), ("b", fail)):
        api.pod(name)
        api.faults.append(("binding", fault))
        await cluster.bind([request(api, name)])
    (event,) = await posted_events(api, 1)
    assert event["regarding"]["name"] == "a"
    await asyncio.sleep(0.5)
    assert cluster.writes.counts.bound == 1
    gets = [path for method, path in api.requests if method == "GET" and path.endswith("/b")]
    assert len(gets) == unconfirmed_binds.TRIES


async def test_the_same_event_of_another_process_is_refused(new_cluster, api: FakeApi):
    api.pod("a")
    before = new_cluster()
    await before.bind([request(api, "a")])
    await posted_events(api, 1)
    after = new_cluster()
    (read,) = await after.bind([request(api, "a")])
    assert read.answer is Answer.ASSIGNED
    names = [event["metadata"]["name"] for event in await posted_events(api, 1)]
    await after.read([ref(api, "a")])
    names += [event["metadata"]["name"] for event in (await posted_events(api, 2))[1:]]
    assert names[0] == names[1]


async def test_earlier_binds_get_one_event_after_all_others(new_cluster, api: FakeApi, monkeypatch):
    """The process that made the binds may have sent their events, or not."""
    for name in ("a", "b", "c"):
        api.pod(name)
    before, after = new_cluster(), new_cluster()
    await before.bind([request(api, "a")])
    (first,) = await posted_events(api, 1)
    monkeypatch.setattr(kube_events, "SENDERS", 1)
    past = [PastBind(ref(api, name), "node-0", 1_700_000_000_123) for name in ("a", "b", "b")]
    after.announce_binds(past)
    await after.bind([request(api, "c")])
    after.announce_binds([PastBind(ref(api, "c"), "node-0", 1)])
    events = (await posted_events(api, 4))[1:]
    await asyncio.sleep(0.05)
    assert len(api.events) == 4
    assert sorted(event["regarding"]["name"] for event in events) == ["a", "b", "c"]
    by_name = {event["regarding"]["name"]: event for event in events}
    assert by_name["a"]["metadata"]["name"] == first["metadata"]["name"]
    assert by_name["b"]["eventTime"] == "2023-11-14T22:13:20.123000Z"
    assert by_name["b"]["note"] == "Successfully assigned default/b to node-0"


async def test_events_of_earlier_binds_go_last(cluster: KubeCluster, api: FakeApi):
    for name in ("a", "b", "c"):
        api.pod(name)
    cluster.announce_binds([PastBind(ref(api, name), "node-0", 1) for name in ("a", "b")])
    for name in ("c", "d"):
        cluster.events.failed(ref(api, "c"), f"why {name}")
    order = [event["reason"] for event in await posted_events(api, 4)]
    assert order[:2] == ["FailedScheduling"] * 2


async def test_an_event_that_is_there_already_is_not_lost(cluster: KubeCluster, api: FakeApi):
    api.pod("a")
    api.fails("POST /apis/events.k8s.io", 409, 'events.events.k8s.io "a.1" already exists')
    await cluster.bind([request(api, "a")])
    async with asyncio.timeout(5):
        while not cluster.events.counts.repeated:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert cluster.events.counts.failed == 0


async def test_an_event_of_a_pod_with_a_long_name_has_a_name_from_its_uid(
    new_cluster, api: FakeApi
):
    """An Event's name is the pod's and a number, in 253 characters at most."""
    pod = PodRef("0c5f7a1e-8d7d-4f63-9f5b-2f6a3f5e1c11", "default", "x" * 253)
    before, after = new_cluster(), new_cluster()
    before.events.failed(pod, "why")
    before.events.scheduled(pod, "node-0")
    await posted_events(api, 2)
    after.announce_binds([PastBind(pod, "node-0", 1)])
    failed, bound, again = [event["metadata"]["name"] for event in await posted_events(api, 3)]
    assert failed.startswith(f"{pod.uid}.")
    assert bound.startswith(f"{pod.uid}.")
    assert bound == again, "one event for a pod, whichever answer names it"
    assert failed != bound
    short = kube_events._name(PodRef("uid", "default", "y" * 236), 0xFFFF_FFFF_FFFF_FFFF)
    assert short == "y" * 236 + "." + 16 * "f"


async def test_a_waiting_pod_gets_one_event(cluster: KubeCluster, api: FakeApi, monkeypatch):
    api.pod("a")
    api.pod("b")
    for name in ("a", "a", "b"):
        await cluster.touch([ref(api, name)], ["0/1 nodes are available: 1 Insufficient cpu."])
    events = await posted_events(api, 2)
    assert [event["regarding"]["name"] for event in events] == ["a", "b"]
    assert {event["reason"] for event in events} == {"FailedScheduling"}
    assert events[0]["type"] == "Warning"
    assert cluster.events.counts.repeated == 1
    monkeypatch.setattr(kube_events, "SERIES_S", 0.0)
    await cluster.touch([ref(api, "a")], ["0/1 nodes are available: 1 Insufficient cpu."])
    assert (await posted_events(api, 3))[2]["series"]["count"] == 3


async def test_a_victims_event_names_its_preemptor(cluster: KubeCluster, api: FakeApi):
    api.pod("victim", nodeName="node-0")
    api.pod("large")
    await cluster.evict([ref(api, "victim")], ref(api, "large"))
    (event,) = await posted_events(api, 1)
    assert (event["reason"], event["regarding"]["name"]) == ("Preempted", "victim")
    assert event["note"] == "Preempted by pod uid-large on node node-0"
    assert event["action"] == "Preempting"
    assert event["related"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "large",
        "uid": "uid-large",
    }
    assert api.objects["pods"]["large"]["status"]["nominatedNodeName"] == "node-0"
    message = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available."
    await cluster.touch([ref(api, "large")], [message])
    assert api.objects["pods"]["large"]["status"]["nominatedNodeName"] is None
    api.pod("next", nodeName="node-0")
    await cluster.evict([ref(api, "next")], ref(api, "large"))
    assert api.objects["pods"]["large"]["status"]["nominatedNodeName"] == "node-0"


async def test_a_victims_event_says_that_its_budget_did_not_allow_it(
    cluster: KubeCluster, api: FakeApi, caplog
):
    caplog.set_level("INFO", "muster.kube")
    api.pod("victim", nodeName="node-0")
    api.pod("large")
    victim = msgspec.structs.replace(ref(api, "victim"), is_beyond_budget=True)
    await cluster.evict([victim], ref(api, "large"))
    (event,) = await posted_events(api, 1)
    note = "Preempted by pod uid-large on node node-0, beyond its PodDisruptionBudget"
    assert event["note"] == note
    line = "evicted default/victim from node-0 for default/large, beyond its budget"
    assert line in caplog.messages


async def test_events_never_hold_up_a_bind_and_lost_ones_are_counted(
    cluster: KubeCluster, api: FakeApi, monkeypatch
):
    monkeypatch.setattr(kube_events, "BURST", float(kube_events.SENDERS))
    cluster.events._tokens = kube_events.BURST
    stuck = asyncio.Event()

    async def hang(_request: web.Request) -> None:
        await stuck.wait()

    monkeypatch.setattr(event_queue, "KEPT_MAX", 300)
    count = event_queue.KEPT_MAX + 50
    api.faults.extend([("events", hang)] * kube_events.SENDERS)
    for number in range(count):
        api.pod(f"pod-{number}")
    async with asyncio.timeout(10):
        answers = await cluster.bind([request(api, f"pod-{number}") for number in range(count)])
    assert {read.answer for read in answers} == {Answer.DONE}
    assert cluster.events.counts.dropped == 50 - kube_events.SENDERS
    stuck.set()


@pytest.mark.parametrize("length", [1024, 1025, 3000])
def test_long_messages_are_cut_as_kube_scheduler_does(length):
    note = kube_events.cut("ü" + "x" * (length - 2))
    assert len(note.encode()) == min(length, 1024)
    assert note.endswith(" ...") == (length > 1024)


class SlowClient:
    """A server that answers every event after a delay, with the next of `answers` or 201."""

    def __init__(self, answer_s: float) -> None:
        self.answer_s = answer_s
        self.answers: list[Response | Exception] = []
        self.asked = 0

    async def request(self, *_: Any) -> Response:
        self.asked += 1
        answer = self.answers.pop(0) if self.answers else Response(201, b"")
        await asyncio.sleep(self.answer_s)
        if isinstance(answer, Exception):
            raise answer
        return answer


def recorder(client: SlowClient, writes_out: int = 0) -> KubeEvents:
    """Return a recorder beside so many other writes in flight."""
    window = WriteWindow()
    window.out = writes_out
    return KubeEvents(cast(Any, client), "muster", window)


def in_virtual_time(awaitable: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(awaitable)


def bind_all(events: KubeEvents, count: int) -> None:
    for number in range(count):
        events.scheduled(PodRef(f"uid-{number}", "default", f"pod-{number}"), "node-0")


@pytest.mark.parametrize("answer_s", [0.03, 0.1, 0.15])
def test_slow_answers_cost_no_event_below_the_rate(answer_s: float):
    per_s, seconds = 95, 30
    events = recorder(SlowClient(answer_s), writes_out=64)

    async def offer() -> None:
        for number in range(per_s * seconds):
            events.scheduled(PodRef(f"uid-{number}", "default", f"pod-{number}"), "node-0")
            await asyncio.sleep(1 / per_s)
        await asyncio.sleep(1)
        assert events.counts.sent == per_s * seconds
        await events.close()

    in_virtual_time(offer())


def test_a_floods_events_are_kept_and_written_when_its_binds_are_over():
    events = recorder(SlowClient(0.004), writes_out=64)

    async def flood() -> None:
        bind_all(events, 5_000)
        await asyncio.sleep(1)
        assert events.counts.sent <= kube_events.PER_S + kube_events.BURST
        events._window.out = 0
        await asyncio.sleep(6)
        assert (events.counts.sent, events.counts.dropped) == (5_000, 0)
        await events.close()

    in_virtual_time(flood())


def test_few_events_are_in_flight_when_a_bind_may_come():
    client = SlowClient(0.1)
    events = recorder(client)

    async def flood() -> None:
        events._tokens, events._filled_s = 0.0, asyncio.get_running_loop().time()
        bind_all(events, 100)
        await asyncio.sleep(0.005)
        assert client.asked == kube_events.ROOM_OUT
        await events.close()

    in_virtual_time(flood())


def test_the_end_waits_for_events(caplog):
    events = recorder(SlowClient(0.004), writes_out=64)

    async def end() -> None:
        bind_all(events, 5_000)
        await events.close()
        assert (events.counts.sent, events.counts.dropped) == (5_000, 0)
        await events.close()

    in_virtual_time(end())
    assert not caplog.messages


def test_the_end_waits_for_few_seconds_and_says_how_many_events_are_lost(caplog):
    events = recorder(SlowClient(1.0), writes_out=64)

    async def end() -> None:
        bind_all(events, 5_000)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await events.close()
        assert loop.time() - began_s <= kube_events.CLOSE_S + 0.01
        assert events.counts.sent + events.counts.dropped == 5_000

    in_virtual_time(end())
    assert caplog.messages == [f"{events.counts.dropped:,} events not written before the end"]


@pytest.mark.parametrize("answer", [NotSent("gone"), Response(429, b"", 1.0), Response(503, b"")])
def test_the_end_does_not_wait_for_a_server_that_takes_no_events(answer: Response | Exception):
    client = SlowClient(0.01)
    client.answers = [answer] * 100
    events = recorder(client)

    async def end() -> None:
        bind_all(events, 100)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await events.close()
        assert loop.time() - began_s < 0.1
        assert events.counts.dropped == 100

    in_virtual_time(end())


def test_events_wait_while_the_server_is_away():
    client = SlowClient(0.01)
    client.answers = [NotSent("gone")] * 1_000
    events = recorder(client)

    async def outage() -> None:
        bind_all(events, 10)
        await asyncio.sleep(600)
        assert (events.counts.sent, events.counts.failed, events.counts.dropped) == (10, 0, 0)
        await events.close()

    in_virtual_time(outage())


@pytest.mark.parametrize("answer", [TimeoutError(), ConnectionError("lost"), Response(500, b"")])
def test_an_event_that_the_server_fails_to_take_is_given_up_after_some_tries(
    answer: Response | Exception,
):
    client = SlowClient(0.01)
    client.answers = [answer] * kube_events.TRIES_MAX
    events = recorder(client)

    async def poison() -> None:
        bind_all(events, 1)
        await asyncio.sleep(kube_events.TRIES_MAX * 2)
        bind_all(events, 3)
        await asyncio.sleep(1)
        assert (events.counts.sent, events.counts.failed) == (3, 1)
        await events.close()

    in_virtual_time(poison())


def posted(api: FakeApi) -> int:
    """Return the number of events that reached the server, whatever it answered."""
    return sum("/events" in path for _method, path in api.requests)


async def test_events_are_as_few_at_a_time_as_binds(cluster: KubeCluster, api: FakeApi):
    stuck = asyncio.Event()

    async def hang(_request: web.Request) -> None:
        await stuck.wait()

    api.faults.append(("events", hang))
    cluster.writes.window.width = 1.0
    for number in range(5):
        cluster.events.failed(PodRef(f"uid-{number}", "default", f"pod-{number}"), "why")
    async with asyncio.timeout(5):
        while not posted(api):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)
    assert posted(api) == 1
    stuck.set()
    await posted_events(api, 5)


async def test_a_server_that_wants_no_events_gets_them_later(cluster: KubeCluster, api: FakeApi):
    api.fails("events", 429, "too many requests", **{"Retry-After": "1"})
    cluster.events.failed(PodRef("uid-0", "default", "pod-0"), "why")
    async with asyncio.timeout(5):
        while not posted(api) or cluster.events.out:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    for number in range(1, 6):
        cluster.events.failed(PodRef(f"uid-{number}", "default", f"pod-{number}"), "why")
    await asyncio.sleep(0.3)
    assert posted(api) == 1
    names = [event["regarding"]["name"] for event in await posted_events(api, 6)]
    assert sorted(names) == [f"pod-{number}" for number in range(6)]
    assert (cluster.events.counts.failed, cluster.events.counts.dropped) == (0, 0)


async def test_the_rate_of_events_beside_binds_is_bounded(
    cluster: KubeCluster, api: FakeApi, monkeypatch
):
    monkeypatch.setattr(kube_events, "PER_S", 50.0)
    monkeypatch.setattr(kube_events, "BURST", 5.0)
    cluster.events._tokens = 5.0
    cluster.writes.window.out = 64
    for number in range(15):
        cluster.events.scheduled(PodRef(f"uid-{number}", "default", f"pod-{number}"), "node-0")
    began_s = asyncio.get_running_loop().time()
    await posted_events(api, 15)
    assert asyncio.get_running_loop().time() - began_s >= 9 / 50
