"""Room for gangs in one shard: places are found one after the other, nominated all or not at all,
and reserved for the gang from then on.
"""

from typing import Any

import pytest
from msgspec import to_builtins

from shared.events.ingest import BudgetCovers
from shared.events.permit import GangCommitted, GangReleased, HoldAsked, OfferAsked
from shared.events.placement import (
    GangHeld,
    GangNominated,
    GangNominationStale,
    NominationLost,
    NominationReady,
    PlacesFound,
    Refused,
)
from shared.events.preemption import (
    BudgetLeft,
    GangDryRunAsked,
    GangNominateAsked,
    NominateAsked,
    NominationCleared,
)
from shared.events.queueing import Members
from shared.extenders.values import Extender
from shared.model.columns import pack, unpack
from shared.model.objects import HostPort, PodTerm, Requirement, SpreadConstraint
from shared.model.preemption.victims import Nominee
from shared.model.profile import Profile
from tests.unit.placement.shard import Shard, node, placed, refused, spec

LOW, MID, HIGH, BIG, NEVER, WEB = 1, 2, 3, 4, 5, 6
GANG, ASK = 7, 1
APART = PodTerm("kubernetes.io/hostname", (Requirement("app", "In", ("web",)),))


def shard_of(nodes: int = 1, **config) -> Shard:
    """Return a shard: nodes of 4 cpu; pods of 1 and 2 cpu at priority 0 and 5, members of 1 and 3
    cpu at 10.
    """
    shard = Shard(**config).sig(LOW, spec()).sig(MID, spec(cpu=2_000, priority=5))
    shard.sig(HIGH, spec(priority=10)).sig(BIG, spec(cpu=3_000, priority=10))
    shard.sig(NEVER, spec(priority=10, never_preempts=True))
    for number in range(1, nodes + 1):
        shard.nodes(number, node(f"n{number}", labels={"kubernetes.io/hostname": str(number)}))
    return shard


def full(nodes: int = 1, **config) -> Shard:
    """Return a shard with four low pods on every node: 11, 12, 13, 14 on the first."""
    shard = shard_of(nodes, **config)
    pods = [(10 * n + at, LOW, n) for n in range(1, nodes + 1) for at in range(1, 5)]
    return shard.assigned(*pods)


def said(shard: Shard) -> list[Any]:
    """Return the shard's decision."""
    return list(shard.run())


def members(*groups: tuple[int, list[int]]) -> tuple[Members, ...]:
    return tuple(Members(sig, pack(ids)) for sig, ids in groups)


def dry_run(
    shard: Shard, *groups: tuple[int, list[int]], needed: int = 0, gang: int = GANG, **more
) -> PlacesFound:
    needed = needed or sum(len(ids) for _sig, ids in groups)
    (found,) = shard.given(GangDryRunAsked(ASK, gang, needed, members(*groups), **more)).run()
    assert isinstance(found, PlacesFound)
    return found


def seats(found: PlacesFound) -> list[tuple[int, int, list[int]]]:
    """Return (group, node, victims) of every place."""
    return [
        (one.group, one.candidate.node, unpack(one.candidate.victims).tolist())
        for one in found.places
    ]


def nominees(found: PlacesFound, *groups: tuple[int, list[int]]) -> tuple[Nominee, ...]:
    left = [iter(ids) for _sig, ids in groups]
    places = ((one.group, one.candidate) for one in found.places)
    return tuple(
        Nominee(100 + at, next(left[group]), groups[group][0], one.node, one.victims)
        for at, (group, one) in enumerate(places)
    )


def keep(shard: Shard, *groups: tuple[int, list[int]], **more) -> list[Any]:
    """Ask for places and nominate all of them; return the shard's answer."""
    found = dry_run(shard, *groups, **more)
    return said(shard.given(GangNominateAsked(ASK, GANG, 0, nominees(found, *groups))))


def leave(nominated: GangNominated) -> list[list[int]]:
    return [unpack(one.victims).tolist() for one in nominated.nominees]


def test_members_are_given_places_one_after_the_other():
    found = dry_run(full(2), (HIGH, [91, 92, 93]))
    victims = [pod for _group, _node, own in seats(found) for pod in own]
    assert len(set(victims)) == len(victims) == 3


def test_a_node_that_takes_a_member_as_it_is_comes_first():
    shard = full().nodes(2, node("n2", cpu=1_000))
    assert seats(dry_run(shard, (HIGH, [91, 92]))) == [(0, 2, []), (0, 1, [14])]


