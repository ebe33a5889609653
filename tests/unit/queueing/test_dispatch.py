"""Which pods are dispatched next: priority, age, the reorder window, batches, credits, shards."""

import pytest

from shared.events.ingest import PodsAssigned, PodsGone, SignatureRetired, WorldListed
from shared.events.placement import ShardDigest
from shared.model.columns import pack
from tests.unit.queueing.inputs import (
    bound,
    digest,
    pending,
    queue,
    refused,
    reserved,
    tried,
    tries,
)


def test_pods_of_a_signature_form_a_batch_in_order_of_arrival():
    assert tries(queue().when(pending(1, 1, 2), pending(1, 5, 3))) == [(0, 1, [1, 2, 5, 3])]


def test_higher_priority_is_dispatched_first():
    events = queue(priorities=(0, 9)).when(pending(1, 1), pending(2, 2), pending(1, 3))
    assert tries(events) == [(0, 2, [2]), (0, 1, [1, 3])]


def test_at_equal_priority_the_oldest_pod_is_dispatched_first():
    events = queue(priorities=(0, 0)).when(pending(2, 1), pending(1, 2), pending(2, 3))
    assert tries(events) == [(0, 2, [1, 3]), (0, 1, [2])]


def test_strict_order_takes_only_neighbours():
    steps = queue(priorities=(0, 0, 5), strict_order=True)
    events = steps.when(pending(1, 1, 2), pending(2, 3), pending(1, 4), pending(3, 5))
    assert tries(events) == [(0, 3, [5]), (0, 1, [1, 2]), (0, 2, [3]), (0, 1, [4])]


def test_the_reorder_window_bounds_how_far_a_batch_reaches():
    steps = queue(priorities=(0, 0), unbound_max=1)
    first = tried(steps.when(pending(1, 1)))
    steps.when(reserved(first[0]))
    steps.when(pending(1, 2), pending(2, 3), at_ms=2_000)
    steps.when(pending(1, 4), at_ms=2_500)
    steps.when(pending(1, 5), at_ms=2_501)
    events = steps.when(bound(1), at_ms=2_600)
    assert tries(events)[0] == (0, 1, [2, 4])
    assert tries(events)[1:] == [(0, 2, [3]), (0, 1, [5])]


def test_max_batch_cuts():
    events = queue(max_batch=2).when(pending(1, 1, 2, 3))
    assert tries(events) == [(0, 1, [1, 2]), (0, 1, [3])]


def test_one_pod_per_dispatch_keeps_the_order_of_arrival_between_signatures():
    events = queue(priorities=(0, 0), max_batch=1).when(
        pending(1, 1), pending(2, 2), pending(1, 3), pending(2, 4)
    )
    assert [pods for _shard, _sig, pods in tries(events)] == [[1], [2], [3], [4]]


