"""A parked pod asks for victims, waits for them to leave, and is tried in the freed room."""

from typing import Any

import pytest
from msgspec.structs import replace

from services.queueing.core.preemption import asks as core
from services.queueing.core.transitions import Pod
from shared.events.ingest import (
    GangSet,
    PodsGone,
    PodsRelabelled,
    SignatureDefined,
    SignatureRetired,
)
from shared.events.permit import GangCommitted
from shared.events.placement import NominationLost, NominationReady, Refused
from shared.events.preemption import PreemptionClosed, PreemptionOpened
from shared.events.queueing import Confirmed, Dispatched, GangDispatched, Parked, PreemptAsked
from shared.model.columns import pack, unpack
from shared.model.objects import PodSpec
from tests.unit.queueing.inputs import (
    CPU,
    bound,
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

NO_ONE = "preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."


def asking(steps: Any, *pods: int) -> list[PreemptAsked]:
    """Refuse pods of signature 1 where preemption may help; return the asks."""
    first = tried(steps.when(pending(1, *pods)))[0]
    return of_type(steps.when(refused(first, preemptible=True)), PreemptAsked)


def opened(pod: int, ask: int = 1) -> PreemptionOpened:
    return PreemptionOpened(ask, pod, 7, pack([99]))


def test_pods_of_a_signature_share_an_ask_and_the_next_waits_for_all_answers():
    steps = queue()
    (event,) = asking(steps, 1, 2)
    assert (event.pod, unpack(event.others).tolist()) == (1, [2])
    late = tried(steps.when(pending(1, 3)))
    assert (
        of_type(steps.when(*(refused(one, preemptible=True) for one in late)), PreemptAsked) == []
    )
    assert of_type(steps.when(opened(1)), PreemptAsked) == []
    steps.reload()
    (event,) = of_type(steps.when(opened(2, ask=2)), PreemptAsked)
    assert (event.pod, event.others) == (3, b"")


def test_few_signatures_have_open_asks():
    steps = queue(priorities=tuple(range(10)))
    asked = []
    for sig in range(1, 11):
        first = tried(steps.when(pending(sig, sig)))[0]
        asked += of_type(steps.when(refused(first, preemptible=True)), PreemptAsked)
    assert [event.pod for event in asked] == list(range(1, 9))
    steps.reload()
    assert [event.pod for event in of_type(steps.when(opened(3)), PreemptAsked)] == [10]


def test_asks_are_bounded():
    steps = queue()
    events = asking(steps, *range(1, 5_001))
    asked: list[int] = []
    while events:
        (event,) = events
        pods = [event.pod, *unpack(event.others).tolist()]
        assert len(pods) == 512
        asked += pods
        events = of_type(steps.when(*(opened(pod, ask=pod) for pod in pods)), PreemptAsked)
    assert asked == list(range(1, 4_097))
    (event,) = of_type(steps.when(bound(1)), PreemptAsked)
    assert (event.pod, event.others) == (4_097, b"")


class Counted(dict[Any, Any]):
    """Counts lookups."""

    count = 0

    def __getitem__(self, key: Any) -> Any:
        self.count += 1
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        self.count += 1
        return super().get(key, default)


def test_finding_the_next_ask_does_not_scan_all_signatures():
    steps = queue(priorities=tuple(range(200)))
    asked = []
    for sig in range(1, 201):
        first = tried(steps.when(pending(sig, sig)))[0]
        asked += of_type(steps.when(refused(first, preemptible=True)), PreemptAsked)
    state, looks = steps.state, 0
    for number, pod in enumerate(range(200, 8, -1), start=1):
        before = asked[-8].pod
        steps.given(opened(before, ask=number))
        state.sigs = Counted(state.sigs)
        core.next_ask_ms(state)
        event = core.decide_ask(state)
        assert event is not None
        assert event.pod == pod
        asked.append(event)
        looks += state.sigs.count
        steps.given(event)
    assert looks < 200 * 10


def test_asks_of_ended_pods_are_collected_periodically(monkeypatch):
    looks, is_alive = [], core.lives

    def lives(state: Any, pod: int) -> bool:
        looks.append(pod)
        return is_alive(state, pod)

    monkeypatch.setattr(core, "lives", lives)
    monkeypatch.setattr(core, "ASK_PODS_MAX", 1)
    monkeypatch.setattr(core, "ASKS_KEPT_MIN", 4)
    steps = queue()
    steps.state.asks_max = 4
    asking(steps, *range(1, 201))
    for pod in range(1, 200):
        steps.when(opened(pod, ask=pod))
    assert len(looks) < 200 * 5
    for pod in range(200, 800):
        steps.when(opened(pod, ask=pod), PodsGone(pack([pod - 199, pod])), pending(1, pod + 1))
    assert len(steps.state.asks) <= 2 * 200


@pytest.mark.parametrize("options", [{"preemption": False}])
def test_no_pod_asks_when_preemption_is_off(options):
    assert asking(queue(**options), 1) == []


def test_pods_of_a_profile_without_preemption_do_not_ask_nor_mention_it():
    steps = queue(preemption_except=("calm",))
    calm = PodSpec(requests=(("cpu", 1),), scheduler="calm")
    (first,) = tried(steps.given(SignatureDefined(2, calm)).when(pending(2, 9)))
    steps.reload()
    events = steps.when(refused(first, preemptible=True))
    assert of_type(events, PreemptAsked) == []
    says = [event.message for event in of_type(events, Parked)]
    [text] = says
    assert text == "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate"
    assert len(asking(steps, 1)) == 1, "others ask"


def test_gang_members_do_not_ask():
    steps = queue()
    group = GangSet(1, "default/g1", 2, 1_000, 1)
    gang = of_type(steps.when(group, pending(1, 1, 2, 3, gang=1)), GangDispatched)[0]
    two = pack([1, 2])
    late = tried(steps.when(GangCommitted(1, gang.attempt, two, two)))[0]
    assert of_type(steps.when(refused(late, preemptible=True)), PreemptAsked) == []


def test_an_asking_pod_is_not_woken_before_its_answer():
    steps = queue()
    asking(steps, 1)
    assert tries(steps.when(improved(0, 1))) == []
    events = steps.when(PreemptionClosed(1, 1, NO_ONE))
    assert ids(of_type(events, Parked)[0]) == [1]
    assert tries(events) == [(0, 1, [1])]


def test_a_pod_that_changes_in_the_step_of_its_answer_is_tried_in_its_new_form():
    steps = queue(priorities=(5, 5))
    asking(steps, 1)
    events = steps.when(PreemptionClosed(1, 1, NO_ONE), pending(2, 1))
    assert (of_type(events, Parked), tries(events)) == ([], [(0, 2, [1])])


def test_an_answer_without_candidates_completes_the_message():
    steps = queue()
    asking(steps, 1, 2)
    events = steps.when(PreemptionClosed(1, 1, NO_ONE))
    message = f"0/3 nodes are available: 3 Insufficient cpu. {NO_ONE}"
    assert [event.message for event in of_type(events, Parked)] == [message]
    assert of_type(events, PreemptAsked) == []  # its equal would get the same answer


def test_after_its_victims_end_the_pod_is_tried_there_first():
    steps = queue(shards=2, priorities=(0, 9))
    first = tried(steps.when(pending(1, 1)))[0]
    second = tried(steps.when(refused(first, preemptible=True)))[0]
    steps.when(refused(second, preemptible=True))
    steps.when(opened(1))
    events = steps.when(pending(2, 5), NominationReady(1, 1, 1, 7))
    assert [(event.shard, ids(event), event.urgent) for event in tried(events)] == [
        (1, [1], True),
        (0, [5], False),
    ]


def test_the_end_of_an_ask_may_overtake_its_opening():
    steps = queue()
    asking(steps, 1)
    again = tried(steps.when(NominationReady(0, 1, 1, 7)))[0]
    asked = of_type(steps.when(refused(again, preemptible=True)), PreemptAsked)
    assert [event.pod for event in asked] == [1]
    steps.when(opened(1))
    assert steps.state.pods.state_of(1) is Pod.ASKING
    steps.when(opened(1, ask=2))
    assert steps.state.pods.state_of(1) is Pod.PREEMPTING


def test_a_pod_whose_room_extenders_refuse_asks_again_after_its_backoff():
    steps = queue()
    asking(steps, 1)
    steps.when(opened(1))
    urgent = tried(steps.when(NominationReady(0, 1, 1, 7), at_ms=1_200))[0]
    over = NominationLost(0, 1, 1, "no", refused=True)
    events = steps.when(over, refused(urgent, preemptible=True), at_ms=1_300)
    assert of_type(events, PreemptAsked) == []
    steps.reload()
    assert steps.core.due_ms(steps.state) == 3_000
    assert [one.pod for one in of_type(steps.when(at_ms=3_000), PreemptAsked)] == [1]


def test_no_pod_waits_for_the_room_of_a_deleted_pod():
    steps = queue()
    asking(steps, 1)
    steps.when(opened(1))
    steps.when(PodsGone(pack([1])), SignatureRetired(1))
    assert steps.when(NominationLost(0, 1, 1, "no", refused=True)) == []


@pytest.mark.parametrize("end", [NominationLost(0, 1, 1, "node gone"), PreemptionClosed(1, 1, "")])
def test_a_failed_preemption_puts_the_pod_into_backoff(end):
    steps = queue(priorities=(0, 0))
    asking(steps, 1)
    steps.when(opened(1), pending(2, 2))
    assert tries(steps.when(end, at_ms=2_000)) == []
    assert steps.core.due_ms(steps.state) == 5_000
    steps.when(at_ms=5_000)
    assert steps.state.pods.state_of(1) is Pod.ASKING  # nothing improved: it asks again


def test_a_pod_that_lost_its_candidates_asks_again_after_a_backoff():
    steps = queue(priorities=(0, 0))
    asking(steps, 1)
    steps.when(PreemptionClosed(1, 1, ""), pending(2, 2), at_ms=2_000)
    assert steps.state.pods.state_of(1) is Pod.BACKOFF
    steps.when(at_ms=5_000)
    assert steps.state.pods.state_of(1) is Pod.ASKING


def test_a_pod_bound_to_another_node_in_the_meantime_is_done():
    steps = queue()
    asking(steps, 1)
    steps.when(opened(1), bound(1))
    assert steps.when(NominationReady(0, 1, 1, 7)) == []


def test_a_reserved_preemptor_is_done():
    steps = queue()
    asking(steps, 1)
    steps.when(opened(1))
    urgent = tried(steps.when(NominationReady(0, 1, 1, 7)))[0]
    steps.when(reserved(urgent))
    assert steps.when(PreemptionClosed(1, 1, "")) == []
    assert isinstance(urgent, Dispatched)


def test_the_question_is_repeated_while_possible_victims_are_being_bound():
    steps = queue(priorities=(5, 0))
    low = tried(steps.when(pending(2, 9)))[0]
    steps.when(reserved(low))
    asking(steps, 1)
    assert of_type(steps.when(PreemptionClosed(1, 1, NO_ONE)), PreemptAsked) == []
    assert steps.core.due_ms(steps.state) == 3_000
    steps.when(bound(9), at_ms=2_500)
    assert [event.pod for event in of_type(steps.when(at_ms=3_000), PreemptAsked)] == [1]
    steps.when(PreemptionClosed(2, 1, NO_ONE), at_ms=4_500)
    assert steps.core.due_ms(steps.state) == 330_000  # only the five minutes are left


def test_work_that_was_not_done_yet_survives_a_snapshot():
    steps = queue(priorities=(5, 0))
    asking(steps, 1)
    steps.given(NominationReady(0, 1, 1, 7), pending(2, 2))
    steps.reload()
    assert tries(steps.when()) == [(0, 1, [1]), (0, 2, [2])]
    other = queue()
    asking(other, 1)
    other.given(PreemptionClosed(1, 1, NO_ONE))
    other.reload()
    assert [event.message[-len(NO_ONE) :] for event in of_type(other.when(), Parked)] == [NO_ONE]


def preempting(**options: Any) -> Any:
    """Return steps in which pod 1 waits for its victims."""
    steps = queue(**options)
    asking(steps, 1)
    steps.when(opened(1))
    return steps


def test_a_pod_whose_victims_are_leaving_is_tried_when_a_shard_improves():
    steps = preempting()
    steps.reload()
    again = tried(steps.when(improved(0, 1)))[0]
    assert ids(again) == [1]
    steps.when(reserved(again))
    steps.reload()
    assert steps.when(NominationLost(0, 1, 1, "it has a place"), PreemptionClosed(1, 1, "")) == []
    steps.when(bound(1))
    assert not steps.state.leaving


def test_refused_again_it_waits_for_its_victims_and_asks_for_no_others():
    steps = preempting()
    again = tried(steps.when(improved(0, 1)))[0]
    events = steps.when(refused(again, preemptible=True))
    assert [ids(event) for event in of_type(events, Parked)] == [[1]]
    assert of_type(events, PreemptAsked) == []
    assert steps.state.pods.state_of(1) is Pod.PREEMPTING
    steps.reload()
    urgent = tried(steps.when(NominationReady(0, 1, 1, 7)))[0]
    assert urgent.urgent
    assert not steps.state.leaving


def test_a_pod_that_changes_in_the_meantime_is_tried_in_its_new_form_and_asks_for_no_others():
    steps = preempting(priorities=(5, 5))
    again = tried(steps.when(pending(2, 1)))[0]
    assert (again.sig, ids(again)) == (2, [1])
    events = steps.when(refused(again, preemptible=True))
    assert of_type(events, PreemptAsked) == []
    steps.reload()
    assert tries(steps.when(improved(0, 2))) == [(0, 2, [1])]


CHANGED, NOBODY = pending(2, 1), PreemptionClosed(1, 1, NO_ONE)


@pytest.mark.parametrize("story", [(opened(1), CHANGED), (NOBODY, CHANGED), (CHANGED, NOBODY)])
def test_a_pod_that_changes_in_the_meantime_waits_for_the_end_of_its_backoff(story):
    """kube-scheduler: an update moves it to the backoffQ as long as it is backing off."""
    steps = queue(priorities=(5, 5, 0))
    steps.when(pending(3, 3))
    asking(steps, 1)
    assert tries(steps.when(*story)) == []
    assert steps.state.pods.state_of(1) is Pod.BACKOFF
    assert tries(steps.when(at_ms=3_000)) == [(0, 2, [1])]


def test_an_improvement_before_the_choice_of_victims_counts():
    steps = queue()
    asking(steps, 1)
    steps.when(improved(0, 1))
    assert tries(steps.when(opened(1))) == [(0, 1, [1])]


@pytest.mark.parametrize(
    "end",
    [
        PreemptionOpened(1, 1, 7, pack([99])),
        PreemptionClosed(1, 1, NO_ONE),
        NominationReady(0, 1, 1, 7),
        NominationLost(0, 1, 1, "node gone"),
        PodsGone(pack([1])),
        PodsRelabelled(pack([1]), pack([3])),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_signature_retired_during_an_ask_is_dropped_with_the_answer(end):
    steps = queue(priorities=(5, 5, 5))
    asking(steps, 1)
    steps.when(pending(2, 1), SignatureRetired(1))
    steps.reload()
    steps.when(end)
    assert sorted(steps.state.sigs) == [2, 3]


@pytest.mark.parametrize("where", ["in flight", "left over", "ready", "backoff"])
def test_room_made_during_an_attempt_on_another_node_is_used_at_once(where):
    steps = queue(shards=2)
    first = tried(steps.when(pending(1, 1)))[0]
    second = tried(steps.when(refused(first, preemptible=True)))[0]
    steps.when(refused(second, preemptible=True))
    ready = NominationReady(1, 1, 1, 7)
    if where == "ready":
        steps.when(opened(1))
        urgent = tried(steps.when(improved(0, 1), ready))[0]
    elif where == "backoff":
        urgent = tried(steps.when(opened(1), improved(0, 1), pending(1, 2), ready))[0]
    else:
        steps.when(opened(1))
        again = tried(steps.when(improved(0, 1)))[0]
        assert again.shard == 0
        decided = [ready, refused(again)] if where == "in flight" else [refused(again), ready]
        if where == "in flight":
            steps.when(decided.pop(0))
            steps.reload()
        urgent = tried(steps.when(*decided))[0]
    assert (urgent.shard, ids(urgent), urgent.urgent) == (1, [1], True)


def test_a_pod_whose_preemption_fails_in_flight_asks_again_when_refused():
    steps = preempting()
    again = tried(steps.when(improved(0, 1)))[0]
    steps.when(PreemptionClosed(1, 1, ""))
    events = steps.when(refused(again, preemptible=True))
    assert [event.pod for event in of_type(events, PreemptAsked)] == [1]


def test_pods_that_wait_for_victims_while_others_are_tried_count_as_asked_for():
    steps = preempting()
    again = tried(steps.when(improved(0, 1)))[0]
    assert list(steps.state.leaving) == [1]
    steps.when(PodsGone(pack([1])), refused(again))
    assert not steps.state.leaving


def test_since_1_37_the_message_names_the_node_for_which_pods_are_preempted():
    steps = queue(compatibility="1.37", confirm_ms=40_000)
    asking(steps, 1, 2)
    text = "preemption: found a potential placement for pod on node n7, preempting 1 victims"
    message = f"0/3 nodes are available: 3 Insufficient cpu. {text}"
    assert said(steps.when(replace(opened(1), message=text))) == [([1], message)]
    steps.reload()
    steps.when(PreemptionClosed(2, 2, NO_ONE), at_ms=41_000)
    reasons = Refused(0, 0, 1, b"", ((CPU, 2),), 2, 9, resolvable=2)
    rest = "0/2 nodes are available: 2 Insufficient cpu."
    without, *others = said(steps.when(reasons))
    assert (without[0], others) == ([2], [([1], f"{rest} {text}")])
    assert without[1].startswith(rest)
    steps.reload()
    steps.when(PodsGone(pack([1])))
    assert not steps.state.victims_texts


def test_refused_again_its_message_says_nothing_of_its_victims():
    steps = queue(confirm_ms=40_000)
    asking(steps, 1)
    steps.when(replace(opened(1), message="preemption: found"))
    again = tried(steps.when(improved(0, 1), at_ms=5_000))[0]
    (event,) = of_type(steps.when(refused(again, preemptible=True)), Parked)
    assert "found" not in event.message
    assert not steps.state.victims_texts
    steps.reload()


def said(events: Any) -> list[tuple[list[int], str]]:
    return [(ids(event), event.message) for event in of_type(events, Confirmed)]
