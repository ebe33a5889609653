"""Resource claims come before the bind, and go back when it fails: until the answer is definite."""

import msgspec
import pytest

from shared.events.binding import ClaimReturnsAsked, ClaimsReturned, VolumesAsked, VolumesTaken
from shared.events.observed import ClaimReturnAnswers, VolumeAnswers
from shared.model.api_outcome import Answer
from shared.model.claims import Allocation, ClaimChoice, DeviceResult
from shared.model.columns import pack
from tests.unit.binding.inputs import (
    answers,
    asked,
    assigned,
    binding,
    gone,
    named,
    plain,
    reserved,
)

HAS = Allocation((DeviceResult("r", "d", "p", "x"),))
CHOICES = (ClaimChoice("a", "c", "uid-c", 5, HAS), ClaimChoice("a", "held", "uid-held"))


def settled(revision: int) -> ClaimsReturned:
    """Return what the shard gets to know: only of the claim that it chose devices for."""
    return ClaimsReturned(0, 1, 1, "uid-c", pack([revision]))


UNSENT = settled(0)
ABANDONED = ("BindFailed", [1], "abandoned", [1])


def chosen(node: int = 1):
    return msgspec.structs.replace(reserved({1: node}), claims=CHOICES)


def written(effect: int, answer: Answer = Answer.DONE) -> VolumeAnswers:
    revisions = pack([7, 8]) if answer is Answer.DONE else b""
    return VolumeAnswers(effect, pack([1]), bytes([answer]), (revisions,))


def returned(effect: int, answer: Answer = Answer.DONE, *revisions: int) -> ClaimReturnAnswers:
    return ClaimReturnAnswers(effect, bytes([answer]), (pack(revisions),))


def asked_once():
    """Return steps with one pod whose claims are being written."""
    steps = binding()
    assert steps.when(named(1), chosen()) == [VolumesAsked(1, pack([1]))]
    return steps


def test_the_pod_is_bound_once_its_claims_are_written():
    """The shard gets to know where their facts show it: it may miss that they ever had devices."""
    steps = asked_once()
    steps.reload()
    effect = asked(steps.when(written(1))).effect
    bound, known = steps.reload().when(answers(effect, {1: Answer.DONE}))
    assert plain([bound]) == [("Bound", [1], [1])]
    assert known == settled(7)
    assert not steps.state.claims
    assert steps.core.due_ms(steps.state) is None, "nothing to give back"


def test_claims_of_a_pod_that_is_gone_were_never_sent():
    steps = binding()
    assert steps.when(gone(1), chosen())[-1] == UNSENT


@pytest.mark.parametrize("doubt", [Answer.UNKNOWN, Answer.BUSY, Answer.REFUSED])
def test_claims_are_given_back_until_that_is_certain(doubt):
    steps = asked_once()
    failed, ask = steps.when(written(1, Answer.REFUSED))
    assert plain([failed]) == [ABANDONED]
    assert ask == ClaimReturnsAsked(2, pack([1]))
    steps.reload()
    assert steps.when(returned(2, doubt)) == []
    due_ms = steps.core.due_ms(steps.state)
    assert due_ms is not None
    (again,) = steps.when(at_ms=due_ms)
    assert again == ClaimReturnsAsked(3, pack([1]))
    assert steps.when(returned(3, Answer.DONE, 9, 0)) == [settled(9)]
    assert steps.when(returned(3, Answer.DONE, 9, 0)) == [], "a late answer"


def test_claims_are_given_back_as_they_are_now():
    """A request that comes late must not undo what was written since."""
    steps = asked_once()
    steps.when(written(1))
    steps.when(gone(1))
    (left,) = steps.state.claim_returns.values()
    assert [one.revision for one in left.choices] == [7, 8], "as they were written"
    (again,) = steps.when(returned(3, Answer.STALE, 9, 8))
    assert again == ClaimReturnsAsked(4, pack([1]))
    (left,) = steps.reload().state.claim_returns.values()
    assert [one.revision for one in left.choices] == [9, 8]


def test_a_pod_that_others_bound_keeps_its_claims_that_had_devices():
    """It runs and uses them: only what was chosen for it here is given back."""
    steps = asked_once()
    assert steps.when(assigned({1: 2}))[-1] == ClaimReturnsAsked(2, pack([1]))
    assert steps.state.claim_returns[1].choices == CHOICES[:1]
    steps = binding()
    steps.when(named(1), msgspec.structs.replace(chosen(), claims=CHOICES[1:]))
    assert plain(steps.when(assigned({1: 2}))) == [("BindFailed", [1], "foreign", [1])]


def test_a_pod_that_others_bound_to_its_node_keeps_what_may_have_been_written():
    """No pod is named, so that only later writes are refused."""
    steps = asked_once()
    bound, ask = steps.when(assigned({1: 1}))
    assert plain([bound]) == [("Bound", [1], [1])]
    assert ask == ClaimReturnsAsked(2, pack([1]))
    (kept,) = steps.reload().state.claim_returns.values()
    assert (kept.uid, kept.choices) == ("", CHOICES[:1])
    assert steps.when(returned(2, Answer.DONE, 9)) == [settled(9)]


def test_a_pod_is_not_reserved_again_before_its_claims_are_back():
    steps = asked_once()
    steps.when(written(1, Answer.REFUSED))
    first, *rest = steps.when(chosen(node=1))
    assert isinstance(first, VolumesTaken)
    assert [one[2] for one in plain(rest) if one[0] == "BindFailed"] == ["refused"]
    assert UNSENT in rest, "the second choice was never sent"
