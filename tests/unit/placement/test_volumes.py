"""Volumes in a shard: what it is told decides, and changes of it wake whom it refused."""

from typing import Any

import pytest

from services.placement.core.undecided import CLAIM_NEEDS_ONE_SHARD
from shared.events.ingest import StorageGone, StorageSet
from shared.events.placement import Improved, Refused
from shared.model.cluster_objects import (
    CSINode,
    NodeDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageObject,
)
from shared.model.columns import unpack
from shared.model.objects import PodSpec, Requirement, SelectorTerm
from shared.model.volumes import ClaimUse
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
    return made.give(StorageSet(objects)) if objects else made


def woken(events: list[Any]) -> list[int]:
    found = [event for event in events if isinstance(event, Improved)]
    return [sig for event in found for sig in unpack(event.sigs).tolist()]


def reasons(events: list[Any]) -> list[tuple[tuple[str, int], ...]]:
    return [event.reasons for event in events if isinstance(event, Refused)]


@pytest.mark.parametrize("placements", [1, 3])
def test_a_pod_goes_where_its_volume_is(placements):
    shard = shard_of(claim(), volume(on="y"), placements=placements).sig(1, with_claims("c"))
    assert placed(shard.reload().dispatch(1, 1).run()) == [(1, 2)]


def test_what_is_told_of_volumes_wakes_whom_it_may_help():
    shard = shard_of().sig(1, with_claims("c")).sig(2, spec(cpu=90_000))
    told = shard.dispatch(1, 1).dispatch(2, 2).run()
    not_there = ('persistentvolumeclaim "c" not found', 0)
    assert reasons(told)[0] == (not_there,)
    assert reasons(shard.give(StorageSet((claim(volume=""),))).dispatch(1, 1).run()) == [
        ((UNBOUND, 0),)
    ]
    assert woken(shard.reload().give(StorageSet((volume(on="y"),))).run()) == []
    assert woken(shard.give(StorageSet((claim(),))).run()) == [1]
    assert placed(shard.dispatch(1, 1).run()) == [(1, 2)]


def test_nobody_else_is_looked_at_for_a_change_of_volumes():
    shard = shard_of().sig(2, spec(cpu=90_000)).dispatch(2, 2)
    shard.run()
    assert shard.give(StorageSet((claim(), volume()))).run() == []


def test_an_object_made_again_under_its_name_is_another():
    shard = shard_of(claim(), volume(on="x")).sig(1, with_claims("c"))
    again = PersistentVolume(uid="other", name="v")
    shard.give(StorageSet((again,)), StorageGone("uid-v"))
    assert shard.state.storage.volumes["v"] is again
    shard.reload().give(StorageGone("other"))
    assert "v" not in shard.state.storage.volumes
    assert not shard.state.storage.volumes_of_class("")


def test_limits_count_what_the_pods_of_a_node_use():
    few = CSINode(uid="n", name="x", drivers=(NodeDriver("d", 1),))
    volumes = [volume(f"v{n}", on="x", driver="d", handle=f"h{n}") for n in (1, 2)]
    claims = [claim(f"c{n}", f"v{n}") for n in (1, 2)]
    shard = shard_of(few, *volumes, *claims)
    shard.sig(1, with_claims("c1")).sig(2, with_claims("c2"))
    told = shard.dispatch(1, 1).dispatch(2, 2).run()
    assert placed(told) == [(1, 1)]
    assert ("node(s) exceed max volume count", 1) in reasons(told)[0]
    assert woken(shard.reload().gone(1).run()) == [2]


def test_a_claim_for_one_pod_needs_a_shard_that_sees_all_pods():
    alone = claim(access_modes=("ReadWriteOncePod",))
    for placements, found in ((1, []), (3, [((CLAIM_NEEDS_ONE_SHARD, 2),)])):
        shard = shard_of(alone, volume(), placements=placements).sig(1, with_claims("c"))
        assert reasons(shard.dispatch(1, 1).run()) == found
