"""Message refresh: waiting signatures are evaluated again, and no pod moves for it."""

from typing import Any

import pytest

from services.queueing.core.config import WAIT_FEW
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting.messages import ON_PERMIT, TOO_FEW
from shared.events.ingest import PodsGone
from shared.events.permit import GangReleased
from shared.events.placement import Refused
from shared.events.preemption import PreemptionClosed
from shared.events.queueing import (
    Confirmed,
    GangDispatched,
    GangWaits,
    PreemptAsked,
    ReasonsAsked,
    Woken,
)
from shared.model.preemption.post_filter import NO_CLAIMS
from tests.unit.queueing.inputs import (
    CPU,
    gang_tries,
    ids,
    improved,
    of_type,
    pending,
    queue,
    refused,
    tried,
    tries,
)
from tests.unit.queueing.test_gangs import group

LATER_MS = 41_000


def parked(shards: int = 1, **options: Any) -> Any:
    """Return steps in which all shards refused pods 1 and 2 at 1,000 ms."""
    steps = queue(shards=shards, **{"confirm_ms": 40_000, "preemption": False, **options})
    events = steps.when(pending(1, 1, 2))
    for _shard in range(shards):
        events = steps.when(refused(tried(events)[0], preemptible=True))
    return steps


def look(shard: int, reasons: tuple[tuple[str, int], ...] = ((CPU, 3),), **more: Any) -> Refused:
    """Return a shard's answer to ReasonsAsked."""
    return Refused(shard, 0, 1, b"", reasons, 3, 9, **{"resolvable": 3, **more})


def said(events: Any) -> list[tuple[list[int], str]]:
    return [(ids(event), event.message) for event in of_type(events, Confirmed)]


def test_waiting_signatures_are_refreshed_periodically():
    steps = parked()
    assert steps.core.due_ms(steps.state) == LATER_MS
    assert steps.when(at_ms=LATER_MS - 1) == []
    assert steps.when(at_ms=LATER_MS) == [ReasonsAsked(1)]
    message = f"0/3 nodes are available: 3 Insufficient cpu. {NO_CLAIMS}"
    assert steps.when(look(0)) == [Confirmed(1, ids_column(1, 2), message)]
    assert [steps.state.pods.state_of(pod) for pod in (1, 2)] == [Pod.PARKED] * 2
    assert steps.core.due_ms(steps.state) == LATER_MS + 40_000
    assert of_type(steps.when(at_ms=LATER_MS + 40_000), ReasonsAsked) == [ReasonsAsked(1)]


def ids_column(*pods: int) -> bytes:
    return b"".join(pod.to_bytes(8, "little") for pod in pods)


def test_changed_reasons_are_written_once_all_shards_have_answered():
    steps = parked(shards=2)
    assert of_type(steps.when(at_ms=LATER_MS), ReasonsAsked) == [ReasonsAsked(1)]
    assert steps.when(look(1, (("Insufficient memory", 3),))) == []
    steps.reload()
    events = steps.when(look(0, ((CPU, 2), ("Too many pods", 1))))
    text = (
        "0/6 nodes are available: "
        f"1 Too many pods, 2 Insufficient cpu, 3 Insufficient memory. {NO_CLAIMS}"
    )
    assert said(events) == [([1, 2], text)]


def test_woken_pods_are_not_refreshed():
    steps = parked()
    steps.when(improved(0, 1))
    steps.at(LATER_MS)
    assert of_type(steps.when(), ReasonsAsked) == []


def test_nothing_is_asked_without_the_option():
    steps = parked(confirm_ms=0)
    assert of_type(steps.when(at_ms=LATER_MS), ReasonsAsked) == []
    steps.when(at_ms=200_000)
    assert steps.core.due_ms(steps.state) == 330_000


@pytest.mark.parametrize("reload", [False, True])
def test_many_waiting_pods_are_refreshed_twice_as_often(reload):
    steps = queue(confirm_ms=40_000, preemption=False)
    steps.when(refused(tried(steps.when(pending(1, *range(1, WAIT_FEW + 1))))[0]))
    assert steps.core.due_ms(steps.state) == LATER_MS, "few wait"
    steps.when(pending(1, WAIT_FEW + 1), at_ms=5_000)
    if reload:
        steps.reload()
    assert steps.core.due_ms(steps.state) == 25_000
    assert steps.when(at_ms=24_999) == []
    assert steps.when(at_ms=25_000) == [ReasonsAsked(1)]
    steps.when(look(0), pending(1, WAIT_FEW + 2))
    assert steps.core.due_ms(steps.state) == 45_000
    steps.when(PodsGone(ids_column(1, 2)), at_ms=30_000)
    assert steps.when(at_ms=45_000) == [ReasonsAsked(1)]
    steps.when(look(0))
    assert steps.core.due_ms(steps.state) == 85_000, "few wait again"


