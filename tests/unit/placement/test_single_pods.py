"""Dispatches: order, reservations, refusals, outcomes and facts that overtake each other."""

from shared.events.binding import BindFailed, Bound
from shared.events.placement import Improved, Refused, Released, Reserved
from shared.events.queueing import ReasonsAsked
from shared.model.columns import pack
from tests.unit.placement.shard import Shard, node, placed, refused, spec


def two_nodes(**config) -> Shard:
    return Shard(**config).nodes(1, node("a"), 2, node("b")).sig(1, spec())


def test_pods_are_reserved_until_the_shard_is_full_and_the_rest_is_refused():
    shard = two_nodes().dispatch(1, *range(1, 11))
    events = shard.run()
    assert sorted(pod for pod, _ in placed(events)) == list(range(1, 9))
    assert refused(events) == [9, 10]
    refusal = events[-1]
    assert isinstance(refusal, Refused)
    assert refusal.reasons == (("Insufficient cpu", 2),)
    assert (refusal.nodes, refusal.resolvable, refusal.preemptible) == (2, 2, False)


def test_urgent_comes_first_then_priority_then_arrival():
    shard = Shard().nodes(1, node("a", cpu=64_000)).sig(1, spec()).sig(2, spec(priority=5))
    shard.dispatch(1, 1).dispatch(2, 2).dispatch(2, 3).dispatch(1, 4, urgent=True)
    assert [pod for pod, _ in placed(shard.run())] == [4, 2, 3, 1]


def test_a_failed_reservation_is_released_and_wakes_refused_pods():
    shard = two_nodes().dispatch(1, *range(1, 10))
    first = dict(placed(shard.run()))
    events = shard.given(BindFailed(pack([3]), "abandoned", pack([first[3]]))).run()
    assert events == [Released(pack([3])), Improved(0, pack([1]), 0)]
    assert placed(shard.dispatch(1, 9).run()) == [(9, first[3])]


def test_a_late_failure_of_an_older_bind_leaves_the_new_reservation():
    shard = two_nodes().dispatch(1, 1)
    (_pod, where), *_ = placed(shard.run())
    shard.given(BindFailed(pack([1]), "abandoned", pack([3 - where])))
    assert shard.run() == []


def test_a_dispatch_that_overtakes_the_failure_waits_for_it():
    shard = two_nodes().dispatch(1, 1)
    (_pod, where), *_ = placed(shard.run())
    assert shard.dispatch(1, 1).run() == []
    events = shard.reload().given(BindFailed(pack([1]), "abandoned", pack([where]))).run()
    assert isinstance(events[0], Released)
    assert placed(events) == [(1, where)]


def test_a_fact_beats_a_decision():
    shard = two_nodes().dispatch(1, 1)
    (_pod, where), *_ = placed(shard.run())
    shard.assigned((1, 1, 3 - where))
    shard.run()
    assert shard.given(BindFailed(pack([1]), "foreign", pack([where]))).run() == []
    shard.given(Bound(pack([1]), pack([3 - where])))
    shard.run()
    pods_on = dict(zip(shard.state.table.ids.tolist(), shard.state.table.requested[0], strict=True))
    assert pods_on == {where: 0, 3 - where: 1000}


def test_a_fact_after_a_failed_bind_of_a_deleted_pod_charges_nothing():
    shard = two_nodes().dispatch(1, 1)
    (_pod, where), *_ = placed(shard.run())
    shard.given(BindFailed(pack([1]), "gone", pack([where]))).assigned((1, 1, where))
    assert shard.reload().run() == []
    assert shard.state.table.requested[0].tolist() == [0, 0]
    assert placed(shard.gone(1).dispatch(1, 1).run()) == []


def test_facts_may_overfill_a_node_and_nothing_is_added_to_it():
    shard = Shard().nodes(1, node("a")).sig(1, spec(cpu=3_000))
    shard.assigned((1, 1, 1), (2, 1, 1)).dispatch(1, 3)
    assert refused(shard.run()) == [3]


def test_pods_of_a_node_that_is_not_known_yet_are_charged_when_it_comes():
    shard = Shard().sig(1, spec(cpu=3_000)).assigned((1, 1, 7))
    shard.run()
    shard.reload().nodes(7, node("g")).dispatch(1, 2)
    assert refused(shard.run()) == [2]
    events = shard.gone(1).run()
    assert events == [Improved(0, pack([1]), 0)]


