"""Permit's decisions from the shards' answers: commit, plan again, release, or time out."""

import msgspec
import pytest

from services.permit.core.config import Config
from services.permit.core.core import PermitCore
from services.permit.core.state import RACES_MAX
from services.permit.core.transitions import OPEN, TRANSITIONS, Phase, following
from shared.events.base import Configured
from shared.events.ingest import GangGone, GangSet, PodsAssigned, PodsGone
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut, HoldAsked, OfferAsked
from shared.events.placement import GangHeld, GangOffered, GangRefused, MemberVolumes, Shown
from shared.events.queueing import GangDispatched, Members
from shared.model.columns import pack, unpack
from shared.model.groups.topology import DomainOffer, Scoring, Topology
from shared.model.objects import PodSpec
from shared.model.options import read_options
from shared.model.volumes import Choice
from tests.support.steps import Steps

CPU = "Insufficient cpu"
TIMEOUT_MS = 300_000


def permit(placements=1):
    return Steps(PermitCore(placements))


def members(*groups):
    return tuple(Members(sig, pack(list(ids))) for sig, ids in groups)


def dispatched(*groups, gang=1, attempt=1, version=1, need=3, timeout_ms=TIMEOUT_MS):
    return GangDispatched(attempt, gang, version, need, members(*groups), timeout_ms)


def offered(shard, *counts, gang=1, attempt=1, reasons=(), nodes=10):
    return GangOffered(shard, gang, attempt, counts, reasons, nodes)


def held(shard, pods, gang=1, attempt=1, shown=()):
    ids = pack(list(pods))
    nodes = pack([100 * (shard + 1) + pod for pod in pods])
    return GangHeld(shard, gang, attempt, ids, ids, nodes, b"", 0, shown=shown)


def refused(shard, gang=1, attempt=1, reasons=((CPU, 10),), nodes=10, placed=0):
    return GangRefused(shard, gang, attempt, reasons, nodes, 0, placed)


def asked(shard, *groups, gang=1, attempt=1):
    return HoldAsked(gang, attempt, shard, members(*groups))


def committed(pods, nodes, gang=1, attempt=1, shards=1):
    return GangCommitted(gang, attempt, pack(pods), pack(nodes), shards)


def gone(*pods):
    return PodsGone(pack(list(pods)))


STALE = GangReleased(1, 1, (), 0, stale=True)
THREE = (7, (1, 2, 3))


def holding(placements=1, groups=(THREE,), counts=((3,),), **options):
    """Return steps with a gang whose planned shards were asked to hold."""
    mesh = permit(placements)
    mesh.when(dispatched(*groups, **options))
    mesh.when(*(offered(shard, *count) for shard, count in enumerate(counts)))
    return mesh


def test_a_dispatched_gang_is_offered_to_the_shards():
    assert permit().when(dispatched(THREE)) == [OfferAsked(1, 1, members(THREE))]


def test_a_plan_waits_for_the_answer_of_every_shard():
    mesh = permit(2)
    mesh.when(dispatched(THREE))
    assert mesh.when(offered(1, 3)) == []
    assert mesh.when(offered(0, 0)) == [asked(1, THREE)]


def test_one_shard_that_holds_all_commits():
    assert holding().when(held(0, [1, 2, 3])) == [committed([1, 2, 3], [101, 102, 103])]


def test_a_commit_names_members_with_bind_plugins():
    some, other = PodSpec(priority=1), PodSpec(priority=2)
    mesh = holding(2, groups=((7, (1, 2)), (8, (3, 4))), counts=((1, 1), (1, 1)), need=3)
    mesh.when(held(0, [2, 4], shown=(Shown(pack([2]), some), Shown(pack([4]), other))))
    assert mesh.when(gone(4)) == []
    mesh.reload()
    (commit,) = mesh.when(held(1, [1, 3], shown=(Shown(pack([1]), some),)))
    assert commit.shown == (Shown(pack([1]), some), Shown(pack([2]), some))


