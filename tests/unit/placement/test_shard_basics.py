"""Configuration, digests, the ledger's window and its transitions."""

import numpy as np
import pytest

from services.placement.core.books.ledger import Ledger
from services.placement.core.config import Config
from services.placement.core.transitions import CHARGED, TRANSITIONS, State
from shared.events.binding import BindFailed, Bound
from shared.events.ingest import (
    BudgetCovers,
    BudgetGone,
    NodesGone,
    NodesSet,
    PodsAssigned,
    SignatureRetired,
)
from shared.events.permit import HoldAsked
from shared.events.placement import Refused, ShardDigest
from shared.events.preemption import NominateAsked
from shared.events.queueing import Dispatched
from shared.machine.core import step
from shared.model.columns import pack
from shared.model.options import read_options
from tests.unit.placement.shard import GIB, Shard, node, spec


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batsh": True}, "placement.batsh: unknown option"),
        ({"batch": 3}, "placement.batch: Expected `bool`"),
        ({"compatibility": "1.2"}, "placement: compatibility must be one of 1.35, 1.36, 1.37"),
        ({"slice_units": 0}, "placement.slice_units: Expected `int` >= 1"),
    ],
)
def test_a_bad_option_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        read_options("placement", {"placement": options}, Config)


def digests(shard: Shard) -> list[ShardDigest]:
    return [e for e in step(shard.core, shard.state) if isinstance(e, ShardDigest)]


def test_a_digest_is_sent_at_once_when_it_matters_and_else_after_a_while():
    shard = Shard().sig(1, spec(cpu=1, memory=1)).nodes(1, node("a", cpu=1_000))
    assert digests(shard) == [ShardDigest(0, 1, 1_000, 16 * GIB, 0)]
    shard.state.now_ms = 10
    assert digests(shard.dispatch(1, 1)) == []
    assert shard.core.due_ms(shard.state) == 1_000
    assert digests(shard.dispatch(1, *range(2, 21))) == [ShardDigest(0, 1, 980, 16 * GIB - 20, 0)]
    assert shard.core.due_ms(shard.state) is None
    digests(shard.dispatch(1, 30))
    shard.state.now_ms = 1_010
    assert digests(shard.reload()) == [ShardDigest(0, 1, 979, 16 * GIB - 21, 0)]


def test_a_retired_signature_leaves_with_its_last_charge():
    shard = Shard().nodes(1, node("a")).sig(1, spec()).dispatch(1, 1)
    shard.run()
    shard.given(SignatureRetired(1))
    assert 1 in shard.reload().state.specs
    shard.gone(1)
    shard.run()
    assert not shard.state.specs
    (refusal,) = shard.dispatch(1, 2).run()
    assert isinstance(refusal, Refused)
    assert refusal.reasons == ()


def test_a_pod_may_have_several_budgets():
    shard = Shard().given(BudgetCovers(1, pack([5, 6])), BudgetCovers(2, pack([6])))
    shard.given(BudgetCovers(3, pack([6])), BudgetGone(1))
    shard.reload()
    ledger = shard.state.ledger
    assert int(ledger.budget[ledger.row(5)]) == 0
    assert int(ledger.budget[ledger.row(6)]) == 2
    assert shard.state.budgets_more == {6: (3,)}


def test_the_ledgers_window_moves_with_the_live_pods():
    shard = Shard().nodes(1, node("a", cpu=10**6, memory=10**15, pods=10**6)).sig(1, spec())
    for first in range(1, 40_000, 1_000):
        shard.dispatch(1, *range(first, first + 1_000))
        for _ in range(3):
            step(shard.core, shard.state)
        shard.gone(*range(first, first + 1_000))
    shard.state.gone.clear()
    shard.state.ledger.kind[:] = 0
    ledger = shard.state.ledger
    ledger.rows(np.array([100_000, 100_001], np.int64))
    assert len(ledger.kind) == 1_024
    assert ledger.base <= 100_000
    ledger.rows(np.array([7, 100_001], np.int64))
    assert ledger.base <= 7


def test_an_illegal_transition_reports_the_pods_story():
    ledger = Ledger()
    ledger.kind[4] = State.BOUND
    with pytest.raises(AssertionError, match=r"pod 5 is BOUND .* Reserved is not a legal"):
        ledger.advance(np.array([4, 4], np.int64), "Reserved")
    with pytest.raises(AssertionError, match=r"pod 5 is BOUND .* Refused is not a legal"):
        ledger.advance_one(4, "Refused")
    assert ledger.kind[4] == State.BOUND


def test_facts_and_late_outcomes_are_legal_in_every_state():
    facts = ("Dispatched", "PodsGone", "Bound", "BindFailed", "GangCommitted", "GangReleased")
    missing = [(s, e) for s in State for e in (*facts, "NodesGone") if (s, e) not in TRANSITIONS]
    assert not missing
    assert all(TRANSITIONS[state, "PodsAssigned"] == State.ASSIGNED for state in CHARGED)


def test_a_story_names_the_pods_of_an_overfull_node():
    from services.placement.core.placing.dispatches import over_story

    shard = Shard().nodes(1, node("a")).sig(1, spec(cpu=3_000)).assigned((1, 1, 1), (2, 1, 1))
    story = over_story(shard.state, 0)
    assert "node 1 is over-full" in story
    assert "1:ASSIGNED:sig 1" in story


def test_events_for_another_shard_change_nothing():
    shard = Shard(1, 2).nodes(1, node("a")).sig(1, spec())
    before = shard.dumped()
    shard.given(
        Dispatched(1, 0, 1, pack([1])),
        PodsAssigned(0, pack([1]), pack([1]), pack([1])),
        NodesSet(0, pack([2]), (node("b"),)),
        NodesGone(0, pack([1])),
        HoldAsked(1, 1, 0, ()),
        NominateAsked(1, 1, 1, 0, 1, b""),
        Bound(pack([1]), pack([1])),
        BindFailed(pack([1]), "gone", pack([1])),
    )
    assert shard.dumped() == before
