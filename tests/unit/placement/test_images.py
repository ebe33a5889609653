"""Images in a shard: one of several counts them as ingest reports, a single one by its
own nodes.
"""

from typing import Any

from shared.events.ingest import ImagesCounted
from shared.events.placement import Reserved
from shared.model.columns import pack, size, unpack, unpack_totals
from shared.model.images import number, packed
from tests.unit.placement.shard import Shard, node, spec

MIB = 1 << 20
IMAGE = packed([("app:1", 1000 * MIB)])
APP = number("app:1")


def totals(shard: Shard, *pods: int) -> list[tuple[int, int]]:
    """Return (node, total) of pods that name the image."""
    found: list[Any] = [one for one in shard.dispatch(1, *pods).run() if isinstance(one, Reserved)]
    return [
        pair
        for one in found
        for pair in zip(
            unpack(one.nodes).tolist(),
            unpack_totals(one.totals, size(one.ids)).tolist(),
            strict=True,
        )
    ]


def a_shard(placements: int) -> Shard:
    shard = Shard(0, placements).nodes(1, 2, node("a"), node("b", images=IMAGE))
    return shard.sig(1, spec(cpu=0, memory=0, images=("app:1",)))


def test_the_node_that_has_the_image_is_taken_for_its_share_of_the_cluster():
    # 300 for taints, 100 for room; half of the nodes have it: 500 of 1000 MiB are 48.
    alone, some = a_shard(1), a_shard(2)
    assert totals(alone, 1) == [(2, 448)]
    some.given(ImagesCounted(10, pack([APP]), pack([2])))
    assert totals(some, 1) == [(2, 418)]
    some.given(ImagesCounted(10, pack([APP]), pack([10])))
    assert totals(some, 2) == [(2, 500)]


def test_counts_are_kept_in_snapshots_and_forgotten_with_the_last_pod():
    shard = a_shard(2).given(ImagesCounted(10, pack([APP, 7]), pack([2, 3])))
    shard.reload()
    assert totals(shard, 1) == [(2, 418)]
    shard.given(ImagesCounted(5, pack([7]), pack([0])))
    shard.reload()
    assert shard.state.spread is not None
    assert shard.state.spread.holders == {APP: 2}
    assert totals(shard, 2) == [(2, 438)]


def test_a_node_that_pulls_an_image_is_the_next_to_be_taken():
    shard = a_shard(1)
    assert totals(shard, 1) == [(2, 448)]
    version = shard.state.table.static_version
    shard.nodes(1, 2, node("a", images=IMAGE), node("b"))
    assert totals(shard, 2) == [(1, 448)]
    assert shard.state.table.static_version == version
