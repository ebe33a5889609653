"""Pending pods are spread by the objects that select them now, in whatever order these change."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from services.ingest.core.core import IngestCore
from shared.events import observed as seen
from shared.events.base import Configured, Event
from shared.model.cluster_objects import LabelSelector, ReplicaSet, ReplicationController, Service
from shared.model.objects import PodSpec, Requirement, Selector
from tests.properties.test_ingest_identity import LABELS, NAMESPACES, SPECS, Cluster, agrees
from tests.support.steps import Steps

OWNERS = ("", "ReplicaSet/r", "ReplicationController/c")
SELECTORS = ((("app", "x"),), (("app", "y"), ("tier", "web")), (("tier", "db"),), ())
WIDE = LabelSelector((("app", "x"),), (Requirement("id", "DoesNotExist"),))


def made(kind: int, which: int, selector: int) -> Any:
    """Return an object of one of three kinds."""
    namespace = NAMESPACES[which % 3]
    who = {"uid": f"o{kind}{which}", "namespace": namespace}
    if kind == 0:
        return Service(**who, name=f"s{which}", selector=SELECTORS[selector])
    if kind == 1:
        wide = WIDE if selector == 3 else LabelSelector(SELECTORS[selector])
        return ReplicaSet(**who, name="r", selector=wide)
    return ReplicationController(**who, name="c", selector=SELECTORS[selector])


class Spread(Cluster):
    """Services and controllers, and the expected selectors of pods."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, Any] = {}
        self.spread_by: dict[str, Selector] = {}

    def change(self, kind: int, which: int, selector: int, goes: bool) -> Event:
        one = made(kind, which, selector)
        if goes and one.uid in self.objects:
            del self.objects[one.uid]
            return seen.ObjectsDeletedSeen(one.uid)
        self.objects[one.uid] = one
        return seen.ObjectsSeen((one,))

    def look(self) -> None:
        """Compute the selectors of every pending pod again."""
        for uid, pod in self.pods.items():
            if not pod.nodes:
                found = () if pod.spec.spread else self.selects(pod)
                self.spread_by[uid] = found
                if found:
                    self.rules.append((PodSpec(spread_by=found), pod.namespace))

    def selects(self, pod: seen.PodsSeen) -> Selector:
        labels, more = dict(pod.labels), []
        wanted: dict[str, str] = {}
        here = [one for one in self.objects.values() if one.namespace == pod.namespace]
        for one in here:
            pairs = one.selector if isinstance(one, Service) else ()
            if pairs and all(labels.get(key) == value for key, value in pairs):
                wanted |= dict(pairs)
        own = [one for one in here if pod.owner == f"{type(one).__name__}/{one.name}"]
        for one in sorted(own, key=lambda one: one.uid)[-1:]:
            if isinstance(one, ReplicationController):
                wanted |= dict(one.selector)
            else:
                pairs = one.selector.match_labels
                more = [Requirement(key, "In", (value,)) for key, value in pairs]
                more += one.selector.match_expressions
        every = {*more, *(Requirement(key, "In", (value,)) for key, value in wanted.items())}
        return tuple(sorted(every, key=lambda one: (one.key, one.operator, one.values)))

    def expected(self, pod: seen.PodsSeen) -> PodSpec:
        spread_by = self.spread_by.get(pod.uids, ())
        spec = replace(pod.spec, spread_by=spread_by)
        return super().expected(replace(pod, spec=spec))


ops = st.lists(
    st.tuples(
        st.sampled_from((0, 0, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 8, 9)),
        st.sampled_from((0, 3, 6, 1)),  # most of them in one namespace
        st.integers(0, len(SPECS) - 1),
        st.integers(0, len(LABELS) - 1),
        st.sampled_from(OWNERS),
        st.booleans(),
    ),
    min_size=10,
    max_size=50,
)


@given(ops, st.lists(st.booleans(), min_size=50, max_size=50))
def test_signatures_of_pending_pods_hold_their_selectors(operations, reloads):
    steps: Any = Steps(IngestCore())
    loaded: Any = Steps(IngestCore())
    cluster = Spread()
    for one in (steps, loaded):
        one.when(Configured({"ingest": {"default_spread": True}}))
    for (kind, which, spec, labels, owner, goes), again in zip(operations, reloads, strict=False):
        is_new = kind <= 3 and f"u{which}" not in cluster.pods
        event = (
            cluster.change(kind - 7, which, labels, goes)
            if kind >= 7
            else cluster.happen(kind, which, spec % 3 if is_new else spec, labels)
        )
        if event is None:
            continue
        if is_new and isinstance(event, seen.PodsSeen):
            event = cluster.pods[event.uids] = replace(event, owner=owner)
        cluster.look()
        decided = steps.when(event)
        assert loaded.when(event) == decided
        if again:
            loaded.reload()
        assert loaded.dumped() == steps.dumped()
        for told in decided:
            cluster.read(told)
        steps.core.check(steps.state)
        agrees(cluster, steps)
