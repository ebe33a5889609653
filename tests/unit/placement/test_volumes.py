"""Volumes in a shard: facts decide, changes wake refused pods, and chosen volumes are held until
the claims are bound.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from shared.events.binding import BindFailed
from shared.events.ingest import StorageGone, StorageSet
from shared.events.permit import CountsAsked, HoldAsked, OfferAsked, TurnGranted
from shared.events.placement import (
    CountsChanged,
    Improved,
    Refused,
    Reserved,
    RulesCounted,
    TurnAsked,
    VolumesBound,
    VolumesFailed,
)
from shared.events.queueing import Members
from shared.model.cluster_objects import (
    ClaimRef,
    CSINode,
    NodeDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageObject,
)
from shared.model.columns import pack, unpack
from shared.model.ids import SignatureId
from shared.model.objects import PodSpec, Requirement, SelectorTerm
from shared.model.pod_rules import rule_counts
from shared.model.pod_rules.rule_counts import RuleCount, SignatureCounts, added
from shared.model.volumes import Choice, ClaimUse
from shared.scheduling.plugins.volumes.volume_restrictions import IN_USE
from tests.unit.placement.shard import Shard, node, placed, spec

HOST = "kubernetes.io/hostname"
NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


def with_claims(*names: str, cpu: int = 1_000) -> PodSpec:
    made: PodSpec = spec(cpu=cpu, namespace="a", volumes=tuple(map(ClaimUse, names)))
    return made


def claim(name: str = "c", volume: str = "v", **more: Any) -> PersistentVolumeClaim:
    more |= {"namespace": "a", "volume": volume, "is_bind_completed": bool(volume)}
    return PersistentVolumeClaim(uid=f"uid-{name}", name=name, **more)


def volume(name: str = "v", on: str = "", **more: Any) -> PersistentVolume:
    there = (SelectorTerm((Requirement(HOST, "In", (on,)),)),) if on else ()
    return PersistentVolume(uid=f"uid-{name}", name=name, node_affinity=there, **more)


def shard_of(*objects: StorageObject, placements: int = 1) -> Shard:
    made = Shard(placements=placements)
    for number, name in enumerate("xy", start=1):
        made.nodes(number, node(name, labels={HOST: name}))
    return made.given(StorageSet(objects)) if objects else made


def woken(events: list[Any]) -> list[int]:
    found = [event for event in events if isinstance(event, Improved)]
    return [sig for event in found for sig in unpack(event.sigs).tolist()]


def reasons(events: list[Any]) -> list[tuple[tuple[str, int], ...]]:
    return [event.reasons for event in events if isinstance(event, Refused)]


@pytest.mark.parametrize("placements", [1, 3])
def test_a_pod_goes_where_its_volume_is(placements):
    shard = shard_of(claim(), volume(on="y"), placements=placements).sig(1, with_claims("c"))
    assert placed(shard.reload().dispatch(1, 1).run()) == [(1, 2)]


def test_volume_events_wake_the_pods_they_may_help():
    shard = shard_of().sig(1, with_claims("c")).sig(2, spec(cpu=90_000))
    decided = shard.dispatch(1, 1).dispatch(2, 2).run()
    not_there = ('persistentvolumeclaim "c" not found', 0)
    assert reasons(decided)[0] == (not_there,)
    assert reasons(shard.given(StorageSet((claim(volume=""),))).dispatch(1, 1).run()) == [
        ((UNBOUND, 0),)
    ]
    assert woken(shard.reload().given(StorageSet((volume(on="y"),))).run()) == []
    assert woken(shard.given(StorageSet((claim(),))).run()) == [1]
    assert placed(shard.dispatch(1, 1).run()) == [(1, 2)]


def test_pods_without_volumes_are_not_looked_at_for_a_volume_change():
    shard = shard_of().sig(2, spec(cpu=90_000)).dispatch(2, 2)
    shard.run()
    assert shard.given(StorageSet((claim(), volume()))).run() == []


def test_an_object_recreated_under_its_name_is_another():
    shard = shard_of(claim(), volume(on="x")).sig(1, with_claims("c"))
    again = PersistentVolume(uid="other", name="v")
    shard.given(StorageSet((again,)), StorageGone("uid-v"))
    assert shard.state.storage.volumes["v"] is again
    shard.reload().given(StorageGone("other"))
    assert "v" not in shard.state.storage.volumes
    assert not shard.state.storage.volumes_of_class("")


def test_limits_count_what_the_pods_of_a_node_use():
    few = CSINode(uid="n", name="x", drivers=(NodeDriver("d", 1),))
    volumes = [volume(f"v{n}", on="x", driver="d", handle=f"h{n}") for n in (1, 2)]
    claims = [claim(f"c{n}", f"v{n}") for n in (1, 2)]
    shard = shard_of(few, *volumes, *claims)
    shard.sig(1, with_claims("c1")).sig(2, with_claims("c2"))
    decided = shard.dispatch(1, 1).dispatch(2, 2).run()
    assert placed(decided) == [(1, 1)]
    assert ("node(s) exceed max volume count", 1) in reasons(decided)[0]
    assert woken(shard.reload().gone(1).run()) == [2]


ALONE = claim(access_modes=("ReadWriteOncePod",))


def in_use_elsewhere(nodes: int, turn: int = 1) -> TurnGranted:
    """Return the grant of a turn; pods of so many nodes of other shards use the claim."""
    count = RuleCount(rule_counts.IN_USE, 0, "c", total=nodes)
    return TurnGranted(turn, 0, pack([1]), (SignatureCounts(SignatureId(1), (count,)),))


def test_a_claim_for_one_pod_waits_for_a_turn_and_the_users_on_other_shards():
    shard = shard_of(ALONE, volume(), placements=3).sig(1, with_claims("c"))
    decided = shard.dispatch(1, 1, 2).run()
    assert [event for event in decided if isinstance(event, TurnAsked)]
    assert placed(decided) == []
    shard = shard.reload().given(in_use_elsewhere(1))
    assert reasons(shard.run()) == [((IN_USE, 2),)]
    shard = shard.dispatch(1, 3, 4)
    shard.run()
    decided = shard.given(in_use_elsewhere(0, turn=2)).run()
    assert [pod for pod, _node in placed(decided)] == [3]
    assert reasons(decided) == [((IN_USE, 2),)]


@pytest.mark.parametrize(("used", "held"), [(0, [1]), (1, [])])
def test_a_claim_for_one_pod_is_held_for_one_member_of_a_gang_beside_the_others(used, held):
    shard = shard_of(ALONE, volume(), placements=3).sig(1, with_claims("c"))
    members, granted = (Members(SignatureId(1), pack([1, 2])),), in_use_elsewhere(used)
    answer: Any
    (answer,) = shard.given(OfferAsked(7, 1, members)).run()
    assert answer.wide == pack([1])
    (answer,) = shard.given(HoldAsked(7, 1, 0, members, 1, pack([1]), granted.counts)).run()
    if held:
        assert unpack(answer.ids).tolist() == held
        rest = (Members(SignatureId(1), pack([2])),)
        (answer,) = shard.given(HoldAsked(7, 1, 0, rest, 2, pack([1]), granted.counts)).run()
    assert answer.reasons == ((IN_USE, 2),)


@pytest.mark.parametrize("node_of", [1, 9])
def test_users_of_a_claim_are_counted_for_turns_of_other_shards(node_of):
    """Node 9 is not known yet, and neither is the claim."""
    objects = [volume()] if node_of == 9 else [ALONE, volume()]
    shard = shard_of(*objects, placements=3).sig(1, with_claims("c"))
    shard = shard.assigned((1, 1, node_of))
    shard.run()
    (counted,) = [
        event
        for event in shard.given(CountsAsked(1, 1, pack([1]))).run()
        if isinstance(event, RulesCounted)
    ]
    (found,) = added([counted.counts])
    assert [one.total for one in found.counts if one.rule == rule_counts.IN_USE] == [1]


def test_a_claim_given_back_wakes_pods_of_other_shards():
    shard = shard_of(ALONE, volume(), placements=3).sig(1, with_claims("c")).assigned((1, 1, 1))
    shard.run()
    assert [event for event in shard.gone(1).run() if isinstance(event, CountsChanged)]


# ------------------------------------------------------------------- volumes that it chooses

LATE = StorageClass(uid="late", name="late", provisioner="p", waits_for_consumer=True)
STATIC = replace(LATE, provisioner="kubernetes.io/no-provisioner")
CHOSEN = Choice("a", "c", "uid-c", "v", "uid-v")
MADE = Choice("a", "c", "uid-c")


def wanting(name: str = "c", **more: Any) -> PersistentVolumeClaim:
    return claim(name, "", storage_class="late", **more)


def free(name: str = "v", on: str = "", **more: Any) -> PersistentVolume:
    return volume(name, on, storage_class="late", phase="Available", **more)


def bound_to(one: PersistentVolume, name: str = "c") -> PersistentVolume:
    return replace(one, claim=ClaimRef("a", name, f"uid-{name}"), phase="Bound")


def of(events: list[Any], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def test_a_reservation_holds_the_volume_that_it_chose():
    shard = shard_of(STATIC, wanting("c"), wanting("d"), free(on="y"))
    shard.sig(1, with_claims("c")).sig(2, with_claims("d")).sig(3, with_claims("c", cpu=1))
    decided = shard.dispatch(1, 1).run()
    (made,) = of(decided, Reserved)
    assert (placed(decided), made.volumes) == ([(1, 2)], (CHOSEN,))
    other = shard.reload().dispatch(2, 2).run()
    assert reasons(other) == [(("node(s) didn't find available persistent volumes to bind", 2),)]
    again = shard.dispatch(3, 3).run()  # a second pod with the same claim gets the same volume
    assert (placed(again), of(again, Reserved)[0].volumes) == ([(3, 2)], (CHOSEN,))
    shard.given(BindFailed(pack([1, 3]), "abandoned", pack([2, 2])))
    assert woken(shard.reload().run()) == [2]
    assert placed(shard.dispatch(2, 4).run()) == [(4, 2)]


def test_bound_claims_let_the_pod_be_bound():
    shard = shard_of(STATIC, wanting(), free(on="y")).sig(1, with_claims("c")).dispatch(1, 1)
    shard.run()
    assert shard.given(StorageSet((bound_to(free(on="y")),))).run() == []
    decided = shard.reload().given(StorageSet((replace(claim(), storage_class="late"),))).run()
    assert decided == [VolumesBound(pack([1]), pack([2]))]
    assert not shard.state.volume_waits
    assert not shard.state.waits_on
    assert shard.reload().run() == []


def failed(why: str) -> list[VolumesFailed]:
    return [VolumesFailed(1, 1, f'running PreBind plugin "VolumeBinding": {why}')]


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        ((bound_to(free(), "d"),), 'pv "v" was bound to another claim'),
        ((free(labels=(("a", "b"),)),), ""),
        ((replace(free(), uid="other"),), 'persistentvolume "v" not found'),
        ((replace(wanting(), uid="other"),), 'persistentvolumeclaim "c" not found'),
        ((claim(volume="w"),), 'PVC "c" was bound to pv "w"'),
    ],
)
def test_a_fact_against_a_volume_ends_the_wait(objects, why):
    shard = shard_of(LATE, wanting(), free()).sig(1, with_claims("c")).dispatch(1, 1)
    node_of = placed(shard.run())[0][1]
    decided = shard.reload().given(StorageSet(objects)).run()
    assert decided == [replace(one, node=node_of) for one in (failed(why) if why else [])]


def test_a_volume_is_made_for_the_node():
    shard = shard_of(LATE, wanting()).sig(1, with_claims("c")).dispatch(1, 1)
    decided = shard.run()
    ((_, node_of),) = placed(decided)
    name = "xy"[node_of - 1]
    assert of(decided, Reserved)[0].volumes == (MADE,)
    assert shard.given(StorageSet((wanting(),))).run() == [], "what we chose is not shown yet"
    assert shard.given(StorageSet((wanting(selected_node=name),))).run() == []
    found = shard.reload().given(StorageSet((wanting(),))).run()
    why = 'running PreBind plugin "VolumeBinding": provisioning failed for PVC "c"'
    assert found == [VolumesFailed(1, node_of, why)]


def test_a_volume_made_for_another_node_does_not_help():
    shard = shard_of(LATE, wanting()).sig(1, with_claims("c")).dispatch(1, 1)
    ((_, node_of),) = placed(shard.run())
    other = "yx"[node_of - 1]
    (decided,) = of(shard.given(StorageSet((volume(on=other), claim()))).run(), VolumesFailed)
    assert decided.reason.endswith(
        f'pv "v" node affinity doesn\'t match node "{"xy"[node_of - 1]}"'
    )


def test_the_wait_for_volumes_has_a_timeout():
    shard = shard_of(LATE, wanting()).sig(1, with_claims("c")).dispatch(1, 1)
    ((_, node_of),) = placed(shard.run())
    assert shard.core.due_ms(shard.state) == 600_000
    shard.state.now_ms = 600_000
    why = 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
    assert shard.run() == [VolumesFailed(1, node_of, why)]
    assert not shard.state.volume_waits


@pytest.mark.parametrize("end", ["gone", "node", "foreign"])
def test_a_deleted_pod_holds_no_volume(end):
    shard = shard_of(LATE, wanting(), free()).sig(1, with_claims("c")).dispatch(1, 1)
    ((_, node_of),) = placed(shard.run())
    match end:
        case "gone":
            shard.gone(1)
        case "node":
            shard.nodes_gone(node_of)
        case _:
            shard.assigned((1, 1, 3 - node_of))
    shard.run()
    assert not shard.state.volume_waits
    assert shard.state.storage.volumes["v"].claim is None


def test_a_claim_for_one_pod_is_in_use_on_a_node_that_is_not_there_yet():
    alone = claim(access_modes=("ReadWriteOncePod",))
    shard = shard_of(alone, volume()).sig(1, with_claims("c")).assigned((1, 1, 9))
    assert reasons(shard.dispatch(1, 2).run()) == [((IN_USE, 2),)]
    assert woken(shard.reload().gone(1).run()) == [1]
    assert len(placed(shard.dispatch(1, 2).run())) == 1
