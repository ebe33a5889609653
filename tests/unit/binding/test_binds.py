"""Every bind has one definite end: answers, facts and fences, one case each."""

from typing import Any

import pytest

from services.binding.core.conditions import status_patches
from shared.events.base import Configured
from shared.events.permit import GangCommitted
from shared.events.queueing import Confirmed, Parked
from shared.model.api_outcome import Answer
from shared.model.columns import pack
from tests.unit.binding.inputs import (
    answers,
    asked,
    assigned,
    binding,
    gone,
    named,
    nodes,
    nodes_gone,
    open_bind,
    plain,
    reserved,
)

DONE, UNKNOWN, ASSIGNED, STALE, GONE, REFUSED, BUSY = Answer


def test_a_reservation_is_posted_and_its_answer_recorded():
    steps = binding()
    decided = steps.when(named(1, 2), reserved({2: 3, 1: 1}))
    assert plain(decided) == [("BindsAsked", 1, [2, 1], [3, 1], [12, 11])]
    decided = steps.when(answers(1, {2: DONE, 1: DONE}))
    assert plain(decided) == [("Bound", [2, 1], [3, 1])]
    assert not steps.core.effects(steps.state)
    assert steps.when(assigned({1: 1, 2: 3})) == []
    assert steps.core.due_ms(steps.state) is None


def test_a_column_takes_the_same_way_as_singles():
    steps = binding()
    ids = range(1, 21)
    decided = steps.when(named(*ids), reserved({i: 1 + i % 3 for i in ids}))
    assert len(plain(decided)[0][2]) == 20
    half = steps.when(answers(1, dict.fromkeys(range(1, 11), DONE)))
    assert plain(half) == [("Bound", list(range(1, 11)), [1 + i % 3 for i in range(1, 11)])]
    assert list(steps.core.effects(steps.state)) == [1]
    rest = steps.when(answers(1, {i: UNKNOWN if i == 15 else DONE for i in range(11, 21)}))
    assert plain(rest)[0][1] == [i for i in range(11, 21) if i != 15]
    assert not steps.core.effects(steps.state)


def test_gang_commits_are_bound_in_the_same_way():
    steps = binding()
    commit = GangCommitted(1, 1, pack([1, 2]), pack([2, 2]))
    assert plain(steps.when(named(1, 2), commit)) == [("BindsAsked", 1, [1, 2], [2, 2], [11, 12])]


def test_a_bind_waits_for_the_pods_name_and_the_nodes():
    steps = binding()
    assert steps.when(reserved({1: 7})) == []
    assert steps.when(named(1)) == []
    assert plain(steps.when(nodes(7))) == [("BindsAsked", 1, [1], [7], [11])]
    assert steps.when(reserved({3: 1})) == []
    assert plain(steps.when(named(2, 3))) == [("BindsAsked", 2, [3], [1], [13])]


def test_unknown_repeats_the_same_post_later_and_later():
    steps = binding()
    effect = open_bind(steps)
    now_ms, delays = 0, []
    for _ in range(8):
        assert steps.when(answers(effect, {1: UNKNOWN}), at_ms=now_ms) == []
        due_ms = steps.core.due_ms(steps.state)
        delays.append(due_ms - now_ms)
        assert steps.when(at_ms=due_ms - 1) == []
        now_ms = due_ms
        repeat = asked(steps.when(at_ms=now_ms))
        assert plain([repeat]) == [("BindsAsked", effect + 1, [1], [1], [11])]
        effect = repeat.effect
    assert delays == [100, 200, 400, 800, 1600, 3200, 5000, 5000]
    assert plain(steps.when(answers(effect, {1: DONE}))) == [("Bound", [1], [1])]


