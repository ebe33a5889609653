"""Options, messages, transitions, the FIFO, the table of pods, and the explanations."""

import numpy as np
import pytest

from services.queueing.core.config import Config, backoff_end_ms, backoff_ms
from services.queueing.core.pods.table import Pods
from services.queueing.core.state import Refusal, Sig
from services.queueing.core.transitions import TRANSITIONS, Pod
from services.queueing.core.waiting.messages import (
    NEVER,
    NO_NODES,
    NO_VICTIMS,
    NOT_HELPFUL,
    fit_error,
    parked_message,
)
from services.queueing.core.why import why
from shared.events.ingest import GangSet, PodsGone
from shared.events.preemption import PreemptionOpened
from shared.model.columns import pack
from shared.model.options import read_options
from shared.model.preemption.post_filter import NO_CLAIMS
from tests.unit.queueing.inputs import improved, pending, queue, refused, reserved, tried


def test_defaults_and_options():
    assert read_options("queueing", {}, Config) == Config()
    options = {"queueing": {"max_batch": 1, "strict_order": True}}
    assert read_options("queueing", options, Config).max_batch == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch": 1}, "queueing.batch: unknown option"),
        ({"max_batch": -1}, "queueing.max_batch: Expected `int` >= 0"),
        ({"credit_units": 0}, "queueing.credit_units: Expected `int` >= 1"),
        ({"max_batch": "many"}, "queueing.max_batch: Expected `int`, got `str`"),
    ],
)
def test_a_bad_option_is_named(options, words):
    with pytest.raises(ValueError) as error:
        read_options("queueing", {"queueing": options}, Config)
    assert words in str(error.value)


def test_backoff_of_kube_scheduler():
    waits = [backoff_ms(Config(), count) for count in (0, 1, 2, 3, 4, 5, 99)]
    assert waits == [0, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]
    assert backoff_ms(Config(backoff_max_ms=0), 5) == 0


@pytest.mark.parametrize(
    ("failed_ms", "failures", "end_ms"),
    [(1_000, 1, 3_000), (1_001, 1, 3_000), (1_999, 1, 3_000), (2_000, 1, 4_000), (1_500, 3, 6_000)],
)
def test_a_backoff_is_over_when_the_second_in_which_it_ends_is(failed_ms, failures, end_ms):
    assert backoff_end_ms(Config(), failed_ms, failures) == end_ms


def test_without_a_backoff_no_pod_waits_for_the_end_of_a_second():
    assert backoff_end_ms(Config(backoff_max_ms=0), 1_500, 5) == 1_500
    assert backoff_end_ms(Config(), 1_500, 0) == 1_500


def test_reasons_are_sorted_as_strings():
    reasons = {"Insufficient cpu": 10, "node(s) were unschedulable": 2, "Insufficient memory": 9}
    assert fit_error(reasons, 21) == (
        "0/21 nodes are available: 10 Insufficient cpu, 2 node(s) were unschedulable, "
        "9 Insufficient memory."
    )
    assert fit_error({}, 0) == NO_NODES


def test_a_prefilter_message_is_printed_without_a_count():
    reasons = {"pod affinity terms conflict": 0}
    assert fit_error(reasons, 3) == "0/3 nodes are available: pod affinity terms conflict."


NOBODY = f"{NO_CLAIMS}, preemption: 0/5 nodes are available:"


@pytest.mark.parametrize(
    ("never", "resolvable", "note", "ending"),
    [
        (True, 3, "", f". {NO_CLAIMS}, {NEVER}"),
        (False, 3, "claims, preemption: nobody.", ". claims, preemption: nobody."),
        (False, 3, "", f". {NOBODY} 2 {NOT_HELPFUL}, 3 {NO_VICTIMS}."),
        (False, 0, "", f". {NOBODY} 5 Preemption is not helpful for scheduling."),
    ],
)
def test_the_post_filter_part(never, resolvable, note, ending):
    sig = Sig(1, 0, never)
    sig.note = note
    sig.refusals[0] = Refusal((("Insufficient cpu", 5),), 5, 0, resolvable, False)
    assert parked_message(sig, Config()).endswith(ending)


@pytest.mark.parametrize(
    ("options", "ending"),
    [
        ({"claims_last": ("default-scheduler",)}, f". {NEVER}, {NO_CLAIMS}"),
        ({"claims_except": ("default-scheduler",)}, f". {NEVER}"),
        ({"claims_except": ("other",)}, f". {NO_CLAIMS}, {NEVER}"),
        ({"preemption": False}, f"cpu. {NO_CLAIMS}"),
        ({"preemption": False, "claims_except": ("default-scheduler",)}, "cpu."),
    ],
)
def test_dynamic_resources_add_their_text_where_the_profile_has_them(options, ending):
    sig = Sig(1, 0, True)
    sig.scheduler = "default-scheduler"
    sig.refusals[0] = Refusal((("Insufficient cpu", 5),), 5, 0, 5, False)
    assert parked_message(sig, Config(**options)).endswith(ending)


