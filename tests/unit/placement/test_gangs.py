"""Gangs in one shard: all or nothing in one step, and released only when permit says so."""

from shared.events.binding import Bound
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut, HoldAsked, OfferAsked
from shared.events.placement import GangHeld, GangOffered, GangRefused, Improved
from shared.events.queueing import Members
from shared.model.columns import pack, unpack
from tests.unit.placement.shard import GIB, Shard, node, placed, refused, spec


def shard_of(nodes: int = 2, **config) -> Shard:
    shard = Shard(**config).sig(1, spec()).sig(2, spec(cpu=2_000))
    for number in range(1, nodes + 1):
        shard.nodes(number, node(f"n{number}"))
    return shard


def members(*groups: tuple[int, list[int]]) -> tuple[Members, ...]:
    return tuple(Members(sig, pack(ids)) for sig, ids in groups)


def ask_hold(shard: Shard, *groups: tuple[int, list[int]], attempt: int = 1):
    (answer,) = shard.given(HoldAsked(7, attempt, 0, members(*groups))).run()
    return answer


def test_an_offer_takes_members_in_order_and_charges_nothing():
    shard = shard_of()
    asked = OfferAsked(7, 1, members((2, [1, 2, 3]), (1, [4, 5, 6])))
    (offer,) = shard.given(asked).run()
    assert offer == GangOffered(0, 7, 1, (3, 2), (("Insufficient cpu", 2),), 2)
    assert (shard.state.table.requested == 0).all()


def test_the_reasons_of_an_offer_count_all_members_that_fit_as_placed():
    shard = shard_of().sig(3, spec(cpu=3_000)).sig(4, spec(memory=15 * GIB))
    (offer,) = shard.given(OfferAsked(7, 1, members((3, [1, 2, 3]), (4, [4])))).run()
    full = (("Insufficient cpu", 2), ("Insufficient memory", 1))
    assert offer == GangOffered(0, 7, 1, (2, 1), full, 2)


def test_a_hold_is_all_or_nothing():
    shard = shard_of()
    answer = ask_hold(shard, (2, [1, 2, 3]), (1, [4, 5, 6]))
    assert answer == GangRefused(0, 7, 1, (("Insufficient cpu", 2),), 2, 0, placed=5)
    assert not shard.state.holds
    answer = ask_hold(shard, (2, [1, 2, 3]), (1, [4, 5]), attempt=2)
    assert isinstance(answer, GangHeld)
    assert unpack(answer.ids).tolist() == [1, 2, 3, 4, 5]
    assert refused(shard.dispatch(1, 9).run()) == [9]


def test_a_released_hold_frees_its_space_and_is_recorded():
    for end in (GangReleased(7, 1, (), 0), GangTimedOut(7, 1)):
        shard = shard_of(1)
        ask_hold(shard, (1, [1, 2, 3, 4]))
        assert refused(shard.dispatch(1, 9).run()) == [9]
        assert shard.reload().given(end).run() == [Improved(0, pack([1]), 0)]
        assert placed(shard.dispatch(1, 9).run()) == [(9, 1)]


def test_members_that_permit_did_not_commit_are_released():
    shard = shard_of(1)
    held = ask_hold(shard, (1, [1, 2, 3, 4]))
    nodes = unpack(held.nodes)
    shard.given(GangCommitted(7, 1, pack([1, 2, 4]), pack(nodes[[0, 1, 3]])))
    assert placed(shard.dispatch(1, 8, 9).run()) == [(8, 1)]
    assert shard.given(GangReleased(7, 1, (), 0)).run() == []
    assert int(shard.state.table.requested[0, 0]) == 4_000


def test_bound_may_overtake_committed():
    shard = shard_of(1)
    ask_hold(shard, (1, [1]))
    shard.given(Bound(pack([1]), pack([1])), GangCommitted(7, 1, pack([1]), pack([1])))
    shard.run()
    assert shard.given(GangTimedOut(7, 1)).run() == []
    assert int(shard.state.table.requested[0, 0]) == 1_000


def test_asks_of_a_released_attempt_are_refused():
    shard = shard_of()
    shard.given(
        OfferAsked(7, 1, members((1, [1]))),
        HoldAsked(7, 1, 0, members((1, [1]))),
        HoldAsked(7, 2, 0, members((1, [1]))),
        GangReleased(7, 1, (), 0, stale=True),
        GangReleased(6, 1, (), 0),
    )
    offer, hold, other = shard.reload().run()
    assert offer == GangOffered(0, 7, 1, (0,), (), 2)
    assert hold == GangRefused(0, 7, 1, (), 2, 0)
    assert isinstance(other, GangHeld)


def test_deleted_members_are_left_out_of_a_hold():
    shard = shard_of().gone(2)
    answer = ask_hold(shard, (1, [1, 2, 3]))
    assert unpack(answer.ids).tolist() == [1, 3]


def test_a_deleted_held_member_releases_its_node():
    shard = shard_of(1)
    ask_hold(shard, (1, [1, 2, 3, 4]))
    shard.run()
    assert placed(shard.gone(2).dispatch(1, 9).run()) == [(9, 1)]


def test_a_leftover_dispatched_before_its_release_waits_for_it():
    shard = shard_of(1)
    ask_hold(shard, (1, [1, 2]))
    assert shard.dispatch(1, 2).run() == []
    events = shard.reload().given(GangCommitted(7, 1, pack([1]), pack([1]))).run()
    assert placed(events) == [(2, 1)]


def test_batch_off_holds_the_same():
    answers = [
        ask_hold(shard_of(batch=batch), (2, [1, 2]), (1, [3, 4, 5])) for batch in (True, False)
    ]
    assert answers[0] == answers[1]
