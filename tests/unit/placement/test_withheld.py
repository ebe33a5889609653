"""A node recreated under its name while binds to it are open: no pod is placed on it until each of
them is settled, and it is not withheld for longer.
"""

import msgspec
import pytest

from muster.explain.why.pods import node_answer
from shared.events.base import Event
from shared.events.binding import BindFailed, Bound
from shared.events.ingest import PodsAssigned, PodsGone
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut, HoldAsked
from shared.events.placement import GangHeld, Improved, Refused, Released
from shared.events.queueing import Members
from shared.model.columns import pack
from shared.model.objects import Node
from tests.unit.placement.shard import Shard, node, placed, refused, spec

OLD, NEW = 1, 2


def renamed(uid: str, cpu: int = 4_000, name: str = "a") -> Node:
    return msgspec.structs.replace(node(name, cpu=cpu), uid=uid)


def decided(pods: int = 1) -> Shard:
    """Return a shard: each pod of three cores is being bound to a node of that size, which is then
    deleted.
    """
    shard = Shard().sig(1, spec(cpu=3_000)).sig(2, spec(cpu=2_000))
    shard.nodes(OLD, node("a", cpu=3_000 * pods)).dispatch(1, *range(1, pods + 1))
    assert len(placed(shard.run())) == pods
    return shard


def remade(pods: int = 1) -> Shard:
    """Return the same with the node recreated; reloaded, so that every test starts from a
    snapshot.
    """
    shard = decided(pods).nodes_gone(OLD).nodes(NEW, renamed("again"))
    shard.run()
    return shard.reload()


def failed(reason: str, pod: int = 1, at: int = OLD) -> BindFailed:
    return BindFailed(pack([pod]), reason, pack([at]))


def shown(pod: int, at: int, shard: int = 0) -> PodsAssigned:
    return PodsAssigned(shard, pack([pod]), pack([1]), pack([at]))


def is_withheld(shard: Shard) -> bool:
    """Return whether a pod that would fit the empty node is refused: the node is not counted."""
    shard.core.check(shard.state)
    events = shard.dispatch(2, 99).run()
    shard.gone(99).run()
    refusals = [event for event in events if isinstance(event, Refused)]
    assert [(event.nodes, event.reasons) for event in refusals] in ([], [(0, ())])
    return bool(refusals)


def test_a_recreated_node_is_withheld_while_a_bind_to_it_is_open():
    shard = remade()
    assert is_withheld(shard)
    assert shard.state.free() == (0, 0, 0, 0)
    assert shard.state.digest[0] == 0


def test_why_not_that_node_says_that_it_is_withheld():
    shard = remade(pods=2).dispatch(2, 7)
    shard.run()
    answer = node_answer(shard.state, 2, 7, "a")
    assert answer is not None
    text = "made again while 2 binds to its name may be on their way"
    assert (answer.refused_by, answer.reasons) == ("Muster", (text,))
    shard.given(failed("gone")).given(failed("gone", pod=2)).run()
    open_ = node_answer(shard.state, 2, 7, "a")
    assert open_ is not None
    assert open_.refused_by == ""
    assert node_answer(shard.state, 2, 7, "z") is None


@pytest.mark.parametrize(
    "event",
    [failed("abandoned"), failed("gone"), failed("foreign"), PodsGone(pack([1])), shown(1, 9, 1)],
    ids=["abandoned", "gone", "foreign", "deleted", "in another shard"],
)
def test_a_withheld_node_is_added_when_the_bind_cannot_land(event: Event):
    shard = remade().dispatch(2, 7)
    assert refused(shard.run()) == [7]
    assert shard.given(event).run() == [Improved(0, pack([2]), 0)]
    assert not shard.state.unsettled
    assert placed(shard.reload().dispatch(2, 8).run()) == [(8, NEW)]


def test_a_withheld_node_is_added_with_the_pod_that_landed():
    shard = remade().given(shown(1, NEW))
    assert shard.state.table.requested[0].tolist() == [3_000]
    assert refused(shard.dispatch(2, 7).run()) == [7]
    assert shard.reload().state.free()[:2] == (1, 1_000)


def test_a_bound_event_alone_does_not_settle_the_node():
    shard = remade().given(Bound(pack([1]), pack([OLD])))
    assert is_withheld(shard.reload())
    assert placed(shard.given(shown(1, NEW)).dispatch(2, 7).run()) == []


def test_pods_bound_before_the_delete_are_waited_for_too():
    shard = decided().given(Bound(pack([1]), pack([OLD])))
    shard.nodes_gone(OLD).nodes(NEW, renamed("again")).run()
    assert is_withheld(shard)
    assert not is_withheld(shard.gone(1))


@pytest.mark.parametrize(
    "event",
    [failed("abandoned"), shown(1, OLD), PodsGone(pack([1]))],
    ids=["failed", "fact", "gone"],
)
def test_binds_settled_before_the_delete_withhold_nothing(event: Event):
    shard = decided().given(event).nodes_gone(OLD).nodes(NEW, renamed("again"))
    shard.run()
    assert not is_withheld(shard)


def test_the_failure_of_a_bind_to_another_node_settles_nothing():
    assert is_withheld(remade().given(failed("abandoned", at=7)))


def test_a_failure_without_nodes_settles():
    assert not is_withheld(remade().given(BindFailed(pack([1]), "abandoned")))


