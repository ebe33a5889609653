"""Guarantees by brute force, in random trees, and the order that they give."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from services.queueing.core.queues.quota import Quota
from shared.events.base import Event
from shared.events.ingest import PodsGone, QueuesSet, SignatureDefined
from shared.events.queueing import Dispatched
from shared.model.cluster_objects import Queue
from shared.model.columns import pack
from shared.model.objects import PodSpec
from shared.model.queues import tree_faults
from tests.unit.queueing.inputs import bound, ids, pending, reserved, tried
from tests.unit.queueing.inputs import queue as queue_steps

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
        over = {r: used_at(one.name, r) - _guaranteed(queues, one, r) for r in RESOURCES}
        assert quota.borrowed(one.name) == {r: n for r, n in over.items() if n > 0}


PODS_OF = {1: "", 2: "a", 3: "b", 4: "b1", 5: "b1", 6: "b2", 7: "a"}


class Played:
    """Queueing with queues, some with guarantees, and the pods that wait and that are charged."""

    def __init__(self, random: Random, shards: int) -> None:
        self.random, self.parents = random, {"a": "", "b": "", "b1": "b", "b2": "b"}
        self.steps = queue_steps(shards, (), credit_units=random.choice((5, 65, 20_000, 20_000)))
        below = [random.randint(0, 3), random.randint(0, 3)]
        self.least = {"a": random.randint(0, 4), "b": sum(below) + random.randint(0, 3)}
        self.least |= dict(zip(("b1", "b2"), below, strict=True))
        self.least = {one: n for one, n in self.least.items() if n and random.random() < 0.8}
        needed = max(self.least.get("b", 0), sum(self.least.get(one, 0) for one in ("b1", "b2")))
        self.most = {"b": max(needed, random.randint(3, 12))}
        self.set_tree()
        for sig, name in PODS_OF.items():
            spec = PodSpec(priority=random.randint(0, 2), queue=name)
            self.steps.given(SignatureDefined(sig, spec))
        self.ready: dict[int, list[int]] = {sig: [] for sig in PODS_OF}
        self.charged: dict[int, int] = {}
        self.open: list[Dispatched] = []
        self.running: list[int] = []
        self.next_pod = 1

    def set_tree(self) -> None:
        def of(amounts: dict[str, int], name: str) -> tuple[tuple[str, int], ...]:
            return (("pods", amounts[name]),) if name in amounts else ()

        tree = [
            Queue(uid=n, name=n, parent=up, max=of(self.most, n), guaranteed=of(self.least, n))
            for n, up in self.parents.items()
        ]
        assert tree_faults(tree) == {}
        self.steps.given(QueuesSet(tuple(tree)))

    def chain(self, sig: int) -> list[str]:
        name, found = PODS_OF[sig], []
        while name:
            found.append(name)
            name = self.parents[name]
        return found

    def used(self, queue: str) -> int:
        return sum(queue in self.chain(sig) for sig in self.charged.values())

    def claims(self, sig: int) -> bool:
        named = [one for one in self.chain(sig) if one in self.least]
        return bool(named) and self.used(named[0]) < self.least[named[0]]

    def kept(self, queue: str) -> int:
        """Return what is guaranteed to a queue, or to those below it, and not used."""
        below = sum(self.kept(one) for one, parent in self.parents.items() if parent == queue)
        return max(self.least.get(queue, 0) - self.used(queue), below)

    def has_room(self, sig: int) -> bool:
        """Return whether one more pod leaves what is kept for others, if it borrows."""
        if any(self.used(one) >= self.most.get(one, 99) for one in self.chain(sig)):
            return False
        if self.claims(sig):
            return True
        self.charged[0] = sig
        kept = sum(self.kept(one) for one in ("b1", "b2")) if "b" in self.chain(sig) else 0
        fits = self.used("b") + kept <= self.most["b"] or not kept
        del self.charged[0]
        return fits

    def arrive(self) -> list[Event]:
        events: list[Event] = []
        for sig in self.random.sample(sorted(PODS_OF), self.random.randint(1, 4)):
            pods = range(self.next_pod, self.next_pod + self.random.randint(1, 4))
            self.next_pod = pods.stop
            self.ready[sig] += pods
            events.append(pending(sig, *pods))
        return events

    def end_some(self) -> list[Event]:
        ended = [pod for pod in self.running if self.random.random() < 0.4]
        for pod in ended:
            self.running.remove(pod)
            del self.charged[pod]
        return [PodsGone(pack(ended))] if ended else []

    def answer(self) -> list[Event]:
        if not self.open:
            return []
        one = self.open.pop(0)
        self.running += ids(one)
        return [reserved(one), bound(*ids(one))]

    def follow(self, decided: list[Event]) -> None:
        """Check each dispatch with the pods that wait and are charged before it."""
        for one in tried(decided):
            others = [sig for sig, pods in self.ready.items() if pods and sig != one.sig]
            for pod in ids(one):
                if one.sig != 1 and self.least and not self.claims(one.sig):
                    waiting = [sig for sig in others if self.claims(sig) and self.has_room(sig)]
                    assert not waiting, f"pod {pod} of {one.sig} borrows before {waiting}"
                assert self.has_room(one.sig)
                self.charged[pod] = one.sig
                self.ready[one.sig].remove(pod)
            self.open.append(one)


@settings(max_examples=40)
@given(st.integers(0, 1 << 32), st.integers(1, 3))
def test_nothing_borrows_before_what_claims_and_nothing_waits_with_room(seed, shards):
    random = Random(seed)
    played = Played(random, shards)
    for _turn in range(30):
        if random.random() < 0.05:
            played.least = {n: least - 1 for n, least in played.least.items() if least > 1}
            played.least.pop("b", None)
            played.set_tree()
        if random.random() < 0.05:
            played.steps.reload()
        turn = random.choice((played.arrive, played.end_some, played.answer))
        played.follow(played.steps.when(*turn()))
    while played.open:
        played.follow(played.steps.when(*played.answer()))
    for sig, pods in played.ready.items():
        assert not (pods and played.has_room(sig)), f"pods {pods} of {sig} wait"
