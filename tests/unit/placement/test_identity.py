"""A shard learns pods' identities: charges, queues, refusals and nominations follow the
last one.
"""

from typing import Any

from msgspec.structs import replace

from services.placement.core.books.ledger import UNSTARTED_MS
from shared.events.ingest import NamespacesSet, PodsRelabelled, SignatureDefined, SignatureRetired
from shared.events.permit import HoldAsked, OfferAsked
from shared.events.placement import (
    GangHeld,
    GangOffered,
    GangRefused,
    Improved,
    Nominated,
    Refused,
)
from shared.events.preemption import DryRunAsked, NominateAsked
from shared.events.queueing import Members
from shared.model.columns import pack, unpack
from shared.model.ids import AskId
from shared.model.objects import PodSpec, PodTerm, Requirement
from tests.unit.placement.shard import Shard, node, placed, spec

HOST = "kubernetes.io/hostname"
TERM = PodTerm(HOST, ())


def named(plain: PodSpec, name: str = "web") -> PodSpec:
    return replace(plain, namespace="ns", labels=(("app", name),))


def shard_with(*specs: PodSpec, cpu: int = 4_000, **options: Any) -> Shard:
    """Return a shard with two nodes and the given signatures 1, 2, ..."""
    nodes = [node(name, cpu=cpu, labels={HOST: name}) for name in "ab"]
    shard = Shard(**options).nodes(1, 2, *nodes)
    for number, one in enumerate(specs, start=1):
        shard.sig(number, one)
    return shard


def rename(shard: Shard, sig: int, new: PodSpec, *pods: int) -> Shard:
    return shard.given(SignatureDefined(sig, new), relabelled(sig, *pods))


def relabelled(sig: int, *pods: int) -> PodsRelabelled:
    return PodsRelabelled(pack(pods), pack([sig] * len(pods)))


def sigs(events: list[Any]) -> list[tuple[list[int], int]]:
    return [(unpack(event.ids).tolist(), event.sig) for event in events if hasattr(event, "ids")]


def test_charged_pods_stay_where_they_are_and_as_old_as_they_are():
    gpu = spec(gpu=(300, 1))
    shard = shard_with(gpu)
    shard.nodes(3, node("g", gpu_count=2))
    shard.state.now_ms = 50
    shard.assigned((7, 1, 3))
    ledger = shard.state.ledger
    mask, free = int(ledger.devices[6]), shard.state.free()
    shard.state.now_ms = 90
    rename(shard, 2, named(gpu), 7).given(SignatureRetired(1)).run()
    assert (ledger.sig[6], ledger.devices[6], ledger.start_ms[6]) == (2, mask, UNSTARTED_MS + 50)
    assert shard.state.free() == free
    assert list(shard.state.specs) == [2]
    assert shard.state.sig_pods == {2: 1}


def test_a_waiting_dispatch_is_decided_under_the_latest_signatures():
    plain = spec()
    shard = shard_with(plain).dispatch(1, 5, 6, 7)
    rename(shard, 2, named(plain), 5, 7).given(SignatureRetired(1))
    assert sigs(shard.reload().run())[-1] == ([5, 7], 2)


def test_a_dispatch_under_an_old_signature_may_follow_the_new_one():
    plain = spec(priority=5)
    shard = shard_with(plain)
    rename(shard, 2, named(plain), 5).given(SignatureRetired(1))
    shard.reload().dispatch(1, 5)
    (batch,) = shard.state.work_queue.batches
    assert (batch.sig, batch.priority, batch.attempt) == (2, 5, 1)
    assert sigs(shard.run()) == [([5], 2)]
    shard.assigned((5, 2, 1)).run()


def test_a_dispatch_under_an_unknown_signature_waits_for_it():
    plain = spec()
    shard = shard_with(plain)
    rename(shard, 2, named(plain), 5)
    shard.dispatch(3, 5)
    assert shard.run() == []
    rename(shard, 3, named(plain, "db"), 5)
    assert sigs(shard.run()) == [([5], 3)]


def test_a_pod_decided_under_an_older_load_keeps_it_until_a_fact():
    shard = shard_with(spec(cpu=1_000), spec(cpu=2_000)).dispatch(1, 5)
    shard.run()
    shard.given(relabelled(2, 5))
    assert shard.state.used.cpu_milli == 1_000
    shard.assigned((5, 2, 1)).run()
    assert shard.state.used.cpu_milli == 2_000


def test_refused_pods_are_woken_under_their_latest_signatures():
    large = spec(cpu=4_000)
    shard = shard_with(large, spec(), cpu=4_000)
    shard.assigned((1, 2, 1), (2, 2, 2)).dispatch(1, 5)
    assert [type(event) for event in shard.run()] == [Refused]
    rename(shard, 3, named(large), 5).given(SignatureRetired(1))
    shard.gone(1)
    (woken,) = [event for event in shard.run() if isinstance(event, Improved)]
    assert unpack(woken.sigs).tolist() == [3]