def test_members_of_many_waiting_gangs_are_refreshed_twice_as_often():
    steps = queue(confirm_ms=40_000)
    members = range(1, WAIT_FEW + 2)
    steps.when(group(len(members) + 1), pending(1, *members, gang=1))
    steps.when(at_ms=2_000)
    assert steps.core.due_ms(steps.state) == 21_000
    assert said(steps.when(at_ms=21_000)) == [([*members], TOO_FEW)]
    assert steps.core.due_ms(steps.state) == 41_000


def test_pods_that_arrive_during_a_refresh_get_the_message_too():
    steps = parked()
    steps.when(at_ms=LATER_MS)
    steps.when(pending(1, 3))
    assert [pods for pods, _text in said(steps.when(look(0)))] == [[1, 2, 3]]


def test_preemptions_part_of_the_message_stays_with_the_reasons():
    steps = parked(preemption=True)
    note = "preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
    steps.when(PreemptionClosed(1, 1, note))
    steps.when(at_ms=LATER_MS)
    events = steps.when(look(0, preemptible=True))
    assert said(events) == [([1, 2], f"0/3 nodes are available: 3 Insufficient cpu. {note}")]
    assert of_type(events, PreemptAsked) == []


def test_when_the_reasons_change_preemption_is_asked_again():
    steps = parked(preemption=True)
    steps.when(PreemptionClosed(1, 1, "preemption: no."), PreemptionClosed(2, 2, "preemption: no."))
    steps.when(at_ms=LATER_MS)
    events = steps.when(look(0, ((CPU, 2), ("Too many pods", 1)), preemptible=True))
    text = "0/3 nodes are available: 1 Too many pods, 2 Insufficient cpu."
    assert said(events) == [([1, 2], text)]
    assert [asked.pod for asked in of_type(events, PreemptAsked)] == [1]
    # The one that asks waits as well.
    steps.when(at_ms=LATER_MS + 40_000)
    assert [pods for pods, _text in said(steps.when(look(0, preemptible=True)))] == [[1, 2]]


@pytest.mark.parametrize("reload", [False, True])
def test_a_gang_with_an_unchanged_result_repeats_its_message(reload):
    steps = queue(confirm_ms=40_000)

    def fails(event: GangDispatched, at_ms: int) -> Any:
        steps.at(at_ms)
        return steps.when(GangReleased(event.gang, event.attempt, ((CPU, 3),), 3))

    events = steps.when(group(2), pending(1, 1, 2, gang=1))
    assert said(fails(gang_tries(events)[0], 2_000)) == []
    text = "0/3 nodes are available: 3 Insufficient cpu."
    decided = []
    for at_ms in range(12_000, 100_000, 10_000):
        steps.at(at_ms)
        again = gang_tries(steps.when())[0]
        if reload:
            steps.reload()
        events = fails(again, at_ms)
        if said(events):
            decided.append(at_ms)
            assert said(events) == [([1, 2], text)]
            assert of_type(events, GangWaits) == [GangWaits(1, text)]
        assert steps.core.due_ms(steps.state) > at_ms
    assert decided == [42_000, 82_000]


@pytest.mark.parametrize("reload", [False, True])
def test_an_untried_gangs_message_is_confirmed(reload):
    steps = queue(confirm_ms=40_000)
    steps.when(group(3), pending(1, 1, 2, gang=1))
    steps.when(at_ms=2_000)
    if reload:
        steps.reload()
    assert steps.core.due_ms(steps.state) == LATER_MS
    assert steps.when(at_ms=LATER_MS - 1) == []
    events = steps.when(at_ms=LATER_MS)
    assert said(events) == [([1, 2], TOO_FEW)]
    assert of_type(events, GangWaits) == [GangWaits(1, TOO_FEW)]
    # The message of a later member does not delay those of the others.
    steps.when(pending(1, 3, gang=1, gated=True), at_ms=LATER_MS + 10_000)
    steps.when(PodsGone(ids_column(2)), pending(1, 3, gang=1), at_ms=LATER_MS + 20_000)
    steps.when(at_ms=LATER_MS + 21_000)
    assert said(steps.when(at_ms=LATER_MS + 40_000)) == [([1, 3], TOO_FEW)]


