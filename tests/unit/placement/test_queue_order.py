"""A shard works on dispatches in the order of queue plugins, as queueing sends them."""

from shared.events.ingest import SignatureRetired, SignaturesQueued
from shared.events.placement import Reserved
from shared.events.preemption import NominateAsked
from shared.model.columns import pack, unpack
from tests.unit.placement.shard import Shard, node, spec


def _queued(*pairs: tuple[int, int]) -> SignaturesQueued:
    sigs, orders = zip(*pairs, strict=True)
    return SignaturesQueued(pack(sigs), pack(orders), ("",) * len(pairs))


def _shard() -> Shard:
    shard = Shard().nodes(1, node("n1"))
    return shard.sig(1, spec(priority=9)).sig(2, spec(priority=0)).sig(3, spec(priority=5))


def _order(shard: Shard) -> list[int]:
    return [event.sig for event in shard.run() if isinstance(event, Reserved)]


def test_dispatches_follow_the_order_whenever_they_came():
    shard = _shard().dispatch(1, 1).given(_queued((1, 1), (2, 7)))
    assert _order(shard.dispatch(2, 2).dispatch(3, 3)) == [2, 3, 1]


def test_a_dispatch_before_its_signature_follows_the_order():
    shard = Shard().nodes(1, node("n1")).dispatch(1, 1).dispatch(2, 2)
    shard.sig(1, spec(priority=9)).sig(2, spec()).given(_queued((1, 1), (2, 7)))
    assert _order(shard) == [2, 1]


def test_a_loaded_shard_follows_the_order_and_forgets_retired_signatures():
    shard = _shard().given(_queued((1, 1), (2, 7)))
    dumped = shard.core.dump(shard.state)
    shard.state = shard.core.load(dumped)
    assert shard.core.dump(shard.state) == dumped
    assert _order(shard.dispatch(1, 1).dispatch(2, 2)) == [2, 1]
    shard.given(SignatureRetired(1)).gone(1)
    assert shard.state.orders == {2: 7}


def test_what_claims_goes_before_what_borrows_and_the_others_keep_their_place():
    shard = _shard().sig(4, spec(priority=7))
    shard.dispatch(1, 1, borrows=True).dispatch(2, 2, claims=True).dispatch(3, 3).dispatch(4, 4)
    dumped = shard.core.dump(shard.state)
    shard.state = shard.core.load(dumped)
    assert shard.core.dump(shard.state) == dumped
    assert _order(shard) == [4, 3, 2, 1]
    assert _order(_shard().dispatch(1, 1, borrows=True).dispatch(3, 3)) == [1, 3]


def test_nominated_space_is_kept_by_priority_all_the_same():
    shard = _shard().assigned((60, 2, 1))
    shard.given(_queued((2, 100)), NominateAsked(1, 50, 1, 0, 1, pack([60]))).run()
    decided = shard.gone(60).dispatch(2, 1, 2, 3, 4).run()
    placed = [pod for event in decided if isinstance(event, Reserved) for pod in unpack(event.ids)]
    assert placed == [1, 2, 3], "the fourth core is for a pod of higher priority"