def test_the_next_member_may_use_room_of_earlier_victims():
    shard = shard_of().assigned((1, MID, 1), (2, MID, 1))
    assert seats(dry_run(shard, (HIGH, [91, 92]))) == [(0, 1, [2]), (0, 1, [])]


def test_room_left_by_one_groups_victims_serves_the_next_group():
    shard = shard_of().sig(WEB, spec(cpu=1_000, priority=9)).assigned((1, MID, 1), (2, MID, 1))
    found = dry_run(shard, (HIGH, [91]), (WEB, [92]))
    assert seats(found) == [(0, 1, [2]), (1, 1, [])]


def test_a_dry_run_with_too_few_places_has_reasons():
    found = dry_run(full(), (BIG, [91, 92]))
    assert len(found.places) == 1
    assert found.reasons == (("No preemption victims found for incoming pod", 1),)
    found = dry_run(full().sig(8, spec(cpu=9_000, priority=10)), (8, [91]))
    assert found.places == ()
    assert found.reasons


def test_no_more_places_than_are_needed():
    assert len(dry_run(full(2), (HIGH, [91, 92, 93, 94]), needed=2).places) == 2


def test_pods_of_equal_priority_are_no_victims():
    shard = shard_of().sig(8, spec(cpu=2_000, priority=10)).assigned((1, 8, 1), (2, 8, 1))
    assert dry_run(shard, (HIGH, [91])).places == ()


def test_victims_of_other_preemptors_are_no_candidates():
    shard = full().sig(8, spec(cpu=2_000, priority=10))
    shard.given(NominateAsked(9, 60, 8, 0, 1, pack([13, 14]))).run()
    found = dry_run(shard, (HIGH, [91, 92, 93, 94]), taken=pack([13, 14]))
    assert [pod for _group, _node, own in seats(found) for pod in own] == [12, 11]


def test_budgets_are_used_up_from_member_to_member():
    shard = full(2).given(BudgetCovers(1, pack([11, 12, 13, 14])))
    found = dry_run(shard, (HIGH, [91, 92]), budgets=(BudgetLeft(1, 0),))
    assert all(at == 2 for _group, at, _victims in seats(found)), (
        "pods within their budgets are evicted"
    )
    found = dry_run(shard, (HIGH, list(range(91, 97))), budgets=(BudgetLeft(1, 1),))
    assert sum(one.candidate.violations for one in found.places) == 1
    assert len({pod for _group, _node, own in seats(found) for pod in own}) == 6


def test_devices_are_given_one_after_the_other():
    shard = Shard().sig(LOW, spec(gpu=(500, 1))).sig(HIGH, spec(gpu=(1_000, 1), priority=10))
    shard.nodes(1, node("n1", gpu_count=2))
    shard.assigned((11, LOW, 1), (12, LOW, 1), (13, LOW, 1))
    found = dry_run(shard, (HIGH, [91, 92]))
    assert sorted(len(own) for _group, _node, own in seats(found)) == [1, 2]
    answers = shard.given(GangNominateAsked(ASK, GANG, 0, nominees(found, (HIGH, [91, 92])))).run()
    assert isinstance(answers[0], GangNominated)
    assert sorted(one.mask for one in shard.state.nominations.values()) == [1, 2]


@pytest.mark.parametrize(
    ("sig", "more"),
    [
        (NEVER, {}),
        (HIGH, {"profiles": to_builtins([Profile(preempts=False)])}),
        (HIGH, {"extenders": to_builtins([Extender(url="http://e", preempt_verb="p")])}),
    ],
    ids=["never", "no DefaultPreemption", "extender says who goes"],
)
def test_without_possible_victims_a_gang_is_hopeless(sig, more):
    shard = full(**more)
    assert dry_run(shard, (sig, [91])).places == ()
    (offer,) = said(shard.given(OfferAsked(GANG, 1, members((sig, [91])), True)))
    assert not offer.preemptible


WEB_POD: dict[str, Any] = {"namespace": "default", "labels": (("app", "web"),)}


def test_members_that_avoid_each_other_get_a_node_each():
    apart = spec(priority=10, **WEB_POD, pod_anti_affinity=(APART,))
    shard = full(3).sig(WEB, apart)
    shard.gone(11, 12)
    (offer,) = said(shard.given(OfferAsked(GANG, 1, members((WEB, [91, 92, 93])), True)))
    assert offer.preemptible
    found = dry_run(shard, (WEB, [91, 92, 93, 94]))
    assert sorted(seats(found)) == [(0, 1, []), (0, 2, [24]), (0, 3, [34])]
    nominated, *_ready = keep(shard, (WEB, [91, 92, 93]))
    assert sorted(leave(nominated)) == [[], [24], [34]]


