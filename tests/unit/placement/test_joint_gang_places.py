"""Room for gangs whose members have rules over several nodes: the places are found, nominated and
used one beside the other, and victims may run on other nodes than the members.
"""

from typing import Any

import pytest

from shared.events.ingest import BudgetCovers, SignatureRetired
from shared.events.permit import HoldAsked, OfferAsked
from shared.events.placement import GangHeld, GangNominated, GangNominationStale, NominationLost
from shared.events.preemption import BudgetLeft, GangNominateAsked
from shared.model.columns import pack, unpack
from shared.model.groups.trees import GroupNode
from shared.model.objects import PodTerm, Requirement, SpreadConstraint
from shared.model.preemption.victims import Nominee
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

LOW, MID, WEB, OLD, BASE = 1, 2, 6, 7, 8
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
IS_WEB = (Requirement("app", "In", ("web",)),)
WEB_POD: dict[str, Any] = {"namespace": "default", "labels": (("app", "web"),)}
APART = {"pod_anti_affinity": (PodTerm(ZONE, IS_WEB),)}
TOGETHER = {"pod_affinity": (PodTerm(ZONE, IS_WEB),)}
SPREAD = {"spread": (SpreadConstraint(ZONE, 1, True, IS_WEB),)}


def shard_of(zones: str, rules: dict[str, Any], cpu: int = 2_000, **more: Any) -> Shard:
    """Return a shard with a node of 4 cpu in each of the zones, and members of 2 cpu."""
    shard = Shard(**more).sig(LOW, spec()).sig(MID, spec(priority=5))
    shard.sig(WEB, spec(cpu=cpu, priority=10, **WEB_POD, **rules))
    shard.sig(OLD, spec(**WEB_POD))
    for number, zone in enumerate(zones, start=1):
        shard.nodes(number, node(f"n{number}", labels={HOST: f"n{number}", ZONE: zone}))
    return shard


def full(zones: str, rules: dict[str, Any], cpu: int = 2_000) -> Shard:
    """Return such a shard with four low pods on every node: 11, 12, 13, 14 on the first."""
    pods = [(10 * n + at, LOW, n) for n in range(1, len(zones) + 1) for at in range(1, 5)]
    return shard_of(zones, rules, cpu).assigned(*pods)


def victims(found: Any) -> list[int]:
    return sorted(pod for _group, _node, own in seats(found) for pod in own)


def test_members_that_avoid_each_others_zones_get_a_zone_each():
    shard = full("abcc", APART)
    (offer,) = said(shard.given(OfferAsked(GANG, 1, members((WEB, [91, 92, 93])), True)))
    assert offer.preemptible
    found = dry_run(shard, (WEB, [91, 92, 93]))
    assert len({"abcc"[at - 1] for _group, at, _own in seats(found)}) == 3
    assert len(victims(found)) == 6


def test_no_pod_leaves_if_one_member_has_no_zone():
    found = dry_run(full("abb", APART), (WEB, [91, 92, 93]))
    assert found.places == ()
    assert found.reasons == (("node(s) didn't match pod anti-affinity rules", 3),)


def test_a_pod_that_keeps_a_member_off_its_zone_leaves_another_node():
    """Zone b is full of equal pods but for node 3; the old pod is on node 2."""
    shard = shard_of("abb", APART, cpu=4_000).sig(BASE, spec(cpu=3_000, priority=10))
    shard.assigned((20, OLD, 2), (21, BASE, 2))
    found = dry_run(shard, (WEB, [91, 92]))
    assert sorted(at for _group, at, _own in seats(found)) == [1, 3]
    assert victims(found) == [20]
    nominated, *_news = keep(shard, (WEB, [91, 92]))
    assert isinstance(nominated, GangNominated)
    assert sorted(leave(nominated)) == [[], [20]]


def test_members_that_are_gone_with_their_signature_get_no_place():
    shard = full("ab", APART).sig(9, spec(priority=10)).given(SignatureRetired(9))
    found = dry_run(shard, (9, [90]), (WEB, [91, 92]), needed=2)
    assert sorted((group, at) for group, at, _own in seats(found)) == [(1, 1), (1, 2)]


def test_members_are_spread_over_the_zones():
    found = dry_run(full("aabb", SPREAD), (WEB, [91, 92, 93, 94]))
    assert sorted("aabb"[at - 1] for _group, at, _own in seats(found)) == list("aabb")


