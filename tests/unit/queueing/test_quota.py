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
    quota = Quota([queue("all", cpu=3_000, pods=9), queue("a", "all", cpu=1_000)])
    assert quota.borrowed("a") == {"a": {}, "all": {}}
    quota.charge("a", POD, 4)
    assert quota.borrowed("a") == {"a": {"cpu": 3_000, "pods": 4}, "all": {"cpu": 1_000}}
    assert quota.borrowed("gone") == {}