def test_a_member_avoids_a_running_pod_of_lower_priority_or_evicts_it():
    apart = spec(priority=10, **WEB_POD, pod_anti_affinity=(APART,))
    shard = shard_of(2).sig(WEB, apart).sig(7, spec(**WEB_POD))
    shard.assigned((11, 7, 1))
    assert seats(dry_run(shard, (WEB, [91, 92]))) == [(0, 2, []), (0, 1, [11])]


def test_soft_rules_of_members_keep_no_gang_from_preemption():
    soft = SpreadConstraint("topology.kubernetes.io/zone", 1, False, APART.selector)
    shard = full(2).sig(WEB, spec(priority=10, **WEB_POD, spread=(soft,)))
    assert len(dry_run(shard, (WEB, [91, 92])).places) == 2


def test_a_short_offer_reports_whether_evictions_could_help():
    (offer,) = said(full().given(OfferAsked(GANG, 1, members((HIGH, [91])), True)))
    assert offer.preemptible
    shard = shard_of().assigned(*((pod, HIGH, 1) for pod in range(1, 5)))
    (offer,) = said(shard.given(OfferAsked(GANG, 1, members((HIGH, [91])), True)))
    assert not offer.preemptible


def test_an_offer_counts_the_room_that_its_members_leave():
    """Each node fits one member, and another one if a pod leaves."""
    shard = shard_of(2).assigned((1, MID, 1), (2, MID, 2))
    (offer,) = said(shard.given(OfferAsked(GANG, 1, members((BIG, [91, 92])), True)))
    assert (offer.counts, offer.preemptible) == ((0,), True)
    shard = shard_of(2).sig(8, spec(cpu=2_000, priority=10)).assigned((1, MID, 1), (2, MID, 2))
    (offer,) = said(shard.given(OfferAsked(GANG, 1, members((8, [91, 92, 93])), True)))
    assert (offer.counts, offer.preemptible) == ((2,), True)


def test_nominated_places_become_ready_as_their_victims_leave():
    shard = full()
    nominated, *rest = keep(shard, (HIGH, [91, 92]))
    assert leave(nominated) == [[14], [13]]
    assert not rest
    assert refused(shard.dispatch(LOW, 50).run()) == [50]
    shard.reload().gone(14)
    assert refused(shard.dispatch(LOW, 51).run()) == [51], "the freed place is the gang's"
    ready = [one for one in shard.gone(13).run() if isinstance(one, NominationReady)]
    assert ready == [NominationReady(0, 100, 91, 1), NominationReady(0, 101, 92, 1)]


def test_a_member_without_victims_is_ready_when_all_victims_have_left():
    shard = shard_of().assigned((1, MID, 1), (2, MID, 1))
    nominated, *rest = keep(shard, (HIGH, [91, 92]))
    assert leave(nominated) == [[2], []]
    assert not rest
    assert len(shard.gone(2).run()) == 2


def test_a_pod_that_fits_beside_all_members_is_no_victim():
    """The victims chosen for the second member would make room for both."""
    shard = shard_of().assigned((1, LOW, 1), (2, LOW, 1), (3, MID, 1))
    asked = (
        Nominee(100, 91, HIGH, 1, pack([1])),
        Nominee(101, 92, HIGH, 1, pack([2, 3])),
    )
    (nominated,) = said(shard.given(GangNominateAsked(ASK, GANG, 0, asked)))
    assert leave(nominated) == [[1], [2]], "and the more important one stays"


def test_all_places_are_kept_or_none():
    shard = full(2)
    found = dry_run(shard, (BIG, [91, 92]))
    asked = GangNominateAsked(ASK, GANG, 0, nominees(found, (BIG, [91, 92])))
    shard.sig(8, spec(cpu=4_000, priority=20)).gone(11, 12, 13, 14)
    assert placed(shard.dispatch(8, 60).run()) == [(60, 1)]
    assert shard.given(asked).run() == [GangNominationStale(0, ASK, GANG)]
    assert not shard.state.nominations