def test_each_member_need_only_fit_beside_those_before_it():
    """Two pods of the app are in zone a, so it is open only when zone b has members, and the last
    place in zone b only when zone a has one.
    """
    shard = full("ab", SPREAD, cpu=1_000).sig(BASE, spec(cpu=0, priority=20, **WEB_POD))
    shard.assigned((1, BASE, 1), (2, BASE, 1)).nodes(1, node("n1", cpu=1_000, labels={ZONE: "a"}))
    asked = (WEB, [91, 92, 93, 94, 95])
    found = dry_run(shard, asked)
    assert sorted("ab"[at - 1] for _group, at, _own in seats(found)) == list("abbbb")
    nominated, *news = keep(shard, asked)
    assert isinstance(nominated, GangNominated)
    assert not news
    shard.gone(*victims(found)).run()
    assert len(shard.state.nominations) == 5
    shard.nodes(3, node("n3", cpu=32_000, labels={HOST: "n3", ZONE: "b"}))
    (offer,) = said(shard.given(OfferAsked(GANG, 2, members(asked), True)))
    assert offer.counts == (5,)
    (held,) = said(shard.reload().given(HoldAsked(GANG, 2, 0, members(asked))))
    assert isinstance(held, GangHeld)
    assert sorted(unpack(held.nodes).tolist()) == sorted(at for _group, at, _own in seats(found))


def test_members_on_free_nodes_move_if_they_cannot_stay_without_the_victims():
    """Two members fit zone a only beside the old pods of zone b, whose node the third one needs."""
    shard = shard_of("ab", SPREAD).sig(BASE, spec(cpu=2_000, priority=10))
    shard.assigned((1, OLD, 2), (2, OLD, 2), (3, BASE, 2))
    found = dry_run(shard, (WEB, [91, 92, 93]))
    assert sorted(at for _group, at, _own in seats(found)) == [1, 1, 2]
    assert victims(found) == [1, 2]
    assert isinstance(keep(shard, (WEB, [91, 92, 93]))[0], GangNominated)


def test_members_that_belong_together_get_one_zone():
    found = dry_run(full("abab", TOGETHER), (WEB, [91, 92, 93]))
    assert len({"abab"[at - 1] for _group, at, _own in seats(found)}) == 1
    assert len(victims(found)) == 6


def test_pods_that_members_must_be_near_to_stay():
    near = {"pod_affinity": (PodTerm(ZONE, (Requirement("app", "In", ("base",)),)),)}
    shard = full("ab", near).sig(BASE, spec(cpu=0, namespace="default", labels=(("app", "base"),)))
    shard.assigned((1, BASE, 1))
    found = dry_run(shard, (WEB, [91, 92]))
    assert [at for _group, at, _own in seats(found)] == [1, 1]
    assert victims(found) == [11, 12, 13, 14]


def test_a_pod_that_members_must_be_near_to_is_no_victim_even_on_the_best_node():
    near = {"pod_affinity": (PodTerm(ZONE, (Requirement("app", "In", ("base",)),)),)}
    shard = full("ba", near).nodes(3, node("n3", cpu=8_000, labels={HOST: "n3", ZONE: "a"}))
    shard.sig(BASE, spec(cpu=7_000, namespace="default", labels=(("app", "base"),)))
    shard.assigned((1, BASE, 3))
    found = dry_run(shard, (WEB, [91]))
    assert [at for _group, at, _own in seats(found)] == [2]
    assert len(victims(found)) == 2


def test_free_nodes_come_first():
    shard = full("aab", TOGETHER)
    shard.gone(31, 32)
    assert victims(dry_run(shard, (WEB, [91]))) == []
    assert {"aab"[at - 1] for _group, at, _own in seats(dry_run(shard, (WEB, [91, 92])))} == {"b"}


def test_pods_of_the_lowest_priority_leave():
    shard = shard_of("ab", SPREAD).sig(3, spec(cpu=4_000)).assigned((1, 3, 1), (2, 3, 2))
    shard.nodes(3, node("n3", labels={HOST: "n3", ZONE: "a"}))
    shard.nodes(4, node("n4", labels={HOST: "n4", ZONE: "b"}))
    shard.assigned(*((10 * n + at, MID, n) for n in (3, 4) for at in range(1, 5)))
    assert victims(dry_run(shard, (WEB, [91, 92]))) == [1, 2]


def test_a_pod_that_fits_beside_all_members_stays():
    shard = shard_of("aab", APART).assigned((1, MID, 1), (2, LOW, 1), (3, LOW, 1), (4, LOW, 3))
    shard.nodes(2, node("n2", cpu=1_000, labels={HOST: "n2", ZONE: "a"}))
    found = dry_run(shard, (WEB, [91, 92]))
    assert len(victims(found)) == 1
    assert 1 not in victims(found)


