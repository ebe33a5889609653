"""Resource claims in a shard: facts decide and wake, and devices stay in use until it is certain
that no write can land.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from shared.events.binding import BindFailed, ClaimsReturned
from shared.events.ingest import DevicesGone, DevicesSet
from shared.events.placement import Improved, Refused, Reserved
from shared.model.claims import (
    ClaimSpec,
    Device,
    DeviceClass,
    DeviceTaint,
    DeviceTaintRule,
    Reach,
    Request,
    ResourceClaim,
    ResourceSlice,
    Wanted,
)
from shared.model.cluster_objects import (
    ClaimObject,
    ClassObject,
    DeviceObject,
    SliceObject,
    TaintRuleObject,
)
from shared.model.columns import pack, unpack
from shared.model.objects import PodSpec
from shared.model.pod_rules.pod_claims import PodClaim
from shared.model.release import V1_37
from tests.unit.placement.shard import Shard, node, placed, spec

GPU = ClassObject(uid="gpu", name="gpu", value=DeviceClass("gpu"))
NO_ROOM = ("cannot allocate all claims", 2)


def devices(where: Reach, *names: str) -> SliceObject:
    pool = where.node or "fabric"
    value = ResourceSlice(pool, "d", pool, 1, 1, where, tuple(map(Device, names)))
    return SliceObject(uid=pool, name=pool, value=value)


def claim(name: str, owner: str = "", count: int = 1, **more: Any) -> ClaimObject:
    wanted = ClaimSpec((Request("r", (Wanted("gpu", count=count),)),))
    value = ResourceClaim("a", name, f"uid-{name}", wanted, owner=owner, **more)
    return ClaimObject(uid=value.uid, name=name, namespace="a", value=value, revision=3)


def user(name: str, of: str = "") -> PodSpec:
    """Return a pod that names a claim, or got it from a template."""
    use = PodClaim("c", "", "t", name, of, f"uid-{of}") if of else PodClaim("c", name)
    made: PodSpec = spec(cpu=1_000, namespace="a", claims=(use,))
    return made


def shard_of(*objects: DeviceObject, placements: int = 1, **config: Any) -> Shard:
    made = Shard(placements=placements, **config)
    for number, name in enumerate("xy", start=1):
        made.nodes(number, node(name))
    return made.given(DevicesSet(objects)) if objects else made


def woken(events: list[Any]) -> list[int]:
    found = [event for event in events if isinstance(event, Improved)]
    return [sig for event in found for sig in unpack(event.sigs).tolist()]


def reasons(events: list[Any]) -> list[tuple[tuple[str, int], ...]]:
    return [event.reasons for event in events if isinstance(event, Refused)]


def shown(one: ClaimObject, by: Reserved) -> ClaimObject:
    """Return a claim as the cluster shows it after its devices were written."""
    return replace(one, revision=5, value=replace(one.value, allocation=by.claims[0].allocation))


def only(events: list[Any]) -> Reserved:
    """Return the single reservation among what was decided."""
    (found,) = (event for event in events if isinstance(event, Reserved))
    return found


ONE = devices(Reach(node="y"), "gpu-0")
FIRST, SECOND = claim("first"), claim("second")


@pytest.mark.parametrize("placements", [1, 3])
def test_a_pod_goes_where_its_devices_are(placements):
    shard = shard_of(GPU, ONE, FIRST, placements=placements).sig(1, user("first"))
    reserved = only(shard.reload().dispatch(1, 1).run())
    assert placed([reserved]) == [(1, 2)]
    (choice,) = reserved.claims
    assert (choice.uid, choice.revision) == ("uid-first", 3)
    assert choice.allocation is not None
    assert [one.id for one in choice.allocation.results] == [("d", "y", "gpu-0")]


def test_a_rule_taints_devices_until_it_is_gone():
    rule = DeviceTaintRule(DeviceTaint("k", "", "NoSchedule"), pool="y")
    given = (GPU, ONE, FIRST, TaintRuleObject(uid="rule", name="rule", value=rule))
    shard = shard_of(*given, compatibility=V1_37).sig(1, user("first"))
    assert reasons(shard.reload().dispatch(1, 1).run()) == [(NO_ROOM,)]
    shard.given(DevicesGone("rule"))
    assert woken(shard.run()) == [1]
    assert placed(shard.dispatch(1, 1).run()) == [(1, 2)]


@pytest.mark.parametrize("is_removed_first", [True, False])
def test_devices_that_moved_are_used_on_their_new_node(is_removed_first):
    """With several shards only devices of a single node are used."""
    before = replace(ONE, value=replace(ONE.value, reach=Reach(node="x")))
    shard = shard_of(GPU, before, FIRST, placements=3).sig(1, user("first"))
    if is_removed_first:
        shard.given(DevicesGone(before.uid))
    shard.given(DevicesSet((ONE,)))
    assert placed(shard.dispatch(1, 1).run()) == [(1, 2)]


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        ((), 'could not find ResourceClaim "a/first"'),
        ((claim("first", is_deleted=True),), 'resourceclaim "first" is being deleted'),
        ((FIRST,), "request r: device class gpu does not exist"),
        ((replace(FIRST, problem="spec.x: new"),), "ResourceClaim a/first: spec.x: new"),
    ],
)
def test_a_claim_that_is_not_ready_is_waited_for(objects, why):
    shard = shard_of(ONE, *objects).sig(1, user("first"))
    assert reasons(shard.dispatch(1, 1).run())[0] == ((why, 0),)
    assert woken(shard.reload().given(DevicesSet((GPU, FIRST))).run()) == [1]
    assert placed(shard.dispatch(1, 1).run()) == [(1, 2)]


def test_a_pod_waits_until_its_claim_is_made():
    pod = replace(user("", "p"), claims=(PodClaim("c", "", "t", None, "p", "uid-p"),))
    shard = shard_of(GPU, ONE).sig(1, pod)
    not_yet = 'pod "a/p": ResourceClaim not created yet'
    assert reasons(shard.dispatch(1, 1).run())[0] == ((not_yet, 0),)
    shard.given(DevicesSet((claim("made", owner="uid-p"),))).sig(2, user("made", "p"))
    assert placed(shard.dispatch(2, 1).run()) == [(1, 2)]


def two_users(*more: DeviceObject) -> tuple[Shard, Reserved]:
    """Return a shard in which one pod has the only device, and that reservation."""
    shard = shard_of(GPU, ONE, FIRST, SECOND, *more)
    shard.sig(1, user("first")).sig(2, user("second"))
    reserved = only(shard.dispatch(1, 1).run())
    assert reasons(shard.dispatch(2, 2).run()) == [(NO_ROOM,)]
    return shard.reload(), reserved


FAILED = BindFailed(pack([1]), "abandoned", pack([2]))


def settled(revision: int, attempt: int = 1) -> ClaimsReturned:
    return ClaimsReturned(0, 1, attempt, "uid-first", pack([revision]))


def test_devices_are_free_again_once_no_write_can_land():
    shard, _ = two_users()
    assert woken(shard.given(FAILED).run()) == [], "a write may be under way"
    assert woken(shard.given(settled(0, attempt=7)).run()) == [], "of another try"
    assert woken(shard.reload().given(settled(0)).run()) == [2]


@pytest.mark.parametrize("revision", [5, 6])
def test_devices_are_free_once_a_fact_is_as_new_as_the_outcome(revision):
    """Others may use the claim, or it had devices and lost them, and no fact has shown either."""
    shard, _ = two_users()
    assert woken(shard.given(FAILED, settled(5)).run()) == []
    assert woken(shard.given(DevicesSet((replace(FIRST, revision=4),))).run()) == []
    assert woken(shard.reload().given(DevicesSet((replace(FIRST, revision=revision),))).run()) == [
        2
    ]


def test_devices_that_others_use_are_never_free():
    shard, reserved = two_users()
    shard.given(FAILED, settled(5)).run()
    assert woken(shard.given(DevicesSet((shown(FIRST, reserved),))).run()) == []
    assert reasons(shard.dispatch(2, 2).run()) == [(NO_ROOM,)]


def test_the_outcome_of_a_cluster_before_its_restore_is_not_waited_for():
    shard, _ = two_users()
    shard.given(FAILED, settled(5)).run()
    assert woken(shard.given(DevicesSet((replace(FIRST, revision=2),))).run()) == [2]


def test_a_fact_may_come_before_the_report_of_its_outcome():
    shard, _ = two_users()
    assert woken(shard.given(FAILED, DevicesSet((replace(FIRST, revision=5),))).run()) == []
    assert woken(shard.given(settled(5)).run()) == [2]


def test_facts_end_what_was_assumed():
    shard, reserved = two_users()
    assert woken(shard.given(DevicesSet((shown(FIRST, reserved),))).run()) == []
    shard.given(FAILED).run()
    assert woken(shard.reload().given(DevicesSet((replace(FIRST, revision=6),))).run()) == [2]
    shard, reserved = two_users()
    assert woken(shard.given(DevicesGone("uid-first")).run()) == [2]


def test_a_claim_that_is_being_given_devices_is_waited_for():
    shard = shard_of(GPU, devices(Reach(node="y"), "a", "b"), FIRST).sig(1, user("first"))
    decided = shard.dispatch(1, 1, 2).run()
    why = "resource claim a/first is in the process of being allocated"
    assert reasons(decided) == [((why, 0),)]
    assert woken(shard.given(DevicesSet((shown(FIRST, only(decided)),))).run()) == [1]
    second = only(shard.dispatch(1, 2).run())
    assert placed([second]) == [(2, 2)]
    assert second.claims[0].allocation is None, "it has devices"


def test_the_users_of_a_claim_that_a_controller_owns_are_tried_once_it_has_devices():
    owned = claim("first", owner="uid-job")
    shard = shard_of(GPU, devices(Reach(node="y"), "a", "b"), owned, SECOND)
    shard.sig(1, user("first")).sig(2, replace(user("second"), priority=1))
    decided = shard.dispatch(1, 1, 2).run()
    assert len(reasons(decided)) == 1
    assert woken(shard.given(DevicesSet((shown(owned, only(decided)),))).run()) == [1]


def test_a_pod_may_name_a_claim_twice():
    twice = replace(user("first"), claims=(PodClaim("a", "first"), PodClaim("b", "first")))
    shard = shard_of(GPU, ONE, FIRST).sig(1, twice)
    (choice,) = only(shard.dispatch(1, 1).run()).claims
    assert choice.uid == "uid-first"


def test_devices_that_several_nodes_reach_are_for_one_shard():
    fabric = devices(Reach(all_nodes=True), "f")
    shard = shard_of(GPU, fabric, FIRST, SECOND).sig(1, user("first")).sig(2, user("second"))
    assert len(placed(shard.dispatch(1, 1).dispatch(2, 2).run())) == 1
    shard = shard_of(GPU, fabric, FIRST, placements=3).sig(1, user("first"))
    assert reasons(shard.dispatch(1, 1).run()) == [(NO_ROOM,)]
