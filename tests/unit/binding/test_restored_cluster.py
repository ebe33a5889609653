"""A restored cluster: open binds are given up, and none is made until the cluster is known."""

from shared.events.ingest import WorldRestored
from shared.model.api_outcome import Answer
from tests.unit.binding.inputs import (
    answers,
    asked,
    binding,
    gone,
    named,
    open_bind,
    plain,
    reserved,
)


def test_a_bind_under_way_is_fenced():
    steps = binding()
    open_bind(steps)
    assert plain(steps.when(WorldRestored(False))) == [("FencesAsked", 2, [1])]
    steps.reload()
    decided = steps.when(answers(2, {1: Answer.DONE}, revision=4, node=-1))
    assert plain(decided) == [("BindFailed", [1], "abandoned", [1])]


def test_an_unanswered_bind_is_fenced_and_ours_if_it_landed():
    steps = binding()
    effect = open_bind(steps)
    steps.when(answers(effect, {1: Answer.UNKNOWN}))
    assert plain(steps.when(WorldRestored(False))) == [("FencesAsked", 2, [1])]
    decided = steps.when(answers(2, {1: Answer.DONE}, revision=4, node=1))
    assert plain(decided) == [("Bound", [1], [1])]


def test_binds_decided_in_the_meantime_are_given_up_unsent():
    steps = binding()
    steps.when(named(1, 2, 3, 4, 5, 6), WorldRestored(False))
    steps.reload()
    few = steps.when(reserved({1: 1}))
    many = steps.when(reserved(dict.fromkeys((2, 3, 4, 5, 6), 2)))
    assert plain(few) == [("BindFailed", [1], "abandoned", [1])]
    assert plain(many) == [("BindFailed", [2, 3, 4, 5, 6], "abandoned", [2] * 5)]


def test_the_restored_cluster_s_own_pods_are_bound_at_their_lower_revisions():
    steps = binding()
    steps.when(named(1, revision=90), WorldRestored(False))
    steps.when(gone(1), named(7, revision=3), WorldRestored(True))
    found = asked(steps.when(reserved({7: 1})))
    assert int.from_bytes(found.revisions, "little") == 10


def test_a_deleted_pod_ends_its_bind():
    steps = binding()
    open_bind(steps)
    steps.when(WorldRestored(False))
    assert plain(steps.when(gone(1))) == [("BindFailed", [1], "gone", [1])]
