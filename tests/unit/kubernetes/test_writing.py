"""Binding's requests to a live API: every answer is definite, or reported as unknown."""

import asyncio

import pytest
from aiohttp import ClientTimeout, web

from shared.kubernetes.cluster import KubeCluster
from shared.kubernetes.writing import writes
from shared.kubernetes.writing.write_concurrency import WIDTH_FIRST
from shared.model.api_outcome import Answer
from shared.ports.cluster import BindRequest, PodRef
from tests.unit.kubernetes.fake_api import FakeApi, status


def request(api: FakeApi, name: str, node: str = "node-0") -> BindRequest:
    meta = api.objects["pods"][name]["metadata"]
    return BindRequest(meta["uid"], "default", name, node, int(meta["resourceVersion"]))


def ref(api: FakeApi, name: str) -> PodRef:
    meta = api.objects["pods"][name]["metadata"]
    return PodRef(meta["uid"], "default", name, int(meta["resourceVersion"]))


async def bind(cluster: KubeCluster, *requests: BindRequest) -> list[Answer]:
    return [read.answer for read in await cluster.bind(requests)]


async def test_binds_are_answered_in_the_order_of_asking(cluster: KubeCluster, api: FakeApi):
    for number in range(100):
        api.pod(f"pod-{number}")
    requests = [request(api, f"pod-{number}", f"node-{number}") for number in range(100)]
    api.delete("pods", "pod-7")
    answers = await bind(cluster, *requests)
    assert answers.count(Answer.DONE) == 99
    assert answers[7] is Answer.GONE
    assert api.objects["pods"]["pod-9"]["spec"]["nodeName"] == "node-9"


async def test_every_refusal_of_the_server_has_its_own_meaning(cluster: KubeCluster, api: FakeApi):
    api.pod("a")
    old = request(api, "a")
    api.put("pods", "a", status={"phase": "Pending", "seen": 1})
    assert await bind(cluster, old) == [Answer.STALE]
    other = BindRequest("uid-other", "default", "a", "node-0", old.revision)
    assert await bind(cluster, other) == [Answer.GONE]
    assert await bind(cluster, request(api, "a")) == [Answer.DONE]
    assert await bind(cluster, request(api, "a")) == [Answer.ASSIGNED]
    api.pod("gated", schedulingGates=[{"name": "g"}])
    assert await bind(cluster, request(api, "gated")) == [Answer.REFUSED]


async def test_a_conflict_from_a_failing_etcd_is_unknown(cluster: KubeCluster, api: FakeApi):
    """The binding subresource answers 409 to whatever its storage says."""
    said = "rpc error: code = Unavailable desc = error reading from server: EOF"

    api.pod("a")
    api.fails("binding", 409, f'Operation cannot be fulfilled on pods/binding "a": {said}')
    assert await bind(cluster, request(api, "a")) == [Answer.UNKNOWN]


@pytest.mark.parametrize(
    ("code", "answer"),
    [(403, Answer.REFUSED), (422, Answer.REFUSED), (500, Answer.UNKNOWN), (504, Answer.UNKNOWN)],
)
async def test_errors_of_the_server(cluster: KubeCluster, api: FakeApi, code, answer):
    api.pod("a")
    api.fails("binding", code, "no")
    assert await bind(cluster, request(api, "a")) == [answer]


async def test_a_response_that_is_lost_after_the_commit_is_unknown(
    cluster: KubeCluster, api: FakeApi
):
    async def commit_and_drop(request_: web.Request) -> web.StreamResponse:
        await api.answer(request_)
        assert request_.transport is not None
        request_.transport.abort()
        await asyncio.sleep(1)
        raise AssertionError("the connection was cut")

    api.pod("a")
    asked = request(api, "a")
    api.faults.append(("binding", commit_and_drop))
    assert await bind(cluster, asked) == [Answer.UNKNOWN]
    posts = [path for method, path in api.requests if method == "POST"]
    assert len(posts) == 1, "a POST whose answer was lost must not be repeated unasked"
    (read,) = await cluster.read([ref(api, "a")])
    assert (read.answer, read.node) == (Answer.DONE, "node-0")


async def test_too_many_requests_are_repeated_when_the_server_says(
    cluster: KubeCluster, api: FakeApi
):
    async def busy(_request: web.Request) -> web.Response:
        return status(429, "too many requests", **{"Retry-After": "0"})

    api.pod("a")
    api.faults.extend([("binding", busy)] * 2)
    assert await bind(cluster, request(api, "a")) == [Answer.DONE]
    assert cluster.writes.counts.busy == 2
    assert cluster.writes.window.width < WIDTH_FIRST


async def test_a_throttled_request_waits_and_others_continue(cluster: KubeCluster, api: FakeApi):
    came = asyncio.Event()
    clock = asyncio.get_running_loop().time

    async def busy(_request: web.Request) -> web.Response:
        came.set()
        return status(429, "too many requests", **{"Retry-After": "1"})

    api.pod("a")
    api.pod("b")
    api.faults.append(("pods/a/binding", busy))
    began_s = clock()
    first = asyncio.create_task(bind(cluster, request(api, "a")))
    await came.wait()
    assert await bind(cluster, request(api, "b")) == [Answer.DONE]
    assert clock() - began_s < 0.5
    assert await first == [Answer.DONE]
    assert clock() - began_s >= 0.95


