"""Resource claims of a gang's members: devices are chosen one after the other, held with the
places, and sent to binding once permit commits.
"""

import pytest

from services.placement.core.placing.unsupported import CLAIMS_BY_NAME
from shared.events.binding import ClaimsReturned
from shared.events.ingest import DevicesSet
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut, HoldAsked, OfferAsked
from shared.events.placement import GangHeld, GangOffered, GangRefused, VolumesChosen
from shared.events.queueing import Members
from shared.model.claims import Reach
from shared.model.columns import pack, unpack
from shared.model.groups.topology import Topology
from shared.model.groups.trees import GroupNode
from tests.unit.placement.shard import Shard, node
from tests.unit.placement.test_claims import (
    FIRST,
    GPU,
    NO_ROOM,
    claim,
    devices,
    shard_of,
    user,
)
from tests.unit.placement.test_volumes import of

TWO = devices(Reach(node="y"), "gpu-0", "gpu-1")
GROUPS = (Members(1, pack([1])), Members(2, pack([2])))


def shard_with(*objects, names=("first", "second"), placements=1) -> Shard:
    """Return a shard with two members, each with its claim."""
    known = [claim(name) for name in dict.fromkeys(names)]
    made = shard_of(GPU, *objects, *known, placements=placements)
    return made.sig(1, user(names[0])).sig(2, user(names[1]))


def two_held(*objects, names=("first", "second")) -> tuple[Shard, GangHeld]:
    shard = shard_with(*objects, names=names)
    (held,) = of(shard.given(HoldAsked(1, 7, 0, GROUPS)).run(), GangHeld)
    return shard, held


def given(held: GangHeld) -> dict[int, list[str]]:
    """Return the devices of each member."""
    found: dict[int, list[str]] = {}
    for one in held.claims:
        for choice in one.choices:
            assert choice.allocation is not None
            found.setdefault(one.pod, []).extend(has.device for has in choice.allocation.results)
    return found


def free_devices(shard: Shard) -> int:
    """Return how many devices a gang of two could have now."""
    known = [claim(name) for name in ("other", "another")]
    shard.given(DevicesSet(known)).sig(8, user("other")).sig(9, user("another"))
    groups = (Members(8, pack([8])), Members(9, pack([9])))
    (offer,) = of(shard.given(OfferAsked(5, 50, groups)).run(), GangOffered)
    return sum(offer.counts)


def test_members_get_devices_one_after_the_other():
    shard, held = two_held(TWO)
    assert given(held) == {1: ["gpu-0"], 2: ["gpu-1"]}
    assert unpack(held.nodes).tolist() == [2, 2]
    assert free_devices(shard.reload()) == 0


def test_a_trial_takes_no_devices():
    shard = shard_with(devices(Reach(node="y"), "gpu-0"))
    for _ in range(2):
        (offer,) = of(shard.given(OfferAsked(1, 7, GROUPS)).run(), GangOffered)
        assert (offer.counts, offer.reasons) == ((1, 0), (NO_ROOM,))
    (refused,) = of(shard.given(HoldAsked(1, 7, 0, GROUPS)).run(), GangRefused)
    assert refused.reasons == (NO_ROOM,)
    assert free_devices(shard) == 1


def test_binding_gets_the_devices_after_the_commit():
    shard, held = two_held(TWO)
    assert shard.reload().run() == []
    shard.given(GangCommitted(1, 7, held.ids, held.nodes, with_volumes=held.ids))
    assert shard.reload().run() == [
        VolumesChosen(0, pack([one.pod]), pack([2]), (), claims=one.choices, attempt=7)
        for one in held.claims
    ]
    assert free_devices(shard) == 0
    shard.given(ClaimsReturned(0, 1, 7, "uid-first"))
    assert free_devices(shard) == 1


@pytest.mark.parametrize(
    ("end", "free"),
    [
        (GangReleased(1, 7, (), 0), 2),
        (GangTimedOut(1, 7), 2),
        (GangCommitted(1, 7, pack([1]), pack([2]), with_volumes=pack([1])), 1),
    ],
)
def test_devices_of_uncommitted_members_are_free_at_once(end, free):
    shard, _held = two_held(TWO)
    chosen = of(shard.reload().given(end).run(), VolumesChosen)
    assert len(chosen) == 2 - free
    assert not shard.state.member_choices
    assert free_devices(shard) == free


@pytest.mark.parametrize("where", [Reach(node="y"), Reach(all_nodes=True)])
def test_members_share_the_devices_of_one_claim(where):
    shard, held = two_held(devices(where, "gpu-0"), names=("first", "first"))
    assert given(held) == {1: ["gpu-0"], 2: ["gpu-0"]}
    first, second = held.claims
    assert first.choices == second.choices
    shard.given(GangCommitted(1, 7, held.ids, held.nodes, with_volumes=held.ids)).run()
    shard.given(ClaimsReturned(0, 1, 7, "uid-first"))
    assert free_devices(shard.reload()) == 0, "the other one may still write them"
    shard.given(ClaimsReturned(0, 2, 7, "uid-first"))
    assert free_devices(shard) == 1


def test_several_shards_choose_no_devices_for_a_claim_that_members_name():
    shard = shard_with(TWO, names=("first", "first"), placements=3)
    (offer,) = of(shard.given(OfferAsked(1, 7, GROUPS)).run(), GangOffered)
    assert (offer.counts, offer.reasons) == ((0, 0), ((CLAIMS_BY_NAME, 2),))


def test_several_shards_choose_devices_for_claims_from_templates():
    known = [claim(name, owner=f"uid-{of}") for name, of in (("first", "p"), ("second", "q"))]
    shard = shard_of(GPU, TWO, *known, placements=3)
    shard.sig(1, user("first", "p")).sig(2, user("second", "q"))
    (offer,) = of(shard.given(OfferAsked(1, 7, GROUPS)).run(), GangOffered)
    assert offer.counts == (1, 1)


def test_devices_count_in_each_topology_domain():
    made = Shard()
    for number, name in enumerate("xy", start=1):
        made.nodes(number, node(name, labels={"rack": name}))
    both = (devices(Reach(node="x"), "gpu-0"), TWO)
    made.given(DevicesSet((GPU, *both, FIRST, claim("second"))))
    made.sig(1, user("first")).sig(2, user("second"))
    asked = OfferAsked(1, 7, GROUPS, 2, topology=Topology(("rack",), 0, 0))
    (offer,) = of(made.given(asked).run(), GangOffered)
    assert {one.path: one.counts for one in offer.domains} == {("x",): (1, 0), ("y",): (1, 1)}
    hold = HoldAsked(1, 7, 0, GROUPS, levels=("rack",), domains=(("y",), ("y",)))
    (held,) = of(made.given(hold).run(), GangHeld)
    assert given(held) == {1: ["gpu-0"], 2: ["gpu-1"]}


def test_a_group_of_a_tree_gives_its_devices_to_the_next_one():
    shard = shard_with(devices(Reach(node="y"), "gpu-0"))
    shard.given(DevicesSet((claim("third"),))).sig(3, user("third"))
    tree = (GroupNode(1, 1, 0, True), GroupNode(2, 2, 1), GroupNode(3, 1, 1))
    members = (*GROUPS, Members(3, pack([3])))
    asked = OfferAsked(1, 7, members, tree=tree, leaves=(2, 2, 3))
    (offer,) = of(shard.given(asked).run(), GangOffered)
    assert offer.counts == (0, 0, 1)
