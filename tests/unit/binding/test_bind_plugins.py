"""Bind plugins: what the core asks for, and the effect of answers and facts."""

import msgspec
import pytest

from services.binding.core.binds import UNASSIGNED
from shared.events.base import Configured
from shared.events.binding import (
    BindFailed,
    BindsAsked,
    FencesAsked,
    PermitsAsked,
    PostBindsAsked,
    PreBindFailed,
    PreBindsAsked,
    ReadsAsked,
    VolumesAsked,
)
from shared.events.observed import PostBindAnswers, PreBindAnswers, VolumeAnswers
from shared.events.permit import GangCommitted
from shared.events.placement import Shown, VolumesBound, VolumesFailed
from shared.model.api_outcome import Answer
from shared.model.columns import pack
from shared.model.objects import PodSpec
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

SPEC = PodSpec()
PLUGIN = {SPEC.scheduler: [{"name": "One", "sha256": "0"}]}
ABANDONED = [("BindFailed", [1], "abandoned", [1])]
REFUSED = [("BindFailed", [1], "refused", [1])]


def hooked(pairs=None, **more):
    return msgspec.structs.replace(reserved(pairs or {1: 1}), spec=SPEC, **more)


def chosen(pairs=None):
    return hooked(pairs, volumes=(Choice("a", "c", "u", "v", "w"),))


def done(effect: int, *pods: int, text: str = "", **more) -> PreBindAnswers:
    return PreBindAnswers(effect, pack(pods), (text,) * len(pods), **more)


def steps_of_one():
    """Return steps with one pod whose plugins run as effect 1."""
    steps = binding(pre_bind=PLUGIN, post_bind=PLUGIN)
    assert steps.when(named(1), hooked()) == [PreBindsAsked(1, pack([1]))]
    return steps


def test_plugins_run_before_the_bind_and_hear_of_it_afterwards():
    steps = steps_of_one()
    steps.reload()
    assert steps.when(done(7, 1)) == [], "another effect's answer"
    effect = asked(steps.when(done(1, 1))).effect
    assert steps.when(done(1, 1)) == [], "said twice"
    events = steps.when(answers(effect, {1: Answer.DONE}))
    assert plain(events[:1]) == [("Bound", [1], [1])]
    if len(events) == 1:
        events += steps.when()
    assert events[1:] == [PostBindsAsked(effect + 1, pack([1]))]
    steps.reload()
    assert list(steps.core.effects(steps.state)) == [effect + 1]
    steps.when(PostBindAnswers(effect, pack([1])))
    assert list(steps.core.effects(steps.state)) == [effect + 1], "another effect's answer"
    assert steps.when(PostBindAnswers(effect + 1, pack([1]))) == []
    assert not steps.core.effects(steps.state)
    assert not steps.state.post_binds
    assert not steps.state.plugin_specs


def test_a_rejected_pod_is_released_and_may_be_reserved_again():
    steps = steps_of_one()
    events = steps.when(done(1, 1, text="no room at the switch"))
    assert events[0] == PreBindFailed(1, 1, "no room at the switch")
    assert plain(events[1:]) == REFUSED
    assert not steps.state.plugin_specs
    assert not steps.state.pre_bind_rejections
    assert not steps.core.effects(steps.state)
    assert steps.when(hooked({1: 2})) == [PreBindsAsked(2, pack([1]))]
    assert steps.when(done(1, 1)) == [], "the old effect's answer"
    assert len(steps.when(done(2, 1))) == 1


def test_the_plugins_reason_is_written_to_the_pod():
    steps = binding(pre_bind=PLUGIN, status_patches=True)
    steps.when(named(1), hooked())
    events = steps.when(done(1, 1, text="no room at the switch"))
    assert FencesAsked(2, pack([1])) in events
    assert steps.state.messages == {1: "no room at the switch"}


@pytest.mark.parametrize(
    ("fact", "end"),
    [
        (gone(1), ("BindFailed", [1], "gone", [1])),
        (nodes_gone(1), *ABANDONED),
        (assigned({1: 2}), ("BindFailed", [1], "foreign", [1])),
    ],
)
def test_a_fact_overrides_a_plugins_answer(fact, end):
    for text in ("", "no"):
        steps = steps_of_one()
        assert plain(steps.when(fact)) == [end]
        assert steps.when(done(1, 1, text=text)) == []
        steps = steps_of_one()
        found = steps.when(fact, done(1, 1, text=text))
        assert plain(found) == [end]
        # The answer may also be there first, in the same turn.
        steps = steps_of_one()
        steps.given(done(1, 1, text=text))
        steps.reload()
        assert plain(steps.when(fact))[-1] == end
        assert not steps.state.pre_bind_rejections


