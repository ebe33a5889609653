"""Extenders in a shard: one question is open at a time, and its answer is checked against the nodes
at its arrival.
"""

from typing import TypeVar

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from services.placement.core.extenders.retries import FAILED_RETRY_MS, RETRY_MS
from shared.events.base import Event
from shared.events.ingest import PodsRelabelled
from shared.events.observed import ExtendersAnswered
from shared.events.permit import GangCommitted, GangReleased, HoldAsked, OfferAsked
from shared.events.placement import (
    CandidatesFound,
    ExtendersAsked,
    GangHeld,
    GangOffered,
    Improved,
    NominationLost,
    Refused,
    Reserved,
)
from shared.events.preemption import DryRunAsked, NominateAsked
from shared.events.queueing import Members, ReasonsAsked
from shared.extenders.values import POD, Extender
from shared.model.columns import pack, unpack, unpack_totals
from shared.model.profile import Profile
from tests.unit.placement.shard import Shard, node, placed, spec

E = TypeVar("E", bound=Event)
GADGET = "example.com/gadget"
ANY = Extender(url="http://h/x", filter_verb="filter", prioritize_verb="p", weight=1)
GADGETS = Extender(url="http://h/x", filter_verb="filter", managed_resources=(GADGET,))
LONG_MS = 300_000
WEB = spec(shown=((POD, "default/web"),))


def shard(extender: Extender = ANY) -> Shard:
    made = Shard(extenders=[to_builtins(extender)])
    return made.nodes(1, 2, 3, node("a"), node("b"), node("c"))


def only(kind: type[E], events: list[Event]) -> E:
    (found,) = [one for one in events if isinstance(one, kind)]
    return found


def asked(events: list[Event]) -> ExtendersAsked:
    return only(ExtendersAsked, events)


def test_a_pod_goes_to_the_node_that_extenders_prefer():
    given = shard().sig(1, WEB).dispatch(1, 11)
    question = asked(given.run())
    assert (question.pod, sorted(unpack(question.nodes).tolist())) == (11, [1, 2, 3])
    assert given.core.effects(given.state) == {1: question}
    given.reload()
    given.given(ExtendersAnswered(1, pack([1, 3]), pack([900_000, 5])))
    assert given.core.effects(given.state) == {}
    reserved = only(Reserved, given.reload().run())
    assert placed([reserved]) == [(11, 1)]
    assert (reserved.extended, reserved.feasible) == (900_000, 2)


def test_one_question_is_open_and_no_other_pod_is_placed():
    given = shard().sig(1, WEB).sig(2, spec(shown=((POD, "default/db"),)))
    question = asked(given.dispatch(1, 11).dispatch(2, 12, urgent=True).run())
    assert question.pod == 12, "urgent ones go first"
    assert given.run() == []
    given.given(ExtendersAnswered(1, pack([2])))
    events = given.run()
    assert placed(events) == [(12, 2)]
    assert asked(events).pod == 11


def test_pods_that_no_extender_looks_at_are_placed_without_asking():
    given = shard(GADGETS).sig(1, spec()).dispatch(1, 11, 12)
    assert len(placed(given.run())) == 2


def test_a_node_that_is_full_by_then_is_left_out():
    given = shard().sig(1, WEB).sig(2, spec(cpu=4_000)).dispatch(1, 11)
    given.run()
    given.assigned((50, 2, 1)).given(ExtendersAnswered(1, pack([1, 2]), pack([500, 0])))
    assert placed(given.run()) == [(11, 2)]


def test_extenders_are_asked_again_when_no_remaining_node_takes_the_pod():
    given = shard().sig(1, WEB).sig(2, spec(cpu=4_000)).dispatch(1, 11)
    given.run()
    given.assigned((50, 2, 1)).nodes_gone(2).given(ExtendersAnswered(1, pack([1, 2])))
    question = asked(given.run())
    assert (question.ask, unpack(question.nodes).tolist()) == (2, [3])
    given.given(ExtendersAnswered(1, pack([3])))
    assert given.run() == [], "an answer to what was asked before"
    given.given(ExtendersAnswered(2, pack([3])))
    assert placed(given.reload().run()) == [(11, 3)]


