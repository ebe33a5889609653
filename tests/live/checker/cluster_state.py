"""The cluster as etcd had it at one revision, advanced change by change."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

from tests.live.checker.fits import Amounts, allocatable, holds_its_node, requests, why_not
from tests.live.checker.inter_pod_rules import Around, has_rules, terms_of
from tests.live.checker.volumes import Disks

PODS = "/registry/pods/"
NODES = "/registry/minions/"
WORKLOADS = "/registry/workloads/"
NAMESPACES = "/registry/namespaces/"
NO_NODES = "no nodes available to schedule pods"
Pod = Mapping[str, Any]


class Change(Protocol):
    """One key's new value; None when it was deleted. `time_s` is when it was seen."""

    @property
    def revision(self) -> int: ...
    @property
    def key(self) -> str: ...
    @property
    def value(self) -> Any: ...
    @property
    def time_s(self) -> float: ...


class World:
    """Nodes by name, pods by key, and what is taken of each node."""

    def __init__(self) -> None:
        self.nodes: dict[str, Any] = {}
        self.pods: dict[str, Any] = {}
        self.on: dict[str, dict[str, Any]] = {}
        self._used: dict[str, Amounts] = {}
        self._workloads: dict[str, Any] = {}
        self._namespaces: dict[str, dict[str, str]] = {}
        self._disks = Disks()
        # Assigned pods with anti-affinity, by key.
        self._shy: set[str] = set()
        # By uid: what a pod asks for never changes.
        self._asked: dict[str, Amounts] = {}

    def apply(self, change: Change) -> None:
        """Apply one change."""
        self._disks.apply(change.key, change.value)
        if change.key.startswith(NODES):
            name = change.key.removeprefix(NODES)
            if change.value is None:
                self.nodes.pop(name, None)
            else:
                self.nodes[name] = change.value
        elif change.key.startswith(WORKLOADS):
            self._workloads[change.key.removeprefix(WORKLOADS)] = change.value
        elif change.key.startswith(NAMESPACES):
            labels = (change.value or {"metadata": {}})["metadata"].get("labels") or {}
            self._namespaces[change.key.removeprefix(NAMESPACES)] = labels
        elif change.key.startswith(PODS):
            before = self.pods.get(change.key)
            self._drop(change.key)
            if change.value is not None:
                self._add(change.key, change.value)
            elif before is not None:
                self._asked.pop(before["metadata"]["uid"], None)

    def _drop(self, key: str) -> None:
        pod = self.pods.pop(key, None)
        if pod is not None and holds_its_node(pod):
            name = pod["spec"]["nodeName"]
            del self.on[name][key]
            self._shy.discard(key)
            self._used[name].subtract(self.asked(pod))

    def _add(self, key: str, pod: Any) -> None:
        self.pods[key] = pod
        if holds_its_node(pod):
            name = pod["spec"]["nodeName"]
            self.on.setdefault(name, {})[key] = pod
            if terms_of(pod, "podAntiAffinity"):
                self._shy.add(key)
            self._used.setdefault(name, Counter()).update(self.asked(pod))

    def asked(self, pod: Pod) -> Amounts:
        """Return the requests of a pod."""
        uid = pod["metadata"]["uid"]
        if uid not in self._asked:
            self._asked[uid] = requests(pod)
        return self._asked[uid]

    def has_workload(self, namespace: str, name: str) -> bool:
        """Return whether a workload of that name exists."""
        return bool(self._workloads.get(f"{namespace}/{name}"))

    def group(self, namespace: str, workload: str, name: str) -> Any:
        """Return the policy of a workload's group; None without such a group."""
        held = self._workloads.get(f"{namespace}/{workload}") or {"spec": {"podGroups": []}}
        groups = held["spec"]["podGroups"]
        return next((group["policy"] for group in groups if group["name"] == name), None)

    def used(self, name: str) -> Amounts:
        """Return the sum of the requests of the pods on a node."""
        return self._used.get(name, Counter())

    def over(self, name: str) -> list[str]:
        """Return the resources in which a node is over-committed."""
        has = allocatable(self.nodes[name])
        return [what for what, amount in self.used(name).items() if amount > has[what]]

    def disks_wrong(self, pod: Pod) -> list[str]:
        """Return the objections to the volumes of an assigned pod."""
        node = self.nodes.get(pod["spec"]["nodeName"])
        if node is None or not pod["spec"].get("volumes"):
            return []
        others = {name: list(pods.values()) for name, pods in self.on.items()}
        return self._disks.wrong(pod, node, others)

    def around(self, pod: Pod) -> Around | None:
        """Return the inter-pod rules between this pod and the others; None if there are none."""
        if not self._shy and not has_rules(pod):
            return None
        own = pod["metadata"]["uid"]
        stand = [
            (other, self.nodes[name])
            for name, pods in self.on.items()
            for other in pods.values()
            if name in self.nodes and other["metadata"]["uid"] != own
        ]
        return Around(pod, self.nodes.values(), stand, self._namespaces)

    def message(self, pod: Pod) -> str:
        """Return kube-scheduler's message if no node takes the pod; empty if one does."""
        reasons: Counter[str] = Counter()
        around = self.around(pod)
        for name, node in self.nodes.items():
            said = why_not(pod, node, self.used(name), self.on.get(name, {}).values())
            if not said and around is not None:
                said = list(filter(None, [around.why_not(node)]))
            if not said:
                return ""
            reasons.update(said)
        return self.sentence(reasons)

    def sentence(self, reasons: Mapping[str, int]) -> str:
        """Return the message for these numbers of nodes by reason."""
        if not self.nodes:
            return NO_NODES
        texts = sorted(f"{count} {reason}" for reason, count in reasons.items())
        return f"0/{len(self.nodes)} nodes are available: {', '.join(texts)}."
