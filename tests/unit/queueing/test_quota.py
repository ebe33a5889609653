"""What a queue claims of its guarantee, and what it borrows."""

import pytest

from services.queueing.core.queues.quota import Quota
from shared.model.cluster_objects import Queue

POD = (("cpu", 1_000), ("pods", 1))
GPU_POD = (*POD, ("gpu", 1))


def queue(name: str, parent: str = "", **least: int) -> Queue:
    return Queue(uid=name, name=name, parent=parent, guaranteed=tuple(sorted(least.items())))


def test_a_pod_within_the_guarantee_claims_and_one_more_does_not():
    quota = Quota([queue("a", cpu=2_000), queue("b")])
    quota.charge("a", POD, 1)
    assert quota.claims("a", POD)
    assert not quota.claims("a", POD, also={"a": {"cpu": 1_000}})
    quota.nominate("a", POD, 1)
    assert not quota.claims("a", POD), "nominated pods count"
    assert not quota.claims("b", POD)
    assert not quota.claims("gone", POD)


@pytest.mark.parametrize(
    ("least", "amounts", "claims"),
    [
        ({"gpu": 1}, POD, False),
        ({"gpu": 1}, GPU_POD, True),
        ({"gpu": 1, "cpu": 500}, GPU_POD, False),
        ({"gpu": 0}, GPU_POD, False),
        ({"pods": 1}, POD, True),
    ],
)
def test_all_guaranteed_resources_that_a_pod_asks_for_count(least, amounts, claims):
    assert Quota([queue("a", **least)]).claims("a", amounts) is claims


def test_the_first_queue_with_a_guarantee_counts_whatever_others_below_its_parent_use():
    tree = [queue("all", cpu=4_000, gpu=1), queue("a", "all", cpu=1_000), queue("b", "all")]
    quota = Quota(tree)
    assert quota.claims("b", POD)
    quota.charge("b", POD, 4)
    assert not quota.claims("b", POD)
    assert quota.claims("a", POD)
    assert quota.claims("a", GPU_POD)
    quota.charge("b", (("gpu", 1),), 1)
    assert not quota.claims("a", GPU_POD)


def test_what_is_above_a_guarantee_is_borrowed_at_each_level():
    tree = [queue("top"), queue("all", "top", cpu=3_000, pods=9), queue("a", "all", cpu=1_000)]
    quota = Quota(tree)
    assert quota.borrowed("a") == {}
    quota.charge("a", POD, 4)
    assert quota.borrowed("a") == {"cpu": 3_000, "pods": 4}
    assert quota.borrowed("all") == {"cpu": 1_000}
    assert quota.borrowed("top") == {"cpu": 1_000}, "it is guaranteed what is below it"
    assert quota.borrowed("gone") == {}


def top(**most: int) -> Queue:
    return Queue(uid="top", name="top", max=tuple(sorted(most.items())))


def test_what_borrows_keeps_the_guarantees_of_others_free_below_a_max():
    quota = Quota([top(pods=6), queue("a", "top", pods=2), queue("b", "top", pods=1)])
    one = (("pods", 1),)
    assert (quota.room("a", one), quota.room("b", one), quota.room("top", one)) == (5, 4, 3)
    quota.charge("a", one, 5)
    assert quota.room("a", one) == 0
    assert (
        quota.message("a", one) == "queue top is at its max for pods (5/6, 1 kept for guarantees)"
    )
    assert quota.room("b", one) == 1
    quota.charge("b", one, 1)
    assert quota.message("b", one) == "queue top is at its max for pods (6/6)"
    quota.charge("b", one, -1)
    quota.charge("a", one, -2)
    quota.nominate("b", one, 1)
    assert quota.room("a", one) == 2


def test_a_pod_that_borrows_one_resource_may_use_what_its_queue_keeps_of_another():
    pod = (("cpu", 3), ("gpu", 1))
    quota = Quota([top(gpu=2), queue("a", "top", cpu=2, gpu=1), queue("b", "top", gpu=1)])
    assert quota.room("a", pod) == 1
    quota.charge("b", (("gpu", 1),), 1)
    assert quota.room("a", pod) == 1
    assert quota.room("b", (("gpu", 1),)) == 0
    assert quota.room("b", (("gpu", 1),), also={"a": {"gpu": 1}, "top": {"gpu": 1}}) == 0


def test_a_claim_counts_although_others_were_above_before_the_tree_changed():
    quota = Quota([top(pods=4), queue("a", "top", pods=2), queue("b", "top", pods=2)])
    one = (("pods", 1),)
    quota.charge("a", one, 3)
    assert (quota.room("a", one), quota.room("b", one)) == (0, 1)


def test_a_guarantee_of_a_queue_holds_for_all_below_it():
    tree = [top(pods=5), queue("a", "top", pods=3), queue("a1", "a", pods=2), queue("b", "top")]
    quota, one = Quota(tree), (("pods", 1),)
    assert quota.room("b", one) == 2
    quota.charge("a", one, 2)
    assert quota.room("b", one) == 1, "two more of a1"
    quota.charge("a1", one, 1)
    assert quota.room("b", one) == 1
