"""The simulated cluster: an API server's guarantees about binds, and a world played in time."""

import asyncio

import pytest

from shared.events.observed import (
    BudgetsSeen,
    NodesSeen,
    PodsBoundSeen,
    PodsDeletedSeen,
    PodsSeen,
    PodsStartedSeen,
)
from shared.model.api_outcome import Answer
from shared.model.columns import pack, split, unpack
from shared.model.objects import Budget, Node, PodSpec
from shared.model.options import read_options
from shared.model.world import Arrival, World
from shared.ports.cluster import BindRequest, Gone, PodRef
from shared.simulated.cluster import SimCluster
from shared.simulated.config import SimConfig
from shared.simulated.history import read_history, write_history


def pods(*names: str, **fields) -> PodsSeen:
    uids = "\n".join(f"uid-{name}" for name in names)
    return PodsSeen(PodSpec(), uids, "\n".join(names), b"", **fields)


def world(*arrivals: Arrival, **fields) -> World:
    nodes = (Node(uid="n1", name="node-1"), Node(uid="n2", name="node-2"))
    return World(name="test", nodes=nodes, arrivals=arrivals, **fields)


def started(*names: str, config: SimConfig | None = None, **fields) -> SimCluster:
    cluster = SimCluster(world(Arrival(at_ms=0, pods=pods(*names), **fields)), config)
    cluster.start()
    return cluster


def request(cluster: SimCluster, name: str, node: str = "node-1", older: int = 0) -> BindRequest:
    revision = cluster.pods[f"uid-{name}"].revision - older
    return BindRequest(f"uid-{name}", "default", name, node, revision)


async def answer_to(cluster: SimCluster, bind: BindRequest) -> Answer:
    return (await cluster.bind([bind]))[0].answer


async def seen(cluster: SimCluster, since: int):
    return await anext(cluster.watch(since))


async def test_a_bind_is_create_once():
    cluster = started("a")
    first = request(cluster, "a")
    assert await answer_to(cluster, first) is Answer.DONE
    assert await answer_to(cluster, first) is Answer.STALE, "the bind itself raised the revision"
    assert await answer_to(cluster, request(cluster, "a")) is Answer.ASSIGNED
    assert cluster.pods["uid-a"].node == "node-1"
    binds = [h for h in cluster.history if h.kind == "bind"]
    assert len(binds) == 1


async def test_preconditions_come_first():
    cluster = started("a")
    assert await answer_to(cluster, request(cluster, "a", older=1)) is Answer.STALE
    other = BindRequest("uid-other", "default", "a", "node-1", 1)
    assert await answer_to(cluster, other) is Answer.GONE


async def test_gated_and_leaving_pods_are_refused():
    cluster = SimCluster(world(Arrival(at_ms=0, pods=pods("a", "b", gated=True))))
    cluster.start()
    assert await answer_to(cluster, request(cluster, "a")) is Answer.REFUSED
    cluster.ungate(["uid-a"])
    assert await answer_to(cluster, request(cluster, "a")) is Answer.DONE
    leaving = started("c", config=SimConfig(grace_ms=10_000))
    assert await leaving.evict([PodRef("uid-c")]) == [Answer.DONE]
    assert await answer_to(leaving, request(leaving, "c")) is Answer.REFUSED


async def test_capacity_and_the_node_itself_are_never_checked():
    cluster = started("a")
    assert await answer_to(cluster, request(cluster, "a", "no-such-node")) is Answer.DONE


async def test_a_touch_fences_older_binds():
    cluster = started("a")
    old = request(cluster, "a")
    (touched,) = await cluster.touch([PodRef("uid-a")], ["message"])
    assert (touched.answer, touched.node) == (Answer.DONE, "")
    assert touched.revision > old.revision
    assert await answer_to(cluster, old) is Answer.STALE


async def test_the_echo_of_a_batch_is_one_event():
    cluster = started("a", "b", "c")
    since = cluster.revision
    await cluster.bind([request(cluster, name) for name in ("a", "b", "c")])
    watched = await seen(cluster, since)
    (echo,) = watched.events
    assert isinstance(echo, PodsBoundSeen)
    assert split(echo.uids) == ["uid-a", "uid-b", "uid-c"]
    assert unpack(echo.revisions).tolist() == [since + 1, since + 2, since + 3]
    assert watched.revision == cluster.revision


async def test_arrivals_and_lifetimes_follow_the_clock():
    early = Arrival(at_ms=0, pods=pods("a"), lifetime_ms=40)
    late = Arrival(at_ms=1_000, pods=pods("b"))
    cluster = SimCluster(world(late, early), SimConfig(speed=2.0))
    cluster.start()
    assert list(cluster.pods) == ["uid-a"]
    await cluster.bind([request(cluster, "a")])
    since = cluster.revision
    deleted = await seen(cluster, since)
    assert deleted.events == (PodsDeletedSeen("uid-a", finished=True),)
    created = await seen(cluster, deleted.revision)
    assert split(created.events[0].uids) == ["uid-b"]
    assert cluster.arrived
    times = [(h.kind, h.time_ms) for h in cluster.history if h.kind in ("create", "delete")]
    assert [kind for kind, _time in times] == ["create", "delete", "create"]
    assert times[1][1] >= 19
    assert times[2][1] >= 499


async def test_a_watch_behind_the_kept_history_gets_gone():
    cluster = started("a", config=SimConfig(keep_deliveries=2))
    for _ in range(4):
        await cluster.touch([PodRef("uid-a")], [""])
    with pytest.raises(Gone):
        await seen(cluster, 1)
    listed = await cluster.list_all("pods")
    assert listed.revision == cluster.revision
    cluster.forget_history()
    with pytest.raises(Gone):
        await seen(cluster, listed.revision - 1)