def test_pods_stay_in_the_room_of_one_that_leaves_for_a_rule():
    shard = shard_of("a", APART).sig(BASE, spec(cpu=2_000, **WEB_POD))
    shard.assigned((1, BASE, 1), (2, LOW, 1), (3, LOW, 1))
    found = dry_run(shard, (WEB, [91]))
    assert victims(found) == [1]
    asked = GangNominateAsked(ASK, GANG, 0, (Nominee(100, 91, WEB, 1, pack([1, 2, 3])),))
    (nominated,) = said(shard.given(asked))
    assert leave(nominated) == [[1]]


def test_pods_beyond_their_budget_are_put_back_first():
    shard = full("ab", APART).given(BudgetCovers(1, pack([11, 12])))
    found = dry_run(shard, (WEB, [91, 92]), budgets=(BudgetLeft(1, 0),))
    assert victims(found) == [13, 14, 23, 24]


def test_victims_of_other_preemptors_are_no_candidates():
    found = dry_run(full("ab", APART), (WEB, [91, 92]), taken=pack([13, 14]))
    assert victims(found) == [11, 12, 23, 24]


def test_zones_nominated_for_another_gang_are_taken():
    """Nodes 1 and 2 are in zone a. The other gang of the same app has its place on one of them."""
    shard = full("aab", APART)
    keep(shard, (WEB, [81, 82]))
    assert dry_run(shard, (WEB, [91]), gang=GANG + 1).places == ()
    shard.nodes(4, node("n4", labels={HOST: "n4", ZONE: "c"}))
    found = dry_run(shard, (WEB, [91]), gang=GANG + 1)
    assert [(at, own) for _group, at, own in seats(found)] == [(4, [])]


def test_a_rule_broken_before_the_choice_makes_it_stale():
    shard = full("ab", APART).sig(BASE, spec(cpu=0, priority=20, **WEB_POD))
    found = dry_run(shard, (WEB, [91, 92]))
    asked = GangNominateAsked(ASK, GANG, 0, nominees(found, (WEB, [91, 92])))
    shard.nodes(3, node("n3", labels={HOST: "n3", ZONE: "b"})).assigned((1, BASE, 3))
    assert shard.given(asked).run() == [GangNominationStale(0, ASK, GANG)]


def test_a_rule_broken_later_takes_the_places_away():
    shard = full("ab", APART).sig(BASE, spec(cpu=0, priority=20, **WEB_POD))
    keep(shard, (WEB, [91, 92]))
    shard.nodes(3, node("n3", labels={HOST: "n3", ZONE: "b"})).assigned((1, BASE, 3))
    lost = [one.pod for one in shard.run() if isinstance(one, NominationLost)]
    assert sorted(lost) == [91, 92]


def test_a_victim_that_could_stay_stays():
    """Pod 22 left since the dry run, so fewer others must leave."""
    shard = full("ab", APART)
    found = dry_run(shard, (WEB, [91, 92]))
    asked = GangNominateAsked(ASK, GANG, 0, nominees(found, (WEB, [91, 92])))
    (nominated,) = said(shard.gone(11).given(asked))
    assert sorted(len(own) for own in leave(nominated)) == [1, 2]


def test_a_tree_whose_members_have_rules_over_zones_waits():
    """Its groups may use the places in another order than that in which they were found."""
    tree = (GroupNode(GANG, 1, is_composite=True), GroupNode(GANG + 1, 2, 1))
    asked = OfferAsked(GANG, 1, members((WEB, [91, 92])), True, tree=tree, leaves=(GANG + 1,))
    (offer,) = said(full("ab", APART).given(asked))
    assert not offer.preemptible
    (offer,) = said(full("ab", {}).given(asked))
    assert offer.preemptible


@pytest.mark.parametrize("rules", [APART, SPREAD, TOGETHER], ids=["apart", "spread", "together"])
def test_rules_over_the_nodes_of_several_shards_keep_a_gang_from_preemption(rules: dict[str, Any]):
    shard = Shard(0, 2).sig(LOW, spec()).sig(WEB, spec(priority=10, **WEB_POD, **rules))
    shard.nodes(1, node("n1", labels={ZONE: "a"}))
    shard.assigned(*((pod, LOW, 1) for pod in range(1, 5)))
    assert dry_run(shard, (WEB, [91])).places == ()
    (offer,) = said(shard.given(OfferAsked(GANG, 1, members((WEB, [91])), True)))
    assert not offer.preemptible