def test_an_assigned_pod_is_read():
    for node, outcome in ((1, ("Bound", [1], [1])), (2, ("BindFailed", [1], "foreign", [1]))):
        steps = binding()
        effect = open_bind(steps)
        assert plain(steps.when(answers(effect, {1: ASSIGNED}))) == [("ReadsAsked", 2, [1])]
        assert plain(steps.when(answers(2, {1: DONE}, 15, node))) == [outcome]
        assert steps.core.due_ms(steps.state) is None


def test_a_stale_revision_is_read_and_the_same_target_asked_again():
    steps = binding()
    effect = open_bind(steps)
    assert plain(steps.when(answers(effect, {1: STALE}))) == [("ReadsAsked", 2, [1])]
    assert plain(steps.when(answers(2, {1: DONE}, 40, -1))) == [("BindsAsked", 3, [1], [1], [40])]
    assert plain(steps.when(answers(3, {1: DONE}))) == [("Bound", [1], [1])]


def test_reading_unassigned_is_never_definite():
    steps = binding()
    effect = open_bind(steps)
    steps.when(answers(effect, {1: UNKNOWN}), at_ms=0)
    repeat = asked(steps.when(at_ms=100))
    steps.when(answers(repeat.effect, {1: ASSIGNED}))
    assert steps.when(answers(repeat.effect + 1, {1: DONE}, 11, -1)) == []
    assert asked(steps.when(at_ms=1_000)).nodes == pack([1])


@pytest.mark.parametrize("answer", [UNKNOWN, BUSY])
def test_reads_and_fences_are_repeated_until_they_are_answered(answer):
    steps = binding()
    effect = open_bind(steps)
    steps.when(answers(effect, {1: STALE}))
    assert steps.when(answers(2, {1: answer})) == []
    assert plain(steps.when(at_ms=100)) == [("ReadsAsked", 3, [1])]
    steps.when(answers(3, {1: DONE}, 20, -1), at_ms=1_000)
    repeat = asked(steps.when(at_ms=2_000))
    assert plain(steps.when(answers(repeat.effect, {1: REFUSED})))[0][0] == "FencesAsked"
    fence = repeat.effect + 1
    assert steps.when(answers(fence, {1: answer})) == []
    assert plain(steps.when(at_ms=4_000)) == [("FencesAsked", fence + 1, [1])]


def test_a_refused_bind_is_given_up_behind_a_fence():
    steps = binding()
    effect = open_bind(steps)
    assert plain(steps.when(answers(effect, {1: REFUSED}))) == [("FencesAsked", 2, [1])]
    assert plain(steps.when(answers(2, {1: DONE}, 50, -1))) == [
        ("BindFailed", [1], "abandoned", [1])
    ]
    again = steps.when(reserved({1: 2}))
    assert plain(again) == [("BindsAsked", 3, [1], [2], [50])], "the next bind has the new revision"


@pytest.mark.parametrize(
    ("answer", "node", "outcome"),
    [
        (DONE, 1, ("Bound", [1], [1])),
        (DONE, 2, ("BindFailed", [1], "foreign", [1])),
        (DONE, -2, ("BindFailed", [1], "foreign", [1])),
        (GONE, -1, ("BindFailed", [1], "gone", [1])),
    ],
)
def test_each_answer_to_a_fence_has_one_outcome(answer, node, outcome):
    steps = binding()
    effect = open_bind(steps)
    steps.when(answers(effect, {1: REFUSED}))
    assert plain(steps.when(answers(2, {1: answer}, 50, node))) == [outcome]


def test_a_busy_api_counts_as_never_sent():
    steps = binding()
    effect = open_bind(steps)
    assert steps.when(answers(effect, {1: BUSY})) == []
    assert plain(steps.when(nodes_gone(1))) == [("BindFailed", [1], "abandoned", [1])]
    steps = binding()
    effect = open_bind(steps)
    steps.when(answers(effect, {1: BUSY}))
    assert asked(steps.when(at_ms=100)).effect == 2


