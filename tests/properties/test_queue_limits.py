"""What a preemptor may take from other queues, in random trees, by brute force."""

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.model.cluster_objects import Queue
from shared.model.preemption.queue_limits import Guarantees, QueueLimits, Sums

RESOURCES = ("cpu", "memory", "pods")
amounts = st.dictionaries(st.sampled_from(RESOURCES), st.integers(1, 4), min_size=1)
least = st.dictionaries(st.sampled_from(RESOURCES), st.integers(1, 9), max_size=2)
Pod = tuple[str, dict[str, int]]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Queue], list[Pod], Pod]:
    """Return queues, running pods, and a preemptor."""
    queues: list[Queue] = []
    for number in range(draw(st.integers(2, 5))):
        parent = draw(st.sampled_from(["", *(one.name for one in queues)]))
        given_ = tuple(sorted(draw(least).items()))
        name = f"q{number}"
        queues.append(Queue(uid=name, name=name, parent=parent, guaranteed=given_))
    pods = st.tuples(st.sampled_from([one.name for one in queues]), amounts)
    return queues, draw(st.lists(pods, max_size=8)), draw(pods)


def chain(queues: list[Queue], name: str) -> list[str]:
    known = {one.name: one.parent for one in queues}
    return [] if not name else [name, *chain(queues, known[name])]


def use(queues: list[Queue], pods: list[Pod], name: str, resource: str) -> int:
    return sum(it.get(resource, 0) for queue, it in pods if name in chain(queues, queue))


def limits(queues: list[Queue], pods: list[Pod], preemptor: Pod, claims: bool) -> QueueLimits:
    tree, used = Guarantees(queues), Sums()
    for queue, it in pods:
        tree.add(used, queue, tuple(sorted(it.items())), 1)
    return QueueLimits(tree, used, preemptor[0], tuple(sorted(preemptor[1].items())), claims)


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_no_queue_of_a_victim_falls_below_its_guarantee(world: tuple[list[Queue], list[Pod], Pod]):
    queues, pods, preemptor = world
    found, stay = limits(queues, pods, preemptor, claims=True), list(pods)
    for pod in pods:
        after = list(stay)
        after.remove(pod)
        below = [one for one in queues if one.name in chain(queues, pod[0])]
        below = [one for one in below if one.name not in chain(queues, preemptor[0])]
        is_kept = all(
            use(queues, after, one.name, resource) >= amount
            for one in below
            for resource, amount in one.guaranteed
            if pod[1].get(resource)
        ) and all(
            use(queues, after, one.name, resource) + preemptor[1].get(resource, 0)
            >= min(amount, use(queues, pods, one.name, resource))
            for one in queues
            if one.name in chain(queues, pod[0]) and one.name in chain(queues, preemptor[0])
            for resource, amount in one.guaranteed
            if pod[1].get(resource)
        )
        assert found.take(pod[0], tuple(sorted(pod[1].items()))) == is_kept
        stay = after if is_kept else stay


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_claims_take_only_what_is_borrowed_on_each_level_beside_the_guarantee(
    world: tuple[list[Queue], list[Pod], Pod],
):
    queues, pods, preemptor = world
    found, known = limits(queues, pods, preemptor, claims=True), {one.name: one for one in queues}
    guarantors = {
        resource: name
        for name in reversed(chain(queues, preemptor[0]))
        for resource, _amount in known[name].guaranteed
        if resource in preemptor[1]
    }
    for one in queues:
        above = chain(queues, one.name)
        below = [name for name in above if name not in chain(queues, preemptor[0])]
        borrowed = [
            max(
                use(queues, pods, name, resource) - dict(known[name].guaranteed).get(resource, 0)
                for resource in preemptor[1]
                if resource != "pods" or "pods" in guarantors
            )
            for name in below
            if set(preemptor[1]) != {"pods"} or "pods" in guarantors
        ]
        is_beside = any(name not in above for name in guarantors.values())
        may_take = bool(borrowed) and is_beside and min(borrowed) > 0
        assert (found.borrows(one.name) > 0) == may_take
    assert not any(limits(queues, pods, preemptor, False).borrows(one.name) for one in queues)