@pytest.mark.parametrize(
    ("options", "added"),
    [({}, " not found"), ({"claims_except": ("default-scheduler",)}, f" {NEVER}")],
)
def test_an_early_end_of_pre_filter_is_an_error_of_dynamic_resources(options, added):
    """kube-scheduler 1.35 finds no state that they would have left."""
    sig = Sig(1, 0, True)
    sig.scheduler = "default-scheduler"
    sig.refusals[0] = Refusal((("no claim", 0),), 5, 0, 0, False, rejected=True)
    text = f"0/5 nodes are available: no claim.{added}"
    assert parked_message(sig, Config(**options)) == text


def test_every_state_can_end_and_ends_stay():
    for state in Pod:
        assert TRANSITIONS[state, "gone"] is Pod.GONE
    assert (Pod.GONE, "bound") not in TRANSITIONS
    assert {event for state, event in TRANSITIONS if state is Pod.BOUND} == {"bound", "gone"}


def test_an_illegal_transition_reports_the_pods_story_and_changes_nothing():
    pods = Pods()
    pods.cover(3)
    some = np.array([1, 2, 3], np.int64)
    with pytest.raises(AssertionError, match=r"pod 1: reserved in UNKNOWN: .*'attempt': 0"):
        pods.move("reserved", some, pods.rows(some))
    assert pods.counts[Pod.UNKNOWN] == 3


def test_the_table_forgets_ended_pods():
    steps = queue()
    for first in range(1, 40_001, 1_000):
        many = pending(1, *range(first, first + 1_000))
        steps.given(many, PodsGone(many.ids))
    assert len(steps.state.pods.state) <= 4_096
    assert steps.core.dump(steps.state)["pods"][0] == 40_001


def test_scattered_columns_find_their_pods():
    pods = Pods(base=10)
    pods.cover(20)
    for column in ([12, 11, 13], [11, 13, 12], [15, 11], [11, 15, 13]):
        some = np.array(column, np.int64)
        assert (np.arange(10, 21)[pods.rows(some)] == some).all()


@pytest.mark.parametrize(
    ("ids", "is_next"),
    [
        ([4, 5, 6, 7], True),
        ([6, 7], True),  # those between were never met
        ([4, 6, 5, 7], False),
        ([4, 5, 7], False),
        ([3, 4], False),
    ],
)
def test_pods_come_next_when_none_was_met_and_none_is_left_out(ids, is_next):
    pods = Pods()
    pods.cover(3)
    assert pods.cover_next(np.array(ids)) is is_next
    assert pods.top == (ids[-1] + 1 if is_next else 4)
    assert pods.counts[Pod.UNKNOWN] == pods.top - pods.base


def test_why_explains_every_state():
    steps = queue(shards=2, priorities=(0, 0), unbound_max=1)

    def say(pod: int) -> str:
        return why(steps.state, pod)

    assert say(1) == "not known to queueing"
    first = tried(steps.when(pending(1, 1)))[0]
    assert say(1) == "in flight: attempt 1 at shard 0"
    steps.when(reserved(first))
    assert say(1) == "reserved: waits for its bind"
    steps.when(pending(1, 2), pending(1, 3, gated=True), pending(2, 4, gang=1))
    assert say(2) == "ready: 1 reserved pods wait for binds, limit 1"
    assert say(3) == "gated: waiting for scheduling gates"
    assert "to appear in scheduling queue" in say(4)
    steps.when(GangSet(1, "default/g1", 2, 1_000, 1))
    assert say(4).startswith("gang default/g1: waiting for minCount pods")
    steps.when(PodsGone(pack([1])))
    assert say(1) in {"bound or gone", "bound"}


def test_why_names_shards_credits_and_backoff():
    steps = queue(shards=2, priorities=(0, 0), credit_units=1)

    def say(pod: int) -> str:
        return why(steps.state, pod)

    first = tried(steps.when(pending(1, 1), pending(2, 2), pending(2, 3)))
    assert say(3) == "ready: no credits: work in flight by shard 61, 61 of 1"
    third = tried(steps.when(reserved(first[1])))[0]
    steps.when(reserved(third))
    second = tried(steps.when(refused(first[0], nodes=4)))
    assert [event.shard for event in second] == [1]
    steps.when(refused(second[0], nodes=5))
    assert "[shard 0 (4 nodes): 4 Insufficient cpu; shard 1 (5 nodes): 5 Insuff" in say(1)
    steps.when(improved(0, 1), pending(2, 4))
    assert say(1).startswith("backoff for another 2.0 s, refused 1 times")


def test_why_explains_preemption():
    steps = queue()

    def say(pod: int) -> str:
        return why(steps.state, pod)

    steps.when(refused(tried(steps.when(pending(1, 1)))[0], preemptible=True))
    assert say(1) == "unschedulable: preemption looks for victims (after attempt 1)"
    steps.when(PreemptionOpened(1, 1, 5, b""))
    assert say(1) == "waiting for the preemption for this pod to be finished"
