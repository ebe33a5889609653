"""Kinds of preemptors take turns: each dry run follows the nomination of the kind before."""

from msgspec.structs import replace

from shared.events.binding import VictimsJudged
from shared.events.placement import LowerPods
from shared.events.preemption import DryRunAsked, NominateAsked, PreemptionClosed, VictimsAsked
from shared.model.columns import pack
from tests.unit.preemption.test_core import (
    NOBODY,
    POD,
    candidate,
    dry_run,
    found,
    is_over,
    nominate,
    preemption,
    wanted,
)


def test_signatures_wait_until_extenders_have_chosen_victims():
    mesh = preemption()
    mesh.when(wanted(), wanted(51, 8))
    lower = LowerPods(pack([1]), pack([0]), pack([1_000]))
    (asked,) = mesh.when(replace(found(candidate(1)), lower=(lower,)))
    assert isinstance(asked, VictimsAsked)
    mesh.reload()
    assert mesh.core.due_ms(mesh.state) is None
    said = VictimsJudged(1, POD, asked.candidates, "")
    assert mesh.when(said) == [nominate(1), DryRunAsked(2, 51, 8, (), pack([1]))]


def test_each_signatures_dry_run_waits_for_the_nomination_before_it():
    mesh = preemption()
    assert mesh.when(wanted(), wanted(51, 8), wanted(52, 9)) == [dry_run()]
    mesh.reload()
    assert mesh.when(wanted(53, 10)) == []
    assert mesh.when(found(candidate(1))) == [nominate(1), DryRunAsked(2, 51, 8, (), pack([1]))]
    assert mesh.core.due_ms(mesh.state) is None
    assert mesh.when(found(ask=2, pod=51)) == [
        PreemptionClosed(2, 51, f"{NOBODY}/0 nodes are available:"),
        DryRunAsked(3, 52, 9, (), pack([1])),
    ]


def test_signatures_of_higher_priority_have_the_first_turn():
    mesh = preemption()
    mesh.when(wanted(), replace(wanted(51, 8), priority=1), replace(wanted(52, 9), priority=2))
    assert mesh.state.searching == {3}
    mesh.reload()
    assert mesh.when(found(candidate(1), ask=3, pod=52))[-1].pod == 51
    mesh.when(found(candidate(2), ask=2, pod=51))
    assert mesh.state.searching == {1}


def served_in_vain(kinds):
    """Ask for signatures without candidates; return the steps, and how many are searched
    at a time.
    """
    mesh = preemption()
    asked, turns = mesh.when(*(wanted(100 + kind, 10 + kind) for kind in range(kinds))), []
    while asked:
        turns.append(len(asked))
        said = mesh.when(*(found(ask=one.ask, pod=one.pod) for one in asked))
        asked = [one for one in said if isinstance(one, DryRunAsked)]
    return mesh, turns


def test_signatures_without_candidates_are_answered_in_parallel():
    mesh, turns = served_in_vain(20)
    assert turns == [1, 1, 2, 4, 8, 4]
    assert is_over(mesh)


def test_an_answer_that_a_choice_made_stale_is_repeated_in_the_same_round():
    mesh, _turns = served_in_vain(4)
    mesh.when(wanted(), wanted(51, 8), wanted(52, 9))
    answers = (found(candidate(1), candidate(2), ask=5 + at, pod=POD + at) for at in range(3))
    assert mesh.when(*answers) == [
        nominate(1, ask=5),
        DryRunAsked(6, 51, 8, (), pack([1])),
    ]
    mesh.reload()
    assert mesh.when(found(ask=6, pod=51))[-1] == DryRunAsked(7, 52, 9, (), pack([1]))
    assert mesh.state.asks[7].rounds == 1


def test_an_answer_beside_a_signature_without_candidates_stays_valid():
    mesh, _turns = served_in_vain(4)
    mesh.when(wanted(), wanted(51, 8))
    answers = found(ask=5), found(candidate(1), ask=6, pod=51)
    assert [type(one) for one in mesh.when(*answers)] == [PreemptionClosed, NominateAsked]


def test_snapshots_from_before_the_turns_load():
    mesh = preemption()
    mesh.when(wanted(), wanted(51, 8))
    body = mesh.core.dump(mesh.state)
    before = {**body, "asks": [ask[:-1] for ask in body["asks"]]}
    assert mesh.core.dump(mesh.core.load(before)) == body
