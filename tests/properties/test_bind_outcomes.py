"""Binding against a cluster that loses, delays and doubles requests, under changing owners and
nodes that are recreated under their names.

The cluster is a few lines: create-once binds with uid and revision preconditions, and a wire that
keeps every request, answer and echo until it is delivered, in any order.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.binding.core import binds
from services.binding.core.core import BindingCore
from services.binding.shell import node_shown
from shared.events import binding as own
from shared.events import observed
from shared.events.base import Configured, Event
from shared.events.ingest import NodesGone, NodesSet, PodsAssigned, PodsGone, PodsNamed
from shared.events.placement import Reserved
from shared.model.api_outcome import Answer
from shared.model.columns import join, pack, unpack
from shared.model.objects import Node
from tests.support.steps import Steps

PODS, NODES = 6, 4


class Cluster:
    """Pods by id: number of the node's name (0 none) and revision."""

    def __init__(self) -> None:
        self.revision = PODS
        self.pods = {pod: [0, pod] for pod in range(1, PODS + 1)}
        self.landed: list[tuple[int, int]] = []

    def bind(self, pod: int, node: int, revision: int) -> tuple[Answer, int]:
        if pod not in self.pods:
            return Answer.GONE, 0
        if self.pods[pod][1] != revision:
            return Answer.STALE, 0
        if self.pods[pod][0]:
            return Answer.ASSIGNED, 0
        self.revision += 1
        self.pods[pod] = [node, self.revision]
        self.landed.append((pod, node))
        return Answer.DONE, self.revision

    def touch(self, pod: int) -> None:
        if pod in self.pods:
            self.revision += 1
            self.pods[pod][1] = self.revision


