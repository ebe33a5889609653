"""Room for gangs whose members have volumes to choose: a node counts only if the volumes of all
members are there, each chosen after those of the members before it.
"""

from typing import Any

from msgspec.structs import replace

from shared.events.ingest import StorageSet
from shared.events.permit import HoldAsked, OfferAsked
from shared.events.placement import GangHeld, GangNominated, GangNominationStale
from shared.events.preemption import GangNominateAsked
from tests.unit.placement.shard import Shard, node, spec
from tests.unit.placement.test_gang_places import (
    ASK,
    GANG,
    dry_run,
    keep,
    leave,
    members,
    nominees,
    said,
    seats,
)
from tests.unit.placement.test_joint_gang_places import victims
from tests.unit.placement.test_volumes import (
    HOST,
    LATE,
    STATIC,
    bound_to,
    free,
    shard_of,
    wanting,
    with_claims,
)

LOW, ONE, TWO, PLAIN = 1, 5, 6, 7
BOTH = ((ONE, [91]), (TWO, [92]))


def full(*objects: Any, placements: int = 1) -> Shard:
    """Return a shard: nodes x and y with four low pods each (11 to 14, 21 to 24), and two members
    with a claim each.
    """
    shard = shard_of(LATE, wanting(), wanting("d"), *objects, placements=placements)
    shard.sig(LOW, spec()).sig(PLAIN, spec(priority=10))
    for sig, name in ((ONE, "c"), (TWO, "d")):
        shard.sig(sig, replace(with_claims(name), priority=10))
    return shard.assigned(*((10 * n + at, LOW, n) for n in (1, 2) for at in range(1, 5)))


def test_members_get_room_where_their_volumes_are():
    shard = full(STATIC, free(on="y"), free("w", on="y"))
    (offer,) = said(shard.given(OfferAsked(GANG, 1, members(*BOTH), True)))
    assert offer.preemptible
    found = dry_run(shard, *BOTH)
    assert [at for _group, at, _own in seats(found)] == [2, 2]
    assert victims(found) == [23, 24]
    assert all(one.claim is None for one in shard.state.storage.volumes.values())


def test_no_pod_leaves_if_a_member_has_no_volume():
    found = dry_run(full(STATIC, free(on="y")), *BOTH)
    assert found.places == ()
    assert found.reasons == (("node(s) didn't find available persistent volumes to bind", 2),)


def test_a_volume_taken_before_the_choice_makes_it_stale():
    shard = full(STATIC, free(on="x"), free("w", on="y"))
    found = dry_run(shard, *BOTH)
    assert sorted(at for _group, at, _own in seats(found)) == [1, 2]
    asked = GangNominateAsked(ASK, GANG, 0, nominees(found, *BOTH))
    shard.given(StorageSet((bound_to(free("w", on="y"), "other"),)))
    assert shard.given(asked).run() == [GangNominationStale(0, ASK, GANG)]


def test_one_volume_is_not_enough_for_two_members_of_a_choice():
    shard = full(STATIC, free(), free("w"))
    found = dry_run(shard, *BOTH)
    asked = GangNominateAsked(ASK, GANG, 0, nominees(found, *BOTH))
    shard.given(StorageSet((bound_to(free("w"), "other"),)))
    assert shard.given(asked).run() == [GangNominationStale(0, ASK, GANG)]


def test_members_use_their_places_when_the_victims_have_left():
    shard = full(STATIC, free(on="x"), free("w", on="y"))
    nominated, *_news = keep(shard, *BOTH)
    assert isinstance(nominated, GangNominated)
    assert leave(nominated) in ([[14], [24]], [[24], [14]])
    shard.gone(14, 24).run()
    assert len(shard.state.nominations) == 2
    shard.nodes(3, node("z", labels={HOST: "z"}))
    (offer,) = said(shard.reload().given(OfferAsked(GANG, 2, members(*BOTH), True)))
    assert offer.counts == (1, 1)
    (held,) = said(shard.given(HoldAsked(GANG, 2, 0, members(*BOTH))))
    assert isinstance(held, GangHeld)
    assert all(one.is_used for one in shard.state.nominations.values())
    assert {one.choices[0].volume for one in held.volumes} == {"v", "w"}


def test_volumes_that_are_made_anywhere_and_members_without_any():
    found = dry_run(full(), *BOTH, (PLAIN, [93]))
    assert len(found.places) == 3
    assert len(victims(found)) == 3


def test_with_several_shards_they_wait():
    shard = full(STATIC, free(on="x"), free("w", on="y"), placements=2)
    assert dry_run(shard, *BOTH).places == ()
    (offer,) = said(shard.given(OfferAsked(GANG, 1, members(*BOTH), True)))
    assert not offer.preemptible
