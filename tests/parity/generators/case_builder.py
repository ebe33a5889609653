"""A case as it is built: nodes and pods with whole amounts, and the spelling of these.

Amounts are in milli-cores and base units, so that features can aim at an exact fit. `written` turns
them into Kubernetes objects that an API server would accept. Nothing is decided here.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

CPU, MEMORY, PODS, STORAGE = "cpu", "memory", "pods", "ephemeral-storage"
HUGE_PAGES, HUGE_PAGE_BYTES = "hugepages-2Mi", 2 << 20
WIDGET, GADGET, GPU = "example.com/widget", "example.com/gadget", "nvidia.com/gpu"
OVER_COMMITTED = (CPU, MEMORY, STORAGE)
"""Resources whose limit may differ from the request; the others need both, and equal."""
KI, MI, GI = 1 << 10, 1 << 20, 1 << 30
BINARY = ((GI, "Gi"), (MI, "Mi"), (KI, "Ki"))
DECIMAL = ((10**9, "G"), (10**6, "M"), (10**3, "k"))

ENDS_AT = "2026-01-01T00:00:30Z"

Amounts = dict[str, int]
Object = dict[str, Any]


@dataclass
class Container:
    """`kind` is main, init or sidecar; `half` adds half a byte to the memory; `restarts` is an init
    container's restartPolicy.
    """

    amounts: Amounts = field(default_factory=dict)
    kind: str = "main"
    ports: list[Object] = field(default_factory=list)
    by_limit: bool = False
    half: bool = False
    restarts: str = ""

    def written(self, draw: Random, name: str) -> Object:
        """Return the container as Kubernetes has it."""
        amounts = dict(self.amounts)
        if HUGE_PAGES in amounts and not amounts.keys() & {CPU, MEMORY}:
            amounts[MEMORY] = MI  # an API server's rule
        requests = {key: spelled(draw, key, amount) for key, amount in amounts.items()}
        if self.half:
            requests[MEMORY] = f"{amounts[MEMORY]}500m"
        fixed = {key: text for key, text in requests.items() if key not in OVER_COMMITTED}
        limits = dict(requests) if self.by_limit else fixed
        resources: Object = {"limits": limits} if limits else {}
        if requests and not self.by_limit:
            resources["requests"] = requests
        found: Object = {"name": name, "image": "registry.example/app:1", "resources": resources}
        if self.ports:
            found["ports"] = self.ports
        if self.kind == "sidecar":
            found["restartPolicy"] = "Always"
        elif self.restarts:
            found["restartPolicy"] = self.restarts
        return found


@dataclass
class Pod:
    """`spec` holds what a feature sets as it is written; `level` are pod-level requests."""

    name: str
    namespace: str = "default"
    node: str = ""
    containers: list[Container] = field(default_factory=lambda: [Container()])
    overhead: Amounts = field(default_factory=dict)
    level: Amounts = field(default_factory=dict)
    level_by_limit: bool = False
    spec: Object = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    phase: str = "Running"
    ends: bool = False
    owners: list[Object] = field(default_factory=list)

    @property
    def mains(self) -> list[Container]:
        """Return the main containers; there is always one."""
        return [container for container in self.containers if container.kind == "main"]

    def asks(self, key: str) -> int:
        """Return the pod's request of one resource, half bytes rounded up."""
        inner = self.inner(key)
        if key in self.level and not (self.level_by_limit and inner):
            inner = self.level[key]
        return inner + self.overhead.get(key, 0)

    def inner(self, key: str) -> int:
        """Return the sum of its containers' requests."""
        running = most = sidecars = 0
        for container in self.containers:
            amount = container.amounts.get(key, 0)
            if container.kind == "sidecar":
                sidecars += amount
            if container.kind == "init":
                most = max(most, sidecars + amount)
            else:
                running += amount
        halves = sum(container.half for container in self.containers) if key == MEMORY else 0
        return max(running, most) + (halves + 1) // 2

    def written(self, draw: Random) -> Object:
        """Return the Pod."""
        spec = dict(self.spec)
        for key, kinds in (("initContainers", ("init", "sidecar")), ("containers", ("main",))):
            found = [one for one in self.containers if one.kind in kinds]
            if found:
                spec[key] = [
                    one.written(draw, f"{key[0]}{number}") for number, one in enumerate(found)
                ]
        if self.level:
            kind = "limits" if self.level_by_limit else "requests"
            spec["resources"] = {kind: _all_spelled(draw, self.level)}
            if HUGE_PAGES in self.level:  # an API server's rule: the limit is the request
                pages = {HUGE_PAGES: str(self.level[HUGE_PAGES])}
                spec["resources"].setdefault("limits", {}).update(pages)
        if self.overhead:
            spec["overhead"] = _all_spelled(draw, self.overhead)
        if self.node:
            spec["nodeName"] = self.node
        metadata: Object = {"name": self.name, "namespace": self.namespace, "labels": self.labels}
        metadata["uid"] = f"{self.namespace}.{self.name}"
        if self.owners:
            metadata["ownerReferences"] = self.owners
        if self.ends:
            metadata |= {"deletionTimestamp": ENDS_AT, "deletionGracePeriodSeconds": 30}
        found_pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        return found_pod | ({"status": {"phase": self.phase}} if self.node else {})


