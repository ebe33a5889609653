"""Ingest's events add up to the cluster's state, in whatever portions the cluster shows it.

The follower knows only ingest's events; the truth is a plain dictionary.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from services.ingest.core.core import IngestCore
from shared.events import ingest as published
from shared.events import observed as seen
from shared.events.base import Configured, Event
from shared.model.cluster_objects import CSINode, Namespace
from shared.model.columns import join, pack, split, unpack
from shared.model.objects import Gang, Node, PodSpec
from tests.support.steps import Steps

SPECS = tuple(PodSpec(requests=(("cpu", 100 * i),)) for i in range(1, 4))
PODS = [f"pod-{i}" for i in range(8)]
NODES = [f"node-{i}" for i in range(4)]


class Truth:
    """The cluster: objects by uid, one revision for each change, and what it shows of them."""

    def __init__(self) -> None:
        self.revision = 0
        self.born = 0
        self.pods: dict[str, dict[str, Any]] = {}
        self.nodes: dict[str, str] = {}
        self.others: dict[str, Namespace | CSINode] = {}

    def next(self) -> int:
        self.revision += 1
        return self.revision

    def create(self, name: str, spec: int, gang: bool) -> list[Event]:
        if any(pod["name"] == name for pod in self.pods.values()):
            return []
        self.born += 1
        uid = f"u{self.born}"
        self.pods[uid] = {
            "name": name,
            "spec": spec,
            "gang": "default/g" if gang else "",
            "node": "",
            "revision": self.next(),
        }
        return [self.shown([uid])]

    def shown(self, uids: list[str]) -> seen.PodsSeen:
        """Return an observation of pods of one spec and gang."""
        pods = [self.pods[uid] for uid in uids]
        return seen.PodsSeen(
            SPECS[pods[0]["spec"]],
            join(uids),
            join(pod["name"] for pod in pods),
            pack([pod["revision"] for pod in pods]),
            gang=pods[0]["gang"],
            nodes=join(pod["node"] or "-" for pod in pods),
        )

    def find(self, name: str) -> str | None:
        return next((uid for uid, pod in self.pods.items() if pod["name"] == name), None)

    def change(self, name: str, spec: int) -> list[Event]:
        uid = self.find(name)
        if uid is None:
            return []
        self.pods[uid].update(spec=spec, revision=self.next())
        return [self.shown([uid])]

    def bind(self, name: str, node: str) -> list[Event]:
        uid = self.find(name)
        if uid is None or self.pods[uid]["node"]:
            return []
        self.pods[uid].update(node=node, revision=self.next())
        return [seen.PodsBoundSeen(uid, node, pack([self.revision]))]

    def delete(self, name: str) -> list[Event]:
        uid = self.find(name)
        if uid is None:
            return []
        del self.pods[uid]
        self.next()
        return [seen.PodsDeletedSeen(uid)]

    def toggle_node(self, name: str) -> list[Event]:
        self.next()
        for uid, known in self.nodes.items():
            if known == name:
                del self.nodes[uid]
                return [seen.NodesDeletedSeen(uid)]
        self.born += 1
        uid = f"n{self.born}"
        self.nodes[uid] = name
        return [seen.NodesSeen((Node(uid=uid, name=name),))]

    def list_pods(self) -> list[Event]:
        groups: dict[tuple[int, str], list[str]] = {}
        for uid, pod in self.pods.items():
            groups.setdefault((pod["spec"], pod["gang"]), []).append(uid)
        events: list[Event] = [self.shown(uids) for uids in groups.values()]
        bracket = seen.ListBegan("pods", self.revision)
        return [bracket, *events, seen.ListEnded("pods", len(self.pods))]

    def list_nodes(self) -> list[Event]:
        nodes = tuple(Node(uid=uid, name=name) for uid, name in self.nodes.items())
        events: list[Event] = [seen.NodesSeen(nodes)] if nodes else []
        bracket = seen.ListBegan("nodes", self.revision)
        return [bracket, *events, seen.ListEnded("nodes", len(nodes))]

    def change_other(self, name: str, label: int) -> list[Event]:
        """Create, change, repeat or delete an object of another kind."""
        self.next()
        uid = next((uid for uid, held in self.others.items() if held.name == name), "")
        if uid and label == 3:
            del self.others[uid]
            return [seen.ObjectsDeletedSeen(uid)]
        if not uid:
            self.born += 1
            uid = f"o{self.born}"
        if label == 2:
            self.others[uid] = CSINode(uid=uid, name=name)
        else:
            self.others[uid] = Namespace(uid=uid, name=name, labels=(("l", str(label)),))
        return [seen.ObjectsSeen((self.others[uid],))]

    def list_others(self) -> list[Event]:
        found = tuple(self.others.values())
        events: list[Event] = [seen.ObjectsSeen(found)] if found else []
        bracket = seen.ListBegan("objects", self.revision)
        return [bracket, *events, seen.ListEnded("objects", len(found))]


class Follower:
    """The knowledge of a service that reads only ingest's events."""

    def __init__(self) -> None:
        self.sigs: dict[int, PodSpec] = {}
        self.uids: dict[int, str] = {}
        self.pending: dict[int, tuple[PodSpec, int, bool]] = {}
        self.assigned: dict[int, tuple[PodSpec, int]] = {}
        self.nodes: dict[int, tuple[int, str]] = {}
        self.others: dict[str, Any] = {}

    def read(self, event: Any) -> None:
        match event:
            case published.SignatureDefined():
                assert event.sig not in self.sigs
                self.sigs[event.sig] = event.spec
            case published.SignatureRetired():
                spec = self.sigs.pop(event.sig)
                used = [pod[0] for pod in self.assigned.values() if pod[1] in self.nodes]
                assert spec not in [*used, *(pod[0] for pod in self.pending.values())]
            case published.PodsNamed():
                self.uids.update(zip(unpack(event.ids).tolist(), split(event.uids), strict=True))
            case published.PodsPending():
                for pod in unpack(event.ids).tolist():
                    assert pod in self.uids
                    assert pod not in self.assigned
                    self.pending[pod] = (self.sigs[event.sig], event.gang, event.gated)
            case published.PodsAssigned():
                columns = (event.ids, event.sigs, event.nodes)
                for pod, sig, node in zip(*(unpack(c).tolist() for c in columns), strict=True):
                    assert self.nodes[node][0] == event.shard
                    self.pending.pop(pod, None)
                    self.assigned[pod] = (self.sigs[sig], node)
            case published.PodsGone():
                for pod in unpack(event.ids).tolist():
                    del self.uids[pod]
                    self.pending.pop(pod, None)
                    self.assigned.pop(pod, None)
            case published.NodesSet():
                for node, held in zip(unpack(event.ids).tolist(), event.nodes, strict=True):
                    self.nodes[node] = (event.shard, held.name)
            case published.NodesGone():
                for node in unpack(event.ids).tolist():
                    del self.nodes[node]
            case published.ObjectsSet():
                for one in event.objects:
                    assert self.others.get(one.uid) != one, "told though nothing changed"
                    self.others[one.uid] = one
            case published.ObjectsGone():
                for uid in split(event.uids):
                    del self.others[uid]