async def test_a_broken_watch_raises():
    cluster = started("a")
    watching = asyncio.ensure_future(seen(cluster, cluster.revision))
    await asyncio.sleep(0)
    cluster.break_watches()
    with pytest.raises(ConnectionError):
        await watching


async def test_lists_show_nodes_and_assignments():
    cluster = started("a", "b")
    await cluster.bind([request(cluster, "b", "node-2")])
    (nodes,) = (await cluster.list_all("nodes")).events
    assert isinstance(nodes, NodesSeen)
    (listed,) = (await cluster.list_all("pods")).events
    assert isinstance(listed, PodsSeen)
    assert (split(listed.uids), split(listed.nodes)) == (["uid-a", "uid-b"], ["-", "node-2"])
    assert (await cluster.list_all("gangs")).events == ()


async def test_a_pod_with_a_start_time_is_always_shown_with_it():
    running = pods("a", "b", "c", nodes="node-1\nnode-1\nnode-1")
    world_of = world(Arrival(at_ms=0, pods=running, starts_ms=pack([7_000, 0, 9_000])))
    cluster = SimCluster(world_of)
    since = cluster.revision
    cluster.start()
    told = PodsStartedSeen("uid-a\nuid-c", pack([7_000, 9_000]))
    assert (await seen(cluster, since)).events[-1] == told
    assert (await cluster.list_all("pods")).events[-1] == told
    cluster.delete(["uid-a"])
    assert (await cluster.list_all("pods")).events[-1] == PodsStartedSeen("uid-c", pack([9_000]))


async def test_an_eviction_counts_in_the_budget_and_deletes_after_the_grace():
    budget = Budget(
        uid="b1", namespace="default", name="pdb", match_labels=(("app", "x"),), allowed=1
    )
    arrival = Arrival(at_ms=0, pods=pods("a", labels=(("app", "x"),)))
    cluster = SimCluster(world(arrival, budgets=(budget,)), SimConfig(grace_ms=20))
    cluster.start()
    since = cluster.revision
    assert await cluster.evict([PodRef("uid-a"), PodRef("uid-none")]) == [Answer.DONE, Answer.GONE]
    watched = await seen(cluster, since)
    assert isinstance(watched.events[0], BudgetsSeen)
    assert cluster.budgets["b1"].disrupted == ("uid-a",)
    assert cluster.budgets["b1"].allowed == 0
    assert "uid-a" in cluster.pods
    assert (await seen(cluster, watched.revision)).events == (PodsDeletedSeen("uid-a"),)


@pytest.mark.parametrize(
    ("fault", "answer", "lands"),
    [
        ("lost_response", Answer.UNKNOWN, True),
        ("lost_request", Answer.UNKNOWN, False),
        ("refused", Answer.REFUSED, False),
        ("busy", Answer.BUSY, False),
    ],
)
async def test_failures_are_as_configured(fault, answer, lands):
    cluster = started("a", config=read_options("cluster", {"cluster": {fault: 1.0}}, SimConfig))
    assert await answer_to(cluster, request(cluster, "a")) is answer
    assert bool(cluster.pods["uid-a"].node) is lands


async def test_a_late_post_lands_later_unless_it_was_fenced():
    cluster = started("a", "b", config=SimConfig(late=1.0, late_ms=20))
    for name in ("a", "b"):
        assert await answer_to(cluster, request(cluster, name)) is Answer.UNKNOWN
    await cluster.touch([PodRef("uid-b")], [""])
    await asyncio.sleep(0.03)
    assert (cluster.pods["uid-a"].node, cluster.pods["uid-b"].node) == ("node-1", "")
    assert [h.kind for h in cluster.history if "bind" in h.kind] == ["late-bind"]


async def test_foreign_binds_are_seeded():
    names = [f"p{i}" for i in range(20)]
    kinds = []
    for _run in range(2):
        cluster = started(*names, config=SimConfig(seed=3, foreign=0.5, foreign_ms=0))
        await asyncio.sleep(0.005)
        kinds.append([(h.uid, h.node) for h in cluster.history if h.kind == "foreign-bind"])
    assert kinds[0] == kinds[1]
    assert 2 < len(kinds[0]) < 18


async def test_a_node_takes_its_pods_with_it():
    cluster = started("a", config=SimConfig(pod_gc_ms=1))
    await cluster.bind([request(cluster, "a")])
    cluster.remove_node("n1")
    await asyncio.sleep(0.01)
    assert not cluster.pods
    assert cluster.history[-1].kind == "delete"


async def test_stop_ends_arrivals_and_lifetimes():
    cluster = SimCluster(world(Arrival(at_ms=5, pods=pods("a"))))
    cluster.start()
    cluster.stop()
    await asyncio.sleep(0.01)
    assert not cluster.pods


async def test_the_history_survives_a_file(tmp_path):
    cluster = started("a", "b")
    await cluster.bind([request(cluster, "a")])
    path = tmp_path / "history"
    write_history(path, cluster.history)
    assert read_history(path) == cluster.history
    path.write_bytes(b"\xff")
    with pytest.raises(ValueError, match="not a cluster history"):
        read_history(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"latency": 1}, "latency: unknown option"),
        ({"late": 1.5}, "cluster.late: Expected `float` <= 1"),
        ({"grace_ms": -1}, "cluster.grace_ms: Expected `int` >= 0"),
        ({"keep_deliveries": 0}, "cluster.keep_deliveries: Expected `int` >= 1"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        read_options("cluster", {"cluster": options}, SimConfig)