@dataclass
class Node:
    """A node; absent keys of `allocatable` are not written at all."""

    name: str
    allocatable: Amounts
    labels: dict[str, str]
    taints: list[Object] = field(default_factory=list)
    unschedulable: bool = False

    def written(self, draw: Random) -> Object:
        """Return the Node; its capacity exceeds its allocatable amounts, as with a real kubelet."""
        amounts = _all_spelled(draw, self.allocatable)
        more = {key: amount + amount // 16 for key, amount in self.allocatable.items()}
        more |= {key: self.allocatable[key] for key in (PODS, HUGE_PAGES, GPU) if key in more}
        spec: Object = {"unschedulable": True} if self.unschedulable else {}
        if self.taints:
            spec["taints"] = self.taints
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "uid": f"node.{self.name}", "labels": self.labels},
            "spec": spec,
            "status": {"allocatable": amounts, "capacity": _all_spelled(draw, more)},
        }


@dataclass
class Draft:
    """A case that features work on; `waiting` pods have no node and are not asked about."""

    nodes: list[Node] = field(default_factory=list)
    assigned: list[Pod] = field(default_factory=list)
    pending: list[Pod] = field(default_factory=list)
    waiting: list[Pod] = field(default_factory=list)
    classes: list[Object] = field(default_factory=list)

    @property
    def pods(self) -> list[Pod]:
        """Return the assigned and the pending pods."""
        return [*self.assigned, *self.pending]

    def free(self, node: Node, key: str) -> int:
        """Return what a node's pods leave of a resource; negative if it is over-committed."""
        taken = sum(pod.asks(key) for pod in self.assigned if pod.node == node.name)
        return node.allocatable.get(key, 0) - taken

    def written(self, draw: Random) -> Object:
        """Return the case."""
        objects = [*self.classes, *(node.written(draw) for node in self.nodes)]
        objects += [pod.written(draw) for pod in (*self.assigned, *self.waiting)]
        return {"objects": objects, "pods": [pod.written(draw) for pod in self.pending]}


def _all_spelled(draw: Random, amounts: Amounts) -> dict[str, str]:
    return {key: spelled(draw, key, amount) for key, amount in amounts.items()}


def spelled(draw: Random, key: str, amount: int) -> str:
    """Return the amount in one of its spellings."""
    ways = [str(amount)]
    if key == CPU:
        ways = [f"{amount}m"]
        if amount % 100 == 0:
            ways.append(f"{amount // 1000}.{amount % 1000 // 100}")
        if amount % 1000 == 0:
            ways.append(str(amount // 1000))
    elif amount and key in OVER_COMMITTED:
        for suffixes in (BINARY, DECIMAL):
            ways += [f"{amount // n}{text}" for n, text in suffixes if amount % n == 0][:1]
        if amount % 512 == 0 and amount < MI:
            ways.append(f"{amount / KI}Ki")
        if amount % 1000 == 0:
            ways.append(f"{amount // 1000}e3")
    return draw.choice(ways)
