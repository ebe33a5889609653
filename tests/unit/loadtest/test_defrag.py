"""`python -m loadtest.defrag`: no packing reaches beyond its bound."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from loadtest.defrag import bound, devices_min
from shared.model.objects import GpuRequest, PodSpec
from shared.worlds.arrivals import plain_node

SHARES = st.lists(st.integers(1, 999), max_size=6)


def fewest(shares: list[int]) -> int:
    """Return how many devices the shares need, by trying all ways."""
    for count in range(len(shares) + 1):
        for places in product(range(count), repeat=len(shares)):
            sums = [0] * count
            for share, place in zip(shares, places, strict=True):
                sums[place] += share
            if all(used <= 1000 for used in sums):
                return count
    raise AssertionError


@given(SHARES)
@settings(max_examples=100, deadline=None)
def test_shares_need_no_fewer_devices_than_the_bound(shares):
    assert devices_min(shares) <= fewest(shares)


def test_the_bound_counts_devices_that_other_nodes_do_not_have():
    nodes = [
        plain_node("a", 0, {}, 8, "x"),
        plain_node("b", 1, {}, 8, "x"),
        plain_node("c", 2, {}, 2, "y"),
    ]
    shares = [PodSpec(gpu=GpuRequest(600)) for _ in range(2)]
    assert bound(nodes, shares, 8) == 2
    assert bound(nodes, [*shares, PodSpec(gpu=GpuRequest(400))], 8) == 2
    assert bound(nodes, [*shares, PodSpec(gpu=GpuRequest(401))], 8) == 1
