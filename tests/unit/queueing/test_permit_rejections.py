"""Pods that a permit plugin rejected: the events that they wait for, how long, and what counts."""

import pytest

from services.queueing.core.transitions import Pod
from services.queueing.core.why import why
from shared.events.base import Configured
from shared.events.binding import BindFailed
from shared.events.ingest import GangSet, Happened, PodsGone
from shared.events.permit import GangCommitted
from shared.events.queueing import Activated, TryFailed, Woken
from shared.model.columns import pack
from tests.unit.queueing.inputs import (
    bound,
    gang_tries,
    ids,
    improved,
    of_type,
    pending,
    queue,
    refused,
    reserved,
    tried,
    tries,
)

WAKES = {"Picky": ("Node/Add",), "Any": ("Node/Add", "Pod/Delete"), "Never": ()}
LABELLED = Happened(("Node/Update", "Node/UpdateLabel"))
ADDED = Happened(("Node/Add",))


def denied(*pods: int, by: str = "Picky") -> BindFailed:
    return BindFailed(pack(pods), "refused", pack([1] * len(pods)), plugins=(by,) * len(pods))


def waiting(shards: int = 1, by: str = "Picky", **options):
    """Return steps with pod 1, rejected at second 10."""
    steps = queue(shards=shards, priorities=(0, 0), wakes=WAKES, **options)
    (attempt,) = tried(steps.when(pending(1, 1)))
    assert tries(steps.when(reserved(attempt), denied(1, by=by), at_ms=10_000)) == []
    return steps


def test_a_rejected_pod_waits_only_for_its_plugins_events():
    steps = waiting()
    steps.reload()
    others = Happened(("Node/Delete", "Pod/Add", "Pod/Delete"))
    assert steps.when(LABELLED, others, improved(0, 1), at_ms=60_000) == [], "idle, and not for it"
    events = steps.when(ADDED, at_ms=70_000)
    assert [(ids(one), one.reason) for one in of_type(events, Woken)] == [([1], "Node/Add")]
    assert tries(events) == [(0, 1, [1])]
    steps.reload()


def test_the_rest_of_its_backoff_follows_the_event():
    steps = waiting()
    (other,) = tried(steps.when(pending(2, 2)))
    events = steps.when(ADDED, at_ms=10_500)
    (woken,) = of_type(events, Woken)
    assert (ids(woken), woken.until_ms, tries(events)) == ([1], pack([12_000]), [])
    steps.reload()
    steps.when(ADDED)
    assert tries(steps.when(at_ms=11_999)) == []
    assert tries(steps.when(at_ms=12_000)) == [(0, 1, [1])]
    assert steps.when(bound(*ids(other))) == []


def test_a_backoff_after_an_event_is_cut_short_as_that_of_any_refusal():
    assert tries(waiting().when(ADDED, at_ms=10_500)) == [(0, 1, [1])]


def test_a_rejected_pod_waits_five_minutes_at_most():
    steps = waiting()
    steps.reload()
    assert steps.core.due_ms(steps.state) == 330_000, "the first look after five minutes"
    assert steps.when(at_ms=329_999) == []
    events = steps.when(at_ms=330_000)
    assert [ids(one) for one in of_type(events, Activated)] == [[1]]
    assert tries(events) == [(0, 1, [1])]
    steps.reload()


def test_events_since_the_attempt_began_count():
    """kube-scheduler's in-flight events: the plugin may have looked before."""
    steps = queue(priorities=(0, 0), wakes=WAKES)
    (attempt,) = tried(steps.when(ADDED, pending(1, 1)))
    steps.when(ADDED, reserved(attempt))
    steps.reload()
    assert tries(steps.when(pending(2, 2), at_ms=9_000)) == [(0, 2, [2])]
    steps.when(denied(1), at_ms=10_000)
    assert why(steps.state, 1) == "backoff for another 2.0 s, refused 1 times"
    steps.reload()
    assert tries(steps.when(at_ms=12_000)) == [(0, 1, [1])]


def test_events_before_the_attempt_began_do_not_count():
    steps = queue(wakes=WAKES)
    (attempt,) = tried(steps.when(ADDED, pending(1, 1)))
    steps.when(LABELLED, reserved(attempt), denied(1), at_ms=10_000)
    assert why(steps.state, 1) == (
        "unschedulable: refused by permit plugin Picky, waits for Node/Add in the cluster, "
        "or for another 320.0 s"
    )


