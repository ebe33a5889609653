"""A cluster restored to an older state: noticed, listed again, and no bind believed."""

import asyncio

import pytest

from services.ingest.core.core import IngestCore
from shared.events.ingest import (
    ListAsked,
    PodsAssigned,
    PodsGone,
    PodsPending,
    WorldListed,
    WorldRestored,
)
from shared.events.observed import ClusterRestored, LeadSeen, ListBegan
from shared.model.columns import unpack
from shared.ports.cluster import Watched
from shared.simulated.backup import back_up, restore
from shared.simulated.cluster import SimCluster
from tests.unit.ingest.inputs import bound, gone, ids, ingest, listed, nodes, one, pods
from tests.unit.ingest.test_shell import Owner, bind, cluster_of, started

FIRST = {"kept": 1, "undone": 2, "vanished": 3, "moved": 4, "unseen": 5}


def known_world():
    """Return steps with pods on nodes, one of them in the backup; `unseen` is bound, but no watch
    showed it.
    """
    steps = ingest()
    steps.when(*listed("nodes", nodes("n1", "n2"), count=2))
    steps.when(*listed("budgets"), *listed("gangs"))
    steps.when(*listed("pods", pods(*FIRST, at=50), revision=60, count=5))
    steps.when(bound("kept:n1", "undone:n1", "vanished:n2", "moved:n2", at=70))
    assert steps.state.listed_pods == 60
    return steps


def list_again(steps, at: int = 20):
    """List the restored cluster, which is older than everything seen before; return the
    decisions.
    """
    before = steps.when(*listed("nodes", nodes("n1", "n2"), revision=at, count=2))
    before += steps.when(*listed("budgets", revision=at), *listed("gangs", revision=at))
    back = pods("kept", "undone", "moved", "unseen", "new", at=1, on="n1 - n1 - -")
    shown = steps.when(*listed("pods", back, revision=at, count=5))
    assert not [event for event in before if isinstance(event, WorldListed | PodsGone)]
    return shown


def test_nothing_is_placed_until_all_of_it_is_listed():
    steps = known_world()
    assert steps.when(ClusterRestored(20)) == [WorldListed(False), WorldRestored(False)]
    steps.reload()
    shown = list_again(steps)
    assert shown[-2:] == [WorldRestored(True), WorldListed(True)]
    assert not steps.state.is_restored


def test_a_process_that_stands_by_reads_a_restored_cluster_and_waits():
    steps = ingest()
    steps.when(LeadSeen(leads=False))
    for kind in ("nodes", "budgets", "gangs", "pods"):
        steps.when(*listed(kind, revision=20))
    assert steps.when(ClusterRestored(10)) == [WorldListed(False), WorldRestored(False)]
    shown = list_again(steps, at=10)
    assert shown[-1] == WorldRestored(True)
    assert steps.when(LeadSeen(leads=True)) == [WorldListed(True)]


def test_decisions_about_a_pod_end_with_its_old_number():
    steps = known_world()
    steps.when(ClusterRestored(20))
    steps.reload()
    shown = list_again(steps)
    ended = [pod for event in shown if isinstance(event, PodsGone) for pod in ids(event)]
    assert sorted(ended) == sorted(FIRST.values())
    pending = [pod for event in shown if isinstance(event, PodsPending) for pod in ids(event)]
    assigned = ids(one(shown, PodsAssigned))
    assert (len(pending), len(assigned)) == (3, 2)
    assert min([*pending, *assigned]) > max(FIRST.values())


def test_members_of_gangs_have_not_finished_with_their_old_numbers():
    steps = ingest()
    steps.when(*listed("nodes", nodes("n1"), revision=60), *listed("budgets"), *listed("gangs"))
    steps.when(*listed("pods", pods("a", "b", at=50, on="n1 n1", gang="g"), revision=60, count=2))
    steps.when(ClusterRestored(20))
    steps.when(*listed("nodes", nodes("n1"), revision=20), *listed("budgets", revision=20))
    steps.when(*listed("gangs", revision=20))
    shown = steps.when(*listed("pods", pods("a", at=1, on="n1", gang="g"), revision=20, count=1))
    gone = [event for event in shown if isinstance(event, PodsGone)]
    assert sorted(pod for event in gone for pod in unpack(event.deleted).tolist()) == [1, 2]