def test_busy_after_unknown_still_needs_a_fence():
    steps = binding()
    effect = open_bind(steps)
    steps.when(answers(effect, {1: UNKNOWN}))
    repeat = asked(steps.when(at_ms=100))
    steps.when(answers(repeat.effect, {1: BUSY}))
    assert plain(steps.when(nodes_gone(1)))[0][0] == "FencesAsked"


def test_busy_under_a_second_owner_still_needs_a_fence():
    steps = binding()
    effect = open_bind(steps)
    steps.when(Configured({}))
    steps.when(answers(effect, {1: BUSY}))
    assert plain(steps.when(nodes_gone(1)))[0][0] == "FencesAsked"


def test_a_node_deleted_during_the_post_needs_a_fence():
    steps = binding()
    effect = open_bind(steps)
    assert plain(steps.when(nodes_gone(1))) == [("FencesAsked", 2, [1])]
    assert steps.when(answers(effect, {1: DONE})) == [], "too late: the fence will tell"
    assert plain(steps.when(answers(2, {1: DONE}, 50, -1))) == [
        ("BindFailed", [1], "abandoned", [1])
    ]


def test_a_bind_to_a_deleted_node_fails_at_once():
    steps = binding()
    steps.when(nodes_gone(1))
    decided = steps.when(named(1), reserved({1: 1}))
    assert plain(decided) == [("BindFailed", [1], "abandoned", [1])]


def test_a_not_found_answer_ends_the_bind():
    steps = binding()
    effect = open_bind(steps)
    assert plain(steps.when(answers(effect, {1: GONE}))) == [("BindFailed", [1], "gone", [1])]


@pytest.mark.parametrize(
    ("node", "outcome"), [(1, ("Bound", [1], [1])), (2, ("BindFailed", [1], "foreign", [1]))]
)
def test_a_fact_beats_an_outcome(node, outcome):
    steps = binding()
    effect = open_bind(steps)
    assert plain(steps.when(assigned({1: node}))) == [outcome]
    assert not steps.core.effects(steps.state)
    assert steps.when(answers(effect, {1: DONE})) == []


def test_echoes_of_a_column_may_be_faster_than_the_answers():
    steps = binding()
    ids = range(1, 9)
    steps.when(named(*ids), reserved(dict.fromkeys(ids, 1)))
    facts = {i: 2 if i == 3 else 1 for i in ids}
    assert plain(steps.when(assigned(facts))) == [
        ("Bound", [1, 2, 4, 5, 6, 7, 8], [1] * 7),
        ("BindFailed", [3], "foreign", [1]),
    ]
    assert steps.when(answers(1, dict.fromkeys(ids, DONE))) == []


def test_a_reservation_after_the_fact_is_bound_at_once():
    steps = binding()
    steps.when(named(1, 2, 3), assigned({1: 1, 2: 2}), gone(3))
    assert plain(steps.when(reserved({1: 1, 2: 1, 3: 1}))) == [
        ("Bound", [1], [1]),
        ("BindFailed", [3], "gone", [1]),
        ("BindFailed", [2], "foreign", [1]),
    ]


@pytest.mark.parametrize("answer", [None, UNKNOWN, STALE, REFUSED])
def test_a_deleted_pod_fails_only_while_it_is_open(answer):
    steps = binding()
    effect = open_bind(steps)
    if answer is not None:
        steps.when(answers(effect, {1: answer}))
    assert plain(steps.when(gone(1))) == [("BindFailed", [1], "gone", [1])]
    assert not steps.core.effects(steps.state)
    assert steps.when(gone(1)) == []
    assert steps.core.due_ms(steps.state) is None


def test_a_pod_deleted_before_its_bind_was_posted():
    steps = binding()
    decided = steps.when(named(1, 2), reserved({1: 1, 2: 1}), gone(1))
    assert plain(decided) == [
        ("BindFailed", [1], "gone", [1]),
        ("BindsAsked", 1, [2], [1], [12]),
    ]