def test_pods_wait_for_their_names_and_for_their_volumes_first():
    steps = binding(pre_bind=PLUGIN)
    assert steps.when(hooked()) == []
    steps.reload()
    assert steps.when(named(1)) == [PreBindsAsked(1, pack([1]))]
    steps = binding(pre_bind=PLUGIN)
    effect = steps.when(named(1), hooked(volumes=(Choice("a", "c", "u", "v", "w"),)))[0].effect
    steps.when(VolumeAnswers(effect, pack([1]), bytes([Answer.DONE])))
    assert steps.when(VolumesBound(pack([1]), pack([1]))) == [PreBindsAsked(2, pack([1]))]
    assert steps.when(done(2, 1)) == [BindsAsked(3, pack([1]), pack([1]), pack([11]))]


def test_many_pods_at_once_and_those_of_other_schedulers():
    steps = binding(pre_bind=PLUGIN)
    pods = range(1, 10)
    events = steps.when(named(*pods), hooked(dict.fromkeys(pods, 1)))
    assert events == [PreBindsAsked(1, pack(pods))]
    assert plain(steps.when(done(1, *pods)))[0][2] == list(pods)
    other = binding(pre_bind={"other": PLUGIN[SPEC.scheduler]})
    assert plain(other.when(named(*pods), hooked(dict.fromkeys(pods, 1))))[0][2] == list(pods)


def test_only_gang_members_with_bind_plugins_wait_for_them():
    steps = binding(pre_bind=PLUGIN)
    ids, nodes = pack([1, 2, 3, 4, 5]), pack([1] * 5)
    shown = (Shown(pack([2]), SPEC), Shown(pack([4]), PodSpec(scheduler="other")))
    asks = steps.when(named(1, 2, 3, 4, 5), GangCommitted(1, 1, ids, nodes, shown=shown))
    assert asks[0] == BindsAsked(1, pack([1, 3, 4, 5]), pack([1] * 4), asks[0].revisions)
    assert asks[1:] == [PreBindsAsked(2, pack([2]))]
    assert set(steps.state.plugin_specs) == {2, 4}


def test_a_bulk_bind_calls_plugins_for_each_pod():
    steps = binding(post_bind=PLUGIN)
    pods = range(1, 10)
    effect = asked(steps.when(named(*pods), hooked(dict.fromkeys(pods, 1)))).effect
    events = steps.when(answers(effect, dict.fromkeys(pods, Answer.DONE)))
    assert (events + steps.when())[-1] == PostBindsAsked(2, pack(pods))


def test_a_bind_that_an_extender_refused_fails_with_its_message():
    steps = binding()
    effect = asked(steps.when(named(1), hooked())).effect
    no = msgspec.structs.replace(answers(effect, {1: Answer.REFUSED}), texts=("not today",))
    assert steps.when(no) == [FencesAsked(2, pack([1]))]
    assert steps.state.bind_errors == {1: "not today"}
    steps.reload()
    events = steps.when(answers(2, {1: Answer.DONE}, 12, UNASSIGNED))
    assert plain(events) == [("BindFailed", [1], "failed", [1], ("not today",))]
    assert not steps.state.bind_errors
    steps.reload()


def test_a_failed_bind_may_have_landed():
    steps = binding()
    effect = asked(steps.when(named(1), hooked())).effect
    no = msgspec.structs.replace(answers(effect, {1: Answer.REFUSED}), texts=("not today",))
    steps.when(no)
    assert plain(steps.when(answers(2, {1: Answer.DONE}, 12, 1))) == [("Bound", [1], [1])]
    assert not steps.state.bind_errors


def test_a_bind_that_an_extender_reports_is_read_back_and_repeated_if_missing():
    steps = binding()
    effect = asked(steps.when(named(1), hooked())).effect
    assert steps.when(answers(effect, {1: Answer.ASSIGNED})) == [ReadsAsked(2, pack([1]))]
    (again,) = steps.when(answers(2, {1: Answer.DONE}, 12, UNASSIGNED))
    assert plain([again])[0][:3] == ("BindsAsked", 3, [1])
    assert plain(steps.when(assigned({1: 1}))) == [("Bound", [1], [1])]


def test_without_plugins_no_spec_is_kept():
    steps = binding()
    steps.when(named(1), hooked())
    steps.when(answers(1, {1: Answer.DONE}))
    assert not steps.state.post_binds
    steps.when(Configured({"binding": {"post_bind": PLUGIN}}))
    assert not steps.state.plugin_specs