def test_older_revisions_count_from_then_on():
    steps = known_world()
    steps.when(ClusterRestored(20))
    list_again(steps)
    kept = steps.state.pods.ids.item(steps.state.pods.slots["uid-kept"])
    decided = steps.when(bound("new:n2", at=21), gone("kept"))
    assert ids(one(decided, PodsGone)) == [kept]
    assert len(ids(one(decided, PodsAssigned))) == 1


@pytest.mark.parametrize("is_stale", [False, True])
def test_a_fresh_list_with_pods_older_than_they_were_seen_is_one_of_a_restored_cluster(is_stale):
    """`etcdutl snapshot restore --bump-revision` leaves such a cluster; a stale list
    shows nothing.
    """
    steps = known_world()
    steps.when(*listed("budgets", revision=100))
    steps.state.seen_revision = 90
    at = 80 if is_stale else 1_000
    decided = steps.when(*listed("pods", pods(*FIRST, at=1, on="n1 - - - -"), revision=at, count=5))
    asked = [event.kind for event in decided if isinstance(event, ListAsked)]
    assert asked == (["pods"] if is_stale else ["nodes", "budgets", "gangs", "pods"])
    assert (WorldRestored(False) in decided) is not is_stale


async def until_known(owner: Owner, cluster: SimCluster) -> None:
    await owner.until(
        lambda: owner.state.revision == cluster.revision and not owner.state.is_restored
    )


@pytest.mark.parametrize("is_bumped", [False, True])
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_restored_cluster_is_noticed_while_it_is_watched_and_at_a_start(
    is_bumped, is_restarted, caplog
):
    cluster = cluster_of("kept", "undone")
    await bind(cluster, "kept")
    owner, shell = await started(cluster)
    await until_known(owner, cluster)
    backup = back_up(cluster)
    await bind(cluster, "undone")
    await until_known(owner, cluster)
    if is_restarted:
        await shell.stop()
        owner.steps.reload()
        restore(cluster, backup, is_bumped)
        owner, shell = await started(cluster, owner.state)
    else:
        restore(cluster, backup, is_bumped)
    await owner.until(lambda: WorldRestored(True) in owner.decided)
    await until_known(owner, cluster)
    assert owner.state.pods.nodes[owner.state.pods.slots["uid-undone"]] == 0
    assert owner.state.pods.nodes[owner.state.pods.slots["uid-kept"]] == 1
    assert [line for line in caplog.messages if "restored from a backup" in line]
    await shell.stop()


async def test_a_list_under_way_at_a_kill_is_made_again_from_the_start(monkeypatch):
    cluster = cluster_of("a", "b")
    owner, shell = await started(cluster)
    await until_known(owner, cluster)
    backup = back_up(cluster)
    await bind(cluster, "a")
    await until_known(owner, cluster)
    restore(cluster, backup)
    list_all = cluster.list_all

    async def hang(kind: str) -> Watched:
        if kind == "pods":
            await asyncio.sleep(60)
        return await list_all(kind)

    monkeypatch.setattr(cluster, "list_all", hang)
    await owner.until(lambda: owner.state.is_restored and owner.state.unlisted == ["pods"])
    await shell.stop()
    monkeypatch.undo()
    owner.steps.reload()
    second, shell = await started(cluster, owner.state)
    await second.until(lambda: WorldRestored(True) in second.decided)
    kinds = [event.kind for event in second.kinds(ListBegan)]
    assert kinds == ["nodes", "budgets", "gangs", "pods"]
    assert not second.kinds(ClusterRestored)
    await shell.stop()


def test_a_dump_without_a_restore_is_unchanged():
    body = IngestCore(1).dump(known_world().state)
    assert {"is_restored", "is_rewound"}.isdisjoint(body)