def test_pods_refused_by_extenders_have_their_message_until_a_node_improves():
    given = shard().sig(1, WEB).dispatch(1, 11)
    given.run()
    given.given(ExtendersAnswered(1, failed=(("not here", 1), ("not today", 2)), resolvable=2))
    refused = only(Refused, given.run())
    assert refused.reasons == (("not here", 1), ("not today", 2))
    assert (refused.nodes, refused.resolvable, refused.preemptible) == (3, 2, False)
    given.reload()
    given.state.now_ms += LONG_MS
    assert given.run() == []
    improved = only(Improved, given.nodes(4, node("d")).run())
    assert unpack(improved.sigs).tolist() == [1]
    assert given.run() == []


def test_an_extender_that_fails_is_an_error_of_its_own():
    given = shard().sig(1, WEB).dispatch(1, 11)
    given.run()
    given.given(ExtendersAnswered(1, error="it does not work"))
    refused = only(Refused, given.run())
    assert (refused.error, refused.reasons, refused.resolvable) == ("it does not work", (), 0)
    assert given.state.refused == set(), "it waits for nothing"
    given.reload()
    given.state.now_ms += LONG_MS
    assert [one for one in given.run() if isinstance(one, Improved)] == []
    assert asked(given.dispatch(1, 11).run()).ask == 2


def test_after_an_error_about_the_nominated_node_other_nodes_are_asked_about():
    given = nominated()
    given.given(ExtendersAnswered(1, error="it does not work"))
    question = asked(given.run())
    assert (sorted(unpack(question.nodes).tolist()), question.alone) == ([1, 2, 3], False)
    given.given(ExtendersAnswered(2, error="it does not work"))
    assert only(Refused, given.run()).error == "it does not work"


def test_a_deleted_pod_is_not_waited_for():
    given = shard().sig(1, WEB).sig(2, spec(shown=((POD, "default/db"),)))
    given.dispatch(1, 11).dispatch(2, 12).run()
    assert asked(given.gone(11).run()).pod == 12
    given.given(ExtendersAnswered(1, pack([1])))
    assert given.run() == []


def test_a_pod_with_a_new_name_is_asked_about_again():
    given = shard().sig(1, WEB).sig(2, replace(WEB, namespace="default")).dispatch(1, 11)
    given.run()
    given.given(PodsRelabelled(pack([11]), pack([2])))
    question = asked(given.run())
    assert (question.ask, question.sig) == (2, 2)
    given.given(ExtendersAnswered(2, pack([1])))
    assert placed(given.reload().run()) == [(11, 1)]


def nominated() -> Shard:
    """Return a shard that asks about a pod and its nominated node alone."""
    given = shard().sig(1, replace(WEB, priority=9)).sig(2, spec(cpu=4_000)).assigned((50, 2, 2))
    given.given(NominateAsked(7, 11, 1, 0, 2, pack([50]))).run()
    given.gone(50).run()
    question = asked(given.dispatch(1, 11).run())
    assert (unpack(question.nodes).tolist(), question.alone) == ([2], True)
    return given


def test_a_nominated_node_is_asked_about_first_and_alone():
    given = nominated()
    given.given(ExtendersAnswered(1, failed=(("no", 1),)))
    question = asked(given.run())
    assert (sorted(unpack(question.nodes).tolist()), question.alone) == ([1, 2, 3], False)


def room_refused() -> tuple[Shard, list[Event]]:
    """Return a shard in which a pod's victim has left node 2 and extenders refuse that node, and
    its decisions.
    """
    given = nominated()
    given.given(ExtendersAnswered(1, failed=(("no", 1),))).reload()
    return given, given.run()


