"""Lists and watches of a live API: no change is missed, and none is reported needlessly."""

import asyncio
import time
from collections.abc import Callable

import pytest
from aiohttp import web

from shared.events.observed import (
    BudgetsSeen,
    GangsDeletedSeen,
    GangsSeen,
    InputRejected,
    NodesSeen,
    PodsDeletedSeen,
    PodsSeen,
)
from shared.kubernetes import cluster as kube_cluster
from shared.kubernetes.client.kinds import OTHER_KINDS
from shared.kubernetes.cluster import KubeCluster
from shared.kubernetes.objects.structs import RawPod
from shared.kubernetes.watching import lists, merged_watch, pods, refused_pods, templates
from shared.kubernetes.watching import watch as kube_watch
from shared.model.columns import split
from shared.model.groups.topology import Topology
from shared.model.objects import Gang
from shared.ports.cluster import Gone, Watched
from tests.unit.kubernetes.fake_api import COLLECTIONS, FakeApi, status
from tests.unit.kubernetes.watch import LIMIT_S, Watch

NODE = {"allocatable": {"cpu": "4", "memory": "1Gi", "pods": "10"}}

UNREADABLE = [{"key": "k", "operator": "Maybe"}]
"""A scheduler name of pods that are not ours."""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(kube_watch, "BACKOFF_S", 0.01)


@pytest.fixture
async def watch(cluster: KubeCluster, api: FakeApi):
    opened = Watch(cluster, api.revision)
    yield opened
    await opened.close()


async def test_a_list_is_read_page_by_page(cluster: KubeCluster, api: FakeApi, monkeypatch):
    monkeypatch.setattr(lists, "PAGE_OBJECTS", 2)
    for number in range(5):
        api.pod(f"pod-{number}")
    listed = await cluster.list_all("pods")
    (seen,) = listed.events
    assert isinstance(seen, PodsSeen)
    assert split(seen.names) == [f"pod-{number}" for number in range(5)]
    assert listed.revision == api.revision
    assert len([path for _, path in api.requests if path.startswith("/api/v1/pods?")]) == 3


async def test_a_list_with_an_expired_page_starts_again(
    cluster: KubeCluster, api: FakeApi, monkeypatch
):
    monkeypatch.setattr(lists, "PAGE_OBJECTS", 2)
    for number in range(3):
        api.put("nodes", f"node-{number}", status=NODE)

    async def expire(_request: web.Request) -> web.Response:
        api.delete("nodes", "node-0")
        return status(410, "The provided continue parameter is too old")

    api.faults.append(("continue=2", expire))
    (seen,) = (await cluster.list_all("nodes")).events
    assert isinstance(seen, NodesSeen)
    assert [node.name for node in seen.nodes] == ["node-1", "node-2"]


async def test_pods_of_other_schedulers_are_reported_once_they_have_a_node(
    cluster: KubeCluster, api: FakeApi
):
    api.pod("theirs", schedulerName="other")
    api.pod("running", schedulerName="other", nodeName="node-0")
    api.pod("ours")
    listed = await cluster.list_all("pods")
    seen = [event for event in listed.events if isinstance(event, PodsSeen)]
    node_by_name = {name: event.nodes for event in seen for name in split(event.names)}
    assert node_by_name == {"running": "node-0", "ours": ""}


async def test_a_watch_reports_changes(watch: Watch, api: FakeApi):
    await asyncio.gather(watch.until(lambda: len(watch.names()) == 2), _later(api))
    await watch.until(lambda: bool(watch.of(PodsDeletedSeen)))
    assert watch.of(PodsDeletedSeen)[0].uids == "uid-a"
    assert [event.nodes for event in watch.of(PodsSeen)] == ["", "node-0"]
    assert watch.of(NodesSeen)[0].nodes[0].name == "node-0"


async def _later(api: FakeApi) -> None:
    await asyncio.sleep(0.05)
    api.put("nodes", "node-0", status=NODE)
    api.pod("a")
    await asyncio.sleep(0.05)
    api.pod("a", nodeName="node-0")
    await asyncio.sleep(0.05)
    api.delete("pods", "a")


async def test_a_pod_with_a_forgotten_spec_is_not_reported_again(
    watch: Watch, api: FakeApi, monkeypatch
):
    monkeypatch.setattr(templates, "LOOKUPS", 1)
    api.pod("a", nodeName="node-0")
    for number in range(4):
        api.pod(f"other-{number}", priority=number)
    await watch.until(lambda: len(watch.names()) == 5)
    api.put("pods", "a", status={"phase": "Running"})
    api.pod("last")
    await watch.until(lambda: "last" in watch.names())
    assert watch.names().count("a") == 1