def test_an_answer_that_overtakes_the_shards_counts_the_same():
    steps = queue(wakes=WAKES)
    tried(steps.when(pending(1, 1)))
    assert tries(steps.when(denied(1), at_ms=10_000)) == []
    assert not steps.state.attempts, "its credits are back"
    steps.reload()
    assert tries(steps.when(ADDED, at_ms=20_000)) == [(0, 1, [1])]


def test_a_plugin_that_names_no_event_has_pods_wait_five_minutes():
    steps = waiting(by="Never")
    assert steps.when(ADDED, LABELLED, at_ms=60_000) == []
    assert why(steps.state, 1).endswith("refused by permit plugin Never, waits for another 270.0 s")
    assert tries(steps.when(at_ms=330_000)) == [(0, 1, [1])]


def test_a_failed_bind_wakes_other_pods_and_not_itself():
    steps = waiting(by="Any")
    (attempt,) = tried(steps.when(pending(2, 2), at_ms=20_000))
    events = steps.when(reserved(attempt), denied(2, by="Any"), at_ms=21_000)
    assert [(ids(one), one.reason) for one in of_type(events, Woken)] == [([1], "Pod/Delete")]
    assert tries(events) == [(0, 1, [1])]
    assert "Any, waits for" in why(steps.state, 2)
    steps.reload()


def test_other_refusals_and_errors_are_unchanged():
    steps = queue(wakes=WAKES)
    (attempt,) = tried(steps.when(pending(1, 1, 2, 3)))
    events = [reserved(attempt), BindFailed(pack([1, 2]), "refused"), denied(3, by="Other")]
    assert of_type(steps.when(*events, at_ms=10_000), TryFailed) == []
    assert tries(steps.when(ADDED, at_ms=11_999)) == [], "errors in a row are not cut short"
    assert [one[2] for one in tries(steps.when(at_ms=12_000))] == [[1, 2, 3]]


@pytest.mark.parametrize("shards", [1, 2])
def test_a_refusal_is_no_answer_of_the_shards(shards):
    steps = waiting(shards=shards)
    assert steps.state.sigs[1].mask == 0
    assert [one[2] for one in tries(steps.when(pending(1, 2)))] == [[2]]


def test_its_backoff_grows_with_every_refusal():
    steps = waiting()
    (attempt,) = tried(steps.when(ADDED, at_ms=20_000))
    steps.when(refused(attempt), at_ms=20_000)
    (attempt,) = tried(steps.when(improved(0, 1), at_ms=30_000))
    steps.when(reserved(attempt), denied(1), at_ms=30_000)
    steps.when(pending(2, 2), at_ms=30_000)
    (woken,) = of_type(steps.when(ADDED, at_ms=31_000), Woken)
    assert woken.until_ms == pack([35_000]), "the third refusal"


def test_a_changed_pod_is_tried_again():
    steps = waiting()
    assert tries(steps.when(pending(2, 1), at_ms=60_000)) == [(0, 2, [1])]
    steps.reload()


def test_a_new_gate_holds_it():
    steps = waiting()
    steps.when(pending(1, 1, gated=True), at_ms=60_000)
    assert steps.state.pods.state_of(1) is Pod.GATED
    steps.reload()
    assert tries(steps.when(pending(1, 1), at_ms=61_000)) == [(0, 1, [1])]


@pytest.mark.parametrize("end", [PodsGone(pack([1])), bound(1)])
def test_pods_that_no_longer_wait_are_forgotten(end):
    steps = waiting()
    assert steps.when(end) == []
    assert not steps.state.permit_rejected
    assert steps.when(ADDED) == []
    steps.reload()


def test_without_the_plugin_no_pod_waits_for_it():
    steps = waiting()
    assert tries(steps.when(Configured({"queueing": {}}), at_ms=60_000)) == [(0, 1, [1])]


def test_a_member_of_a_gang_is_tried_again_alone():
    steps = queue(wakes=WAKES)
    group = GangSet(5, "default/g", 2, 300_000, 1)
    (attempt,) = gang_tries(steps.when(group, pending(1, 1, 2, gang=5)))
    committed = GangCommitted(5, attempt.attempt, pack([1, 2]), pack([1, 1]))
    steps.when(committed, denied(2), at_ms=10_000)
    assert not steps.state.permit_rejected
    assert tries(steps.when(at_ms=12_000)) == [(0, 1, [2])]