def test_a_nomination_that_extenders_refuse_ends():
    given, events = room_refused()
    lost = NominationLost(0, 7, 11, "extenders refuse the nominated node", refused=True)
    assert events[0] == lost
    assert sorted(unpack(asked(events).nodes).tolist()) == [1, 2, 3], "as kube-scheduler asks then"
    assert given.reload().state.nominations == {}
    given.given(ExtendersAnswered(2, failed=(("no", 3),)))
    assert [one for one in given.run() if isinstance(one, NominationLost)] == []
    given.dispatch(2, 12, 13, 14).run()
    for ask in (3, 4, 5):
        given.given(ExtendersAnswered(ask, pack([1, 2, 3]))).run()
    where = given.state.ledger
    assert {where.node.item(where.row(pod)) for pod in (12, 13, 14)} == {1, 2, 3}


def test_no_second_eviction_on_a_node_that_extenders_refused():
    given = room_refused()[0].sig(3, replace(DB, priority=9))
    given.given(ExtendersAnswered(2, failed=(("no", 3),))).run()
    given.assigned((51, 2, 1), (52, 2, 2), (53, 2, 3)).reload()

    def candidates(sig: int, ask: int) -> list[int]:
        found = only(CandidatesFound, given.given(DryRunAsked(ask, 11, sig)).run())
        return sorted(one.node for one in found.candidates)

    assert candidates(1, 8) == [1, 3]
    assert candidates(3, 9) == [1, 2, 3], "others may go there"
    given.state.now_ms += RETRY_MS - 1
    assert candidates(1, 10) == [1, 3]
    given.state.now_ms += 1
    assert candidates(1, 11) == [1, 2, 3]


@pytest.mark.parametrize(
    "answer",
    [
        ExtendersAnswered(1, error="it does not work"),
        ExtendersAnswered(1, pack([2])),
    ],
    ids=["an error", "it is left"],
)
def test_other_answers_leave_the_nomination(answer):
    given = nominated()
    given.given(answer)
    assert [one for one in given.run() if isinstance(one, NominationLost)] == []


def test_a_nomination_that_extenders_were_not_asked_about_stays():
    """The last victim leaves while the extenders judge the other nodes."""
    given = shard().sig(1, replace(WEB, priority=9)).sig(2, spec(cpu=4_000)).assigned((50, 2, 2))
    given.given(NominateAsked(7, 11, 1, 0, 2, pack([50]))).run()
    assert sorted(unpack(asked(given.dispatch(1, 11).run()).nodes).tolist()) == [1, 3]
    given.gone(50).given(ExtendersAnswered(1, failed=(("no", 2),)))
    events = given.run()
    assert only(Refused, events).reasons == (("no", 2),)
    assert [one for one in events if isinstance(one, NominationLost)] == []


def test_a_refusal_before_the_victims_have_left_leaves_the_nomination():
    """kube-scheduler does not preempt for a pod while pods on its nominated node are ending."""
    given = shard().sig(1, replace(WEB, priority=9)).sig(2, spec(cpu=2_000))
    given.assigned((50, 2, 2), (51, 2, 2))
    given.given(NominateAsked(7, 11, 1, 0, 2, pack([50]))).run()
    given.gone(51).run()
    assert unpack(asked(given.dispatch(1, 11).run()).nodes).tolist() == [2]
    given.given(ExtendersAnswered(1, failed=(("no", 1),)))
    assert [one for one in given.run() if isinstance(one, NominationLost)] == []


def test_extender_answers_last_until_the_next_attempt():
    """Only extenders could repeat the answer, so it stays as true as it was."""
    given = shard().sig(1, WEB).dispatch(1, 11)
    given.run()
    given.given(ExtendersAnswered(1, failed=(("not today", 3),)))
    first = only(Refused, given.run())
    assert first.reasons == (("not today", 3),)
    given.given(ReasonsAsked(1)).reload()
    again = only(Refused, given.run())
    assert (again.reasons, again.attempt, again.ids) == (first.reasons, 0, b"")


MEMBERS = (Members(1, pack([11])), Members(2, pack([12])))
DB = spec(shown=((POD, "default/db"),))


def gang(extender: Extender = ANY) -> Shard:
    return shard(extender).sig(1, WEB).sig(2, DB).given(OfferAsked(5, 1, MEMBERS))