def test_a_commit_names_members_that_wait_for_volumes():
    mesh = holding(2, groups=((7, (1, 2)), (8, (3, 4))), counts=((1, 1), (1, 1)), need=3)
    mine, others = (
        [MemberVolumes(pod, (Choice("a", "c", "u"),)) for pod in p] for p in ((4, 2), (3,))
    )
    mesh.when(msgspec.structs.replace(held(0, [2, 4]), volumes=tuple(mine)))
    assert mesh.when(gone(4)) == []
    mesh.reload()
    (commit,) = mesh.when(msgspec.structs.replace(held(1, [1, 3]), volumes=tuple(others)))
    assert commit.with_volumes == pack([2, 3])


def test_a_shard_for_all_is_preferred():
    mesh = permit(3)
    mesh.when(dispatched((7, (1, 2, 3, 4)), need=2))
    assert mesh.when(offered(0, 3), offered(1, 4), offered(2, 2)) == [asked(1, (7, (1, 2, 3, 4)))]


def test_otherwise_the_shard_that_takes_most_members_is_chosen():
    mesh = permit(3)
    mesh.when(dispatched((7, (1, 2, 3, 4, 5)), need=2))
    assert mesh.when(offered(0, 3), offered(1, 4), offered(2, 2)) == [asked(1, (7, (1, 2, 3, 4)))]


def test_a_gang_for_which_no_shard_has_room_alone_is_cut_over_shards():
    mesh = holding(2, ((7, (1, 2)), (8, (3, 4))), ((1, 2), (2, 0)), need=4)
    fresh = permit(2)
    fresh.when(dispatched((7, (1, 2)), (8, (3, 4)), need=4))
    plan = fresh.when(offered(0, 1, 2), offered(1, 2, 0))
    assert plan == [asked(0, (7, (1,)), (8, (3, 4))), asked(1, (7, (2,)))]
    assert mesh.when(held(1, [2])) == []
    assert mesh.when(held(0, [1, 3, 4])) == [
        committed([1, 2, 3, 4], [101, 202, 103, 104], shards=2)
    ]


def test_a_shard_is_asked_for_members_that_it_did_not_offer_when_others_hold_those():
    singles = tuple((number, (number,)) for number in range(1, 6))
    mesh = permit(2)
    mesh.when(dispatched(*singles, need=5))
    asks = mesh.when(offered(0, 1, 1, 1, 0, 0), offered(1, 1, 1, 0, 0, 0))
    assert asks == [asked(0, *singles[:3]), asked(1, *singles[3:])]
    mesh = permit(2)
    mesh.when(dispatched(*singles, need=5))
    (end,) = mesh.when(offered(0, 1, 1, 1, 0, 0), offered(1, 1, 0, 0, 0, 0))
    assert isinstance(end, GangReleased), "it never offered that many"


def test_nothing_is_guessed_where_offers_suffice():
    mesh = permit(2)
    groups = ((7, (1, 2)), (8, (3, 4)))
    mesh.when(dispatched(*groups, need=3))
    asks = mesh.when(offered(0, 2, 0), offered(1, 1, 1))
    assert asks == [asked(1, (7, (1,)), (8, (3,))), asked(0, (7, (2,)))]


def test_equal_shards_take_turns_by_gang():
    chosen = []
    for gang in (1, 2, 3):
        mesh = permit(3)
        mesh.when(dispatched(THREE, gang=gang))
        (event,) = mesh.when(*(offered(shard, 3, gang=gang) for shard in range(3)))
        chosen.append(event.shard)
    assert sorted(chosen) == [0, 1, 2]


def test_too_little_room_is_released_with_summed_reasons():
    mesh = permit(2)
    mesh.when(dispatched(THREE))
    reasons = (("Too many pods", 1), (CPU, 9))
    (event,) = mesh.when(
        offered(0, 1, reasons=((CPU, 10),)), offered(1, 1, reasons=reasons, nodes=12)
    )
    assert event == GangReleased(1, 1, ((CPU, 19), ("Too many pods", 1)), 22, placed=2, needed=3)


