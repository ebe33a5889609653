"""Preemption for a gang: evictions start only with places for all needed members; if one place
fails, all are released.
"""

import pytest
from msgspec.structs import replace

from services.preemption.core.config import Config
from services.preemption.core.core import PreemptionCore
from services.preemption.core.transitions import GANG_TRANSITIONS, GangPhase, gang_following
from shared.events.base import Configured
from shared.events.binding import Bound, Evicted, EvictionFailed
from shared.events.ingest import BudgetSet, PodsGone
from shared.events.placement import (
    Candidate,
    CandidatesFound,
    GangNominated,
    GangNominationStale,
    NominationLost,
    NominationReady,
    Place,
    PlacesFound,
)
from shared.events.preemption import (
    DryRunAsked,
    EvictAsked,
    EvictRecalled,
    GangDryRunAsked,
    GangNominateAsked,
    GangPreemptionClosed,
    GangRoomMade,
    NominateAsked,
    NominationCleared,
    PreemptionOpened,
)
from shared.events.queueing import GangPreemptAsked, GangPreemptRecalled, Members, PreemptAsked
from shared.model.columns import pack, unpack
from shared.model.options import read_options
from shared.model.preemption.victims import Nominee
from tests.support.steps import Steps

GANG, SIG = 5, 7
PODS = (50, 51, 52)
PLACE_MS, VICTIMS_MS = 60_000, 600_000


def preemption(placements=1):
    return Steps(PreemptionCore(placements))


def members(*groups):
    return tuple(Members(sig, pack(list(ids))) for sig, ids in groups)


def wanted(needed=2, *groups, gang=GANG):
    return GangPreemptAsked(gang, needed, members(*(groups or ((SIG, PODS),))))


def place(node, *victims, group=0, priority=0):
    rank = (priority + (1 << 31)) * len(victims)
    return Place(group, Candidate(node, pack(list(victims)), 0, priority, rank, 0, 1))


def found(*places, shard=0, ask=1, gang=GANG, reasons=(), nodes=3):
    return PlacesFound(shard, ask, gang, places, reasons, nodes)


def of_kind(events, kind):
    return [event for event in events if isinstance(event, kind)]


def answer(asked):
    """Return the answer of a shard that nominates all requested places."""
    return GangNominated(asked.shard, asked.ask, asked.gang, asked.nominees)


def nominating(placements=1, *answers):
    """Return steps after the choice, and the nominations that the shards are asked for."""
    mesh = preemption(placements)
    mesh.when(wanted())
    answers = answers or (found(place(30, 1), place(31, 2)),)
    return mesh, of_kind(mesh.when(*answers), GangNominateAsked)


def leaving():
    """Return steps in which victims 1 and 2 are evicted for asks 2 and 3, and the last
    decisions.
    """
    mesh, (asked,) = nominating()
    return mesh, mesh.when(answer(asked))


def ready():
    mesh, _events = leaving()
    mesh.when(Evicted(2, pack([1])), Evicted(3, pack([2])), PodsGone(pack([1, 2])))
    decided = mesh.when(NominationReady(0, 2, 50, 30), NominationReady(0, 3, 51, 31))
    return mesh, decided


def test_shards_are_asked_for_places_for_all_that_are_needed():
    asked = preemption().when(wanted(2))
    assert asked == [GangDryRunAsked(1, GANG, 2, members((SIG, PODS)))]


def test_places_for_all_are_chosen_each_with_an_ask_of_its_own():
    _mesh, asked = nominating()
    kept = (Nominee(2, 50, SIG, 30, pack([1])), Nominee(3, 51, SIG, 31, pack([2])))
    assert asked == [GangNominateAsked(1, GANG, 0, kept)]


def test_with_one_place_too_few_no_pod_is_evicted_and_the_gang_has_a_reason():
    mesh = preemption()
    mesh.when(wanted(3))
    said = (("No preemption victims found for incoming pod", 3),)
    text = "preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
    events = mesh.when(found(place(30, 1), place(31, 2), reasons=said))
    assert events == [GangPreemptionClosed(1, GANG, text)]
    assert not mesh.state.gang_asks
    assert not mesh.state.victims


def test_several_shards_make_up_the_number_the_cheapest_first():
    answers = (
        found(place(30), place(31, 1, priority=5), shard=0),
        found(place(40, 2, priority=1), place(41, 3, priority=9), shard=1),
    )
    mesh = preemption(2)
    mesh.when(wanted(3))
    assert mesh.when(answers[0]) == []
    asked = of_kind(mesh.when(answers[1]), GangNominateAsked)
    chosen = [(one.shard, [nominee.node for nominee in one.nominees]) for one in asked]
    assert chosen == [(0, [30, 31]), (1, [40])]


