"""Volumes that other shards chose are taken here too, until the facts about them arrive."""

import pytest
from msgspec.structs import replace

from shared.events.binding import VolumesGranted, VolumesOver
from shared.events.ingest import StorageGone, StorageSet
from shared.events.placement import Reserved, VolumesBound
from shared.model.columns import pack
from tests.unit.placement.shard import placed
from tests.unit.placement.test_volumes import (
    CHOSEN,
    LATE,
    MADE,
    STATIC,
    bound_to,
    claim,
    free,
    of,
    reasons,
    shard_of,
    volume,
    wanting,
    with_claims,
    woken,
)

NOT_FOUND = "node(s) didn't find available persistent volumes to bind"
TO_V = VolumesGranted(1, 2, 9, "far", (CHOSEN,))
TO_FAR = VolumesGranted(1, 2, 9, "far", (MADE,))


def over(world: int = 0) -> VolumesOver:
    return VolumesOver(pack([1]), pack([world]))


def several(*objects):
    """Return one of three shards, with a pod for each of the claims c and d."""
    shard = shard_of(*objects, placements=3)
    return shard.sig(1, with_claims("c")).sig(2, with_claims("d"))


def world_of(shard, position: int):
    """Let the shard apply the world journal up to there."""
    shard.state.cursors["ingest/0"].next = position
    return shard


def test_a_volume_that_another_shard_chose_is_taken():
    shard = several(STATIC, wanting("c"), wanting("d"), free()).given(TO_V)
    assert reasons(shard.reload().dispatch(2, 2).run()) == [((NOT_FOUND, 2),)]
    (made,) = of(shard.dispatch(1, 1).run(), Reserved)
    assert made.volumes == (CHOSEN,), "the claim may have it at every node that reaches it"
    assert woken(shard.given(over()).run()) == []
    assert shard.state.storage.volumes["v"].claim is not None, "our own choice holds it"


def test_a_claim_with_a_node_of_another_shard_has_none_here():
    shard = several(LATE, wanting("c"), wanting("d")).given(TO_FAR)
    assert reasons(shard.reload().dispatch(1, 1).run()) == [((NOT_FOUND, 2),)]
    assert woken(shard.given(over()).reload().run()) == [1]
    assert len(placed(shard.dispatch(1, 1).run())) == 1


def test_a_shard_holds_the_volumes_that_it_chose():
    shard = several(STATIC, wanting("c"), free()).dispatch(1, 1)
    shard.run()
    shard.given(replace(TO_V, shard=0, pod=1))
    assert not shard.state.other_shard_volumes
    shard.given(over()).gone(1).run()
    assert shard.state.storage.volumes["v"].claim is None


def test_a_granted_volume_is_taken_until_the_facts_arrive():
    shard = several(STATIC, wanting("c"), wanting("d"), free()).given(TO_V)
    world_of(shard, 5).given(over(8))
    assert reasons(shard.reload().dispatch(2, 2).run()) == [((NOT_FOUND, 2),)]
    world_of(shard, 7).given(StorageSet((wanting("e"),)))
    assert shard.state.other_shard_volumes, "other facts"
    world_of(shard, 8).given(StorageSet((bound_to(free()),)))
    assert not shard.state.other_shard_volumes
    assert reasons(shard.dispatch(2, 2).run()) == [((NOT_FOUND, 2),)], "now it is a fact"


@pytest.mark.parametrize("is_gone", [False, True])
def test_earlier_facts_end_it_at_once(is_gone):
    shard = several(STATIC, wanting("c"), wanting("d"), free()).given(TO_V)
    world_of(shard, 8).given(over(8 if is_gone else 7), *[StorageGone("uid-v")] * is_gone)
    assert not shard.state.other_shard_volumes
    assert ("v" in shard.state.storage.volumes) is not is_gone


def test_ends_of_unknown_grants_are_ignored():
    shard = several(STATIC, wanting("c"), free()).given(over(), over(9))
    assert not shard.state.ended_other_shard_volumes


def test_bound_volumes_name_the_position_of_the_facts():
    shard = several(STATIC, wanting(), free(on="y")).dispatch(1, 1)
    shard.run()
    facts = StorageSet((bound_to(volume(on="y")), replace(claim(), storage_class="late")))
    decided = world_of(shard, 12).given(facts).run()
    assert decided == [VolumesBound(pack([1]), pack([2]), 12)]