def test_a_release_counts_each_member_once():
    mesh = permit(3)
    mesh.when(dispatched((7, (1, 2)), (8, (3, 4, 5, 6)), need=6))
    (event,) = mesh.when(offered(0, 2, 1), offered(1, 1, 0), offered(2, 1, 0))
    assert (event.placed, event.needed) == (3, 6)


def test_a_release_counts_members_that_shards_hold_or_could_have_held():
    singles = tuple((number, (number,)) for number in range(1, 6))
    mesh = holding(2, singles, ((1, 1, 1, 0, 0), (1, 1, 0, 0, 0)), need=5)
    assert mesh.when(held(0, [1, 2, 3])) == []
    mesh.reload()
    (event,) = mesh.when(refused(1, placed=1))
    assert (event.placed, event.needed, event.stale) == (4, 5, False)


def test_a_release_never_counts_all_needed_members():
    mesh = permit(2)
    for number in range(RACES_MAX + 1):
        mesh.when(dispatched((7, (1, 2, 3, 4)), need=3, attempt=number + 1))
        tried = {"attempt": number + 1}
        mesh.when(offered(0, 2, **tried), offered(1, 2, **tried))
        (event,) = mesh.when(held(0, [3, 4], **tried), refused(1, placed=1, **tried))
    assert (event.placed, event.needed, event.stale) == (2, 3, False)


def test_a_refused_plan_is_made_again_on_shards_not_asked():
    mesh = holding(2, counts=((3,), (3,)))
    assert mesh.when(refused(1)) == [asked(0, THREE)]
    assert mesh.when(held(0, [1, 2, 3])) == [committed([1, 2, 3], [101, 102, 103])]


def test_the_second_plan_keeps_what_the_first_one_got():
    mesh = holding(3, ((7, (1, 2, 3, 4)),), ((2,), (2,), (2,)), need=4)
    assert mesh.when(held(1, [1, 2]), refused(2)) == [asked(0, (7, (3, 4)))]
    assert mesh.when(held(0, [3, 4])) == [
        committed([1, 2, 3, 4], [201, 202, 103, 104], shards=2),
    ]


def test_two_refused_plans_release_the_attempt():
    mesh = holding(3, counts=((3,), (3,), (3,)))
    assert mesh.when(refused(1)) == [asked(2, THREE)]
    assert mesh.when(refused(2)) == [GangReleased(1, 1, ((CPU, 20),), 30, stale=True)]
    assert mesh.state.attempts == {}


def test_at_least_min_count_commits_without_the_rest():
    mesh = holding(2, ((7, (1, 2, 3, 4)),), ((2,), (2,)), need=2)
    assert mesh.when(held(1, [1, 2])) == [committed([1, 2], [201, 202])]


def test_a_deleted_member_is_dropped():
    mesh = holding(groups=((7, (1, 2, 3, 4)),), counts=((4,),))
    assert mesh.when(gone(2)) == []
    assert mesh.when(held(0, [1, 2, 3, 4])) == [committed([1, 3, 4], [101, 103, 104])]


def test_a_deleted_held_member_is_dropped():
    mesh = holding(2, ((7, (1, 2, 3, 4)),), ((2,), (2,)))
    assert mesh.when(held(1, [1, 2])) == []
    assert mesh.when(gone(1), held(0, [3, 4])) == [
        committed([2, 3, 4], [202, 103, 104], shards=2),
    ]


@pytest.mark.parametrize("order", [1, -1], ids=["held first", "gone first"])
def test_a_deleted_member_does_not_count_for_min_count(order):
    mesh = holding(groups=((7, (1, 2, 3, 4)),), counts=((3,),))
    assert mesh.when(*(held(0, [1, 2, 3]), gone(1))[::order]) == [
        GangReleased(1, 1, (), 10, stale=True)
    ]