def agrees(follower: Follower, truth: Truth) -> None:
    """Check the follower against the truth: pods on unknown nodes are not pending, all others are
    as they are.
    """
    assert follower.others == truth.others
    assert sorted(follower.uids.values()) == sorted(truth.pods)
    assert sorted(name for _shard, name in follower.nodes.values()) == sorted(truth.nodes.values())
    for pod, uid in follower.uids.items():
        true = truth.pods[uid]
        spec = SPECS[true["spec"]]
        if not true["node"]:
            assert follower.pending[pod][0] == spec
            assert bool(follower.pending[pod][1]) == bool(true["gang"])
            assert not follower.pending[pod][2]
        elif true["node"] in truth.nodes.values():
            held, node = follower.assigned[pod]
            assert (held, follower.nodes[node][1]) == (spec, true["node"])
        elif pod in follower.pending:
            assert follower.pending[pod] == (spec, follower.pending[pod][1], True)


ops = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 7), st.integers(0, 3)), min_size=1, max_size=60
)


def happen(truth: Truth, kind: int, first: int, second: int) -> list[Event]:
    """Let one of many things happen."""
    name, node, spec = PODS[first], NODES[second], second % len(SPECS)
    match kind:
        case 0 | 1:
            return truth.create(name, spec, second == 3)
        case 2 | 3:
            return truth.bind(name, node)
        case 4:
            return truth.delete(name)
        case 5:
            return truth.change(name, spec)
        case 6:
            return truth.toggle_node(node)
        case 7:
            return truth.list_pods()
        case 8:
            return truth.list_nodes()
        case 9 | 10:
            return truth.change_other(NODES[first % 2], second)
        case 11:
            return truth.list_others()
        case _:
            return [seen.WatchAdvanced(truth.revision), Configured({})]