class Run:
    """A binding core, its cluster, and the messages under way between them."""

    def __init__(self, few: int = 4) -> None:
        self.few = few
        self.steps: Any = Steps(BindingCore(1))
        self.cluster = Cluster()
        self.wire: list[tuple[Any, int, int, int, int]] = []
        self.inbox: list[Event] = []
        self.started = 0
        self.now_ms = 0
        self.nodes = set(range(1, NODES + 1))
        # Nodes have ids, of which each has a name of its own until it is made again.
        self.id_of = {name: name for name in self.nodes}
        self.name_of = dict(self.id_of)
        self.nameless: list[tuple[int, int]] = []
        self.landed: dict[int, int] = {}  # by binds of ours
        self.target: dict[int, int] = {}
        self.outcomes: dict[int, int] = {}
        self.given: dict[int, int] = {}
        ids = range(1, PODS + 1)
        names = PodsNamed(
            pack(ids), join(f"u{i}" for i in ids), join(f"p{i}" for i in ids), pack(ids)
        )
        nodes = tuple(Node(uid=f"n{i}", name=f"node-{i}") for i in sorted(self.nodes))
        self.turn(Configured({}), NodesSet(0, pack(sorted(self.nodes)), nodes), names)

    def turn(self, *inputs: Event) -> list[Event]:
        """Take one step: put new effects on the wire and compare outcomes with the cluster."""
        with self.sizes():
            return self._turn(*inputs)

    @contextmanager
    def sizes(self) -> Iterator[None]:
        """The number of pods from which whole columns are moved; 0 = a single pod is moved as a
        column, too.
        """
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(binds, "FEW", self.few)
            if not self.few:
                patch.setattr(binds, "ONE", -1)
                patch.setattr(binds, "DONE_ONE", None)
            yield

    def _turn(self, *inputs: Event) -> list[Event]:
        decided: list[Event] = self.steps.when(*inputs, at_ms=self.now_ms)
        for event in decided:
            self.judge(event)
        self.send(self.started)
        return decided

    def send(self, above: int) -> None:
        for effect, event in self.steps.core.effects(self.steps.state).items():
            if effect > above:
                self.started = max(self.started, effect)
                pods = unpack(event.ids).tolist()
                is_bind = isinstance(event, own.BindsAsked)
                nodes = unpack(event.nodes).tolist() if is_bind else pods
                revisions = unpack(event.revisions).tolist() if is_bind else pods
                for pod, node, revision in zip(pods, nodes, revisions, strict=True):
                    self.wire.append((event, effect, pod, node, revision))

    def judge(self, event: Any) -> None:
        """Check that recorded outcomes are true and stay true."""
        if not isinstance(event, own.Bound | own.BindFailed):
            return
        for pod, node in zip(unpack(event.ids).tolist(), unpack(event.nodes).tolist(), strict=True):
            assert self.target.pop(pod) == node
            self.outcomes[pod] = self.outcomes.get(pod, 0) + 1
            shown = self.cluster.pods.get(pod)
            name = self.name_of[node]
            if isinstance(event, own.Bound):
                assert shown is None or shown[0] == name
            elif event.reason == "gone":
                assert shown is None
            elif event.reason == "foreign":
                assert shown is None or shown[0] not in (0, name)
            else:
                # Another scheduler may have bound it by now.
                assert event.reason == "abandoned"
                assert pod not in self.landed
                self.no_post_can_land(pod)

    def no_post_can_land(self, pod: int) -> None:
        for event, _effect, other, _node, revision in self.wire:
            if isinstance(event, own.BindsAsked) and other == pod and pod in self.cluster.pods:
                assert revision != self.cluster.pods[pod][1], f"an old bind of {pod} may land"

    def deliver(self, place: int, fate: int) -> None:
        """One request arrives. Fates: answered, answer lost, request lost and known so, busy,
        refused, or it stays on the wire while its owner gives it up as unknown.
        """
        event, effect, pod, node, revision = self.wire[place]
        if fate != 5:
            del self.wire[place]
        answer, new, shown = Answer.UNKNOWN, 0, -1
        if fate <= 1:
            answer, new, shown = self.carry_out(event, pod, node, revision)
            if fate == 1:
                answer = Answer.UNKNOWN
        elif fate == 3:
            answer = Answer.BUSY
        elif fate == 4 and isinstance(event, own.BindsAsked):
            answer = Answer.REFUSED
        self.inbox.append(
            observed.BindAnswers(effect, pack([pod]), bytes([answer]), pack([new]), pack([shown]))
        )

    def carry_out(self, event: Any, pod: int, node: int, revision: int) -> tuple[Answer, int, int]:
        if isinstance(event, own.BindsAsked):
            answer, new = self.cluster.bind(pod, self.name_of[node], revision)
            if answer is Answer.DONE:
                self.landed[pod] = node
                self.show(pod, self.name_of[node])
            return answer, new, -1
        if isinstance(event, own.FencesAsked):
            self.cluster.touch(pod)
        if pod not in self.cluster.pods:
            return Answer.GONE, 0, -1
        shown, new = self.cluster.pods[pod]
        name = f"node-{shown}" if shown else ""
        return Answer.DONE, new, node_shown(self.steps.state, pod, name, self.target.get(pod, 0))

    def show(self, pod: int, name: int) -> None:
        """Show the fact once a node of that name exists."""
        if name in self.nodes:
            node = self.id_of[name]
            self.inbox.append(PodsAssigned(0, pack([pod]), pack([1]), pack([node])))
        else:
            self.nameless.append((pod, name))

    def remake(self, name: int) -> None:
        """Delete the node, or create another one under its name."""
        if name in self.nodes:
            self.nodes.discard(name)
            self.turn(NodesGone(0, pack([self.id_of[name]])))
        else:
            node = len(self.name_of) + 1
            self.id_of[name], self.name_of[node] = node, name
            self.nodes.add(name)
            self.turn(NodesSet(0, pack([node]), (Node(uid=f"n{node}", name=f"node-{name}"),)))
            waiting, self.nameless = self.nameless, []
            for pod, where in waiting:
                self.show(pod, where)

    def reserve(self, pods: list[int], node: int) -> None:
        """Reserve a pod, which a shard does only if no earlier decision is open."""
        free = [pod for pod in pods if self.is_free(pod)]
        if not free or node not in self.nodes:
            return
        node = self.id_of[node]
        for pod in free:
            self.target[pod] = node
            self.given[pod] = self.given.get(pod, 0) + 1
        self.turn(Reserved(0, 1, 1, pack(free), pack([node] * len(free)), b"", 1, 0))

    def is_free(self, pod: int) -> bool:
        """Return whether the pod is pending, and every earlier decision about it has an outcome."""
        if pod in self.target or self.outcomes.get(pod) != self.given.get(pod):
            return False
        return pod in self.cluster.pods and not self.cluster.pods[pod][0]

    def foreign(self, pod: int, node: int) -> None:
        if pod in self.cluster.pods:
            answer, _new = self.cluster.bind(pod, node, self.cluster.pods[pod][1])
            if answer is Answer.DONE:
                self.show(pod, node)

    def delete(self, pod: int) -> None:
        if self.cluster.pods.pop(pod, None) is not None:
            self.inbox.append(PodsGone(pack([pod])))

    def happen(self, kind: int, first: int, second: int) -> None:
        """Let one of many things happen."""
        pod, node = 1 + first % PODS, 1 + second % NODES
        if kind <= 1:
            self.reserve([1 + (first + i) % PODS for i in range(1 + second % 3)], node)
        elif kind <= 4 and self.wire:
            self.deliver(first % len(self.wire), second % 6)
        elif kind <= 6 and self.inbox:
            self.turn(self.inbox.pop(first % len(self.inbox)))
        elif kind == 7:
            self.now_ms += 50 * second * second
            self.turn()
        elif kind == 8:
            self.foreign(pod, node) if second % 2 else self.delete(pod)
        elif kind == 9 and (node not in self.nodes or len(self.nodes) > 1):
            self.remake(node)
            if first % 2:
                self.remake(node)
        elif kind == 10:
            self.steps.reload()
            self.turn(Configured({}))
            self.send(0)  # the next owner; what the one before it sent is still on the wire
        elif kind == 11:
            self.cluster.touch(pod)

    def heal(self) -> None:
        """Deliver and answer every request from now on; check that every bind ends."""
        for _round in range(300):
            while self.inbox:
                self.turn(self.inbox.pop(0))
            while self.wire:
                self.deliver(0, 0)
            if not self.target and not self.inbox:
                break
            self.now_ms = max(self.now_ms, self.steps.core.due_ms(self.steps.state) or 0)
            self.turn()
        assert not self.target, f"no outcome for {self.target}"
        assert self.outcomes == self.given, "one outcome for each decision"
        assert not self.steps.core.effects(self.steps.state)
        assert self.steps.core.due_ms(self.steps.state) is None
        landed = [pod for pod, _node in self.cluster.landed]
        assert len(dict.fromkeys(landed)) == len(landed), "bound twice"


ops = st.lists(
    st.tuples(st.integers(0, 11), st.integers(0, 11), st.integers(0, 11)),
    min_size=5,
    max_size=120,
)


@settings(max_examples=400)
@given(ops)
def test_every_bind_has_one_end_and_it_is_true(operations):
    run = Run()
    for operation in operations:
        run.happen(*operation)
    run.heal()


@given(ops)
def test_columns_and_singles_are_the_same_machine(operations):
    """All through the table, or whole columns past it: the same decisions and the same state."""
    runs = (Run(few=10**9), Run(few=0))
    for operation in operations:
        for run in runs:
            run.happen(*operation)
        assert runs[0].steps.dumped() == runs[1].steps.dumped()
        assert runs[0].outcomes == runs[1].outcomes


@given(ops, st.integers(0, 119))
def test_a_loaded_state_continues_identically(operations, at):
    runs = (Run(), Run())
    for place, operation in enumerate(operations):
        for run in runs:
            run.happen(*operation)
        if place >= at:
            runs[1].steps.reload()
        assert runs[0].steps.dumped() == runs[1].steps.dumped()
        assert runs[0].wire == runs[1].wire
