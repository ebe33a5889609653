"""Preemption's decisions: ask the shards, choose, nominate, and only then evict; and undo."""

import pytest
from msgspec.structs import replace

from services.preemption.core.config import Config
from services.preemption.core.core import PreemptionCore
from services.preemption.core.transitions import TRANSITIONS, Phase, following
from shared.events.base import Configured
from shared.events.binding import Bound, Evicted, EvictionFailed
from shared.events.ingest import BudgetSet, PodsAssigned, PodsGone
from shared.events.placement import (
    Candidate,
    CandidatesFound,
    Nominated,
    NominationLost,
    NominationReady,
    NominationStale,
)
from shared.events.preemption import (
    BudgetLeft,
    DryRunAsked,
    EvictAsked,
    EvictRecalled,
    NominateAsked,
    NominationCleared,
    PreemptionClosed,
    PreemptionOpened,
)
from shared.events.queueing import PreemptAsked
from shared.model.columns import pack
from shared.model.options import read_options
from tests.support.steps import Steps

POD, SIG, NODE = 50, 7, 30
PLACE_MS, VICTIMS_MS = 60_000, 600_000
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
NOBODY = "no new claims to deallocate, preemption: 0"


def preemption(placements=1):
    return Steps(PreemptionCore(placements))


def wanted(pod=POD, sig=SIG):
    return PreemptAsked(pod, sig, 1)


def candidate(*victims, node=NODE):
    return Candidate(node, pack(list(victims)), 0, 0, 1 << 31, 1_000, 1)


def found(*candidates, shard=0, ask=1, pod=POD, reasons=(), nodes=0):
    return CandidatesFound(shard, ask, pod, candidates, reasons, nodes)


def nominated(*victims, ask=1, pod=POD):
    return Nominated(0, ask, pod, SIG, NODE, pack(list(victims)))


def nominate(*victims, ask=1, pod=POD, shard=0, node=NODE):
    return NominateAsked(ask, pod, SIG, shard, node, pack(list(victims)))


def dry_run(*taken, ask=1, pod=POD, budgets=()):
    return DryRunAsked(ask, pod, SIG, budgets, pack(list(taken)))


def gone(*pods):
    return PodsGone(pack(list(pods)))


def evicted(*pods, ask=1):
    return Evicted(ask, pack(list(pods)))


def failed(*pods, ask=1, reason="refused"):
    return EvictionFailed(ask, pack(list(pods)), reason)


CLEARED = NominationCleared(1, POD, 0)
CLOSED = PreemptionClosed(1, POD, "")
RECALLED = EvictRecalled(1)
STALE = NominationStale(0, 1, POD)
READY = NominationReady(0, 1, POD, NODE)
LOST = NominationLost(0, 1, POD, "the space is taken")


def nominating():
    mesh = preemption()
    mesh.when(wanted())
    mesh.when(found(candidate(1, 2)))
    return mesh


def evicting():
    mesh = nominating()
    mesh.when(nominated(1, 2))
    return mesh


def waiting():
    mesh = evicting()
    mesh.when(evicted(1, 2))
    return mesh


def ready():
    mesh = waiting()
    mesh.when(gone(1, 2), READY)
    return mesh


def is_over(mesh):
    return mesh.state.asks == {} and mesh.core.due_ms(mesh.state) is None


def test_allowances_are_kept_until_the_choice():
    mesh = preemption()
    asked = replace(wanted(), others=pack([51]))
    mesh.when(*(BudgetSet(budget, 1, f"default/b{budget}") for budget in (1, 2)), asked)
    mesh.reload()
    assert mesh.state.asks[1].allowances == mesh.state.asks[2].allowances == {1: 1, 2: 1}
    mesh.when(replace(found(), series=(candidate(1, 2),), cut=True))
    assert mesh.state.asks[1].allowances == {}
    mesh.reload()
    assert mesh.state.asks[1].allowances == {}


def test_an_ask_starts_a_dry_run_in_each_shard():
    assert preemption().when(wanted()) == [dry_run()]