def test_newer_revisions_are_stored_unless_a_post_may_be_under_way():
    steps = binding()
    steps.when(named(1), named(1, revision=20))
    assert plain(steps.when(reserved({1: 1}))) == [("BindsAsked", 1, [1], [1], [21])]
    steps.when(answers(1, {1: UNKNOWN}), named(1, revision=30))
    assert plain(steps.when(at_ms=100)) == [("BindsAsked", 2, [1], [1], [21])]


@pytest.mark.parametrize("count", [2, 9])
def test_answers_to_an_older_effect_are_ignored(count):
    steps = binding()
    ids = list(range(1, count + 2))
    steps.when(named(*ids), reserved(dict.fromkeys(ids, 1)))
    steps.when(answers(1, dict.fromkeys(ids[1:], UNKNOWN)))
    assert plain(steps.when(at_ms=100)) == [
        ("BindsAsked", 2, ids[1:], [1] * count, [10 + i for i in ids[1:]])
    ]
    for late in (REFUSED, DONE, GONE):
        assert steps.when(answers(1, dict.fromkeys(ids[1:], late))) == []
    assert list(steps.core.effects(steps.state)) == [1, 2]
    assert plain(steps.when(answers(2, dict.fromkeys(ids[1:], DONE)))) == [
        ("Bound", ids[1:], [1] * count)
    ]


def test_an_illegal_event_reports_the_binds_story():
    steps = binding()
    open_bind(steps)
    with pytest.raises(AssertionError, match="pod 1 to node 1: reserved is not allowed in ASKED"):
        steps.given(reserved({1: 2}))


def test_open_effects_are_listed_in_order_for_the_next_owner():
    steps = binding()
    steps.when(named(1, 2, 3), reserved({1: 1}))
    steps.when(reserved({2: 1}))
    steps.when(reserved({3: 1}))
    steps.when(answers(2, {2: DONE}))
    steps.reload()
    assert plain(list(steps.core.effects(steps.state).values())) == [
        ("BindsAsked", 1, [1], [1], [11]),
        ("BindsAsked", 3, [3], [1], [13]),
    ]


def test_names_are_kept_while_the_pods_live_as_they_may_become_victims():
    steps = binding()
    ids = list(range(1, 7))
    steps.when(named(*ids), reserved(dict.fromkeys(ids, 1)))
    table = steps.state.table
    (chunk,) = table.names.values()
    steps.when(answers(1, dict.fromkeys(ids, DONE)))
    assert (chunk.name_list()[2], chunk.uid_list()[2]) == ("pod-3", "uid-3")
    steps.reload()
    table = steps.state.table
    (chunk,) = table.names.values()
    assert (chunk.name_list()[2], chunk.uid_list()[2]) == ("pod-3", "uid-3")
    steps.when(gone(*ids))
    assert not table.names


def test_rows_of_deleted_pods_are_reused():
    steps = binding()
    ids = list(range(1, 10_001))
    steps.when(named(*ids))
    steps.when(gone(*ids[1:9_000]))
    assert steps.state.table.used < 2_000
    decided = steps.when(named(10_001), reserved({1: 1, 9_500: 2, 10_001: 3, 500: 1}))
    assert plain(decided) == [
        ("BindFailed", [500], "gone", [1]),
        ("BindsAsked", 1, [1, 9_500, 10_001], [1, 2, 3], [11, 9_510, 10_011]),
    ]


def test_messages_of_parked_pods_go_through_a_lossy_lane():
    steps = binding(status_patches=True)
    steps.given(named(1, 2), Parked(1, pack([1]), "old"), Parked(1, pack([1, 2]), "why"))
    assert plain(steps.when()) == [("FencesAsked", 1, [1, 2])]
    assert steps.state.messages == {1: "why", 2: "why"}
    assert steps.when(Parked(1, pack([2]), "newer")) == []
    assert plain(steps.when(reserved({1: 1}))) == [("BindsAsked", 2, [1], [1], [11])]
    decided = steps.when(answers(1, {1: DONE, 2: DONE}, 60, -1))
    assert plain(decided) == [("FencesAsked", 3, [2])]
    assert plain(steps.when(reserved({2: 1})))[0] == ("BindsAsked", 4, [2], [1], [60])
    steps.when(Configured({}))
    assert list(steps.core.effects(steps.state)) == [2, 4]


