"""Conditions of PodGroups: the newest one is written, one effect at a time."""

from services.binding.core.conditions.group_conditions import EFFECT_GROUPS
from shared.events.binding import GroupsAsked
from shared.events.observed import GroupAnswers
from shared.events.queueing import GangShown
from tests.unit.binding.inputs import binding


def test_the_newest_condition_is_written_after_the_one_before():
    steps = binding(status_patches=True)
    assert steps.when(GangShown(1, "a/g", "why")) == [GroupsAsked(1, ("a/g",), ("why",))]
    assert steps.when(GangShown(1, "a/g", "why else"), GangShown(1, "a/g", "")) == []
    assert steps.when(GroupAnswers(1)) == [GroupsAsked(2, ("a/g",), ("",))]
    assert steps.when(GroupAnswers(1)) == []  # late
    assert list(steps.state.effects) == [2]
    assert steps.when(GroupAnswers(2)) == []
    assert not steps.state.effects


def test_the_newest_condition_says_whether_the_try_ended_in_an_error():
    steps = binding(status_patches=True)
    first = steps.when(GangShown(1, "a/g", "why", is_error=True), GangShown(2, "a/h", "why"))
    assert first == [GroupsAsked(1, ("a/g", "a/h"), ("why", "why"), errors=("a/g",))]
    steps.when(GangShown(1, "a/g", "why", is_error=True), GangShown(1, "a/g", "full"))
    assert steps.when(GroupAnswers(1)) == [GroupsAsked(2, ("a/g",), ("full",))]


def test_many_groups_are_written_in_parts():
    steps = binding(status_patches=True)
    shown = [GangShown(number, f"a/g{number:03}", "why") for number in range(EFFECT_GROUPS + 1)]
    (first,) = steps.when(*shown)
    (second,) = steps.when(GroupAnswers(first.effect))
    assert [len(first.keys), len(second.keys)] == [EFFECT_GROUPS, 1]


def test_nothing_is_written_where_no_status_is():
    assert binding().when(GangShown(1, "a/g", "why")) == []
