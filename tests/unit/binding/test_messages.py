"""Messages of many waiting pods: which ones are remembered and written while the pods wait."""

from typing import Any

import pytest

from services.binding.core.conditions.status_patches import EFFECT_PODS, REFRESHES_PER_S
from shared.events.base import Configured, Event
from shared.events.binding import FencesAsked
from shared.events.queueing import Confirmed, Parked, TryFailed
from shared.model.api_outcome import Answer
from shared.model.columns import pack, unpack
from tests.unit.binding.inputs import answers, assigned, binding, gone, named, plain, reserved

MANY = list(range(1, 12_001))
FRESH_MS, LATER_MS = 10_000, 41_000


def asked(events: list[Event]) -> list[int]:
    """Return the pods whose messages are written: one effect at most."""
    found = [event for event in events if isinstance(event, FencesAsked)]
    assert len(found) <= 1
    return unpack(found[0].ids).tolist() if found else []


def write_all(steps: Any, events: list[Event]) -> list[list[int]]:
    """Return the written pods, effect by effect, at one time, until no effect is left."""
    effects = []
    while pods := asked(events):
        effects.append(pods)
        (effect,) = steps.state.patching
        events = steps.when(answers(effect, dict.fromkeys(pods, Answer.DONE), 20_000, -1))
    return effects


def waiting_pods(pods: list[int]) -> Any:
    """Return steps in which all pods wait and their message was written at 1,000 ms."""
    steps = binding(status_patches=True).at(1_000)
    effects = write_all(steps, steps.when(named(*pods), Parked(1, pack(pods), "why")))
    assert [pod for effect in effects for pod in effect] == pods
    assert len(effects) == -(-len(pods) // EFFECT_PODS)
    return steps


def test_messages_of_many_pods_are_rewritten_at_a_bounded_rate():
    steps = waiting_pods(MANY)
    assert list(steps.state.written) == MANY
    assert steps.when(Confirmed(1, pack(MANY), "why"), at_ms=FRESH_MS) == []
    written: list[int] = []
    events = steps.when(Confirmed(1, pack(MANY), "why"), at_ms=LATER_MS)
    for second in range(1, 5):
        assert not steps.state.patches, "what is only confirmed never goes without a limit"
        (part,) = write_all(steps, events)
        assert len(part) == REFRESHES_PER_S
        written += part
        events = steps.when(at_ms=LATER_MS + second * 1_000)
    assert written == MANY[: 4 * REFRESHES_PER_S], "who was written longest ago goes first"


def test_confirmed_messages_of_unknown_pods_are_written_at_a_bounded_rate():
    steps = waiting_pods(MANY[:300])
    steps.when(Configured({"binding": {"status_patches": True}}))
    events = steps.when(Confirmed(1, pack(MANY[:300]), "why"), at_ms=LATER_MS)
    assert [len(part) for part in write_all(steps, events)] == [REFRESHES_PER_S]


def test_a_new_message_stays_new_when_it_is_confirmed_before_the_write():
    steps = binding(status_patches=True).at(1_000)
    pods = MANY[:600]
    events = steps.when(named(*pods), Parked(1, pack(pods), "why"))
    assert steps.when(Confirmed(1, pack(pods[300:]), "why")) == []
    effects = write_all(steps, events)
    assert [pod for effect in effects for pod in effect] == pods


def test_a_different_message_is_written_at_once_even_if_only_confirmed():
    steps = waiting_pods(MANY[:300])
    events = steps.when(Confirmed(1, pack(MANY[:300]), "other"))
    assert [len(part) for part in write_all(steps, events)] == [EFFECT_PODS, 300 - EFFECT_PODS]


@pytest.mark.parametrize("pods", [[1], [1, 2], MANY[:300]])
@pytest.mark.parametrize("ends", ["bound", "assigned", "gone"])
def test_pods_that_no_longer_wait_are_forgotten(pods: list[int], ends: str):
    steps = waiting_pods(MANY[:400])
    steps.given(Confirmed(1, pack(MANY[:400]), "why"))
    steps.when(Confirmed(1, pack(MANY[:400]), "why"), Parked(1, pack(pods), "new"), at_ms=LATER_MS)
    if ends == "bound":
        (bind,) = plain(steps.when(reserved(dict.fromkeys(pods, 1))))
        steps.when(answers(bind[1], dict.fromkeys(pods, Answer.DONE)))
    else:
        steps.when(gone(*pods) if ends == "gone" else assigned(dict.fromkeys(pods, 1)))
    state = steps.state
    left = MANY[len(pods) : 400]
    assert list(state.written) == left
    assert not {*state.patches, *state.refreshes}.intersection(pods)
    before = steps.dumped()
    steps.reload()
    assert steps.dumped() == before


def test_older_journals_ask_for_pods_that_wait_no_more():
    steps = waiting_pods([1, 2, 3])
    steps.given(assigned({1: 1}), gone(2), FencesAsked(9, pack([1, 2, 3])))
    assert steps.state.messages == {1: "", 2: "", 3: "why"}
    steps.when(answers(9, {1: Answer.GONE, 2: Answer.GONE, 3: Answer.DONE}, 20_000, -1))
    assert list(steps.state.written) == [3]
    assert not steps.core.effects(steps.state)


def test_a_pod_bound_during_the_write_is_not_remembered():
    steps = binding(status_patches=True).at(1_000)
    steps.when(named(1), Parked(1, pack([1]), "why"))
    steps.when(assigned({1: 1}))
    steps.when(answers(1, {1: Answer.DONE}, 60, 1))
    assert not steps.state.written


def test_an_error_message_stays_one_while_the_pod_waits():
    steps = binding(status_patches=True).at(1_000)
    steps.when(named(1, 2), TryFailed(1, pack([1, 2]), "code 500"))
    steps.reload()
    assert steps.state.errors == {1: "code 500", 2: "code 500"}
    steps.when(Parked(1, pack([1]), "why"))
    steps.when(assigned({1: 1}), gone(2))
    assert steps.state.errors == {}
