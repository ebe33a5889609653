"""Every pod has the signature that it would have if all rules were known from the beginning."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from services.ingest.core.core import IngestCore
from services.ingest.core.pods.identity import spec_of
from shared.events import ingest as published
from shared.events import observed as seen
from shared.events.base import Event
from shared.model.columns import pack, unpack
from shared.model.objects import (
    Node,
    PodSpec,
    PodTerm,
    PreferredPodTerm,
    Requirement,
    SpreadConstraint,
)
from tests.support.steps import Steps

HOST = "kubernetes.io/hostname"
NAMESPACES = ("a", "b", "c")
NODES = ("n0", "n1")
LABELS = (
    (),
    (("app", "x"),),
    (("app", "y"), ("tier", "web")),
    (("app", "x"), ("id", "7"), ("tier", "db")),
)
PLAIN = tuple(PodSpec(requests=(("cpu", 100 * i),)) for i in (1, 2))


def term(
    *keys: str, namespaces: tuple[str, ...] = (), everywhere: bool = False, by: str = HOST
) -> PodTerm:
    selector = tuple(Requirement(key, "Exists") for key in keys)
    return PodTerm(by, selector, namespaces, () if everywhere else None)


RULES = (
    PodSpec(spread=(SpreadConstraint(HOST, 1, selector=(Requirement("app", "In", ("x",)),)),)),
    PodSpec(spread=(SpreadConstraint(HOST, 1, hard=False),)),
    PodSpec(pod_affinity=(term("tier", namespaces=("b", "c")),)),
    PodSpec(pod_anti_affinity=(term("id", everywhere=True),)),
    PodSpec(pods_preferred=(PreferredPodTerm(7, term("tier", "app")),)),
    PodSpec(pods_preferred=(PreferredPodTerm(-3, term()),)),
    PodSpec(pod_affinity=(term("app", namespaces=("a",), everywhere=True),)),
    PodSpec(pod_anti_affinity=(term("tier", by="zone"), term("app", namespaces=("b",)))),
    PodSpec(pods_preferred=(PreferredPodTerm(7, term("id", by="zone")),)),
)
SPECS = (*PLAIN, *RULES)


class Cluster:
    """Pods by uid as they are, all rules there ever were, and ingest's events about each pod."""

    def __init__(self) -> None:
        self.revision = 0
        self.pods: dict[str, seen.PodsSeen] = {}
        self.nodes: set[str] = set()
        self.rules: list[tuple[PodSpec, str]] = []
        self.specs: dict[int, PodSpec] = {}
        self.sig_of: dict[int, int] = {}

    def show(self, uid: str, event: seen.PodsSeen) -> seen.PodsSeen:
        self.revision += 1
        event = replace(event, uids=uid, names=uid, revisions=pack([self.revision]))
        self.pods[uid] = event
        if event.spec.has_rules:
            self.rules.append((event.spec, event.namespace))
        return event

    def happen(self, kind: int, which: int, spec: int, labels: int) -> Event | None:
        uid = f"u{which}"
        pod = self.pods.get(uid)
        if kind <= 3 and pod is None:
            event = seen.PodsSeen(SPECS[spec], "", "", b"", NAMESPACES[which % 3], LABELS[labels])
            return self.show(uid, event)
        if kind <= 1 and pod is not None:
            return self.show(uid, replace(pod, labels=LABELS[labels]))
        if kind == 2 and pod is not None and not pod.nodes:
            return self.show(uid, replace(pod, spec=SPECS[spec]))
        if kind == 3 and pod is not None:
            return self.show(uid, replace(pod, terminating=True))
        if kind == 4 and pod is not None and not pod.nodes:
            bound = self.show(uid, replace(pod, nodes=NODES[labels % 2]))
            return seen.PodsBoundSeen(uid, bound.nodes, bound.revisions)
        if kind == 5 and pod is not None:
            del self.pods[uid]
            return seen.PodsDeletedSeen(uid)
        if kind == 6:
            return self.toggle(NODES[labels % 2])
        return None

    def toggle(self, name: str) -> Event:
        if name in self.nodes:
            self.nodes.remove(name)
            return seen.NodesDeletedSeen(f"uid-{name}")
        self.nodes.add(name)
        return seen.NodesSeen((Node(uid=f"uid-{name}", name=name),))

    def expected(self, pod: seen.PodsSeen) -> PodSpec:
        """Return the expected identity by all rules so far, one by one."""
        keys: set[str] | None = None
        for spec, namespace in self.rules:
            looks: list[tuple[set[str], Any]] = []
            terms = [*spec.pod_anti_affinity, *(one.term for one in spec.pods_preferred)]
            looks += [({namespace}, one.selector) for one in spec.spread]
            looks += [({namespace}, spec.spread_by)] if spec.spread_by else []
            for one in (*terms, *spec.pod_affinity):
                where = {*one.namespaces}
                if one.namespace_selector is not None:
                    where = {*NAMESPACES}
                looks.append((where or {namespace}, one.selector))
            for where, selector in looks:
                if selector is not None and pod.namespace in where:
                    keys = (keys or set()) | {one.key for one in selector}
        if keys is None:
            own = replace(pod.spec, namespace=pod.namespace)
            return own if pod.spec.has_rules else pod.spec
        labels = tuple(pair for pair in pod.labels if pair[0] in keys)
        return replace(
            pod.spec, namespace=pod.namespace, labels=labels, terminating=pod.terminating
        )

    def read(self, event: Any) -> None:
        match event:
            case published.SignatureDefined():
                self.specs[event.sig] = event.spec
            case published.SignatureRetired():
                assert event.sig not in self.sig_of.values(), "retired while a pod has it"
                del self.specs[event.sig]
            case published.PodsPending():
                self.sig_of.update(dict.fromkeys(unpack(event.ids).tolist(), event.sig))
            case published.PodsAssigned():
                self.sig_of.update(_pairs(event))
            case published.PodsRelabelled():
                for pod, sig in _pairs(event):
                    assert sig in self.specs
                    self.sig_of[pod] = sig
            case published.PodsGone():
                for pod in unpack(event.ids).tolist():
                    self.sig_of.pop(pod, None)


