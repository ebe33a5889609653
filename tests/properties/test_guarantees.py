"""Guarantees by brute force, in random trees."""

from hypothesis import given, settings
from hypothesis import strategies as st

from services.queueing.core.queues.quota import Quota
from shared.model.cluster_objects import Queue
from shared.model.queues import tree_faults

RESOURCES = ("cpu", "gpu", "pods")
amounts = st.dictionaries(st.sampled_from(RESOURCES), st.integers(1, 3), min_size=1)
least = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 6), max_size=2)
limits = st.dictionaries(st.sampled_from(RESOURCES), st.integers(2, 12), max_size=1)


def _sorted(found: dict[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(found.items()))


@st.composite
def trees(draw: st.DrawFn) -> list[Queue]:
    queues: list[Queue] = []
    for number in range(draw(st.integers(1, 5))):
        parent = draw(st.sampled_from(["", *(one.name for one in queues)]))
        most, guaranteed = _sorted(draw(limits)), _sorted(draw(least))
        name = f"q{number}"
        queues.append(Queue(uid=name, name=name, parent=parent, max=most, guaranteed=guaranteed))
    return queues


def _chain(queues: list[Queue], name: str) -> list[Queue]:
    known = {one.name: one for one in queues}
    found = []
    while name:
        found.append(known[name])
        name = known[name].parent
    return found


def _guaranteed(queues: list[Queue], queue: Queue, resource: str) -> int:
    below = [one for one in queues if one.parent == queue.name]
    return max(
        dict(queue.guaranteed).get(resource, 0),
        sum(_guaranteed(queues, one, resource) for one in below),
    )


@settings(max_examples=200)
@given(trees())
def test_a_tree_without_faults_can_give_all_that_it_guarantees(queues: list[Queue]):
    for one in queues:
        for resource in RESOURCES:
            needed = _guaranteed(queues, one, resource)
            named = dict(one.guaranteed).get(resource, needed)
            if min(named, dict(one.max).get(resource, needed)) < needed:
                assert one.name in tree_faults(queues)
                return
    assert tree_faults(queues) == {}


@settings(max_examples=200)
@given(trees(), st.data())
def test_claims_and_borrowing_agree_with_the_sums_of_pods(queues: list[Queue], data: st.DataObject):
    quota, names = Quota(queues), st.sampled_from([one.name for one in queues])
    pods = data.draw(st.lists(st.tuples(names, amounts), max_size=8))
    for queue, used in pods:
        quota.charge(queue, _sorted(used), 1)

    def used_at(name: str, resource: str) -> int:
        below = [used for queue, used in pods if name in {o.name for o in _chain(queues, queue)}]
        return sum(used.get(resource, 0) for used in below)

    name, wanted = data.draw(names), data.draw(amounts)
    chain = _chain(queues, name)
    room = []
    for resource, amount in wanted.items():
        for one in chain:
            if resource in dict(one.guaranteed):
                left = dict(one.guaranteed)[resource] - used_at(one.name, resource)
                room.append(left >= amount)
                break
    assert quota.claims(name, _sorted(wanted)) == (bool(room) and all(room))
    for one in chain:
        over = {r: used_at(one.name, r) - dict(one.guaranteed).get(r, 0) for r in RESOURCES}
        assert quota.borrowed(name)[one.name] == {r: n for r, n in over.items() if n > 0}
