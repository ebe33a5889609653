"""Why dispatches and searches end, counted while cores decide."""

from typing import Any

import pytest
from msgspec import to_builtins

from muster.metrics.attempts import Attempts
from muster.metrics.batches import Searches
from muster.metrics.follow import FollowedCore
from shared.events.ingest import GangSet, StorageSet
from shared.events.observed import ExtendersAnswered
from shared.events.placement import ExtendersAsked, NominationReady
from shared.events.preemption import NominateAsked
from shared.extenders.values import POD, Extender
from shared.model.cluster_objects import StorageClass
from shared.model.columns import pack
from tests.unit.placement.shard import Shard, node, spec
from tests.unit.placement.test_volumes import HOST, claim, with_claims
from tests.unit.queueing.inputs import bound, digest, pending, queue, refused, reserved, tried

FEW = tuple(range(1, 11))
MANY = tuple(range(1, 151))


def counted(shards: int = 1, **options: Any) -> tuple[Any, Attempts]:
    """Return steps of queueing with two signatures of one priority, and its counts."""
    steps, counts = queue(shards, (0, 0), **options), Attempts()
    steps.core = FollowedCore(steps.core, counts.handlers)
    return steps, counts


def test_a_dispatch_takes_all_equal_pods():
    steps, counts = counted()
    steps.when(pending(1, *FEW), pending(2, 11))
    assert counts.ended == {"all": 2}


def test_a_dispatch_is_cut_by_the_largest_batch():
    steps, counts = counted(max_batch=4)
    steps.when(pending(1, *FEW))
    assert counts.ended == {"max_batch": 2, "all": 1}


def test_a_dispatch_is_cut_by_the_credits_of_the_shard():
    steps, counts = counted(credit_units=100)
    steps.when(pending(1, *MANY[:60]))
    assert counts.ended == {"credits": 1}


def test_a_dispatch_is_cut_where_other_shards_take_the_rest():
    steps, counts = counted(shards=2)
    steps.given(digest(0, 1 << 40), digest(1, 1 << 40)).when(pending(1, *MANY))
    assert counts.ended == {"shards": 2, "all": 1}


def test_a_dispatch_is_cut_by_the_room_of_the_shard():
    steps, counts = counted(shards=2)
    steps.given(digest(0, 100), digest(1, 0)).when(pending(1, *MANY))
    assert counts.ended["shards"] >= 1


@pytest.mark.parametrize("options", [{}, {"strict_order": True}])
def test_a_dispatch_is_cut_by_the_order(options):
    steps, counts = counted(unbound_max=1, **options)
    first = tried(steps.when(pending(1, 1)))
    steps.when(reserved(first[0]), pending(1, 2), pending(2, 3), at_ms=2_000)
    steps.when(pending(1, 4), at_ms=2_501)
    steps.when(bound(1), at_ms=2_600)
    assert counts.ended == {"all": 3, "order": 1}


def test_a_dispatch_is_cut_by_a_gang():
    steps, counts = counted(unbound_max=1)
    first = tried(steps.when(pending(1, 1)))
    steps.when(reserved(first[0]), pending(1, 2), GangSet(1, "default/g", 2, 300_000, 1))
    steps.when(pending(2, 3, 4, gang=1, key="default/g"))
    steps.when(pending(1, 5))
    steps.when(bound(1))
    assert counts.ended["gang"] == 1


def test_leftovers_go_to_the_next_shard_together():
    steps, counts = counted(shards=2)
    first = tried(steps.given(digest(0, 99), digest(1, 99)).when(pending(1, *FEW)))
    steps.when(refused(first[0], *FEW[4:]), reserved(first[0], *FEW[:4]))
    assert counts.ended == {"all": 2}


def test_a_preemptor_goes_alone():
    steps, counts = counted()
    first = tried(steps.when(pending(1, 1, 2)))
    steps.when(refused(first[0], preemptible=True))
    steps.when(NominationReady(0, 1, 1, 1))
    assert counts.ended == {"all": 1, "nominated": 1}


# ------------------------------------------------------------------ searches of a shard


def searched(**config: Any) -> tuple[Shard, Searches]:
    """Return a shard of two nodes with room for eight equal pods, and its counts."""
    shard, counts = Shard(**config), Searches()
    shard.core = FollowedCore(shard.core, counts.handlers)
    shard.nodes(1, node("a", labels={HOST: "a"})).nodes(2, node("b", labels={HOST: "b"}))
    return shard.sig(1, spec()).sig(2, spec(priority=9)), counts


def test_a_search_places_all_pods_of_a_dispatch():
    shard, counts = searched()
    shard.dispatch(1, 1, 2, 3).dispatch(2, 4).run()
    assert (counts.ended, counts.pods.total) == ({"all": 2}, 4)


def test_a_search_ends_when_no_node_is_left():
    shard, counts = searched()
    shard.dispatch(1, *FEW).run()
    assert (counts.ended, counts.pods.total) == ({"full": 1}, 8)


def test_a_search_ends_with_the_work_of_a_step():
    shard, counts = searched(slice_units=63)
    shard.dispatch(1, 1, 2, 3, 4, 5).run()
    assert counts.ended["slice"] >= 1
    assert counts.ended["all"] == 1


def test_pods_of_higher_priority_go_between():
    shard, counts = searched(slice_units=61)
    shard.dispatch(1, 1, 2, 3).when()
    assert counts.ended == {}
    shard.dispatch(2, 4).run()
    assert counts.ended["priority"] == 1


def test_a_nominated_pod_is_placed_alone():
    shard, counts = searched()
    shard.assigned((60, 1, 1), (61, 1, 1), (62, 1, 1), (63, 1, 1))
    shard.given(NominateAsked(1, 50, 2, 0, 1, pack([60]))).run()
    shard.gone(60).dispatch(2, 50, 51).run()
    assert counts.ended == {"nominated": 1, "all": 1}


ANY = Extender(url="http://h/x", filter_verb="filter")
PROFILES = [{"scores": [], "percentage_of_nodes_to_score": 50}]


@pytest.mark.parametrize(
    ("reason", "config"), [("off", {"batch": False}), ("sampling", {"profiles": PROFILES})]
)
def test_pods_are_placed_one_by_one(reason: str, config: dict[str, Any]):
    shard, counts = searched(**config)
    shard.dispatch(1, 1, 2, 3).run()
    assert (counts.ended, counts.pods.total) == ({reason: 2, "all": 1}, 3)


def test_pods_whose_volumes_are_chosen_are_placed_one_by_one():
    shard, counts = searched()
    later = StorageClass(uid="s", name="s", provisioner="p", waits_for_consumer=True)
    shard.given(StorageSet((later, claim(volume="", storage_class="s"))))
    shard.sig(3, with_claims("c")).dispatch(3, 1, 2).run()
    assert counts.ended == {"volumes": 1, "all": 1}


def test_extenders_are_asked_about_one_pod_after_the_other():
    shard, counts = searched(extenders=[to_builtins(ANY)])
    shard.sig(3, spec(shown=((POD, "default/web"),))).dispatch(3, 1, 2)
    for _ in range(2):
        (asked,) = (one for one in shard.run() if isinstance(one, ExtendersAsked))
        shard.given(ExtendersAnswered(asked.ask, asked.nodes, b"", (), (), "", asked.pod))
    shard.run()
    assert counts.ended == {"extenders": 2}