def test_all_binds_must_be_settled():
    shard = remade(pods=3).given(failed("abandoned", 2), PodsGone(pack([3])))
    assert is_withheld(shard.reload())
    assert not is_withheld(shard.given(failed("abandoned", 1)))


def test_other_names_are_not_withheld():
    shard = decided().nodes_gone(OLD).nodes(NEW, renamed("b", name="b"), 3, renamed("again"))
    assert placed(shard.dispatch(2, 7).run()) == [(7, NEW)]
    assert sorted(shard.state.nodes) == [NEW]


def test_an_existing_node_is_never_withheld():
    """Older journals may show the new node before the old one's deletion."""
    shard = decided().nodes(NEW, renamed("again")).nodes_gone(OLD)
    shard.nodes(NEW, renamed("again", cpu=2_000)).run()
    assert sorted(shard.state.nodes) == [NEW]
    assert not shard.state.withheld


def test_a_node_that_shrinks_is_the_same_node():
    shard = decided().nodes(OLD, node("a", cpu=1_000))
    shard.run()
    assert shard.state.free()[:2] == (1, 0)
    assert not shard.state.withheld


def test_the_node_is_added_in_its_latest_state():
    shard = remade().nodes(NEW, renamed("again", cpu=2_000)).given(failed("abandoned"))
    assert shard.state.free()[:2] == (1, 2_000)
    shard.nodes(NEW, renamed("again", cpu=5_000)).run()
    assert shard.state.free()[:2] == (1, 5_000)


def test_facts_about_the_node_are_charged_when_it_is_added():
    shard = remade().assigned((5, 1, NEW), (6, 2, NEW)).gone(6)
    shard.run()
    shard.reload().given(failed("abandoned")).run()
    assert shard.state.table.requested[0].tolist() == [3_000]


def test_a_third_node_of_the_name_is_withheld_in_turn():
    shard = remade().assigned((5, 1, NEW)).nodes_gone(NEW)
    shard.run()
    assert not shard.state.withheld
    assert not shard.state.strays
    shard.nodes(3, renamed("third")).run()
    assert is_withheld(shard.reload())
    shard.given(failed("abandoned")).run()
    assert sorted(shard.state.nodes) == [3]


def test_a_node_recreated_after_all_is_settled_is_not_withheld():
    shard = decided().nodes_gone(OLD).given(failed("abandoned")).nodes(NEW, renamed("again"))
    assert not is_withheld(shard)


def test_a_new_decision_about_the_pod_settles_the_old_one():
    """The second dispatch has overtaken the failure of the first bind; then the second node is
    deleted, too.
    """
    shard = remade().nodes(5, node("e", cpu=3_000)).dispatch(1, 1)
    assert placed(shard.run()) == [(1, 5)]
    shard.nodes_gone(5).run()
    assert sorted(shard.reload().state.nodes) == [NEW]
    shard.nodes(6, renamed("e-again", name="e")).given(failed("abandoned", at=OLD)).run()
    assert sorted(shard.state.withheld) == [6]
    shard.given(failed("abandoned", at=5)).run()
    assert sorted(shard.state.nodes) == [NEW, 6]


def test_a_deferred_dispatch_continues_when_the_node_is_deleted():
    shard = decided().dispatch(1, 1).nodes_gone(OLD).nodes(NEW, renamed("again"))
    assert refused(shard.run()) == [1]
    assert not is_withheld(shard.given(failed("abandoned")))


def held() -> Shard:
    """Return a shard that holds two members of a gang on a node that is deleted and recreated."""
    shard = Shard().sig(1, spec(cpu=1_000)).sig(2, spec(cpu=2_000)).nodes(OLD, node("a"))
    (answer,) = shard.given(HoldAsked(7, 1, 0, (Members(1, pack([1, 2])),))).run()
    assert isinstance(answer, GangHeld)
    shard.nodes_gone(OLD).nodes(NEW, renamed("again")).run()
    return shard.reload()


@pytest.mark.parametrize("over", [GangReleased(7, 1, (), 0), GangTimedOut(7, 1)])
def test_a_released_attempt_has_sent_nothing(over: Event):
    assert is_withheld(held().given(GangReleased(7, 2, (), 0), GangReleased(8, 1, (), 0)))
    assert not is_withheld(held().given(over))


def test_members_of_a_committed_gang_are_sent_and_the_others_are_not():
    shard = held().given(GangCommitted(7, 1, pack([2]), pack([OLD])))
    assert list(shard.state.unsettled) == [2]
    assert is_withheld(shard.reload().given(GangReleased(7, 1, (), 0), failed("abandoned", 1)))
    assert not is_withheld(shard.given(failed("abandoned", 2)))


def test_a_failure_that_overtakes_the_commit():
    shard = held().given(failed("abandoned", 1), failed("abandoned", 2))
    assert not is_withheld(shard.given(GangCommitted(7, 1, pack([1, 2]), pack([OLD, OLD]))))


def test_a_release_wakes_pods_that_were_refused_on_the_node():
    shard = remade().dispatch(1, 5)
    assert refused(shard.run()) == [5]
    events = shard.given(failed("abandoned")).run()
    assert [event for event in events if not isinstance(event, Released)] == [
        Improved(0, pack([1]), 0)
    ]