async def test_changes_outside_scheduling_fields_are_not_shown(watch: Watch, api: FakeApi):
    api.put("nodes", "node-0", status=NODE)
    api.pod("a", nodeName="node-0")
    await watch.until(lambda: bool(watch.names()) and bool(watch.of(NodesSeen)))
    api.put("nodes", "node-0", status={**NODE, "conditions": [{"lastHeartbeatTime": "now"}]})
    api.put("pods", "a", status={"phase": "Running"})
    api.pod("b")
    await watch.until(lambda: "b" in watch.names())
    assert watch.names() == ["a", "b"]
    assert len(watch.of(NodesSeen)) == 1


async def test_only_lists_report_our_own_writes(watch: Watch, cluster: KubeCluster, api: FakeApi):
    api.pod("a")
    api.pod("b")
    cluster.writes.written = {"uid-a": api.revision - 1, "uid-b": api.revision - 1}
    await watch.until(lambda: bool(watch.names()))
    assert watch.names() == ["b"], "another revision is from another client"
    assert watch.revision == api.revision or watch.marks["pods"] == api.revision
    (listed,) = (await cluster.list_all("pods")).events
    assert isinstance(listed, PodsSeen)
    assert split(listed.names) == ["a", "b"]


async def test_finished_and_terminating_pods_count_as_deleted(watch: Watch, api: FakeApi):
    for name in ("done", "failed", "deleted", "evicted"):
        api.pod(name, nodeName="node-0")
    api.pod("leaving")
    await watch.until(lambda: len(watch.names()) == 5)
    end = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    api.put("pods", "done", status={"phase": "Succeeded"})
    api.put("pods", "failed", status={"phase": "Failed"})
    api.put("pods", "leaving", metadata=end)
    api.put("pods", "deleted", metadata=end)
    api.delete("pods", "deleted")
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    api.put("pods", "evicted", status={"phase": "Failed", "conditions": [evicted]}, metadata=end)
    await watch.until(lambda: len(watch.gone()) == 5)
    ends: dict[str, tuple[bool, bool]] = {}
    for event in watch.of(PodsDeletedSeen):
        ends |= dict.fromkeys(split(event.uids), (event.finished, event.lost))
    assert ends.pop("uid-done") == (True, False)
    assert ends.pop("uid-failed") == (True, True)
    assert ends.pop("uid-evicted") == (False, False)
    assert ends == dict.fromkeys(("uid-leaving", "uid-deleted"), (False, True))


async def test_the_joint_revision_waits_for_the_slowest(watch: Watch, api: FakeApi):
    began = watch.revision
    api.pod("a")
    await watch.until(lambda: "a" in watch.names())
    assert watch.revision == began
    quiet = ["nodes", "budgets", "workloads", *(kind.resource for kind in OTHER_KINDS)]
    await api.until_watched(1 + len(quiet))
    for kind in quiet:
        await api.bookmark(kind)
    await watch.until(lambda: watch.revision == api.revision)


async def seen_together(watch: Watch, api: FakeApi) -> list[int]:
    """Return how many pods each delivery has while one comes every 20 ms after a first one."""
    api.pod("first")
    await watch.until(lambda: watch.names() == ["first"])

    async def create() -> None:
        for number in range(5):
            await asyncio.sleep(0.02)
            api.pod(f"pod-{number}")

    await asyncio.gather(create(), watch.until(lambda: len(watch.names()) == 6))
    return [len(split(event.names)) for event in watch.of(PodsSeen)]


async def test_changes_are_reported_together_while_the_process_is_busy(
    watch: Watch, api: FakeApi, monkeypatch
):
    monkeypatch.setattr(merged_watch, "MOST_S", 0.3)
    monkeypatch.setattr(time, "process_time", lambda: 100 * time.monotonic())
    assert await seen_together(watch, api) == [1, 5]


async def test_changes_are_reported_at_once_while_the_process_is_idle(
    watch: Watch, api: FakeApi, monkeypatch
):
    monkeypatch.setattr(merged_watch, "MOST_S", 0.3)
    monkeypatch.setattr(time, "process_time", lambda: 0.0)
    assert await seen_together(watch, api) == [1, 1, 1, 1, 1, 1]