@pytest.mark.parametrize(
    "change",
    [
        lambda shard: shard.gone(92),
        lambda shard: shard.nodes_gone(1),
        lambda shard: shard.given(NominationCleared(101, 92, 0)),
    ],
    ids=["a member is gone", "the node is gone", "it was cleared already"],
)
def test_unwanted_or_lost_places_are_stale(change):
    shard = full()
    found = dry_run(shard, (HIGH, [91, 92]))
    shard.given(GangNominateAsked(ASK, GANG, 0, nominees(found, (HIGH, [91, 92]))))
    change(shard)
    assert GangNominationStale(0, ASK, GANG) in shard.run()
    assert not shard.state.nominations


def test_victims_that_left_in_the_meantime_are_not_missed():
    shard = full()
    found = dry_run(shard, (HIGH, [91, 92]))
    asked = GangNominateAsked(ASK, GANG, 0, nominees(found, (HIGH, [91, 92])))
    (nominated,) = said(shard.gone(14).given(asked))
    assert leave(nominated) == [[], [13]]
    assert len(shard.gone(13).run()) == 2


def made(nodes: int = 1) -> Shard:
    """Return a shard in which two members have their places on the first node."""
    shard = full(nodes)
    keep(shard, (HIGH, [91, 92]))
    for pod in [pod for one in shard.state.nominations.values() for pod in list(one.victims)]:
        shard.gone(pod)
    shard.run()
    return shard


def test_any_member_may_use_a_gangs_places():
    shard = made()
    (offer,) = said(shard.given(OfferAsked(GANG, 1, members((HIGH, [95, 96, 97])), True)))
    assert offer.counts == (2,)
    (held,) = said(shard.given(HoldAsked(GANG, 1, 0, members((HIGH, [95, 96])))))
    assert isinstance(held, GangHeld)
    (other,) = said(shard.given(OfferAsked(GANG + 1, 1, members((HIGH, [98])), True)))
    assert other.counts == (0,)


def test_places_of_one_signature_are_kept_from_members_of_another():
    shard = shard_of().sig(8, spec(cpu=4_000, priority=10)).assigned((1, MID, 1), (2, MID, 1))
    keep(shard, (BIG, [91]), (HIGH, [92]))
    shard.gone(1, 2).run()
    (offer,) = said(shard.given(OfferAsked(GANG, 1, members((HIGH, [92, 93]), (BIG, [91])), True)))
    assert offer.counts == (1, 1)


def test_a_failed_hold_returns_the_places_to_the_gang():
    shard = made()
    shard.given(HoldAsked(GANG, 1, 0, members((HIGH, [91, 92])))).run()
    shard.reload()
    assert shard.given(GangReleased(GANG, 1, (), 1)).run() == []
    assert refused(shard.dispatch(LOW, 50).run()) == [50], "it is the gang's still"
    assert len(shard.state.nominations) == 2
    (held,) = said(shard.given(HoldAsked(GANG, 2, 0, members((HIGH, [91, 92])))))
    assert isinstance(held, GangHeld)


def test_a_commit_ends_the_places():
    shard = made()
    shard.given(HoldAsked(GANG, 1, 0, members((HIGH, [91, 92])))).run()
    lost = said(shard.given(GangCommitted(GANG, 1, pack([91, 92]), pack([1, 1]))))
    assert [(type(one), one.ask) for one in lost] == [(NominationLost, 100), (NominationLost, 101)]
    assert not shard.state.nominations


def test_a_gang_committed_on_other_nodes_needs_no_evictions():
    shard = full()
    keep(shard, (HIGH, [91, 92]))
    lost = said(shard.given(GangCommitted(GANG, 1, pack([91, 92]), pack([8, 9]))))
    assert [one.ask for one in lost if isinstance(one, NominationLost)] == [100, 101]


def test_a_deleted_member_loses_its_place():
    shard = full()
    keep(shard, (HIGH, [91, 92]))
    (lost,) = said(shard.gone(92))
    assert (lost.ask, lost.pod) == (101, 92)


def test_cleared_places_are_free_for_all():
    shard = made()
    assert isinstance(shard.dispatch(LOW, 50).run()[0], Refused)
    shard.given(NominationCleared(100, 91, 0), NominationCleared(101, 92, 0)).run()
    assert placed(shard.dispatch(LOW, 51).run()) == [(51, 1)]


def test_ports_of_members_are_not_given_twice_on_a_node():
    shard = full(2).sig(WEB, spec(priority=10, host_ports=(HostPort(80),)))
    found = dry_run(shard, (WEB, [91, 92, 93]))
    assert sorted(at for _group, at, _victims in seats(found)) == [1, 2]
