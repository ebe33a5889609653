"""Profiles of a shard: each pod by its schedulerName, and a change of profiles at run time."""

from typing import Any

from msgspec import to_builtins

from shared.events.base import Configured
from shared.events.placement import Improved, Refused
from shared.model.columns import unpack
from shared.model.objects import Requirement, SelectorTerm
from shared.model.profile import MOST_ALLOCATED, Profile, Strategy
from tests.unit.placement.shard import Shard, node, placed, refused, spec

FIT = (("NodeResourcesFit", 1),)
STORAGE = "ephemeral-storage"


def most(name: str, *resources: str, **more: Any) -> Profile:
    """Return a profile that fills nodes."""
    weighed = tuple((resource, 1) for resource in resources or ("cpu",))
    return Profile(name=name, scores=FIT, strategy=Strategy(MOST_ALLOCATED, weighed), **more)


def least(name: str, *resources: str, **more: Any) -> Profile:
    """Return a profile that spreads pods."""
    weighed = tuple((resource, 1) for resource in resources or ("cpu",))
    return Profile(name=name, scores=FIT, strategy=Strategy("LeastAllocated", weighed), **more)


def options(*profiles: Profile) -> dict[str, Any]:
    return {"profiles": to_builtins(profiles)}


def with_storage(uid: str, amount: int) -> Any:
    found = node(uid)
    allocatable = tuple(sorted((*found.allocatable, (STORAGE, amount))))
    return type(found)(uid=uid, name=uid, allocatable=allocatable)


def test_every_pod_is_placed_by_its_profile():
    shard = Shard(**options(most("full"), least("wide")))
    shard.nodes(1, node("a"), 2, node("b"), 3, node("c"))
    shard.sig(1, spec(scheduler="full")).sig(2, spec(scheduler="wide"))
    shard.dispatch(1, 1)
    (_, filled), *_ = first = placed(shard.run())
    assert len(first) == 1
    assert placed(shard.dispatch(1, 2).run()) == [(2, filled)]
    (_, other), *_ = placed(shard.dispatch(2, 3).run())
    assert other != filled


def test_other_scored_resources_are_charged_by_every_profile():
    shard = Shard(**options(most("full", STORAGE), Profile()))
    shard.nodes(1, with_storage("a", 100), 2, with_storage("b", 100))
    shard.sig(1, spec()).sig(2, spec(scheduler="full"))
    stored = type(spec())(requests=(("cpu", 100), (STORAGE, 30)), scheduler="default-scheduler")
    shard.sig(3, stored)
    shard.dispatch(3, 1)
    ((_, on),) = placed(shard.run())
    assert placed(shard.dispatch(2, 2, 3).run()) == [(2, on), (3, on)]
    shard.reload()
    assert placed(shard.dispatch(2, 4).run()) == [(4, on)]
    shard.core.check(shard.state)


def test_new_profiles_apply_at_once_and_wake_refused_pods():
    away = (SelectorTerm((Requirement("disk", "Exists"),)),)
    shard = Shard(**options(Profile(name="p", added_required=away)))
    shard.nodes(1, with_storage("a", 100), 2, with_storage("b", 100))
    stored = type(spec())(requests=(("cpu", 100), (STORAGE, 30)), scheduler="p")
    shard.sig(1, stored).dispatch(1, 1)
    events = shard.run()
    assert refused(events) == [1]
    assert isinstance(events[-1], Refused)
    message = "node(s) didn't match scheduler-enforced node affinity"
    assert events[-1].reasons == ((message, 2),)
    shard.given(Configured({"placement": options(most("p", STORAGE))}))
    improved = [event for event in shard.run() if isinstance(event, Improved)]
    assert [unpack(event.sigs).tolist() for event in improved] == [[1]]
    ((_, on),) = placed(shard.dispatch(1, 1).run())
    # The charge of the first pod is kept when the profiles change once more.
    shard.given(Configured({"placement": options(most("p", STORAGE), Profile())}))
    assert placed(shard.dispatch(1, 2).run()) == [(2, on)]
    shard.given(Configured({"placement": options(least("p", STORAGE))}))
    ((_, other),) = placed(shard.dispatch(1, 3).run())
    assert other != on


def test_the_same_profiles_again_change_nothing():
    shard = Shard(**options(most("p"))).nodes(1, node("a")).sig(1, spec(scheduler="p"))
    table = shard.state.table
    shard.given(Configured({"placement": options(most("p"))}))
    assert shard.state.table is table


def test_a_profile_without_preemption_never_asks_for_it():
    for preempts in (True, False):
        shard = Shard(**options(Profile(name="p", preempts=preempts)))
        shard.nodes(1, node("a", cpu=1_000)).sig(1, spec()).assigned((1, 1, 1))
        shard.sig(2, spec(priority=5, scheduler="p")).dispatch(2, 2)
        refusal = shard.run()[-1]
        assert isinstance(refusal, Refused)
        assert (refusal.resolvable, refusal.preemptible) == (1, preempts)


def test_ignored_resources_may_be_more_than_a_node_has():
    dongle = "example.com/dongle"
    shard = Shard(**options(Profile(name="p", ignored_resources=(dongle,))))
    shard.nodes(1, node("a"))
    shard.sig(1, type(spec())(requests=((dongle, 5),), scheduler="p"))
    assert placed(shard.dispatch(1, 1, 2).run()) == [(1, 1), (2, 1)]