def test_equal_pods_share_a_dry_run_and_each_gets_a_node():
    mesh = preemption()
    asked = replace(wanted(), others=pack([51, 52]))
    assert mesh.when(asked) == [replace(dry_run(), others=pack([51, 52]))]
    mesh.reload()
    series = (candidate(1), candidate(2, node=31))
    answer = replace(found(reasons=((NO_VICTIMS, 3),), nodes=3), series=series)
    assert mesh.when(answer) == [
        nominate(1),
        nominate(2, ask=2, pod=51, node=31),
        PreemptionClosed(3, 52, f"{NOBODY}/3 nodes are available: 3 {NO_VICTIMS}."),
    ]


def test_a_pod_that_a_cut_dry_run_left_out_asks_again_in_the_same_round():
    mesh = preemption()
    mesh.when(replace(wanted(), others=pack([51])))
    answer = replace(found(), series=(candidate(1),), cut=True)
    assert mesh.when(answer) == [nominate(1), dry_run(1, ask=2, pod=51)]
    assert mesh.state.asks[2].rounds == 1


def test_the_best_of_what_shards_have_next_is_taken():
    mesh = preemption(2)
    mesh.when(replace(wanted(), others=pack([51])))
    few = Candidate(41, pack([3]), 0, 0, 0, 1_000, 1)
    mesh.when(replace(found(), series=(candidate(1), candidate(2, node=31))))
    assert mesh.when(replace(found(shard=1), series=(few,))) == [
        nominate(3, shard=1, node=41),
        nominate(1, ask=2, pod=51),
    ]


def test_a_deleted_pod_gets_no_part_of_a_shared_answer():
    mesh = preemption()
    mesh.when(replace(wanted(), others=pack([51])))
    mesh.when(gone(POD))
    series = (candidate(1), candidate(2, node=31))
    assert mesh.when(replace(found(), series=series)) == [nominate(1, ask=2, pod=51)]
    assert mesh.state.runs == {}


def test_the_choice_waits_for_every_shard():
    mesh = preemption(2)
    mesh.when(wanted())
    assert mesh.when(found(candidate(1))) == []
    better = found(candidate(node=31), shard=1)
    assert mesh.when(better) == [nominate(node=31, shard=1)]


def test_no_candidate_gives_kube_schedulers_message():
    mesh = preemption(2)
    mesh.when(wanted())
    decided = mesh.when(
        found(reasons=((NO_VICTIMS, 2), (NOT_HELPFUL, 8)), nodes=10),
        found(reasons=((NOT_HELPFUL, 3),), nodes=3, shard=1),
    )
    text = f"{NOBODY}/13 nodes are available: 11 {NOT_HELPFUL}, 2 {NO_VICTIMS}."
    assert decided == [PreemptionClosed(1, POD, text)]
    assert is_over(mesh)


def test_evictions_follow_the_nomination():
    mesh = nominating()
    assert mesh.when(nominated(1, 2)) == [
        PreemptionOpened(1, POD, NODE, pack([1, 2])),
        EvictAsked(1, POD, NODE, pack([1, 2])),
    ]


def test_a_named_node_makes_the_preemptors_message():
    mesh = nominating()
    opened, _evict = mesh.when(replace(nominated(1, 2), name="n7"))
    text = "preemption: found a potential placement for pod on node n7, preempting 2 victims"
    assert opened == PreemptionOpened(1, POD, NODE, pack([1, 2]), text)


def test_the_shard_confirms_the_final_victims():
    mesh = nominating()
    assert mesh.when(nominated(2))[-1] == EvictAsked(1, POD, NODE, pack([2]))
    assert mesh.when(wanted(51, 8))[0].taken == pack([2])


def test_ended_victims_need_no_eviction():
    mesh = nominating()
    assert mesh.when(gone(1, 2), nominated()) == [PreemptionOpened(1, POD, NODE, b"")]
    assert mesh.when(READY) == []
    assert mesh.state.asks[1].phase is Phase.READY


def test_a_stale_nomination_needs_another_round():
    mesh = nominating()
    assert mesh.when(STALE) == [dry_run()]
    assert mesh.when(found(candidate(3))) == [nominate(3)]


def test_a_victims_own_end_closes_the_ask_and_the_pod_is_filtered_again():
    mesh = nominating()
    assert mesh.when(NominationStale(0, 1, POD, freed=True)) == [CLOSED]
    assert is_over(mesh)
    assert mesh.state.victims == {}