def test_a_shard_ends_where_the_members_of_its_next_place_end():
    groups = ((SIG, (50,)), (SIG + 1, (60, 61)))
    mesh = preemption(2)
    mesh.when(wanted(2, *groups))
    first = found(place(30), place(31, group=1), shard=0)
    second = found(place(40), shard=1)
    (asked,) = of_kind(mesh.when(first, second), GangNominateAsked)
    assert [(one.pod, one.node) for one in asked.nominees] == [(50, 30), (60, 31)]


def test_no_eviction_before_every_shard_has_charged_its_part():
    places = (found(place(30, 1), shard=0), found(place(40, 2), shard=1))
    mesh, asked = nominating(2, *places)
    assert mesh.when(answer(asked[0])) == []
    mesh.reload()
    events = mesh.when(answer(asked[1]))
    assert [event.victims for event in of_kind(events, EvictAsked)] == [pack([1]), pack([2])]
    assert len(of_kind(events, PreemptionOpened)) == 2


def test_a_stale_part_releases_the_others_and_all_shards_are_asked_again():
    places = (found(place(30, 1), shard=0), found(place(40, 2), shard=1))
    mesh, asked = nominating(2, *places)
    mesh.when(answer(asked[0]))
    events = mesh.when(GangNominationStale(1, 1, GANG))
    assert of_kind(events, NominationCleared) == [NominationCleared(2, 50, 0)]
    assert not of_kind(events, EvictAsked)
    assert len(of_kind(events, GangDryRunAsked)) == 1
    assert not mesh.state.victims


def test_late_answers_to_an_ended_round_are_ignored():
    places = (found(place(30, 1), shard=0), found(place(40, 2), shard=1))
    mesh, asked = nominating(2, *places)
    mesh.when(GangNominationStale(1, 1, GANG))
    assert mesh.state.gang_asks[1].phase is GangPhase.DRY_RUN
    assert mesh.when(answer(asked[0])) == []
    assert mesh.state.gang_asks[1].phase is GangPhase.DRY_RUN


def test_the_number_of_rounds_is_bounded():
    mesh, _asked = nominating()
    stale, again = GangNominationStale(0, 1, GANG), found(place(30, 1), place(31, 2))
    for _round in range(2):
        mesh.when(stale)
        mesh.when(again)
    assert mesh.when(stale) == [GangPreemptionClosed(1, GANG, "")]


def test_the_shard_confirms_the_final_victims():
    mesh, (asked,) = nominating()
    first, second = asked.nominees
    kept = (replace(first, victims=b""), second)
    events = mesh.when(GangNominated(0, 1, GANG, kept))
    assert [event.victims for event in of_kind(events, EvictAsked)] == [pack([2])]
    assert list(mesh.state.victims) == [2]


def test_the_gang_is_answered_when_its_last_victim_has_left():
    mesh, _events = leaving()
    mesh.when(Evicted(2, pack([1])), Evicted(3, pack([2])), PodsGone(pack([1])))
    assert mesh.when(NominationReady(0, 2, 50, 30)) == []
    mesh.reload()
    decided = mesh.when(PodsGone(pack([2])), NominationReady(0, 3, 51, 31))
    assert decided == [GangRoomMade(1, GANG)]


def test_room_without_victims_is_reported_at_once():
    mesh = preemption()
    mesh.when(wanted())
    (asked,) = mesh.when(found(place(30), place(31)))
    ready = (NominationReady(0, 2, 50, 30), NominationReady(0, 3, 51, 31))
    assert mesh.when(answer(asked), *ready) == [GangRoomMade(1, GANG)]


@pytest.mark.parametrize(
    "event",
    [
        PodsGone(pack([51])),
        NominationLost(0, 3, 51, "the nominated space is taken"),
        EvictionFailed(3, pack([2]), "refused"),
        GangPreemptRecalled(GANG),
        Bound(pack([51]), pack([99])),
    ],
    ids=["a member is gone", "space lost", "eviction failed", "its group changed", "bound"],
)
def test_if_one_member_fails_all_places_are_released_and_unsent_evictions_recalled(event):
    mesh, _events = leaving()
    events = mesh.when(event)
    for _turn in range(3):
        mesh.reload()
        events += mesh.when()
    recalled = {one.ask for one in of_kind(events, EvictRecalled)}
    assert recalled >= ({2} if isinstance(event, EvictionFailed) else {2, 3})
    assert {one.pod for one in of_kind(events, NominationCleared)} == {50, 51}
    assert events[-1] == GangPreemptionClosed(1, GANG, "")
    assert not mesh.state.asks
    assert not mesh.state.gang_asks