def test_extenders_are_asked_about_each_member_of_a_gang_before_it_is_offered_room():
    given = gang()
    question = asked(given.run())
    assert (question.gang, question.attempt, question.pod) == (5, 1, 11)
    assert given.reload().core.effects(given.state) == {1: question}
    given.given(ExtendersAnswered(1, pack([3]))).reload()
    question = asked(given.run())
    assert (question.ask, question.pod) == (2, 12)
    given.given(ExtendersAnswered(2, pack([1, 3]), pack([0, 900_000])))
    assert only(GangOffered, given.run()).counts == (1, 1)
    given.reload().given(HoldAsked(5, 1, 0, MEMBERS))
    held = only(GangHeld, given.run())
    assert unpack(held.nodes).tolist() == [3, 3]
    given.given(GangCommitted(5, 1, held.ids, held.nodes)).reload()
    assert given.state.member_answers == {}


def test_a_member_without_a_node_from_extenders_has_their_message():
    given = gang()
    given.run()
    given.given(ExtendersAnswered(1, failed=(("not today", 3),)))
    given.run()
    given.given(ExtendersAnswered(2, error="it failed"))
    offered = only(GangOffered, given.run())
    assert (offered.counts, offered.reasons) == ((0, 0), (("not today", 3),))
    assert given.state.extender_retry_ms == {1: RETRY_MS, 2: FAILED_RETRY_MS}
    given.given(GangReleased(5, 1, offered.reasons, 3))
    assert given.state.member_answers == {}


def test_room_that_another_member_takes_is_not_offered_twice():
    """Extenders leave both the same node, which has room for one."""
    given = shard().sig(1, spec(cpu=3_000, shown=((POD, "default/a"),)))
    given.sig(2, spec(cpu=3_000, shown=((POD, "default/b"),)))
    given.given(OfferAsked(5, 1, MEMBERS)).run()
    given.given(ExtendersAnswered(1, pack([2]))).run()
    given.given(ExtendersAnswered(2, pack([2])))
    assert only(GangOffered, given.run()).counts == (1, 0)


def test_no_pod_is_placed_during_a_question_about_a_member():
    given = gang().sig(3, spec(shown=((POD, "default/c"),))).dispatch(3, 13)
    assert asked(given.run()).pod == 11
    assert given.run() == []
    given.given(GangReleased(5, 1, (), 3, stale=True))
    assert only(GangOffered, given.run()[:1]).counts == (0, 0)


def test_a_gang_waits_during_a_question_about_a_pod():
    given = shard().sig(1, WEB).sig(2, DB).sig(3, spec(shown=((POD, "default/c"),)))
    assert asked(given.dispatch(3, 13).run()).pod == 13
    given.given(OfferAsked(5, 1, MEMBERS))
    assert given.run() == []
    given.given(ExtendersAnswered(1, pack([1])))
    assert asked(given.run()).pod == 11


def test_members_without_extenders_are_offered_room_at_once():
    assert only(GangOffered, gang(GADGETS).run()).counts == (1, 1)


def test_a_pod_without_feasible_nodes_is_not_asked_about():
    given = shard().sig(1, spec(cpu=9_000, shown=((POD, "default/web"),))).dispatch(1, 11)
    refused = only(Refused, given.run())
    assert refused.reasons == (("Insufficient cpu", 3),)


def test_a_gangs_totals_have_the_widest_type_of_its_profiles():
    wide = Profile(name="heavy", scores=(("NodeResourcesFit", 1 << 30),), extended=True)
    profiles = [to_builtins(one) for one in (Profile(extended=True), wide)]
    given = Shard(extenders=[to_builtins(ANY)], profiles=profiles).nodes(1, node("a"))
    given.sig(1, WEB).sig(2, replace(DB, scheduler="heavy"))
    given.given(OfferAsked(5, 1, MEMBERS)).run()
    given.given(ExtendersAnswered(1, pack([1]))).run()
    given.given(ExtendersAnswered(2, pack([1]))).run()
    held = only(GangHeld, given.reload().given(HoldAsked(5, 1, 0, MEMBERS)).run())
    narrow, heavy = unpack_totals(held.totals, 2).tolist()
    assert narrow < 1_000 < 1 << 32 < heavy