def settled(steps: Any, truth: Truth) -> list[Event]:
    """Carry out the lists that ingest asked for, as its shell does."""
    events: list[Event] = []
    for _round in range(3):
        kinds = [asked.kind for asked in steps.core.effects(steps.state).values()]
        for kind in kinds:
            listed = {"pods": truth.list_pods, "nodes": truth.list_nodes}.get(kind)
            events += steps.when(*(listed or truth.list_others)())
    assert not steps.core.effects(steps.state)
    return events


@given(ops, st.sampled_from([1, 3]))
def test_events_add_up_to_the_clusters_state(operations, placements):
    steps: Any = Steps(IngestCore(placements))
    truth, follower = Truth(), Follower()
    gang = Gang(key="default/g", min_count=2)
    for event in steps.when(seen.GangsSeen((gang,))):
        follower.read(event)
    for operation in operations:
        events = steps.when(*happen(truth, *operation)) + settled(steps, truth)
        for event in events:
            follower.read(event)
        agrees(follower, truth)
    again = steps.when(*truth.list_nodes(), *truth.list_others(), *truth.list_pods())
    assert {type(event) for event in again} <= {published.ListApplied}, "nothing new to tell"


@given(ops, ops)
def test_lists_make_up_for_lost_changes(before, missed):
    steps: Any = Steps(IngestCore(2))
    truth, follower = Truth(), Follower()
    for operation in before:
        for event in steps.when(*happen(truth, *operation)) + settled(steps, truth):
            follower.read(event)
    for operation in missed:
        happen(truth, *operation)
    lists = (*truth.list_nodes(), *truth.list_others(), *truth.list_pods())
    events = steps.when(Configured({}), *lists)
    for event in events + settled(steps, truth):
        follower.read(event)
    agrees(follower, truth)


@given(ops, st.integers(0, 59))
def test_a_loaded_state_continues_identically(operations, at):
    truth = Truth()
    stays: Any = Steps(IngestCore(3))
    loaded: Any = Steps(IngestCore(3))
    for place, operation in enumerate(operations):
        events = happen(truth, *operation)
        assert stays.when(*events) == loaded.when(*events)
        if place >= at:
            loaded.reload()
        assert stays.dumped() == loaded.dumped()


@settings(max_examples=50)
@given(st.lists(st.sampled_from(PODS), unique=True, min_size=1), ops)
def test_columns_and_single_pods_give_the_same_state(names, operations):
    """The same pods in one event or one by one: the same state, whatever was before."""
    truth = Truth()
    before = [event for operation in operations for event in happen(truth, *operation)]
    created = [truth.create(f"new-{name}", 0, False)[0] for name in names]
    uids = [uid for event in created for uid in split(event.uids)]  # type: ignore[attr-defined]
    dumps = []
    for events in (created, [truth.shown(uids)]):
        steps: Any = Steps(IngestCore(2))
        steps.when(*before)
        steps.when(*events)
        for uid in uids:
            steps.when(seen.PodsBoundSeen(uid, "node-1", pack([truth.revision + 1])))
        dumps.append(steps.dumped())
    assert dumps[0] == dumps[1]
