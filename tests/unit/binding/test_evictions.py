"""Evictions: all but the last, then the last; repeats, refusals, recalls."""

import pytest

from shared.events.preemption import EvictAsked, EvictRecalled
from shared.model.api_outcome import Answer
from shared.model.columns import pack
from tests.unit.binding.inputs import binding, evict_answers, gone, named, plain

DONE, UNKNOWN, _ASSIGNED, _STALE, GONE, REFUSED, BUSY = Answer


def ask(*victims: int, number: int = 5) -> EvictAsked:
    return EvictAsked(number, 99, 1, pack(victims))


def test_the_last_victim_waits_for_the_others():
    steps = binding()
    steps.when(named(1, 2, 3))
    assert plain(steps.when(ask(3, 1, 2))) == [("EvictionsAsked", 1, 5, [3, 1])]
    assert plain(steps.when(evict_answers(1, {3: DONE}))) == [("Evicted", 5, [3])]
    assert plain(steps.when(evict_answers(1, {1: GONE}))) == [
        ("Evicted", 5, [1]),
        ("EvictionsAsked", 2, 5, [2]),
    ]
    assert plain(steps.when(evict_answers(2, {2: DONE}))) == [("Evicted", 5, [2])]
    assert not steps.core.effects(steps.state)
    assert not steps.state.evictions


@pytest.mark.parametrize("answer", [UNKNOWN, BUSY])
def test_an_open_answer_is_asked_again(answer):
    steps = binding()
    steps.when(named(1), ask(1))
    assert steps.when(evict_answers(1, {1: answer})) == []
    assert steps.core.due_ms(steps.state) == 100
    assert plain(steps.when(at_ms=100)) == [("EvictionsAsked", 2, 5, [1])]
    assert plain(steps.when(evict_answers(2, {1: DONE}))) == [("Evicted", 5, [1])]


def test_a_refusal_recalls_what_was_not_sent():
    steps = binding()
    steps.when(named(1, 2), ask(1, 2))
    assert plain(steps.when(evict_answers(1, {1: REFUSED}))) == [
        ("EvictionFailed", 5, [2], "recalled"),
        ("EvictionFailed", 5, [1], "refused"),
    ]
    assert steps.core.due_ms(steps.state) is None


def test_a_recall_stops_only_what_was_not_sent():
    steps = binding()
    steps.when(named(1, 2), ask(1, 2))
    assert plain(steps.when(EvictRecalled(5))) == [("EvictionFailed", 5, [2], "recalled")]
    assert plain(steps.when(evict_answers(1, {1: DONE}))) == [("Evicted", 5, [1])]
    assert steps.when(EvictRecalled(5)) == []
    assert plain(steps.when(named(3), ask(3, number=6), EvictRecalled(6))) == [
        ("EvictionFailed", 6, [3], "recalled")
    ]


def test_a_deleted_victim_needs_no_answer():
    steps = binding()
    steps.when(named(1, 2, 3), gone(1))
    assert plain(steps.when(ask(1, 2, 3))) == [
        ("Evicted", 5, [1]),
        ("EvictionsAsked", 1, 5, [2]),
    ]
    assert plain(steps.when(gone(2))) == [("Evicted", 5, [2]), ("EvictionsAsked", 2, 5, [3])]
    assert steps.when(evict_answers(1, {2: DONE})) == []
    assert plain(steps.when(gone(3))) == [("Evicted", 5, [3])]
    assert not steps.core.effects(steps.state)


def test_a_victim_without_a_known_name_waits():
    steps = binding()
    assert steps.when(ask(1)) == []
    assert plain(steps.when(named(1))) == [("EvictionsAsked", 1, 5, [1])]