def test_three_stale_rounds_are_enough():
    mesh = nominating()
    for _round in (2, 3):
        mesh.when(STALE)
        mesh.when(found(candidate(1)))
    assert mesh.when(STALE) == [CLOSED]
    assert is_over(mesh)
    assert mesh.state.victims == {}


def test_the_nominated_preemptor_is_done_when_it_is_bound_there():
    mesh = ready()
    assert mesh.when(Bound(pack([POD]), pack([NODE]))) == []
    assert is_over(mesh)


def test_a_preemptor_bound_to_another_node_clears_its_nomination():
    mesh = ready()
    assert mesh.when(Bound(pack([POD]), pack([NODE + 1]))) == [CLEARED]
    assert is_over(mesh)


def test_a_preemptor_deleted_after_its_room_is_free_needs_nothing():
    mesh = ready()
    assert mesh.when(gone(POD)) == []
    assert is_over(mesh)


@pytest.mark.parametrize("fact", ["gone", "assigned", "bound"])
@pytest.mark.parametrize(
    ("phase", "said"),
    [
        ("dry run", [CLOSED]),
        ("nominating", [CLEARED, CLOSED]),
        ("evicting", [RECALLED, CLEARED, CLOSED]),
        ("waiting", [CLEARED, CLOSED]),
    ],
)
def test_a_preemptor_that_leaves_ends_its_preemption(phase, said, fact):
    mesh = {
        "dry run": preemption,
        "nominating": nominating,
        "evicting": evicting,
        "waiting": waiting,
    }[phase]()
    if phase == "dry run":
        mesh.when(wanted())
    one = pack([POD])
    leaves = {
        "gone": gone(POD),
        "assigned": PodsAssigned(0, one, one, one),
        "bound": Bound(one, pack([NODE])),
    }[fact]
    assert mesh.when(leaves) == said
    assert is_over(mesh)


def test_a_pod_that_has_left_already_gets_its_answer():
    mesh = preemption()
    mesh.when(gone(POD))
    assert mesh.when(wanted()) == [CLOSED]


def test_an_eviction_that_fails_ends_it():
    mesh = evicting()
    assert mesh.when(failed(1)) == [RECALLED, CLEARED, CLOSED]
    assert list(mesh.state.victims) == [2], "its eviction may be under way"
    assert mesh.when(failed(2, reason="recalled")) == []
    assert mesh.state.victims == {}


def test_a_lost_nomination_ends_it():
    assert evicting().when(LOST) == [RECALLED, CLOSED]
    assert waiting().when(LOST) == [CLOSED]
    assert ready().when(LOST) == []


def test_a_victim_that_stays_for_ten_minutes_ends_it():
    mesh = evicting()
    mesh.when(evicted(1, 2), at_ms=5_000)
    assert mesh.core.due_ms(mesh.state) == 5_000 + VICTIMS_MS
    assert mesh.when(at_ms=5_000 + VICTIMS_MS - 1) == []
    assert mesh.when(at_ms=5_000 + VICTIMS_MS) == [CLEARED, CLOSED]
    assert sorted(mesh.state.victims) == [1, 2], "they are on their way out all the same"
    mesh.when(gone(1, 2))
    assert mesh.state.victims == {}


def test_evictions_that_are_never_answered_end_it():
    assert evicting().when(at_ms=VICTIMS_MS) == [RECALLED, CLEARED, CLOSED]


def test_a_free_place_is_kept_for_a_minute():
    mesh = ready()
    assert mesh.when(at_ms=PLACE_MS) == [CLEARED]
    assert is_over(mesh)


def test_evictions_are_known_after_a_load():
    mesh = evicting()
    mesh.when(evicted(1))
    mesh.reload()
    mesh.when(evicted(2), at_ms=9_000)
    assert mesh.state.asks[1].phase is Phase.VICTIMS_LEAVING


def test_an_end_before_the_answer_counts_as_the_answer():
    mesh = evicting()
    mesh.when(evicted(1), gone(2), at_ms=9_000)
    assert mesh.state.asks[1].phase is Phase.VICTIMS_LEAVING
    assert mesh.core.due_ms(mesh.state) == 9_000 + VICTIMS_MS


