"""Queues: the tree that counts, and the queue in the signature of each pod."""

from collections.abc import Iterable

from shared.events.ingest import PodsPending, PodsRelabelled, QueuesSet, SignatureDefined
from shared.events.observed import ObjectsDeletedSeen, ObjectsSeen, PodsSeen
from shared.model.cluster_objects import Namespace, Queue
from shared.model.columns import pack, unpack
from shared.model.objects import PodSpec
from tests.unit.ingest.inputs import ingest


def queue(name: str, parent: str = "") -> Queue:
    return Queue(uid=f"{name}-uid", name=name, parent=parent, max=(("cpu", 1_000),))


def namespace(name: str, label: str = "") -> Namespace:
    labels = (("muster.io/queue", label),) if label else ()
    return Namespace(uid=f"{name}-ns", name=name, labels=labels)


def seen(name: str, label: str = "", space: str = "default", revision: int = 5) -> PodsSeen:
    labels = (("muster.io/queue", label),) if label else ()
    return PodsSeen(
        PodSpec(), f"uid-{name}", name, pack([revision]), namespace=space, labels=labels
    )


def trees(decided: Iterable[object]) -> list[list[str]]:
    found = [event for event in decided if isinstance(event, QueuesSet)]
    return [[one.name for one in event.queues] for event in found]


class Known:
    """The queue of each pod, as queueing would know it."""

    def __init__(self) -> None:
        self.specs: dict[int, PodSpec] = {}
        self.queues: dict[int, str] = {}

    def read(self, decided: Iterable[object]) -> dict[int, str]:
        for event in decided:
            if isinstance(event, SignatureDefined):
                self.specs[event.sig] = event.spec
            elif isinstance(event, PodsPending):
                self.queues.update((pod, self.specs[event.sig].queue) for pod in unpack(event.ids))
            elif isinstance(event, PodsRelabelled):
                pairs = zip(unpack(event.ids), unpack(event.sigs), strict=True)
                self.queues.update((pod, self.specs[sig].queue) for pod, sig in pairs)
        return dict(sorted(self.queues.items()))


def test_a_tree_without_faults_counts_and_the_last_one_stays():
    steps = ingest()
    assert trees(steps.when(ObjectsSeen((queue("b", "a"), queue("a"))))) == [["a", "b"]]
    assert trees(steps.when(ObjectsSeen((queue("c", "gone"),)))) == []
    assert trees(steps.when(ObjectsSeen((queue("b", "b"),)))) == []
    steps.reload()
    assert trees(steps.when(ObjectsDeletedSeen("c-uid"), ObjectsSeen((queue("b"),)))) == [
        ["a", "b"]
    ]
    assert trees(steps.when(ObjectsSeen((queue("b"),)))) == []
    assert trees(steps.when(ObjectsDeletedSeen("a-uid\nb-uid"))) == [[]]


def test_pods_get_their_queue_when_the_first_one_comes():
    steps, known = ingest(), Known()
    spaces = ObjectsSeen((namespace("default"), namespace("team", "b")))
    pods = (seen("p", "a"), seen("q"), seen("r", "a", "team"), seen("s", "", "team"))
    assert known.read(steps.when(spaces, *pods)) == {1: "", 2: "", 3: "", 4: ""}
    decided = steps.when(ObjectsSeen((queue("a"),)))
    assert known.read(decided) == {1: "a", 2: "", 3: "a", 4: "b"}
    steps.reload()
    assert known.read(steps.when(ObjectsSeen((queue("default"),))))[2] == "default"
    assert known.read(steps.when(seen("t"), seen("u", "b")))[5] == "default"
    assert known.read(steps.when(ObjectsDeletedSeen("a-uid\ndefault-uid"))) == dict.fromkeys(
        range(1, 7), ""
    )


def test_pods_follow_their_label_and_their_namespace():
    steps, known = ingest(), Known()
    steps.given(ObjectsSeen((queue("a"), queue("b"), namespace("team", "a"))))
    known.read(steps.when(seen("p", "", "team"), seen("q", "b", "team")))
    assert known.read(steps.when(ObjectsSeen((namespace("team", "b"),)))) == {1: "b", 2: "b"}
    assert known.read(steps.when(seen("q", "a", "team", revision=6))) == {1: "b", 2: "a"}
    assert known.read(steps.when(ObjectsDeletedSeen("team-ns"))) == {1: "", 2: "a"}