def test_a_deleted_member_that_ran_counts_no_longer_for_min_count():
    mesh = permit()
    home = DomainOffer(("r",), (1,))
    sent = dispatched((7, (3,)), need=1)
    rack = {"topology": Topology(("rack",)), "placed": pack([1, 2])}
    mesh.when(msgspec.structs.replace(sent, **rack))
    offer = {"domains": (home,), "homes": (("r",),), "scoring": Scoring((), ((),))}
    mesh.when(msgspec.structs.replace(offered(0, 1), **offer))
    assert mesh.when(gone(1)) == [STALE]


def test_a_domain_that_could_not_be_held_is_left_out_until_none_is_left():
    mesh, found = permit(), []
    rooms = tuple(DomainOffer((name,), (3,)) for name in "rs")
    for attempt in (1, 2, 3):
        sent = dispatched(THREE, attempt=attempt)
        mesh.when(msgspec.structs.replace(sent, topology=Topology(("rack",))))
        offer = {"domains": rooms, "scoring": Scoring((), ((),))}
        (hold,) = mesh.when(msgspec.structs.replace(offered(0, 3, attempt=attempt), **offer))
        (released,) = mesh.when(refused(0, attempt=attempt))
        found.append((hold.domains, released.stale))
    assert found == [((("r",),), True), ((("s",),), False), ((("r",),), True)]


def test_preemption_looks_in_all_domains_but_not_outside_of_them():
    mesh = permit()
    anywhere = Topology(("rack",), lowest=0, highest=-1)
    mesh.when(msgspec.structs.replace(dispatched(THREE), topology=anywhere, preempts=True))
    offer = {"domains": (DomainOffer(("r",), (1,)),), "scoring": Scoring((), ((),))}
    full = msgspec.structs.replace(offered(0, 1), **offer, preemptible=True)
    (released,) = mesh.when(full)
    assert (released.preemptible, released.domains) == (True, ((),))


def test_too_few_members_left_release_the_attempt():
    mesh = holding()
    assert mesh.when(gone(3)) == [STALE]
    assert mesh.when(held(0, [1, 2, 3])) == []


def test_a_member_deleted_before_its_dispatch_is_not_tried():
    mesh = permit()
    assert mesh.when(gone(4)) == []
    assert mesh.when(dispatched((7, (1, 2, 3, 4)))) == [OfferAsked(1, 1, members(THREE))]


def test_a_member_with_a_node_of_its_own_is_none():
    mesh = permit()
    mesh.when(PodsAssigned(0, pack([3]), pack([7]), pack([55])))
    assert mesh.when(dispatched(THREE)) == [STALE]


def test_a_newer_group_aborts_the_attempt():
    mesh = holding()
    assert mesh.when(GangSet(1, "a/b", 4, TIMEOUT_MS, 2)) == [STALE]


def test_a_change_beats_the_last_answer_of_the_same_step():
    mesh = holding()
    assert mesh.when(held(0, [1, 2, 3]), GangSet(1, "a/b", 4, TIMEOUT_MS, 2)) == [STALE]


def test_an_attempt_of_an_older_group_is_released_at_once():
    mesh = permit()
    mesh.when(GangSet(1, "a/b", 3, TIMEOUT_MS, 2))
    assert mesh.when(dispatched(THREE)) == [STALE]
    assert mesh.when(dispatched(THREE, attempt=2, version=2)) == [OfferAsked(1, 2, members(THREE))]


def test_the_dispatched_version_does_no_harm():
    assert holding().when(GangSet(1, "a/b", 3, TIMEOUT_MS, 1)) == []


def test_a_deleted_group_aborts_the_attempt_and_its_permit_timeout():
    mesh = holding()
    assert mesh.when(GangGone(1)) == [STALE]
    assert mesh.core.due_ms(mesh.state) is None


