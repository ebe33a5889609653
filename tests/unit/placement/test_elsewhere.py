"""What other shards chose is taken here, too, until the facts are here that say what came of it."""

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
    """One of three shards, with a pod for each of the claims c and d."""
    shard = shard_of(*objects, placements=3)
    return shard.sig(1, with_claims("c")).sig(2, with_claims("d"))


def world_of(shard, position: int):
    """The shard has applied the world journal up to there."""
    shard.state.cursors["ingest/0"].next = position
    return shard


def test_a_volume_that_another_shard_chose_is_taken():
    shard = several(STATIC, wanting("c"), wanting("d"), free()).give(TO_V)
    assert reasons(shard.reload().dispatch(2, 2).run()) == [((NOT_FOUND, 2),)]
    (made,) = of(shard.dispatch(1, 1).run(), Reserved)
    assert made.volumes == (CHOSEN,), "the claim may have it at every node that reaches it"
    assert woken(shard.give(over()).run()) == []
    assert shard.state.storage.volumes["v"].claim is not None, "our own choice holds it"


def test_a_claim_with_a_node_elsewhere_has_none_here():
    shard = several(LATE, wanting("c"), wanting("d")).give(TO_FAR)
    assert reasons(shard.reload().dispatch(1, 1).run()) == [((NOT_FOUND, 2),)]
    assert woken(shard.give(over()).reload().run()) == [1]
    assert len(placed(shard.dispatch(1, 1).run())) == 1


def test_what_this_shard_chose_it_holds_itself():
    shard = several(STATIC, wanting("c"), free()).dispatch(1, 1)
    shard.run()
    shard.give(replace(TO_V, shard=0, pod=1))
    assert not shard.state.elsewhere
    shard.give(over()).gone(1).run()
    assert shard.state.storage.volumes["v"].claim is None


def test_it_is_taken_until_the_facts_are_here():
    shard = several(STATIC, wanting("c"), wanting("d"), free()).give(TO_V)
    world_of(shard, 5).give(over(8))
    assert reasons(shard.reload().dispatch(2, 2).run()) == [((NOT_FOUND, 2),)]
    world_of(shard, 7).give(StorageSet((wanting("e"),)))
    assert shard.state.elsewhere, "other facts"
    world_of(shard, 8).give(StorageSet((bound_to(free()),)))
    assert not shard.state.elsewhere
    assert reasons(shard.dispatch(2, 2).run()) == [((NOT_FOUND, 2),)], "now it is a fact"


@pytest.mark.parametrize("is_gone", [False, True])
def test_facts_that_came_before_end_it_at_once(is_gone):
    shard = several(STATIC, wanting("c"), wanting("d"), free()).give(TO_V)
    world_of(shard, 8).give(over(8 if is_gone else 7), *[StorageGone("uid-v")] * is_gone)
    assert not shard.state.elsewhere
    assert ("v" in shard.state.storage.volumes) is not is_gone


def test_a_word_about_others_is_none():
    shard = several(STATIC, wanting("c"), free()).give(over(), over(9))
    assert not shard.state.elsewhere_over


def test_the_word_of_several_shards_says_where_the_facts_are():
    shard = several(STATIC, wanting(), free(on="y")).dispatch(1, 1)
    shard.run()
    facts = StorageSet((bound_to(volume(on="y")), replace(claim(), storage_class="late")))
    told = world_of(shard, 12).give(facts).run()
    assert told == [VolumesBound(pack([1]), pack([2]), 12)]