def test_refused_pods_of_other_loads_are_left_alone():
    shard = shard_with(spec(cpu=9_000), spec()).dispatch(1, 5)
    shard.run()
    rename(shard, 3, named(spec()), 6)
    assert shard.state.refused == {1}


def test_dry_run_and_nomination_are_for_the_latest_signature():
    high, low = spec(cpu=4_000, priority=9), spec(cpu=4_000)
    shard = shard_with(high, low)
    shard.assigned((1, 2, 1), (2, 2, 2)).run()
    rename(shard, 3, named(high), 5).given(SignatureRetired(1))
    shard.given(DryRunAsked(1, 5, 1)).run()
    shard.given(NominateAsked(1, 5, 1, 0, 1, pack([1])))
    (said,) = [event for event in shard.run() if isinstance(event, Nominated)]
    assert said.sig == 3
    rename(shard, 4, named(high, "db"), 5).given(SignatureRetired(3))
    assert shard.state.nominations[AskId(1)].sig == 4
    assert sorted(shard.state.specs) == [2, 4]
    shard.reload().gone(1).dispatch(1, 5)
    assert placed(shard.run()) == [(5, 1)]


def test_gangs_are_offered_and_held_under_the_latest_signatures():
    plain = spec(cpu=2_000)
    shard = shard_with(plain)
    rename(shard, 2, named(plain), 5, 7).given(SignatureRetired(1))
    members = (Members(1, pack([5, 7])),)
    shard.given(OfferAsked(1, 1, members), HoldAsked(1, 1, 0, members))
    offered, held = shard.run()
    assert isinstance(offered, GangOffered)
    assert offered.counts == (2,)
    assert isinstance(held, GangHeld)
    assert unpack(held.sigs).tolist() == [2, 2]


def test_members_with_several_latest_signatures_are_one_group_to_permit():
    plain = spec(cpu=3_000)
    shard = shard_with(plain)
    rename(shard, 2, named(plain), 5)
    rename(shard, 3, named(plain, "db"), 6, 7)
    members = (Members(1, pack([4, 5, 6, 7])), Members(1, pack([8])))
    shard.given(OfferAsked(1, 1, members), HoldAsked(1, 1, 0, members))
    offered, refused = shard.run()
    assert isinstance(offered, GangOffered)
    assert isinstance(refused, GangRefused)
    assert offered.counts == (2, 0)
    assert {2, 3} <= shard.state.refused


def test_a_deleted_pod_has_no_latest_signature():
    plain = spec()
    shard = shard_with(plain).gone(5)
    rename(shard, 2, named(plain), 5, 6).gone(6)
    assert not shard.state.ledger.latest_sig.any()
    shard.reload()


def test_labels_of_namespaces_are_kept_and_forgotten():
    shard = shard_with()
    team = (("team", "x"),)
    shard.given(NamespacesSet((("a", team), ("b", ()))), NamespacesSet((("b", team),), "a\nc"))
    assert shard.reload().state.namespaces == {"b": team}


def test_rules_that_select_namespaces_follow_their_labels():
    team = (Requirement("team", "In", ("x",)),)
    keeps_away = PodTerm(HOST, (), namespace_selector=team)
    plain = spec()
    ruler = replace(plain, pod_anti_affinity=(keeps_away,), namespace="mine")
    shard = shard_with(named(plain), ruler).assigned((1, 1, 1), (2, 1, 2))
    yes, no = (("team", "x"),), (("team", "y"),)
    shard.given(NamespacesSet((("ns", yes),))).dispatch(2, 5)
    assert [type(event) for event in shard.run()] == [Refused]
    shard.reload().given(NamespacesSet((("ns", no),)))
    (woken,) = [event for event in shard.run() if isinstance(event, Improved)]
    assert unpack(woken.sigs).tolist() == [2]
    shard.dispatch(2, 6)
    assert [pod for pod, _node in placed(shard.run())] == [6]
    shard.given(NamespacesSet((("ns", yes),))).dispatch(2, 7)
    assert [type(event) for event in shard.reload().run()] == [Refused]


def test_anti_affinity_by_host_needs_no_turn():
    """No other shard places pods on a shard's nodes."""
    away = named(spec(pod_anti_affinity=(TERM,)))
    shard = shard_with(away, named(spec()), placements=2).assigned((1, 2, 1)).dispatch(1, 5)
    assert placed(shard.run()) == [(5, 2)]
    shard.dispatch(1, 6).dispatch(2, 7)
    events = shard.reload().run()
    (first,) = [event for event in events if isinstance(event, Refused)]
    assert dict(first.reasons) == {"node(s) didn't match pod anti-affinity rules": 2}
    assert placed(events) == [(7, 1)], "node 2 keeps such pods away"
