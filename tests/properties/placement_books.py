"""A second set of books of one shard: each pod's node by the flow's rules, and states that must
never occur.

Shares no code with the core beyond the event types.
"""

import random

from shared.events.base import Event
from shared.events.placement import CandidatesFound, GangHeld, Refused, Released, Reserved
from shared.model.columns import size, unpack, unpack_totals
from shared.model.objects import (
    CPU,
    MEMORY,
    PODS,
    GpuRequest,
    HostPort,
    Node,
    PodSpec,
    Taint,
    Toleration,
)


def make_spec(rng: random.Random) -> PodSpec:
    cpu, memory = rng.choice([0, 500, 1_000, 2_000, 3_000]), rng.choice([0, 1, 2, 4])
    requests = tuple((name, value) for name, value in ((CPU, cpu), (MEMORY, memory)) if value)
    gpu = rng.choice([None, None, None, (500, 1), (300, 1), (1000, 1), (1000, 2)])
    return PodSpec(
        priority=rng.choice([0, 0, 0, 5, 10]),
        requests=requests,
        nonzero_cpu_milli=cpu or 100,
        nonzero_memory_bytes=memory or 1,
        gpu=GpuRequest(milli=gpu[0], count=gpu[1]) if gpu else None,
        tolerations=(Toleration("t", "Exists"),) if rng.random() < 0.3 else (),
        node_selector=(("zone", rng.choice("ab")),) if rng.random() < 0.2 else (),
        host_ports=(HostPort(rng.choice([80, 81])),) if rng.random() < 0.1 else (),
    )


def make_node(rng: random.Random, number: int, name: str = "") -> Node:
    allocatable = (
        (CPU, rng.choice([2_000, 4_000, 8_000])),
        (MEMORY, rng.choice([4, 8, 16])),
        (PODS, rng.choice([3, 6, 110])),
    )
    return Node(
        uid=f"uid-{number}",
        name=name or f"node-{number}",
        allocatable=allocatable,
        labels={"zone": rng.choice("ab")},
        taints=(Taint("t"),) if rng.random() < 0.2 else (),
        unschedulable=rng.random() < 0.05,
        gpu_count=rng.choice([0, 0, 2, 4]),
    )


def devices_of(event: Reserved | GangHeld) -> list[int]:
    return unpack(event.devices).tolist() if event.devices else [0] * (len(event.ids) // 8)


class Books:
    """Kinds of `on`: reserved, held, failed, bound (ours) and assigned (a fact)."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.specs: dict[int, PodSpec] = {}
        self.defined: set[int] = set()
        self.pods: dict[int, int] = {}  # live pods -> signature
        self.open: set[int] = set()  # dispatched, not answered
        self.on: dict[int, tuple[int, str]] = {}  # pod -> (node, kind)
        self.holds: dict[tuple[int, int], list[int]] = {}
        # Decided for deleted nodes, without a fact: pod -> (node, its name).
        self.unsettled: dict[int, tuple[int, str]] = {}
        self.found: list[tuple[int, int, int, int, bytes]] = []
        self.asks: dict[int, int] = {}
        self.masks: dict[int, int] = {}  # devices of own pods

    def note(self, event: Event) -> None:
        """Apply a decision to the books; the shard's own decisions must never over-fill a node."""
        if isinstance(event, Reserved):
            assert len(unpack_totals(event.totals, size(event.ids))) == size(event.ids)
            assert len(event.ids) == len(event.nodes)
            nodes, masks = unpack(event.nodes).tolist(), devices_of(event)
            for pod, node, mask in zip(unpack(event.ids).tolist(), nodes, masks, strict=True):
                assert pod in self.open, f"{pod} was reserved without being dispatched"
                self.open.discard(pod)
                self.charge(pod, event.sig, node, "reserved", mask)
        elif isinstance(event, Refused):
            for pod in unpack(event.ids).tolist():
                assert pod in self.open
                self.open.discard(pod)
        elif isinstance(event, GangHeld):
            ids, sigs, nodes = (unpack(c).tolist() for c in (event.ids, event.sigs, event.nodes))
            for pod, sig, node, mask in zip(ids, sigs, nodes, devices_of(event), strict=True):
                self.charge(pod, sig, node, "held", mask)
            self.holds[event.gang, event.attempt] = ids
        elif isinstance(event, Released):
            for pod in unpack(event.ids).tolist():
                assert self.on.pop(pod)[1] == "failed"
        elif isinstance(event, CandidatesFound):
            for one in event.candidates[:1]:
                sig = self.asks[event.ask]
                self.found.append((event.ask, event.pod, sig, one.node, one.victims))
                self.assert_victims(event.pod, sig, one.node, unpack(one.victims).tolist())

    def charge(self, pod: int, sig: int, node: int, kind: str, mask: int) -> None:
        assert pod not in self.on, f"{pod} has a place already: {self.on.get(pod)}"
        spec, target = self.specs[sig], self.nodes[node]
        late = [p for p, (_, name) in self.unsettled.items() if name == target.name]
        assert not late, f"{pod} on node {node}, to whose name {late} may still be bound"
        others = [self.specs[self.pods[p]] for p, (at, _) in self.on.items() if at == node]
        for name, amount in target.allocatable:
            asked = 1 if name == PODS else spec.request(name)
            used = len(others) if name == PODS else sum(o.request(name) for o in others)
            assert not asked or used + asked <= amount, f"{name} of node {node} is over-filled"
        self.charge_devices(pod, spec, node, mask)
        tolerated = spec.tolerations or not target.taints
        assert tolerated
        assert not target.unschedulable
        assert all(target.labels[key] == value for key, value in spec.node_selector)
        self.on[pod] = (node, kind)

    def charge_devices(self, pod: int, spec: PodSpec, node: int, mask: int) -> None:
        """Our own pods never share a device beyond its milli (devices of facts are not known)."""
        if spec.gpu is None:
            assert not mask
            return
        assert mask.bit_count() == spec.gpu.count
        assert mask < 1 << self.nodes[node].gpu_count
        for other, theirs in self.masks.items():
            if self.on.get(other, (0, ""))[0] == node and self.on[other][1] != "assigned":
                gpu = self.specs[self.pods[other]].gpu
                assert not mask & theirs or (gpu and gpu.milli + spec.gpu.milli <= 1000)
        self.masks[pod] = mask

    def assert_victims(self, pod: int, sig: int, node: int, victims: list[int]) -> None:
        """Check that victims have lower priority, run on the node, and are all needed."""
        assert victims
        for victim in victims:
            at, kind = self.on[victim]
            assert at == node
            assert kind in ("bound", "assigned")
            assert self.specs[self.pods[victim]].priority < self.specs[sig].priority