def test_victims_that_outlive_their_time_end_it_for_all():
    mesh, _events = leaving()
    mesh.when(Evicted(2, pack([1])), Evicted(3, pack([2])), PodsGone(pack([1])))
    mesh.when(NominationReady(0, 2, 50, 30))
    events = mesh.when(at_ms=VICTIMS_MS + 1) + mesh.when()
    assert {one.pod for one in of_kind(events, NominationCleared)} == {50, 51}
    assert events[-1] == GangPreemptionClosed(1, GANG, "")


def test_unused_room_is_released_after_a_while():
    mesh, decided = ready()
    assert decided == [GangRoomMade(1, GANG)]
    assert mesh.when(at_ms=PLACE_MS - 1) == []
    events = mesh.when(at_ms=PLACE_MS + 1) + mesh.when()
    assert {one.pod for one in of_kind(events, NominationCleared)} == {50, 51}
    assert events[-1] == GangPreemptionClosed(1, GANG, "")


def test_a_bound_gang_ends_its_ask():
    mesh, _told = ready()
    lost = [
        NominationLost(0, ask, pod, "the gang has its places") for ask, pod in ((2, 50), (3, 51))
    ]
    assert mesh.when(*lost) == [GangPreemptionClosed(1, GANG, "")]


def test_one_gang_is_nominated_after_the_other():
    mesh = preemption()
    asked = mesh.when(wanted(), wanted(gang=6))
    assert [one.gang for one in of_kind(asked, GangDryRunAsked)] == [GANG]
    (chosen,) = of_kind(mesh.when(found(place(30, 1), place(31, 2))), GangNominateAsked)
    events = mesh.when(answer(chosen))
    (asked,) = of_kind(events, GangDryRunAsked)
    assert asked.gang == 6
    assert unpack(asked.taken).tolist() == [1, 2], "no victim for two gangs"


def test_victims_taken_by_a_pod_need_another_round():
    mesh = preemption()
    mesh.when(PreemptAsked(90, 8, 1), wanted())
    ask = Candidate(30, pack([1]), 0, 0, 1 << 31, 0, 1)
    assert of_kind(mesh.when(CandidatesFound(0, 1, 90, (ask,))), NominateAsked)
    again = of_kind(mesh.when(found(place(30, 1), place(31, 2), ask=2)), GangDryRunAsked)
    assert [unpack(one.taken).tolist() for one in again] == [[1]]


def test_budgets_used_up_by_others_need_another_round():
    mesh = preemption()
    mesh.when(BudgetSet(1, 1, covered=pack([1, 2, 3])), wanted())
    mesh.when(PreemptAsked(90, 8, 1))
    ask = Candidate(39, pack([3]), 0, 0, 1 << 31, 0, 1)
    assert of_kind(mesh.when(CandidatesFound(0, 2, 90, (ask,))), NominateAsked)
    events = mesh.when(found(place(30, 1), place(31)))
    assert of_kind(events, GangDryRunAsked)
    assert not of_kind(events, GangNominateAsked)


def test_members_without_need_are_not_asked_for():
    mesh = preemption()
    mesh.given(PodsGone(pack([50])), Bound(pack([51]), pack([3])))
    assert mesh.when(wanted(2)) == [GangPreemptionClosed(1, GANG, "")]
    (asked,) = mesh.when(wanted(1))
    assert [unpack(part.ids).tolist() for part in asked.members] == [[52]]


def test_a_recall_before_anything_was_chosen_ends_it():
    mesh = preemption()
    mesh.when(wanted())
    assert mesh.when(GangPreemptRecalled(GANG)) == [GangPreemptionClosed(1, GANG, "")]
    assert mesh.when(found(place(30, 1), place(31, 2))) == []


def test_single_asks_continue_during_a_gangs():
    mesh, _events = leaving()
    (asked,) = of_kind(mesh.when(PreemptAsked(90, 8, 1)), DryRunAsked)
    assert asked.ask == 4
    assert unpack(asked.taken).tolist() == [1, 2]


def test_rounds_are_an_option():
    mesh = preemption()
    mesh.given(Configured({"preemption": {"rounds_max": 1}}))
    options = {"preemption": {"rounds_max": 1}}
    assert read_options("preemption", options, Config).rounds_max == 1
    mesh.when(wanted())
    mesh.when(found(place(30, 1), place(31, 2)))
    assert mesh.when(GangNominationStale(0, 1, GANG)) == [GangPreemptionClosed(1, GANG, "")]


def test_a_transition_that_is_not_in_the_table_raises_with_the_story():
    assert all(target in GangPhase for target in GANG_TRANSITIONS.values())
    with pytest.raises(AssertionError, match="gang 5: all_ready is not allowed in NEW"):
        gang_following(GangPhase.NEW, "all_ready", "gang 5")