async def test_changes_after_a_burst_are_reported_together(watch: Watch, api: FakeApi, monkeypatch):
    monkeypatch.setattr(merged_watch, "BURST_S", 0.3)
    monkeypatch.setattr(merged_watch, "BURST", 1)
    monkeypatch.setattr(time, "process_time", lambda: 0.0)
    assert await seen_together(watch, api) == [1, 5]


async def test_our_own_binds_are_reported_with_the_next_pod(
    watch: Watch, api: FakeApi, monkeypatch
):
    monkeypatch.setattr(merged_watch, "OWN_S", 3.0)
    api.pod("a")
    await watch.until(lambda: watch.names() == ["a"])
    known = len(watch.deliveries)

    async def change() -> None:
        api.pod("a", nodeName="node-0")
        await asyncio.sleep(0.2)
        api.pod("b")

    await asyncio.gather(change(), watch.until(lambda: "b" in watch.names()))
    assert watch.names() == ["a", "a", "b"]
    assert len(watch.deliveries) == known + 1


async def test_our_own_binds_do_not_wait_for_ever(watch: Watch, api: FakeApi):
    api.pod("a")
    await watch.until(lambda: watch.names() == ["a"])
    api.pod("a", nodeName="node-0")
    async with asyncio.timeout(1):
        await watch.until(lambda: watch.names() == ["a", "a"])