def test_members_of_a_gang_in_an_attempt_are_refreshed():
    steps = queue(confirm_ms=40_000)
    tried_ms = 1_000
    steps.when(group(2), pending(1, 1, 2, gang=1))
    assert steps.core.due_ms(steps.state) == tried_ms + 1_000
    steps.when(at_ms=2_000)
    assert said(steps.when(at_ms=41_999)) == []
    assert said(steps.when(at_ms=42_000)) == [([1, 2], ON_PERMIT)]
    assert steps.core.due_ms(steps.state) == 82_000


def test_a_verdict_stands_during_the_next_try_for_a_while_only():
    steps = queue(confirm_ms=40_000)
    first = gang_tries(steps.when(group(2), pending(1, 1, 2, gang=1)))[0]
    steps.when(GangReleased(1, first.attempt, ((CPU, 3),), 3), at_ms=1_500)
    gang_tries(steps.when(at_ms=11_500))
    assert steps.when(at_ms=41_499) == []
    assert said(steps.when(at_ms=41_500)) == [([1, 2], ON_PERMIT)]


def test_questions_in_one_step_are_bounded():
    steps = queue(priorities=(0,) * 20, confirm_ms=40_000, preemption=False)
    for sig in range(1, 21):
        steps.when(refused(tried(steps.when(pending(sig, sig)))[0]))
    first = of_type(steps.when(at_ms=LATER_MS), ReasonsAsked)
    assert len(first) == 8
    assert steps.core.due_ms(steps.state) == LATER_MS
    rest = [*of_type(steps.when(), ReasonsAsked), *of_type(steps.when(), ReasonsAsked)]
    assert sorted(event.sig for event in (*first, *rest)) == list(range(1, 21))
    assert tries(steps.when()) == []


@pytest.mark.parametrize("reload", [False, True])
def test_shards_are_asked_once_a_second_about_the_signatures_due_longest(reload):
    steps = queue(priorities=(0,) * 20, confirm_ms=40_000, preemption=False, looks_per_s=8)
    for sig in range(20, 0, -1):
        steps.at(1_000 + 20 - sig)
        steps.when(refused(tried(steps.when(pending(sig, sig)))[0]))
    asked, now_ms = [], LATER_MS + 20
    for _second in range(3):
        found = [event.sig for event in of_type(steps.when(at_ms=now_ms), ReasonsAsked)]
        steps.when(*(Refused(0, 0, sig, b"", ((CPU, 3),), 3, 9, resolvable=3) for sig in found))
        if reload:
            steps.reload()
        asked.append(found)
        if len(asked) < 3:
            assert steps.when(at_ms=now_ms + 999) == []
            assert steps.core.due_ms(steps.state) == now_ms + 1_000
        now_ms += 1_000
    assert [sorted(found, reverse=True) for found in asked] == [
        [*range(20, 12, -1)],
        [*range(12, 4, -1)],
        [*range(4, 0, -1)],
    ]


@pytest.mark.parametrize("reload", [False, True])
def test_signatures_are_flushed_at_a_bounded_rate(reload):
    steps = queue(priorities=(0,) * 20, preemption=False, looks_per_s=8)
    for sig in range(1, 21):
        steps.when(refused(tried(steps.when(pending(sig, sig)))[0]))
    now_ms = steps.core.due_ms(steps.state)
    assert now_ms == 330_000
    woken = []
    for _second in range(3):
        events = of_type(steps.when(at_ms=now_ms), Woken)
        assert {event.reason for event in events} == {"unschedulable timeout"}
        woken.append([event.sig for event in events])
        if reload:
            steps.reload()
        if len(woken) < 3:
            assert of_type(steps.when(at_ms=now_ms + 999), Woken) == []
            assert steps.core.due_ms(steps.state) == now_ms + 1_000
        now_ms += 1_000
    assert woken == [[*range(1, 9)], [*range(9, 17)], [*range(17, 21)]]