async def test_busy_for_too_long_is_busy(cluster: KubeCluster, api: FakeApi):
    async def busy(_request: web.Request) -> web.Response:
        return status(429, "too many requests")

    api.pod("a")
    api.faults.extend([("binding", busy)] * 3)
    assert await bind(cluster, request(api, "a")) == [Answer.BUSY]


async def test_an_unsent_write_is_busy_and_an_unsent_read_unknown(
    cluster: KubeCluster, api: FakeApi
):
    api.pod("a")
    asked, named = request(api, "a"), ref(api, "a")
    await api.stop()
    assert await bind(cluster, asked) == [Answer.BUSY]
    assert (await cluster.read([named]))[0].answer is Answer.UNKNOWN
    assert (await cluster.touch([named], ["why"]))[0].answer is Answer.BUSY
    assert await cluster.evict([named]) == [Answer.BUSY]


async def test_no_answer_in_time_is_unknown(cluster: KubeCluster, api: FakeApi, monkeypatch):
    monkeypatch.setattr(cluster.client, "_timeout", ClientTimeout(total=0.1))

    async def silence(_request: web.Request) -> web.Response:
        await asyncio.sleep(1)
        return status(500, "late")

    api.pod("a")
    api.faults.append(("binding", silence))
    assert await bind(cluster, request(api, "a")) == [Answer.UNKNOWN]


async def test_a_touch_always_raises_the_revision(cluster: KubeCluster, api: FakeApi):
    api.pod("a")
    before = ref(api, "a")
    for _ in range(3):
        (read,) = await cluster.touch([before], ["0/1 nodes are available"])
        assert (read.answer, read.node) == (Answer.DONE, "")
        assert read.revision > before.revision
        before = ref(api, "a")
    (condition,) = api.objects["pods"]["a"]["status"]["conditions"]
    wanted = ("0/1 nodes are available", "Unschedulable")
    assert (condition["message"], condition["reason"]) == wanted
    (read,) = await cluster.touch([before], ["code 500"], ["SchedulerError"])
    before = ref(api, "a")
    (condition,) = api.objects["pods"]["a"]["status"]["conditions"]
    assert (condition["message"], condition["reason"]) == ("code 500", "SchedulerError")
    assert await bind(cluster, request(api, "a")) == [Answer.DONE]
    (read,) = await cluster.touch([before], ["too late"])
    assert read.node == "node-0"
    (condition,) = api.objects["pods"]["a"]["status"]["conditions"]
    assert condition["status"] == "True"


@pytest.mark.parametrize(("other_time_s", "is_known"), [(0.0, True), (60.0, False)])
async def test_a_revision_is_ours_if_the_write_must_have_changed_the_pod(
    cluster: KubeCluster, api: FakeApi, monkeypatch, other_time_s: float, is_known: bool
):
    """A patch in the same second may change nothing and be answered with a foreign revision."""
    monkeypatch.setattr(writes, "OTHER_TIME_S", other_time_s)
    api.pod("a")
    await cluster.touch([ref(api, "a")], ["why"])
    assert cluster.writes.written == {}, "what the condition said before is not known"
    await cluster.touch([ref(api, "a")], ["why else"])
    assert cluster.writes.written == ({"uid-a": api.revision} if is_known else {})


async def test_another_pod_of_the_name_is_another_pod(cluster: KubeCluster, api: FakeApi):
    api.pod("a")
    other = PodRef("uid-before", "default", "a", 1)
    assert (await cluster.read([other]))[0].answer is Answer.GONE
    assert (await cluster.touch([other], ["why"]))[0].answer is Answer.GONE
    assert await cluster.evict([other]) == [Answer.GONE]
    assert api.objects["pods"]["a"]["status"] == {"phase": "Pending"}, "it was changed all the same"


@pytest.mark.parametrize(
    ("conflicts", "answer", "patches"),
    [(1, Answer.DONE, 2), (3, Answer.DONE, 4), (4, Answer.BUSY, 4)],
)
async def test_a_status_is_written_again_after_a_conflict(
    cluster: KubeCluster, api: FakeApi, conflicts, answer, patches
):
    """As in kube-scheduler 1.37: three times, within a third of a second."""
    api.pod("a")
    for _ in range(conflicts):
        api.fails("status", 409, "the object has been modified")
    (read,) = await cluster.touch([ref(api, "a")], ["why"])
    assert read.answer is answer
    sent = [path for method, path in api.requests if method == "PATCH"]
    assert len(sent) == patches
    has = "conditions" in api.objects["pods"]["a"].get("status", {})
    assert has == (answer is Answer.DONE)


async def test_an_eviction_says_why_and_deletes(cluster: KubeCluster, api: FakeApi):
    api.pod("a", nodeName="node-0")
    victim = ref(api, "a")
    assert await cluster.evict([victim]) == [Answer.DONE]
    assert "a" not in api.objects["pods"]
    conditions = [
        value["status"]["conditions"][0]
        for _revision, _kind, _what, value in api.log
        if value.get("status", {}).get("conditions")
    ]
    assert conditions[0]["type"] == "DisruptionTarget"
    assert conditions[0]["reason"] == "PreemptionByScheduler"
    assert await cluster.evict([victim]) == [Answer.GONE]