def permitting(event=None, **more):
    """Return steps with one pod about which permit plugins are asked as effect 1."""
    steps = binding(permit=PLUGIN, **more)
    assert steps.when(named(1), event or hooked()) == [PermitsAsked(1, pack([1]))]
    return steps


def test_permit_comes_before_everything_else():
    steps = permitting(chosen(), pre_bind=PLUGIN)
    steps.reload()
    assert steps.when(done(7, 1)) == [], "another effect's answer"
    (writes,) = steps.when(done(1, 1))
    assert writes == VolumesAsked(2, pack([1]))
    assert steps.when(done(1, 1)) == [], "said twice"
    steps.when(VolumeAnswers(2, pack([1]), bytes([Answer.DONE])))
    assert steps.when(VolumesBound(pack([1]), pack([1]))) == [PreBindsAsked(3, pack([1]))]
    assert steps.when(done(3, 1)) == [BindsAsked(4, pack([1]), pack([1]), pack([11]))]


def test_without_other_plugins_the_bind_follows_permit():
    steps = permitting()
    assert steps.when(done(1, 1)) == [BindsAsked(2, pack([1]), pack([1]), pack([11]))]
    assert not steps.state.due


def test_a_pod_denied_its_node_is_released_and_retried():
    steps = permitting(chosen())
    events = steps.when(done(1, 1, text="alone"))
    assert events[0] == PreBindFailed(1, 1, "alone")
    assert plain(events[1:]) == REFUSED
    assert not steps.state.volumes
    steps.reload()
    assert steps.when(hooked({1: 2})) == [PermitsAsked(2, pack([1]))]


@pytest.mark.parametrize("point", ["permit", "pre_bind"])
def test_an_error_of_a_plugin_is_written_as_one_and_a_refusal_is_not(point):
    steps = binding(**{point: PLUGIN}, status_patches=True)
    steps.when(named(1, 2), hooked({1: 1, 2: 1}))
    steps.when(done(1, 1, text="broken", errors=(True,)), done(1, 2, text="no"))
    assert (steps.state.messages, steps.state.errors) == ({1: "broken", 2: "no"}, {1: "broken"})


def test_the_rejecting_permit_plugin_is_recorded():
    steps = binding(permit=PLUGIN)
    (asking,) = steps.when(named(1, 2), hooked({1: 1, 2: 1}))
    assert asking == PermitsAsked(1, pack([1, 2]))
    steps.given(done(1, 1, text="alone", plugins=("One",)))
    steps.given(done(1, 2, text="broken", errors=(True,)))
    steps.reload()
    events = steps.when()
    assert events[:2] == [
        PreBindFailed(1, 1, "alone", plugin="One"),
        PreBindFailed(2, 1, "broken", error=True),
    ]
    assert events[2:] == [BindFailed(pack([1, 2]), "refused", pack([1, 1]), plugins=("One", ""))]
    assert not steps.state.permit_rejectors
    assert not steps.state.pre_bind_rejectors
    steps.reload()


def test_a_pod_deleted_before_the_answer_leaves_nothing_behind():
    steps = permitting()
    steps.given(done(1, 1, text="alone", plugins=("One",)), gone(1))
    assert plain(steps.when()) == [("BindFailed", [1], "gone", [1])]
    assert not steps.state.pre_bind_rejectors
    steps.reload()


def test_volumes_that_are_bound_while_the_pod_waits_are_not_written():
    steps = permitting(chosen())
    assert steps.when(VolumesBound(pack([1]), pack([1]))) == []
    steps.reload()
    assert steps.when(done(1, 1)) == [BindsAsked(2, pack([1]), pack([1]), pack([11]))]


def test_volumes_that_fail_while_the_pod_waits_end_the_wait():
    steps = permitting(chosen())
    assert plain(steps.when(VolumesFailed(1, 1, "gone"))) == ABANDONED
    assert steps.when(done(1, 1)) == []
    assert not steps.core.effects(steps.state)


@pytest.mark.parametrize(
    ("fact", "end"),
    [
        (gone(1), ("BindFailed", [1], "gone", [1])),
        (nodes_gone(1), *ABANDONED),
        (assigned({1: 2}), ("BindFailed", [1], "foreign", [1])),
        (assigned({1: 1}), ("Bound", [1], [1])),
    ],
)
def test_a_fact_ends_the_wait(fact, end):
    steps = permitting(chosen())
    assert plain(steps.when(fact)) == [end]
    assert steps.when(done(1, 1)) == []
    steps.reload()