def test_victims_of_others_cannot_be_chosen():
    mesh = preemption()
    mesh.when(wanted(), wanted(51, 8))
    mesh.when(found(candidate(1, 2)))
    assert mesh.when(found(candidate(2, 3), candidate(4), ask=2, pod=51)) == [
        NominateAsked(2, 51, 8, 0, NODE, pack([4]))
    ]


def test_victims_taken_in_the_meantime_need_another_round():
    mesh = preemption()
    mesh.when(wanted(), wanted(51, 8))
    answers = found(candidate(1, 2)), found(candidate(2), ask=2, pod=51)
    assert mesh.when(*answers) == [
        nominate(1, 2),
        DryRunAsked(2, 51, 8, (), pack([1, 2])),
    ]


def test_equal_pods_share_a_new_round_when_another_pod_took_their_victims():
    mesh = preemption()
    mesh.when(wanted(60, 8), replace(wanted(), others=pack([51, 52])))
    other = found(candidate(1), pod=60)
    series = (candidate(1), candidate(2, node=31))
    answer = replace(found(ask=2, reasons=((NO_VICTIMS, 3),), nodes=3), series=series)
    assert mesh.when(other, answer) == [
        NominateAsked(1, 60, 8, 0, NODE, pack([1])),
        replace(dry_run(1, ask=2), others=pack([51, 52])),
    ]


def test_equal_pods_share_a_new_round_when_a_budget_is_used_up():
    mesh = preemption()
    mesh.given(BudgetSet(1, 1, "default/b", covered=pack([1])))
    mesh.when(replace(wanted(), others=pack([51])))
    answer = replace(found(), series=(candidate(1), candidate(2, node=31)))
    assert mesh.when(BudgetSet(1, 0, "default/b"), answer) == [
        replace(dry_run(budgets=(BudgetLeft(1, 0),)), others=pack([51]))
    ]


def test_asking_again_takes_the_old_place_back():
    mesh = ready()
    assert mesh.when(wanted()) == [CLEARED, dry_run(ask=2)]
    assert list(mesh.state.asks) == [2]


@pytest.mark.parametrize(
    ("make", "said"),
    [(nominating, [CLEARED]), (evicting, [RECALLED, CLEARED]), (waiting, [CLEARED])],
    ids=["nominating", "evicting", "waiting"],
)
def test_a_repeated_ask_closes_the_old_one(make, said):
    (*before, last) = make().when(wanted())
    assert before == said
    assert (last.ask, last.pod) == (2, POD)


def test_asking_again_while_searching_starts_over():
    mesh = preemption()
    mesh.when(wanted())
    assert mesh.when(wanted()) == [dry_run(ask=2)]
    assert mesh.when(found(candidate(1))) == []


@pytest.mark.parametrize(
    "late",
    [found(candidate(5)), nominated(1), STALE, READY, LOST, evicted(9), failed(9), gone(8)],
    ids=lambda event: type(event).__name__,
)
def test_answers_to_closed_asks_are_ignored(late):
    mesh = nominating()
    mesh.when(gone(POD))
    before = mesh.dumped()
    assert mesh.when(late) == []
    assert mesh.dumped() == before or late == gone(8)


@pytest.mark.parametrize("late", [found(candidate(5)), READY, LOST, evicted(1)])
def test_answers_that_do_not_belong_to_the_phase_are_ignored(late):
    assert nominating().when(late) == []


def test_options_are_in_force_from_their_event_on():
    mesh = preemption()
    mesh.given(Configured({"preemption": {"rounds_max": 1}}))
    mesh.when(wanted())
    mesh.when(found(candidate(1)))
    assert mesh.when(STALE) == [CLOSED]


def test_an_illegal_transition_reports_its_story():
    with pytest.raises(AssertionError, match="ask 3: evict_asked is not allowed in NEW"):
        following(Phase.NEW, "evict_asked", "ask 3")


def test_every_phase_is_reached_and_left():
    assert set(TRANSITIONS.values()) == set(Phase)
    assert {phase for phase, _event in TRANSITIONS} == set(Phase) - {Phase.CLOSED}


@pytest.mark.parametrize(
    ("options", "words"), [({"rounds": 1}, "rounds"), ({"rounds_max": 0}, "rounds_max")]
)
def test_wrong_options_are_named(options, words):
    with pytest.raises(ValueError, match=f"preemption.*{words}"):
        read_options("preemption", {"preemption": options}, Config)
