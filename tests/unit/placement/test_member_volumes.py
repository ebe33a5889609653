"""Volumes of a gang's members: chosen one after the other, held with the places, sent to binding
once permit commits.
"""

import pytest

from services.placement.core.gangs import holds
from shared.events.ingest import StorageSet
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut, HoldAsked, OfferAsked
from shared.events.placement import GangHeld, GangOffered, GangRefused, VolumesChosen, VolumesFailed
from shared.events.queueing import Members
from shared.model.columns import pack, unpack
from shared.scheduling.plugins.volumes.volume_binding import BIND_CONFLICT
from tests.unit.placement.test_volumes import (
    LATE,
    STATIC,
    claim,
    free,
    of,
    shard_of,
    wanting,
    with_claims,
)

TIMEOUT_MS = 600_000


def hold_asked(*groups):
    return HoldAsked(1, 1, 0, tuple(Members(sig, pack([pod])) for sig, pod in groups))


def two_members():
    """Return a shard that holds two pods with a claim each for a gang, and the GangHeld."""
    objects = (LATE, wanting(), wanting("d"), free(), free("w"))
    shard = shard_of(*objects).sig(1, with_claims("c")).sig(2, with_claims("d"))
    (held,) = of(shard.given(hold_asked((1, 1), (2, 2))).run(), GangHeld)
    assert [(one.pod, one.choices[0].claim) for one in held.volumes] == [(1, "c"), (2, "d")]
    return shard, held


def test_members_of_a_gang_get_volumes_one_after_the_other():
    shard, held = two_members()
    assert {one.choices[0].volume for one in held.volumes} == {"v", "w"}
    assert {one.claim.name for one in shard.state.storage.volumes.values()} == {"c", "d"}
    one_less = shard_of(STATIC, wanting(), wanting("d"), free())
    one_less.sig(1, with_claims("c")).sig(2, with_claims("d"))
    groups = (Members(1, pack([1])), Members(2, pack([2])))
    (offer,) = of(one_less.given(OfferAsked(1, 1, groups)).run(), GangOffered)
    assert (offer.counts, offer.reasons) == ((1, 0), ((BIND_CONFLICT, 2),))
    (refused,) = of(one_less.given(hold_asked((1, 1), (2, 2))).run(), GangRefused)
    assert refused.reasons == ((BIND_CONFLICT, 2),)
    assert one_less.state.storage.volumes["v"].claim is None, "a trial takes nothing"


def test_binding_gets_the_volumes_after_the_commit_when_the_timeout_starts():
    shard, held = two_members()
    shard.reload().state.now_ms += 10 * TIMEOUT_MS
    shard.given(StorageSet((claim("c", "other"),)))
    assert shard.run() == [], "nothing is said of claims before the commit"
    shard.given(GangCommitted(1, 1, held.ids, held.nodes, with_volumes=held.ids))
    first, second = unpack(held.nodes).tolist()
    *decided, failed = shard.run()
    assert decided == [
        VolumesChosen(0, pack([1]), pack([first]), held.volumes[0].choices),
        VolumesChosen(0, pack([2]), pack([second]), held.volumes[1].choices),
    ]
    assert (type(failed), failed.pod) == (VolumesFailed, 1)
    shard.reload().state.now_ms += TIMEOUT_MS
    assert [one.pod for one in of(shard.run(), VolumesFailed)] == [2]
    assert not shard.state.volume_waits


@pytest.mark.parametrize("end", [GangReleased(1, 1, (), 0), GangTimedOut(1, 1), "one"])
def test_uncommitted_members_hold_no_volume(end):
    shard, _held = two_members()
    if end == "one":
        shard.reload()
        end = GangCommitted(1, 1, pack([1]), pack([1]), with_volumes=pack([1]))
        assert [one.ids for one in of(shard.given(end).run(), VolumesChosen)] == [pack([1])]
        assert set(shard.state.volume_waits) == {1}
    else:
        assert of(shard.given(end).run(), VolumesChosen) == []
        assert not shard.state.volume_waits
        assert not any(one.claim for one in shard.state.storage.volumes.values())
    assert not shard.state.member_choices


def test_binding_gets_the_volumes_even_of_a_deleted_node():
    shard, held = two_members()
    shard.nodes_gone(*set(unpack(held.nodes).tolist()))
    assert not shard.state.volume_waits
    shard.given(GangCommitted(1, 1, held.ids, held.nodes, with_volumes=held.ids))
    assert len(of(shard.reload().run(), VolumesChosen)) == 2
    assert not shard.state.volume_waits


def test_members_with_bind_plugins_are_named_with_the_volumes(monkeypatch):
    monkeypatch.setattr(holds, "spec_for_bind_plugins", lambda state, sig: state.specs[sig])
    shard, held = two_members()
    assert held.shown == ()
    shard.given(GangCommitted(1, 1, held.ids, held.nodes, with_volumes=held.ids))
    decided = of(shard.run(), VolumesChosen)
    assert [one.spec for one in decided] == [with_claims("c"), with_claims("d")]