def test_a_dispatch_waits_for_its_signature():
    shard = Shard().nodes(1, node("a")).dispatch(1, 1)
    assert shard.run() == []
    assert placed(shard.reload().sig(1, spec()).run()) == [(1, 1)]


def test_a_dispatch_with_a_late_signature_follows_its_priority():
    shard = Shard().nodes(1, node("a")).sig(1, spec()).dispatch(2, 2)
    shard.dispatch(1, 1).sig(2, spec(priority=-5))
    assert [pod for pod, _ in placed(shard.run())] == [1, 2]
    shard.dispatch(3, 3).dispatch(1, 4).sig(3, spec(priority=5))
    assert [pod for pod, _ in placed(shard.run())] == [3, 4]


def test_a_pod_deleted_before_its_pick_is_left_out():
    shard = two_nodes().dispatch(1, 1, 2, 3)
    assert [pod for pod, _ in placed(shard.gone(2).run())] == [1, 3]


def test_a_pod_deleted_before_its_dispatch_is_left_out():
    shard = two_nodes().gone(2).dispatch(1, 1, 2)
    assert [pod for pod, _ in placed(shard.run())] == [1]


def test_a_recreated_node_has_no_charges():
    shard = Shard().nodes(1, node("a")).sig(1, spec(cpu=3_000)).dispatch(1, 1)
    assert placed(shard.run()) == [(1, 1)]
    shard.nodes_gone(1).nodes(2, node("a2")).dispatch(1, 2)
    assert placed(shard.run()) == [(2, 2)]
    assert shard.given(BindFailed(pack([1]), "abandoned", pack([1]))).run() == []


def test_large_dispatches_are_worked_in_slices():
    shard = Shard(slice_units=100).nodes(1, node("a", pods=1000)).sig(1, spec(cpu=1, memory=1))
    events = shard.dispatch(1, *range(1, 101)).run()
    assert [len(placed([event])) for event in events] == [40, 40, 20]
    assert all(isinstance(event, Reserved) for event in events)


def test_only_signatures_that_fit_the_changed_node_improve():
    shard = Shard().nodes(1, node("a", cpu=1_000)).sig(1, spec(cpu=2_000)).sig(2, spec(cpu=8_000))
    shard.dispatch(1, 1).dispatch(2, 2)
    assert sorted(refused(shard.run())) == [1, 2]
    assert shard.nodes(1, node("a", cpu=4_000)).run() == [Improved(0, pack([1]), 0)]
    assert shard.nodes(1, node("a", cpu=5_000)).run() == [Improved(0, b"", 0)]
    assert shard.nodes(1, node("a", cpu=8_000)).run() == [Improved(0, pack([2]), 0)]


def test_space_alone_does_not_wake_pods_refused_for_other_reasons():
    shard = Shard().nodes(1, node("a")).sig(1, spec(cpu=3_000)).sig(2, spec())
    shard.sig(3, spec(node_selector=(("disk", "ssd"),)))
    shard.dispatch(1, 1, 2).dispatch(3, 3)
    assert refused(shard.run()) == [2, 3]
    assert shard.gone(1).run() == [Improved(0, pack([1]), 0)]


def test_a_refused_signature_is_refreshed_with_current_reasons():
    shard = two_nodes().dispatch(1, *range(1, 10))
    assert refused(shard.run()) == [9]
    shard.nodes(3, node("c", cpu=500))
    shard.run()
    (event,) = shard.given(ReasonsAsked(1)).reload().run()
    assert isinstance(event, Refused)
    assert (event.attempt, event.ids, event.nodes) == (0, b"", 3)
    assert event.reasons == (("Insufficient cpu", 3),)
    assert shard.run() == []


def test_a_shard_that_refuses_no_more_sends_no_reasons():
    shard = two_nodes().dispatch(1, *range(1, 10))
    shard.given(ReasonsAsked(1)).run()
    shard.given(ReasonsAsked(1)).nodes(3, node("c"))
    events = shard.run()
    assert events == [Improved(0, pack([1]), 0)]
    assert shard.given(ReasonsAsked(1)).run() == []