def test_an_attempt_at_a_group_that_was_deleted_while_it_was_on_its_way_is_released():
    mesh = permit()
    assert mesh.when(GangSet(1, "a/b", 3, TIMEOUT_MS, 1), GangGone(1)) == []
    mesh.reload()
    assert mesh.when(dispatched(THREE)) == [STALE]
    assert mesh.core.due_ms(mesh.state) is None
    assert mesh.when(GangSet(1, "a/b", 3, TIMEOUT_MS, 2), dispatched(THREE, attempt=2)) == [
        GangReleased(1, 2, (), 0, stale=True)
    ]
    again = dispatched(THREE, attempt=3, version=2)
    assert mesh.when(again) == [OfferAsked(1, 3, members(THREE))]


def test_the_permit_timeout_releases_every_hold():
    mesh = holding(2, counts=((2,), (1,)))
    mesh.when(held(0, [1, 2]))
    assert mesh.when(at_ms=TIMEOUT_MS - 1) == []
    assert mesh.core.due_ms(mesh.state) == TIMEOUT_MS
    assert mesh.when(at_ms=TIMEOUT_MS) == [GangTimedOut(1, 1)]
    assert mesh.when(held(1, [3])) == []
    assert mesh.core.due_ms(mesh.state) is None


def test_the_permit_timeout_spans_attempts():
    mesh = permit()
    mesh.when(dispatched(THREE), at_ms=1_000)
    mesh.when(offered(0, 0))
    mesh.when(dispatched(THREE, attempt=2), at_ms=200_000)
    assert mesh.core.due_ms(mesh.state) == 301_000
    assert mesh.when(at_ms=301_000) == [GangTimedOut(1, 2)]


def test_the_permit_timeout_may_end_between_attempts():
    mesh = permit()
    mesh.when(dispatched(THREE))
    mesh.when(offered(0, 0))
    assert mesh.when(at_ms=TIMEOUT_MS) == [GangTimedOut(1, 1)]


def test_an_attempt_after_the_timeout_starts_a_new_one():
    mesh = permit()
    mesh.when(dispatched(THREE))
    mesh.when(at_ms=TIMEOUT_MS)
    mesh.when(dispatched(THREE, attempt=2), at_ms=TIMEOUT_MS + 5)
    assert mesh.core.due_ms(mesh.state) == 2 * TIMEOUT_MS + 5


def test_a_gang_complete_in_the_step_of_its_timeout_commits():
    (event,) = holding().when(held(0, [1, 2, 3]), at_ms=TIMEOUT_MS)
    assert isinstance(event, GangCommitted)


def test_a_commit_ends_the_permit_timeout():
    mesh = holding()
    mesh.when(held(0, [1, 2, 3]))
    assert mesh.when(at_ms=10 * TIMEOUT_MS) == []


def test_attempts_of_several_gangs_may_be_open():
    mesh = permit()
    mesh.when(dispatched(THREE), dispatched((7, (4, 5, 6)), gang=2, attempt=2))
    answers = (offered(0, 3, gang=2, attempt=2), offered(0, 3))
    assert mesh.when(*answers) == [asked(0, THREE), asked(0, (7, (4, 5, 6)), gang=2, attempt=2)]
    (event,) = mesh.when(held(0, [4, 5, 6], gang=2, attempt=2))
    assert (event.gang, unpack(event.ids).tolist()) == (2, [4, 5, 6])
    assert list(mesh.state.attempts) == [(1, 1)]


def test_a_new_attempt_makes_the_open_one_void():
    mesh = holding()
    decided = mesh.when(dispatched(THREE, attempt=2))
    assert decided == [STALE, OfferAsked(1, 2, members(THREE))]


