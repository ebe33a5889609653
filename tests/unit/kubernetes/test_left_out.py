"""Unusable objects are reported once and counted while they exist; their story gives the reason."""

import pytest

from services.ingest.core.core import IngestCore
from shared.bus.memory import MemoryBus, MemoryLog
from shared.events.names import NoSuchName
from shared.events.observed import InputRejected, NodesSeen, WorldOpened
from shared.kubernetes.cluster import KubeCluster
from shared.model.ids import INGEST
from shared.replay.story import story
from shared.snapshots.memory import MemorySnapshots
from tests.unit.kubernetes.fake_api import FakeApi
from tests.unit.kubernetes.watch import Watch
from tests.unit.machine.toy import owner

HUGE = "status.allocatable.cpu"


def put_node(api: FakeApi, name: str, cpu: str) -> None:
    has = {"allocatable": {"cpu": cpu, "pods": "110"}}
    api.put("nodes", name, metadata={"namespace": ""}, spec={}, status=has)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]


async def test_an_unusable_node_is_logged_once_and_counted_while_it_is_unusable(
    cluster: KubeCluster, api: FakeApi, caplog
):
    put_node(api, "good", "4")
    put_node(api, "huge", "1e18")
    assert cluster.left_out.counts() == {}
    for _ in range(2):
        await cluster.list_all("nodes")
        assert cluster.left_out.counts() == {"Node": 1}
    (line,) = warnings(caplog)
    assert line.startswith(f"Node huge is left out: {HUGE}: '1e18' is out of range")
    watch = Watch(cluster, api.revision)
    put_node(api, "larger", "1e18")
    await watch.until(lambda: cluster.left_out.counts() == {"Node": 2})
    put_node(api, "huge", "8")
    await watch.until(lambda: bool(watch.of(NodesSeen)))
    assert cluster.left_out.counts() == {"Node": 1}
    put_node(api, "huge", "1e18")
    await watch.until(lambda: cluster.left_out.counts() == {"Node": 2})
    api.delete("nodes", "larger")
    await watch.until(lambda: cluster.left_out.counts() == {"Node": 1})
    await watch.close()
    assert len(warnings(caplog)) == 2, "once for each node and text"
    api.delete("nodes", "huge")
    await cluster.list_all("nodes")
    assert cluster.left_out.counts() == {}


async def test_pods_that_are_refused_are_counted_until_they_go_and_have_their_condition(
    cluster: KubeCluster, api: FakeApi, caplog
):
    api.pod("lonely", tolerations=[{"key": "k", "operator": "Maybe"}])
    watch = Watch(cluster, 1)
    await watch.until(lambda: cluster.left_out.counts() == {"Pod": 1})
    api.put("pods", "lonely", status={"phase": "Pending", "seen": 1})
    api.pod("other")
    await watch.until(lambda: "other" in watch.names())
    assert cluster.left_out.counts() == {"Pod": 1}, "seen again it is refused all the same"
    api.delete("pods", "lonely")
    await watch.until(lambda: cluster.left_out.counts() == {})
    await watch.close()
    assert warnings(caplog) == []


async def test_the_story_of_a_rejected_object_says_why():
    bus = MemoryBus(MemoryLog())
    member = owner(IngestCore(1), bus, MemorySnapshots())
    await member.claim()
    member.submit(
        WorldOpened("c"),
        InputRejected("Node huge", HUGE, "must be smaller"),
        InputRejected("Pod default/a", "spec", "must be an object"),
        InputRejected("PodGroup default/g", "spec", "must be an object"),
    )
    await member._turn()

    async def lines_about(words: str) -> list[str]:
        return [line.text async for line in story(bus, [INGEST], words)]

    assert await lines_about("node/huge") == [f"rejected Node huge: {HUGE} must be smaller"]
    for words in ("pod/a", "pod/default/a", "gang/g"):
        assert len(await lines_about(words)) == 1
    for words in ("node/uge", "node/a", "pod/huge", "pod/fault/a"):
        with pytest.raises(NoSuchName, match=words):
            await lines_about(words)