@pytest.mark.parametrize("change", ["their bind", "deletion", "termination", "node"])
async def test_what_others_do_is_reported_soon(
    watch: Watch, api: FakeApi, monkeypatch, change: str
):
    monkeypatch.setattr(merged_watch, "OWN_S", 3.0)
    api.pod("a")
    await watch.until(lambda: watch.names() == ["a"])
    known = len(watch.events)

    match change:
        case "their bind":
            api.pod("b", nodeName="node-0", schedulerName="another-scheduler")
        case "deletion":
            api.delete("pods", "a")
        case "termination":
            api.pod("b", nodeName="node-0")
            api.put("pods", "b", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        case _:
            api.put("nodes", "node-0", status=NODE)
    async with asyncio.timeout(1):
        await watch.until(lambda: len(watch.events) > known)


async def test_a_slow_consumer_is_read_ahead_for_only_a_little(
    cluster: KubeCluster, api: FakeApi, monkeypatch
):
    monkeypatch.setattr(merged_watch, "AHEAD", 2)
    read: list[RawPod] = []

    class Counting(pods.Pods):
        def seen(self, pod: RawPod) -> None:
            read.append(pod)
            super().seen(pod)

    monkeypatch.setattr(kube_cluster, "Pods", Counting)
    watch = Watch(cluster, api.revision)
    api.pod("first")
    await watch.until(lambda: watch.names() == ["first"])
    for number in range(10):
        api.pod(f"pod-{number}")
        await asyncio.sleep(0.02)
    assert len(read) < 5
    await watch.until(lambda: len(watch.names()) == 11)
    await watch.close()


@pytest.mark.parametrize("kind", [kind for kind in COLLECTIONS if kind != "podgroups"])
async def test_a_410_in_mid_stream_ends_the_watch(watch: Watch, api: FakeApi, kind: str):
    api.pod("a")
    await watch.until(lambda: "a" in watch.names())
    await api.until_watched(len(COLLECTIONS) - 1)
    # As the server writes it: of some kinds it could be an object.
    expired = {"kind": "Status", "metadata": {}, "code": 410, "message": "too old: 1 (2)"}
    await api.send(kind, {"type": "ERROR", "object": expired})
    with pytest.raises(Gone, match="too old"):
        await watch.until(lambda: False)


async def test_a_410_status_ends_the_watch(cluster: KubeCluster, api: FakeApi):
    since = api.revision
    api.pod("a")
    api.compact()
    watch = Watch(cluster, since)
    with pytest.raises(Gone):
        await watch.until(lambda: False)


async def test_a_broken_watch_resumes_at_its_revision(watch: Watch, api: FakeApi):
    api.pod("a")
    await watch.until(lambda: "a" in watch.names())
    for _kind, response in list(api._watches):
        transport = response._req.transport  # type: ignore[union-attr]
        assert transport is not None
        transport.abort()
    api.pod("b")
    await watch.until(lambda: "b" in watch.names())
    assert watch.names() == ["a", "b"]


async def test_a_silent_watch_is_given_up(new_cluster, api: FakeApi):
    watch = Watch(new_cluster(silent_s=0.2), api.revision)

    async def silence(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(LIMIT_S)
        return response

    api.faults.append(("GET /api/v1/pods?watch", silence))
    api.pod("a")
    await watch.until(lambda: "a" in watch.names())
    await watch.close()


async def test_an_unavailable_server_is_asked_again(watch: Watch, api: FakeApi):
    async def unavailable(_request: web.Request) -> web.Response:
        return status(503, "not now")

    api.faults.extend([("GET /api/v1/pods?watch", unavailable)] * 3)
    api.pod("a")
    await watch.until(lambda: "a" in watch.names())
    assert not api.faults


async def test_a_watch_that_fails_is_stale_until_it_is_served(
    watch: Watch, cluster: KubeCluster, api: FakeApi, monkeypatch
):
    monkeypatch.setattr(kube_cluster, "STALE_S", 0.0)
    found: list[set[str]] = []

    async def unavailable(_request: web.Request) -> web.Response:
        found.append(set(cluster.stale_watches()))
        return status(503, "not now")

    api.faults.extend([("GET /api/v1/pods?watch", unavailable)] * 2)
    api.pod("a")
    await watch.until(lambda: "a" in watch.names())
    assert found == [set(), {"pods"}]
    assert cluster.stale_watches() == {}


async def test_a_line_in_pieces_is_one_line(watch: Watch, api: FakeApi):
    api.pod("a")
    await watch.until(lambda: "a" in watch.names())
    meta = b'{"name":"b","namespace":"default","uid":"u","resourceVersion":"900"}'
    spec = b'{"schedulerName":"muster","containers":[{"name":"c"}]}'
    await api.send("pods", b'{"type":"ADDED","object":{"metadata":' + meta)
    await asyncio.sleep(0.05)
    await api.send("pods", b',"spec":' + spec + b"}}\n")
    await watch.until(lambda: "b" in watch.names())


async def test_bad_objects_are_named_and_stop_nothing(cluster: KubeCluster, api: FakeApi):
    api.pod("good")
    api.put("pods", "bad", spec={"schedulerName": "muster", "containers": 7})
    api.pod("claims", tolerations=UNREADABLE)
    api.pod("holds", volumes=[{"persistentVolumeClaim": {}}], nodeName="node-0")
    listed = await cluster.list_all("pods")
    rejected = [event for event in listed.events if isinstance(event, InputRejected)]
    assert [(one.what, one.field) for one in rejected] == [
        ("Pod default/bad", "spec.containers"),
        ("Pod default/claims", "spec.tolerations[0].operator"),
    ]
    seen = [event for event in listed.events if isinstance(event, PodsSeen)]
    assert sorted(event.names for event in seen) == ["good", "holds"]
    (holds,) = [event for event in seen if event.names == "holds"]
    assert holds.spec.request("cpu") == 100


async def test_a_terminating_pod_is_reported_as_such(watch: Watch, api: FakeApi):
    api.pod("runs", nodeName="node-0")
    await watch.until(lambda: "runs" in watch.names())
    meta = {"deletionTimestamp": "2026-01-02T03:04:05Z"}
    api.put("pods", "runs", metadata={**api.objects["pods"]["runs"]["metadata"], **meta})
    await watch.until(lambda: len(watch.of(PodsSeen)) == 2)
    assert [event.terminating for event in watch.of(PodsSeen)] == [False, True]


async def test_a_pod_that_cannot_be_scheduled_at_all_says_so(watch: Watch, api: FakeApi):
    api.pod("lonely", tolerations=UNREADABLE)
    api.pod("other")
    await watch.until(lambda: "other" in watch.names())

    def conditions() -> list[dict[str, str]]:
        found: list[dict[str, str]] = api.objects["pods"]["lonely"]["status"].get("conditions", [])
        return found

    async with asyncio.timeout(LIMIT_S):
        # The event may come before the condition.
        while not (api.events and conditions()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    (condition,) = conditions()
    assert condition["message"].startswith("spec.tolerations[0].operator: ")
    api.pod("last")
    await watch.until(lambda: "last" in watch.names())
    assert len(watch.of(InputRejected)) == 1, "its own condition must not make it refused again"


def patches(api: FakeApi, name: str) -> int:
    return sum(method == "PATCH" and f"/{name}/" in path for method, path in api.requests)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_refused_pod_gets_its_message_again_while_it_waits(
    watch: Watch, api: FakeApi, monkeypatch
):
    monkeypatch.setattr(refused_pods, "REWRITE_S", 0.02)
    for name in ("gone", "bound"):
        api.pod(name, tolerations=UNREADABLE)
    await watch.until(lambda: len(watch.of(InputRejected)) == 2)
    await until(lambda: min(patches(api, "gone"), patches(api, "bound")) > 3)
    api.delete("pods", "gone")
    api.pod("bound", tolerations=UNREADABLE, nodeName="node-0")
    await watch.until(lambda: "bound" in watch.names())
    await asyncio.sleep(0.1)
    before = patches(api, "gone"), patches(api, "bound")
    await asyncio.sleep(0.1)
    assert (patches(api, "gone"), patches(api, "bound")) == before
    # A new pod does not wait for those whose message was written.
    monkeypatch.setattr(refused_pods, "REWRITE_S", 100.0)
    for name in ("first", "second"):
        api.pod(name, tolerations=UNREADABLE)
    await watch.until(lambda: len(watch.of(InputRejected)) == 4)
    await until(lambda: patches(api, "first") == patches(api, "second") == 1)
    await asyncio.sleep(0.1)
    assert (patches(api, "first"), patches(api, "second")) == (1, 1)


async def test_an_unheard_message_is_repeated_soon(watch: Watch, api: FakeApi, monkeypatch):
    monkeypatch.setattr(refused_pods, "UNHEARD_S", 0.02)
    api.fails("lonely/status", 500, "")
    api.pod("lonely", tolerations=UNREADABLE)
    await watch.until(lambda: bool(watch.of(InputRejected)))
    await until(lambda: patches(api, "lonely") == 2)
    await asyncio.sleep(0.1)
    assert patches(api, "lonely") == 2


async def test_a_gated_pod_has_its_message_already(watch: Watch, api: FakeApi):
    gates = [{"name": "example.com/wait"}]
    api.pod("lonely", tolerations=UNREADABLE, schedulingGates=gates)
    api.pod("other")
    await watch.until(lambda: "other" in watch.names())
    await asyncio.sleep(0.05)
    assert patches(api, "lonely") == 0
    api.pod("lonely", tolerations=UNREADABLE)
    await until(lambda: patches(api, "lonely") == 1)
    assert len(watch.of(InputRejected)) == 1


async def test_workloads_are_gangs_and_replicas_come_with_their_pods(watch: Watch, api: FakeApi):
    group = {"name": "g", "policy": {"gang": {"minCount": 3}}}
    api.put("workloads", "w", spec={"podGroups": [group]})
    await watch.until(lambda: bool(watch.of(GangsSeen)))
    assert watch.of(GangsSeen)[0].gangs == (Gang(key="default/w/g", min_count=3),)
    api.pod("a", workloadRef={"name": "w", "podGroup": "g", "podGroupReplicaKey": "r1"})
    await watch.until(lambda: "a" in watch.names())
    assert watch.of(PodsSeen)[0].gang == "default/w/g/r1"
    assert watch.of(GangsSeen)[1].gangs == (Gang(key="default/w/g/r1", min_count=3),)
    assert watch.marks["pods"] == api.revision
    api.delete("workloads", "w")
    await watch.until(lambda: bool(watch.of(GangsDeletedSeen)))
    assert set(split(watch.of(GangsDeletedSeen)[0].keys)) == {"default/w/g", "default/w/g/r1"}


async def test_a_basic_group_gates_nothing(cluster: KubeCluster, api: FakeApi):
    group = {"name": "g", "policy": {"basic": {}}}
    api.put("workloads", "w", spec={"podGroups": [group]})
    api.pod("a", workloadRef={"name": "w", "podGroup": "g"})
    await cluster.list_all("gangs")
    (seen,) = (await cluster.list_all("pods")).events
    assert isinstance(seen, PodsSeen)
    assert seen.gang == ""


async def test_without_workloads_nothing_is_asked_about_them(cluster: KubeCluster, api: FakeApi):
    del api.scheduling["v1alpha1"]
    listed = await cluster.list_all("gangs")
    assert listed == Watched(api.revision, ())
    watch = Watch(cluster, api.revision)
    api.pod("a")
    await watch.until(lambda: "a" in watch.names())
    await watch.close()
    assert not [path for _, path in api.requests if "/workloads" in path or "/podgroups" in path]


@pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3", "v1beta1"])
async def test_groups_that_are_objects_of_their_own_are_gangs(
    cluster: KubeCluster, api: FakeApi, version: str, monkeypatch
):
    collection = f"/apis/scheduling.k8s.io/{version}/podgroups"
    monkeypatch.setitem(COLLECTIONS, "podgroups", collection)
    # What an older client would read is served beside it.
    api.scheduling[version] = ["podgroups", "workloads"]
    given = {"priority": 7, "priorityClassName": "high"}
    api.put("podgroups", "g", spec={"schedulingPolicy": {"gang": {"minCount": 3}}, **given})
    api.put("podgroups", "loose", spec={"schedulingPolicy": {"basic": {}}})
    constraints = {"topology": [{"key": "zone"}]}
    policy = {"gang": {"minCount": 2}}
    api.put(
        "podgroups", "near", spec={"schedulingPolicy": policy, "schedulingConstraints": constraints}
    )
    basic = {"schedulingPolicy": {"basic": {}}, "schedulingConstraints": constraints}
    api.put("podgroups", "wide", spec=basic)
    two = {"topology": [{"key": "zone"}, {"key": "rack"}]}
    api.put("podgroups", "two", spec={"schedulingPolicy": policy, "schedulingConstraints": two})
    listed = await cluster.list_all("gangs")
    found = [event for event in listed.events if isinstance(event, GangsSeen)]
    near = Gang(key="default/near", min_count=2, topology=Topology(("zone",)), priority=0)
    assert [one for event in found for one in event.gangs] == [
        Gang(key="default/g", min_count=3, priority=7),
        near,
        Gang(key="default/wide", min_count=1, topology=Topology(("zone",)), priority=0),
    ]
    (rejected,) = [event for event in listed.events if isinstance(event, InputRejected)]
    assert (rejected.what, rejected.field) == (
        "PodGroup default/two",
        "spec.schedulingConstraints.topology",
    )
    api.pod("a", schedulingGroup={"podGroupName": "g"})
    api.pod("b", schedulingGroup={"podGroupName": "loose"})
    seen = [one for one in (await cluster.list_all("pods")).events if isinstance(one, PodsSeen)]
    assert {one.names: one.gang for one in seen} == {"a": "default/g", "b": ""}
    watch = Watch(cluster, api.revision, listed.marks)
    api.put("podgroups", "g", spec={"schedulingPolicy": {"gang": {"minCount": 5}}})
    await watch.until(lambda: bool(watch.of(GangsSeen)))
    assert watch.of(GangsSeen)[0].gangs == (Gang(key="default/g", min_count=5, priority=0),)
    api.delete("podgroups", "g")
    await watch.until(lambda: bool(watch.of(GangsDeletedSeen)))
    await watch.close()
    assert await cluster.groups_as() == "podgroups"


async def test_unknown_versions_are_named_once(cluster: KubeCluster, api: FakeApi, caplog):
    api.scheduling["v2alpha7"] = ["podgroups"]
    await cluster.list_all("gangs")
    await cluster.list_all("gangs")
    (record,) = caplog.records
    assert record.getMessage() == (
        "scheduling.k8s.io/v2alpha7 is not known to this version: "
        "groups are read from /apis/scheduling.k8s.io/v1alpha1/workloads"
    )


async def test_budgets_say_what_they_allow(cluster: KubeCluster, api: FakeApi):
    spec = {"selector": {"matchLabels": {"app": "a"}}, "minAvailable": 1}
    api.put("budgets", "b", spec=spec, status={"disruptionsAllowed": 2})
    (seen,) = (await cluster.list_all("budgets")).events
    assert isinstance(seen, BudgetsSeen)
    (budget,) = seen.budgets
    assert (budget.match_labels, budget.allowed) == ((("app", "a"),), 2)


async def test_pods_of_one_controller_are_reported_with_it(cluster, api: FakeApi):
    first = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "controller": True}
    owners = (first, first, first | {"name": "s"}, first | {"kind": "DaemonSet"}, None)
    for name, owner in zip("abcde", owners, strict=True):
        api.pod(name)
        metadata = {**api.objects["pods"][name]["metadata"]}
        if owner is not None:
            metadata["ownerReferences"] = [first | {"controller": False, "name": "x"}, owner]
        api.put("pods", name, metadata=metadata, spec=api.objects["pods"][name]["spec"])
    seen = [one for one in (await cluster.list_all("pods")).events if isinstance(one, PodsSeen)]
    pods_by_owner = [(one.owner, split(one.names)) for one in seen]
    assert sorted(pods_by_owner) == [
        ("", ["d", "e"]),
        ("ReplicaSet/r", ["a", "b"]),
        ("ReplicaSet/s", ["c"]),
    ]