@pytest.mark.parametrize(
    "late",
    [offered(0, 3), held(0, [1]), refused(0), gone(99), GangGone(9), held(0, [1], attempt=7)],
    ids=lambda event: type(event).__name__,
)
def test_late_and_unknown_answers_change_nothing(late):
    mesh = permit()
    mesh.when(dispatched(THREE))
    mesh.when(offered(0, 0))
    before = list(mesh.state.attempts), mesh.state.timeouts
    assert mesh.when(late) == []
    assert (list(mesh.state.attempts), mesh.state.timeouts) == before


def test_a_second_answer_of_a_shard_is_ignored():
    mesh = permit(2)
    mesh.when(dispatched(THREE))
    assert mesh.when(offered(0, 3), offered(0, 0)) == []
    assert mesh.when(offered(1, 0)) == [asked(0, THREE)]


def test_pods_that_were_not_asked_are_not_held():
    assert holding().when(held(0, [1, 2, 9])) == [GangReleased(1, 1, (), 10, stale=True)]


def test_a_step_is_bounded():
    mesh = permit()
    mesh.given(Configured({"permit": {"step_pods_max": 3}}))
    first = mesh.when(dispatched(THREE), dispatched((7, (4, 5, 6)), gang=2, attempt=2))
    assert [event.gang for event in first] == [1]
    assert mesh.core.due_ms(mesh.state) == mesh.state.now_ms
    assert [event.gang for event in mesh.when()] == [2]


def test_an_illegal_transition_reports_its_story():
    with pytest.raises(AssertionError, match="gang 4: gang_committed is not allowed in NEW"):
        following(Phase.NEW, "gang_committed", "gang 4")


def test_every_open_phase_can_end():
    for phase in OPEN:
        assert (phase, "gang_released") in TRANSITIONS
        assert (phase, "gang_timed_out") in TRANSITIONS
    reachable = set(TRANSITIONS.values()) | {Phase.NEW}
    assert reachable == set(Phase)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"plan": 1}, "plan"), ({"plans_max": 0}, "plans_max"), ({"plans_max": "x"}, "plans_max")],
)
def test_wrong_options_are_named(options, words):
    with pytest.raises(ValueError, match=f"permit.*{words}"):
        read_options("permit", {"permit": options}, Config)


def test_room_that_others_took_is_tried_for_again_at_once_but_not_for_ever():
    mesh, ends = permit(), []
    for attempt in range(1, RACES_MAX + 2):
        mesh.when(dispatched(THREE, attempt=attempt))
        mesh.when(offered(0, 3, attempt=attempt))
        mesh.reload()
        ends += mesh.when(refused(0, attempt=attempt))
    assert [end.stale for end in ends] == [True] * RACES_MAX + [False]


@pytest.mark.parametrize(("answer", "is_race"), [(held(1, [1]), False), (refused(1), True)])
def test_a_refusal_of_members_never_offered_is_not_retried_at_once(answer, is_race):
    groups = ((7, (1,)), (8, (2,)))
    mesh = permit(2)
    mesh.when(dispatched(*groups, need=2))
    plan = mesh.when(offered(0, 1, 0), offered(1, 1, 0))
    assert plan == [asked(1, (7, (1,))), asked(0, (8, (2,)))], "shard 0 has room for one"
    assert mesh.when(answer) == []
    mesh.reload()
    (end,) = mesh.when(refused(0))
    assert end.stale == is_race


def test_no_room_at_all_is_a_failure():
    mesh = permit()
    mesh.when(dispatched(THREE))
    assert mesh.when(offered(0, 2)) == [GangReleased(1, 1, (), 10, placed=2, needed=3)]


def test_a_release_says_whether_a_shard_thinks_that_preemption_may_help():
    for helps in (False, True):
        steps = permit(2)
        sent = msgspec.structs.replace(dispatched((1, (1, 2, 3))), preempts=True)
        (asked_for,) = steps.when(sent)
        assert asked_for.preempts
        steps.when(msgspec.structs.replace(offered(0, 0), preemptible=helps))
        steps.reload()
        (released,) = steps.when(offered(1, 1))
        assert isinstance(released, GangReleased)
        assert released.preemptible is helps
