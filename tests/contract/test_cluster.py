"""The contract of clusters: what binding and ingest rely on."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable

import pytest
from msgspec.structs import replace

from shared.events.base import Event
from shared.events.observed import (
    NodesSeen,
    ObjectsDeletedSeen,
    ObjectsSeen,
    PodsBoundSeen,
    PodsDeletedSeen,
    PodsSeen,
)
from shared.kubernetes.client.kinds import OTHER_KINDS
from shared.model.api_outcome import Answer
from shared.model.cluster_objects import ClaimObject, ClusterObject
from shared.model.columns import split, unpack
from shared.ports.cluster import KINDS, OBJECTS, BindRequest, Cluster, PodRef, Watched
from tests.contract import clusters
from tests.contract.clusters import NAMESPACE, KubeStage, Stage
from tests.live.conftest import require_kube
from tests.live.support.other_objects import OTHERS

LIMIT_S = 300.0


LIVE = pytest.param(
    clusters.live, marks=[pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
)


@pytest.fixture(
    params=[clusters.simulated, clusters.served, clusters.fake, LIVE],
    ids=lambda make: make.__name__,
)
async def stage(request, tmp_path) -> AsyncIterator[Stage]:
    if request.param is clusters.live:
        require_kube()
    async with request.param(tmp_path) as made:
        yield made


async def ref(cluster: Cluster, name: str) -> PodRef:
    """Return a reference to a pod as a list shows it."""
    for event in (await cluster.list_all("pods")).events:
        if isinstance(event, PodsSeen) and name in split(event.names):
            place = split(event.names).index(name)
            revision = int(unpack(event.revisions)[place])
            return PodRef(split(event.uids)[place], NAMESPACE, name, revision)
    raise AssertionError(f"no pod {name}")


def post(pod: PodRef, node: str = "node-a") -> BindRequest:
    return BindRequest(pod.uid, NAMESPACE, pod.name, node, pod.revision)


async def bound(cluster: Cluster, request: BindRequest) -> Answer:
    (read,) = await cluster.bind([request])
    return read.answer


async def test_the_identity_is_stable(stage: Stage):
    assert await stage.cluster.identity() == await stage.cluster.identity() != ""


async def test_lists_show_all_objects_and_their_revision(stage: Stage):
    await stage.node("node-a")
    await stage.pod("pod-a")
    nodes = await stage.cluster.list_all("nodes")
    pods = await stage.cluster.list_all("pods")
    assert pods.revision >= nodes.revision > 0
    seen = [event for event in nodes.events if isinstance(event, NodesSeen)]
    assert [node.name for event in seen for node in event.nodes] == ["node-a"]
    pod = await ref(stage.cluster, "pod-a")
    assert 0 < pod.revision <= pods.revision
    assert set(stage.cluster.kinds) - {OBJECTS} == set(KINDS)
    for kind in stage.cluster.kinds:
        assert (await stage.cluster.list_all(kind)).revision >= nodes.revision


async def test_a_watch_shows_what_changed_after_the_list(stage: Stage):
    await stage.node("node-a")
    await stage.pod("before")
    listed = await stage.cluster.list_all("pods")
    observed: list[Event] = []
    watching = asyncio.create_task(follow(stage.cluster.watch(listed.revision), observed))
    await stage.pod("after")
    await until(lambda: "after" in names(observed))
    pod = await ref(stage.cluster, "after")
    assert await bound(stage.cluster, post(pod)) is Answer.DONE
    await until(lambda: node_of(observed, pod.uid) == "node-a")
    await stage.delete("after")
    await until(lambda: any(isinstance(e, PodsDeletedSeen) and pod.uid in e.uids for e in observed))
    assert "before" not in names(observed)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


class Changes:
    """The changes of several watches, each resumed where the one before ended."""

    def __init__(self, lists: Iterable[Watched]) -> None:
        self.events: list[Event] = []
        listed = list(lists)
        self.revision = min(one.revision for one in listed)
        self.marks = {part: mark for one in listed for part, mark in one.marks.items()}

    async def follow(self, cluster: Cluster) -> None:
        async for watched in cluster.watch(self.revision, dict(self.marks)):
            self.events.extend(watched.events)
            self.revision = watched.revision
            self.marks |= watched.marks

    async def until(self, cluster: Cluster, holds: Callable[[], bool]) -> None:
        watching = asyncio.create_task(self.follow(cluster))
        await until(holds)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    def cordons(self) -> list[bool]:
        nodes = [node for e in self.events if isinstance(e, NodesSeen) for node in e.nodes]
        return [node.unschedulable for node in nodes]

    def gone(self) -> bool:
        return any(isinstance(event, PodsDeletedSeen) for event in self.events)


async def test_a_resumed_watch_repeats_nothing(stage: Stage):
    await stage.node("node-a")
    observed = Changes([await stage.cluster.list_all(kind) for kind in stage.cluster.kinds])
    changes = [True, False, True]
    for cordoned in changes:
        await stage.cordon("node-a", cordoned)
    await stage.pod("short")
    await stage.delete("short")
    await observed.until(stage.cluster, lambda: observed.cordons() == changes and observed.gone())
    observed.events.clear()
    await stage.cordon("node-a", False)
    await stage.pod("last")
    await observed.until(
        stage.cluster, lambda: False in observed.cordons() and bool(names(observed.events))
    )
    assert (observed.cordons(), names(observed.events), observed.gone()) == (
        [False],
        ["last"],
        False,
    )


async def follow(stream: AsyncIterator[Watched], observed: list[Event]) -> None:
    async for watched in stream:
        observed.extend(watched.events)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        # Polled: the changes arrive in another task.
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def names(observed: list[Event]) -> list[str]:
    return [name for e in observed if isinstance(e, PodsSeen) for name in split(e.names)]


def node_of(observed: list[Event], uid: str) -> str:
    """Return the node in the last event about a pod."""
    found = ""
    for event in observed:
        if isinstance(event, PodsSeen | PodsBoundSeen) and uid in split(event.uids) and event.nodes:
            found = split(event.nodes)[split(event.uids).index(uid)]
    return found


@pytest.fixture(params=[clusters.fake, LIVE], ids=lambda make: make.__name__)
async def kube(request, tmp_path) -> AsyncIterator[KubeStage]:
    if request.param is clusters.live:
        require_kube()
    async with request.param(tmp_path) as made:
        yield made


async def test_other_objects_are_listed_and_watched_like_nodes(kube: KubeStage):
    for kind in OTHER_KINDS:
        await kube.other(kind, "before")
    listed = await kube.cluster.list_all(OBJECTS)
    before = others(listed.events, "before")
    assert len(before) == len(OTHER_KINDS)
    observed: list[Event] = []
    watching = asyncio.create_task(follow(kube.cluster.watch(listed.revision), observed))
    for kind in OTHER_KINDS:
        await kube.other(kind, "after")
        await kube.change(kind, "before", {"metadata": {"annotations": {"a": "b"}}})
    await until(lambda: len(others(observed, "after")) == len(OTHER_KINDS))
    changed = [kind for kind in OTHER_KINDS if OTHERS[kind.resource].change]
    for kind in changed:
        await kube.change(kind, "after", OTHERS[kind.resource].change)
    await until(lambda: len(others(observed, "after")) == len(OTHER_KINDS) + len(changed))
    for kind in OTHER_KINDS:
        await kube.drop(kind, "before")
    uids = sorted(one.uid for one in before)
    await until(lambda: gone(observed) == uids)
    # A watch does not know the list: it may report an unchanged object once.
    assert set(map(unversioned, others(observed, "before"))) <= set(map(unversioned, before))
    assert len(others(observed, "before")) <= len(before) + 1, "a claim has a new version"
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


def others(observed: Iterable[Event], name: str) -> list[ClusterObject]:
    seen = [event for event in observed if isinstance(event, ObjectsSeen)]
    return [one for event in seen for one in event.objects if one.name == name]


def unversioned(one: ClusterObject) -> ClusterObject:
    """Return an object without its resourceVersion, which claims have."""
    return replace(one, revision=0) if isinstance(one, ClaimObject) else one


def gone(observed: list[Event]) -> list[str]:
    lost = [event for event in observed if isinstance(event, ObjectsDeletedSeen)]
    return sorted(uid for event in lost for uid in split(event.uids))


async def test_a_bind_is_made_once_and_each_refusal_has_its_answer(stage: Stage):
    await stage.node("node-a")
    await stage.pod("pod-a")
    pod = await ref(stage.cluster, "pod-a")
    other = PodRef("uid-of-another", NAMESPACE, "pod-a", pod.revision)
    assert await bound(stage.cluster, post(other)) is Answer.GONE
    assert await bound(stage.cluster, post(pod)) is Answer.DONE
    assert await bound(stage.cluster, post(pod)) in (Answer.ASSIGNED, Answer.STALE)
    (read,) = await stage.cluster.read([pod])
    assert (read.answer, read.node) == (Answer.DONE, "node-a")
    assert read.revision > pod.revision
    await stage.delete("pod-a")
    assert await bound(stage.cluster, post(pod)) is Answer.GONE
    assert (await stage.cluster.read([pod]))[0].answer is Answer.GONE


async def test_a_touch_fences_every_older_bind(stage: Stage):
    await stage.node("node-a")
    await stage.pod("pod-a")
    pod = await ref(stage.cluster, "pod-a")
    for _ in range(3):
        (read,) = await stage.cluster.touch([pod], ["the same message"])
        assert (read.answer, read.node) == (Answer.DONE, "")
        assert read.revision > pod.revision
        assert await bound(stage.cluster, post(pod)) is Answer.STALE
        pod = PodRef(pod.uid, NAMESPACE, pod.name, read.revision)
    assert await bound(stage.cluster, post(pod)) is Answer.DONE


async def test_an_eviction_ends_a_pod_and_no_other_of_its_name(stage: Stage):
    await stage.node("node-a")
    await stage.pod("pod-a")
    pod = await ref(stage.cluster, "pod-a")
    other = PodRef("uid-of-another", NAMESPACE, "pod-a", pod.revision)
    assert await stage.cluster.evict([other]) == [Answer.GONE]
    assert (await stage.cluster.read([pod]))[0].answer is Answer.DONE
    assert await stage.cluster.evict([pod]) == [Answer.DONE]
    assert (await stage.cluster.read([pod]))[0].answer is Answer.GONE
    assert await stage.cluster.evict([pod]) == [Answer.GONE]


async def test_answers_come_in_the_order_of_asking(stage: Stage):
    await stage.node("node-a")
    for number in range(5):
        await stage.pod(f"pod-{number}")
    pods = [await ref(stage.cluster, f"pod-{number}") for number in range(5)]
    await stage.delete("pod-2")
    answers = [read.answer for read in await stage.cluster.bind([post(pod) for pod in pods])]
    assert answers == [Answer.DONE, Answer.DONE, Answer.GONE, Answer.DONE, Answer.DONE]