def test_a_batch_larger_than_the_credits_is_cut_and_the_rest_follows_the_answers():
    steps = queue(credit_units=100)
    first = tried(steps.when(pending(1, *range(1, 101))))
    assert [len(event.ids) // 8 for event in first] == [40]  # 60 units are for the new signature
    again = tried(steps.when(reserved(first[0], *range(1, 31))))
    assert [len(event.ids) // 8 for event in again] == [30]
    last = tried(steps.when(reserved(first[0], *range(31, 41)), reserved(again[0])))
    assert [len(event.ids) // 8 for event in last] == [30]


def test_credits_of_deleted_pods_return():
    steps = queue(credit_units=100)
    steps.when(pending(1, *range(1, 41)))
    assert steps.state.shards[0].units == 100
    steps.when(PodsGone(pack(range(1, 21))))
    assert steps.state.shards[0].units == 80
    steps.when(PodsAssigned(0, pack(range(21, 41)), pack([1] * 20), pack([1] * 20)))
    assert steps.state.shards[0].units == 0


def test_a_pod_deleted_before_its_dispatch_is_not_tried():
    steps = queue(priorities=(0, 0), unbound_max=1)
    first = tried(steps.when(pending(2, 1)))
    steps.when(reserved(first[0]), pending(1, 2, 3, 4, 5))
    steps.when(PodsGone(pack([2, 4])))
    assert tries(steps.when(bound(1))) == [(0, 1, [3, 5])]


def test_too_many_reserved_pods_without_a_bind_stop_dispatching():
    steps = queue(unbound_max=2)
    first = tried(steps.when(pending(1, 1, 2)))
    assert tries(steps.when(reserved(first[0]), pending(1, 3))) == []
    assert tries(steps.when(bound(1))) == [(0, 1, [3])]


def test_a_measured_bind_rate_opens_the_window_further():
    steps = queue(unbound_max=1)
    steps.state.rate.last = 3
    first = tried(steps.when(pending(1, 1, 2)))
    assert tries(steps.when(reserved(first[0]), pending(1, 3))) == [(0, 1, [3])]


def test_without_digests_shards_share_the_work():
    steps = queue(shards=3, priorities=(0, 0, 0))
    assert [
        shard for shard, _sig, _pods in tries(steps.when(*map(pending, (1, 2, 3), (1, 2, 3))))
    ] == [0, 1, 2]


def test_the_shard_with_most_room_for_the_signature_is_chosen():
    steps = queue(shards=3)
    events = steps.when(digest(0, 5), digest(1, 50), digest(2, 7), pending(1, 1))
    assert tries(events) == [(1, 1, [1])]


def test_big_batches_are_spread_over_shards():
    steps = queue(shards=2)
    events = steps.when(digest(0, 10**6), digest(1, 10**6), pending(1, *range(1, 4_001)))
    sizes = [(event.shard, len(event.ids) // 8) for event in tried(events)]
    assert sizes[:2] == [(0, 2_000), (1, 1_000)]


def test_a_shard_that_refused_the_signature_is_left_out():
    steps = queue(shards=2)
    first = tried(steps.when(pending(1, 1)))[0]
    second = tried(steps.when(refused(first)))[0]
    assert (second.shard, second.urgent) == (1, True)
    steps.when(reserved(second))
    assert tries(steps.when(pending(1, 2))) == [(1, 1, [2])]


def test_retired_signatures_are_forgotten():
    steps = queue()
    first = tried(steps.when(pending(1, 1)))[0]
    steps.when(reserved(first), bound(1), PodsGone(pack([1])), SignatureRetired(1))
    assert steps.state.sigs == {}


def test_a_digest_for_another_number_of_nodes_makes_refusals_stale():
    steps = queue()
    first = tried(steps.when(ShardDigest(0, 3, 9, 9, 0), pending(1, 1)))[0]
    assert tries(steps.when(refused(first, nodes=3))) == []
    assert tries(steps.when(ShardDigest(0, 3, 0, 0, 0))) == []
    assert tries(steps.when(ShardDigest(0, 4, 9, 9, 0))) == [(0, 1, [1])]


def test_a_pod_of_an_undefined_signature_halts():
    with pytest.raises(AssertionError, match="signature 7"):
        queue().when(pending(7, 1))


def test_a_step_is_bounded_and_due_again_when_work_is_left():
    steps = queue(max_batch=1, credit_units=10**9)
    events = steps.when(pending(1, *range(1, 1_001)))
    assert len(events) == 512
    assert steps.core.due_ms(steps.state) == steps.state.now_ms
    assert len(steps.when()) == 488
    assert steps.core.due_ms(steps.state) is None


def test_a_gated_pod_waits_until_it_is_seen_without_gates():
    steps = queue()
    assert tries(steps.when(pending(1, 1, gated=True))) == []
    assert tries(steps.when(pending(1, 1))) == [(0, 1, [1])]


def test_a_waiting_pod_moves_with_its_new_signature():
    steps = queue(priorities=(0, 0), unbound_max=1)
    first = tried(steps.when(pending(1, 1)))[0]
    steps.when(reserved(first), pending(1, 2, 3))
    steps.when(pending(2, 2))
    assert tries(steps.when(bound(1))) == [(0, 2, [2]), (0, 1, [3])]


def test_a_pod_that_changed_in_flight_is_retried_when_refused():
    steps = queue(priorities=(0, 0))
    first = tried(steps.when(pending(1, 1, 2)))[0]
    steps.when(pending(2, 1))
    assert tries(steps.when(refused(first))) == [(0, 2, [1])]


def test_nothing_is_tried_before_the_first_lists_of_a_world_are_complete():
    steps = queue(priorities=(0, 5))
    assert steps.when(WorldListed(complete=False), pending(1, 1), at_ms=2_000) == []
    assert steps.core.due_ms(steps.state) is None
    steps.reload()
    events = steps.when(pending(1, 3), pending(2, 2), WorldListed(complete=True), at_ms=9_000)
    assert tries(events) == [(0, 2, [2]), (0, 1, [1, 3])], "of one age, for all that took 7 s"


def test_pods_in_flight_to_a_shard_count_as_taken():
    steps = queue(shards=2, priorities=(0, 0, 0))
    steps.when(digest(0, cpu=11), digest(1, cpu=10))
    first, second, third = (tried(steps.when(pending(sig, sig)))[0] for sig in (1, 2, 3))
    assert [first.shard, second.shard, third.shard] == [0, 1, 0]
    # The digest was made before the third pod came: what it does not count yet is still owed.
    steps.when(reserved(first), digest(0, cpu=10))
    assert steps.state.shards[0].free_cpu_milli == 10 - 3
    steps.when(refused(third))
    assert steps.state.shards[0].free_cpu_milli == 10