def test_without_the_lane_parked_pods_cost_nothing():
    steps = binding()
    assert steps.when(named(1), Parked(1, pack([1]), "why")) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunk": 1}, "binding.chunk: unknown option"),
        ({"effect_pods": 0}, "binding.effect_pods: Expected `int` >= 1"),
        ({"repeat_max_ms": 1}, "repeat_max_ms must be >= repeat_initial_ms"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        binding(**options)


def lane() -> Any:
    """Return steps with pods 1 and 2, whose message was written at 1,000 ms."""
    steps = binding(status_patches=True).at(1_000)
    steps.when(named(1, 2), Parked(1, pack([1, 2]), "why"))
    assert steps.when(answers(1, {1: DONE, 2: DONE}, 60, -1)) == []
    return steps


def test_a_written_message_is_not_rewritten_at_once():
    steps = lane()
    assert steps.when(Parked(1, pack([1, 2]), "why"), at_ms=15_999) == []
    assert plain(steps.when(Confirmed(1, pack([1, 2]), "other"))) == [("FencesAsked", 2, [1, 2])]


def test_later_confirmations_are_written_at_a_bounded_rate(monkeypatch):
    monkeypatch.setattr(status_patches, "REFRESHES_PER_S", 1)
    steps = lane()
    again = Confirmed(1, pack([1, 2]), "why")
    assert plain(steps.when(again, at_ms=41_000)) == [("FencesAsked", 2, [1])]
    steps.reload()
    assert steps.when(answers(2, {1: DONE}, 70, -1)) == []
    assert steps.core.due_ms(steps.state) == 42_000
    assert plain(steps.when(at_ms=42_000)) == [("FencesAsked", 3, [2])]
    assert steps.when(answers(3, {2: DONE}, 71, -1), again) == []
    assert steps.core.due_ms(steps.state) is None


def test_new_messages_go_before_confirmed_ones():
    steps = lane()
    steps.given(named(3), Confirmed(1, pack([1, 2]), "why"))
    decided = steps.when(
        Confirmed(1, pack([1, 2]), "why"), Parked(1, pack([3]), "new"), at_ms=41_000
    )
    assert plain(decided) == [("FencesAsked", 2, [3])]
    assert plain(steps.when(answers(2, {3: DONE}, 72, -1))) == [("FencesAsked", 3, [1, 2])]


@pytest.mark.parametrize("code", [UNKNOWN, BUSY, REFUSED])
def test_a_lost_message_is_written_when_it_is_confirmed(code):
    steps = binding(status_patches=True).at(1_000)
    steps.when(named(1), Parked(1, pack([1]), "why"))
    assert steps.when(answers(1, {1: code})) == []
    assert plain(steps.when(Confirmed(1, pack([1]), "why"))) == [("FencesAsked", 2, [1])]


def test_after_a_fence_the_message_is_written_again():
    steps = lane()
    steps.when(reserved({1: 1}))
    assert plain(steps.when(answers(2, {1: REFUSED}))) == [("FencesAsked", 3, [1])]
    steps.when(answers(3, {1: DONE}, 80, -1))
    assert plain(steps.when(Parked(1, pack([1]), "why"))) == [("FencesAsked", 4, [1])]


def test_a_new_owner_knows_nothing_of_what_was_written():
    steps = lane()
    steps.when(Configured({"binding": {"status_patches": True}}))
    assert plain(steps.when(Confirmed(1, pack([1]), "why"))) == [("FencesAsked", 2, [1])]