def _pairs(event: published.PodsAssigned | published.PodsRelabelled) -> list[tuple[int, int]]:
    return list(zip(unpack(event.ids).tolist(), unpack(event.sigs).tolist(), strict=True))


def agrees(cluster: Cluster, steps: Any) -> None:
    table = steps.state.pods
    assert table.slots.keys() == cluster.pods.keys()
    for uid, slot in table.slots.items():
        sig = int(table.sigs[slot])
        assert spec_of(steps.state, sig) == cluster.expected(cluster.pods[uid])
        if table.nodes[slot] >= 0:
            assert cluster.sig_of[int(table.ids[slot])] == sig, "what was told last"


ops = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.integers(0, 5),
        st.integers(0, len(SPECS) - 1),
        st.integers(0, len(LABELS) - 1),
    ),
    min_size=10,
    max_size=50,
)


@given(st.sampled_from([1, 3]), ops, st.lists(st.booleans(), min_size=50, max_size=50))
def test_signatures_are_those_of_the_last_interest(shards, operations, reloads):
    """Any input in any order; a loaded state decides the same."""
    steps: Any = Steps(IngestCore(shards))
    loaded: Any = Steps(IngestCore(shards))
    cluster = Cluster()
    for operation, is_reloaded in zip(operations, reloads, strict=False):
        event = cluster.happen(*operation)
        if event is None:
            continue
        decided = steps.when(event)
        assert loaded.when(event) == decided
        if is_reloaded:
            loaded.reload()
        assert loaded.dumped() == steps.dumped()
        for one in decided:
            cluster.read(one)
        agrees(cluster, steps)
