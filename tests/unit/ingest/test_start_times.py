"""Start times of pods: sent to the pod's shard, again with its node, once each."""

from services.ingest.core.pods.start_times import LATEST_S
from services.ingest.grouping import grouped
from shared.events.ingest import PodsAssigned, PodsStarted
from shared.events.observed import NodesDeletedSeen, PodsStartedSeen
from shared.model.columns import join, pack, unpack
from tests.unit.ingest.inputs import LARGE, gone, ids, ingest, names, nodes, one, pods


def started(**starts_s: int) -> PodsStartedSeen:
    uids = join(f"uid-{name}" for name in starts_s)
    return PodsStartedSeen(uids, pack([1_000 * start_s for start_s in starts_s.values()]))


def pairs(decided) -> list[tuple[int, int, int]]:
    """(shard, pod, second)"""
    return [
        (event.shard, pod, start_ms // 1_000)
        for event in decided
        if isinstance(event, PodsStarted)
        for pod, start_ms in zip(ids(event), unpack(event.starts_ms).tolist(), strict=True)
    ]


def test_each_shard_gets_each_start_of_its_pods_once():
    steps = ingest(placements=3)
    steps.when(nodes(*(f"n{i}" for i in range(12))))
    shard = {held.node.name: held.shard for held in steps.state.nodes.values()}
    steps.when(pods(*(f"p{i}" for i in range(12)), on=" ".join(f"n{i}" for i in range(12))))
    decided = steps.when(started(**{f"p{i}": 100 + i for i in range(12)}, unknown=7))
    assert sorted(pairs(decided)) == sorted((shard[f"n{i}"], i + 1, 100 + i) for i in range(12))
    assert steps.when(started(p0=100, p3=103)) == []
    assert pairs(steps.when(started(p0=100, p3=104))) == [(shard["n3"], 4, 104)]


def test_a_start_waits_for_the_node_and_outlives_it():
    steps = ingest()
    assert pairs(steps.when(pods("a", "b", on="late late"), started(b=50))) == []
    decided = steps.when(nodes("late"))
    assert names(decided) == ["NodesSet", "PodsAssigned", "PodsStarted"]
    assert pairs(decided) == [(0, 2, 50)]
    steps.reload()
    steps.when(NodesDeletedSeen("uid-late"))
    assert pairs(steps.when(nodes("late"))) == [(0, 2, 50)]


def test_a_pod_recorded_again_has_its_start():
    """A shard that gets the pod again has forgotten its start."""
    steps = ingest()
    steps.when(nodes("n"), pods("a", on="n"), started(a=50))
    decided = steps.when(pods("a", at=9, on="n", spec=LARGE))
    assert ids(one(decided, PodsAssigned)) == [1]
    assert pairs(decided) == [(0, 1, 50)]


def test_a_pod_without_a_start_after_one_with_it():
    steps = ingest()
    steps.when(nodes("n"), pods("a", "z", on="n n"), started(a=50))
    steps.when(gone("a"))
    assert pairs(steps.when(pods("b", at=9, on="n"))) == []


def test_times_beyond_all_are_the_latest_and_before_all_are_none():
    steps = ingest()
    steps.when(nodes("n"), pods("a", "b", on="n n"))
    assert pairs(steps.when(started(a=1 << 40, b=-5))) == [(0, 1, LATEST_S)]


def test_neighbours_become_one_event():
    assert list(grouped([started(a=5), started(b=6)])) == [started(a=5, b=6)]
