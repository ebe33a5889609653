"""Volumes come before the bind: they are written until that is certain, then the shard decides."""

import msgspec
import pytest

from shared.events.base import Configured
from shared.events.binding import BindsAsked, FencesAsked, VolumesAsked
from shared.events.observed import VolumeAnswers
from shared.events.permit import GangCommitted
from shared.events.placement import VolumesBound, VolumesChosen, VolumesFailed
from shared.model.api_outcome import Answer
from shared.model.columns import pack
from shared.model.volumes import Choice
from tests.unit.binding.inputs import (
    answers,
    asked,
    assigned,
    binding,
    gone,
    named,
    nodes_gone,
    plain,
    reserved,
)

CHOICES = (Choice("a", "c", "uid-c", "v", "uid-v"), Choice("a", "d", "uid-d"))
BOUND = VolumesBound(pack([1]), pack([1]))
FAILED = VolumesFailed(1, 1, "timed out")
ABANDONED = [("BindFailed", [1], "abandoned", [1])]


def chosen(pod: int = 1, node: int = 1):
    return msgspec.structs.replace(reserved({pod: node}), volumes=CHOICES)


def written(effect: int, answer: Answer = Answer.DONE) -> VolumeAnswers:
    return VolumeAnswers(effect, pack([1]), bytes([answer]))


def steps_of_one():
    """Return steps with one pod whose volumes are asked for."""
    steps = binding()
    assert steps.when(named(1), chosen()) == [VolumesAsked(1, pack([1]))]
    return steps


def test_a_gang_member_waits_for_the_answer_of_its_shard():
    steps = binding()
    commit = GangCommitted(1, 1, pack([1, 2]), pack([1, 1]), with_volumes=pack([2]))
    (ask,) = steps.when(named(1, 2), commit)
    assert (type(ask), ask.ids) == (BindsAsked, pack([1]))
    word = VolumesChosen(0, pack([2]), pack([1]), (Choice("a", "c", "u", "v", "w"),))
    assert steps.when(word) == [VolumesAsked(2, pack([2]))]
    steps = binding()
    assert steps.when(named(1, 2), word) == [VolumesAsked(1, pack([2]))]
    (ask,) = steps.when(commit)
    assert (type(ask), ask.ids) == (BindsAsked, pack([1])), "whichever comes first"


def test_the_pod_is_bound_once_the_shard_confirms_the_volumes():
    steps = steps_of_one()
    steps.reload()
    assert steps.when(written(1)) == []
    assert not steps.core.effects(steps.state)
    steps.reload()
    effect = asked(steps.when(BOUND)).effect
    assert not steps.state.volumes
    assert plain(steps.when(answers(effect, {1: Answer.DONE}))) == [("Bound", [1], [1])]


def test_the_shard_may_see_it_before_the_answer_is_here():
    steps = steps_of_one()
    effect = asked(steps.when(BOUND)).effect
    assert list(steps.core.effects(steps.state)) == [effect]
    assert steps.when(written(1)) == []


@pytest.mark.parametrize("answer", [Answer.UNKNOWN, Answer.BUSY])
def test_an_uncertain_write_is_repeated(answer):
    steps = steps_of_one()
    assert steps.when(written(1, answer)) == []
    steps.state.now_ms = steps.core.due_ms(steps.state)
    assert steps.when() == [VolumesAsked(2, pack([1]))]
    assert steps.when(written(1)) == [], "an old effect's answer"
    steps.when(written(2))
    assert len(steps.when(BOUND)) == 1


def test_a_write_that_was_lost_unseen_is_repeated():
    steps = steps_of_one()
    assert steps.when(written(1)) == []
    due_ms = steps.core.due_ms(steps.state)
    assert due_ms == steps.state.now_ms + 30_000
    steps.state.now_ms = due_ms - 1
    assert steps.when() == []
    steps.reload()
    steps.core.check(steps.state)
    steps.state.now_ms = due_ms
    assert steps.when() == [VolumesAsked(2, pack([1]))]
    steps.when(written(2))
    assert len(steps.when(BOUND)) == 1
    assert not steps.state.due


@pytest.mark.parametrize("answer", [Answer.REFUSED, Answer.GONE, Answer.STALE])
def test_a_definite_refusal_releases_the_pod(answer):
    steps = steps_of_one()
    assert plain(steps.when(written(1, answer))) == ABANDONED
    assert steps.when(BOUND) == steps.when(FAILED) == []


@pytest.mark.parametrize("is_written", [False, True])
def test_the_shards_release_ends_the_bind(is_written):
    steps = steps_of_one()
    if is_written:
        steps.when(written(1))
    assert steps.when(msgspec.structs.replace(FAILED, node=2)) == [], "for another reservation"
    assert plain(steps.when(FAILED)) == ABANDONED
    assert steps.when(written(1)) == []
    assert not steps.core.effects(steps.state)


def test_the_pod_shows_why_its_volumes_were_not_bound():
    steps = binding(status_patches=True)
    steps.when(named(1), chosen())
    events = steps.when(FAILED)
    assert plain(events[:1]) == ABANDONED
    events = events[1:] or steps.when()
    assert [type(one) for one in events] == [FencesAsked]
    assert steps.state.messages == {1: "timed out"}
    other = steps_of_one()
    other.when(FAILED)
    assert not other.state.messages, "only where messages are written at all"


def test_the_shards_answer_may_come_before_the_name():
    steps = binding()
    assert steps.when(chosen(), BOUND) == []
    assert plain(steps.when(named(1))) == [("BindsAsked", 1, [1], [1], [11])]
    steps = binding()
    assert plain(steps.when(chosen(), FAILED)) == ABANDONED


@pytest.mark.parametrize(
    ("fact", "end"),
    [
        (gone(1), ("BindFailed", [1], "gone", [1])),
        (nodes_gone(1), *ABANDONED),
        (assigned({1: 2}), ("BindFailed", [1], "foreign", [1])),
        (assigned({1: 1}), ("Bound", [1], [1])),
    ],
)
def test_facts_end_the_wait_for_volumes(fact, end):
    steps = steps_of_one()
    assert plain(steps.when(fact)) == [end]
    assert not steps.state.volumes
    assert not steps.core.effects(steps.state)


def test_a_new_owner_writes_again():
    steps = steps_of_one()
    steps.when(Configured({"binding": {}}))
    assert list(steps.core.effects(steps.state)) == [1]
    steps.when(written(1))
    assert len(steps.when(BOUND)) == 1
