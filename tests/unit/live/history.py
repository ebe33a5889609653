"""A small correct history to falsify: two nodes of two cores, and a scheduler's work on them."""

import struct
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from shared.model.ids import INGEST, JournalName, placement
from tests.live.checker.check import Evidence, Verdict, check
from tests.live.checker.journals import Entry, Journals

START_S = 1_800_000_000.0
FULL = "0/2 nodes are available: 2 Insufficient cpu."
NO_VICTIMS = f"{FULL} preemption: 0/2 nodes are available: 2 No preemption victims found."


class Change:
    """One key's new value."""

    def __init__(self, revision: int, key: str, value: Any, time_s: float) -> None:
        self.revision, self.key, self.value, self.time_s = revision, key, value, time_s


def stamp(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def packed(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}q", *numbers)


class History:
    """A history written by the test; each change takes a second."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.audit: list[Any] = []
        self.journals: Journals = {"ingest/0": [], "placement/0": []}
        self.now_s = START_S
        self._nodes: dict[str, int] = {}
        self._pods: dict[str, int] = {}

    def verdict(self) -> Verdict:
        return check(
            Evidence(
                changes=self.changes, audit=self.audit, journals=self.journals, now_s=self.now_s
            )
        )

    def store(self, key: str, value: Any) -> None:
        self.now_s += 1
        self.changes.append(Change(len(self.changes) + 1, f"/registry/{key}", value, self.now_s))

    def node(self, name: str, cpu: int = 2) -> None:
        self._nodes.setdefault(name, len(self._nodes) + 1)
        has = {"cpu": str(cpu), "pods": "10", "memory": "1Gi"}
        value = {"metadata": {"name": name}, "spec": {}, "status": {"allocatable": has}}
        self.store(f"minions/{name}", value)

    def pod(self, name: str, cpu: str = "1", scheduler: str = "muster", **status: Any) -> None:
        self._pods.setdefault(name, len(self._pods) + 1)
        self.store(f"pods/default/{name}", self._pod(name, cpu, scheduler, status))

    def _pod(self, name: str, cpu: str, scheduler: str, status: Any, node: str = "") -> Any:
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        spec: dict[str, Any] = {"schedulerName": scheduler, "containers": [container]}
        if node:
            spec["nodeName"] = node
        metadata = {"name": name, "namespace": "default", "uid": f"uid-of-{name}"}
        return {"metadata": metadata, "spec": spec, "status": status}

    def workload(self, name: str, min_count: int) -> None:
        """Create a workload with one group, `all`."""
        group = {"name": "all", "policy": {"gang": {"minCount": min_count}}}
        self.store(f"workloads/default/{name}", {"spec": {"podGroups": [group]}})

    def member(self, name: str, message: str = "", workload: str = "team", cpu: str = "1") -> None:
        """Create a pod of a workload's group with the message why it waits."""
        if message:
            self.waits(name, message, cpu)
        else:
            self.pod(name, cpu)
        reference = {"name": workload, "podGroup": "all"}
        self.changes[-1].value["spec"]["workloadRef"] = reference

    def bind(self, name: str, node: str, cpu: str = "1", scheduler: str = "muster") -> None:
        """Bind a pod as the API server does, with an entry in the audit log."""
        self.store(f"pods/default/{name}", self._pod(name, cpu, scheduler, {}, node))
        self.answered(name, node, 201, "muster" if scheduler == "muster" else "kube-scheduler")

    def answered(self, name: str, node: str, code: int, agent: str = "muster") -> None:
        body = {"metadata": {"uid": f"uid-of-{name}"}, "target": {"name": node}}
        self.audit.append(
            {
                "verb": "create",
                "objectRef": {"namespace": "default", "name": name, "subresource": "binding"},
                "requestObject": body,
                "responseStatus": {"code": code},
                "userAgent": agent,
                "stageTimestamp": stamp(self.now_s),
            }
        )

    def waits(self, name: str, message: str, cpu: str = "1", at_s: float | None = None) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "message": message,
            "lastProbeTime": stamp(self.now_s if at_s is None else at_s),
        }
        self.pod(name, cpu, conditions=[condition])

    # ---------------------------------------------------------------------------- the journals

    def publish(self, *events: Any) -> None:
        """Append a record to the world journal."""
        self._append(INGEST, [], events)

    def know_nodes(self, cpu_milli: int = 2000, *names: str) -> None:
        for name in names or tuple(self._nodes):
            ids = packed(self._nodes[name])
            nodes = [{"name": name, "allocatable": [["cpu", cpu_milli], ["pods", 10]]}]
            self.publish({"type": "nodes_set", "shard": 0, "ids": ids, "nodes": nodes})

    def know_pods(self, *names: str) -> None:
        ids = packed(*(self._pods[name] for name in names))
        uids = "\n".join(f"uid-of-{name}" for name in names)
        self.publish({"type": "pods_named", "ids": ids, "uids": uids})

    def know_bound(self, name: str, node: str) -> None:
        columns = {"ids": packed(self._pods[name]), "nodes": packed(self._nodes[node])}
        self.publish({"type": "pods_assigned", "shard": 0, **columns})

    def reserve(self, *pairs: tuple[str, str]) -> None:
        """Append a decision of the shard, which has read all of the world journal."""
        ids = packed(*(self._pods[name] for name, _node in pairs))
        nodes = packed(*(self._nodes[node] for _name, node in pairs))
        event = {"type": "reserved", "shard": 0, "ids": ids, "nodes": nodes}
        self._append(placement(0), [("ingest/0", 0, len(self.journals["ingest/0"]))], [event])

    def _append(self, journal: JournalName, consumed: list[Any], events: Sequence[Any]) -> None:
        entries = self.journals[journal]
        entries.append(Entry(len(entries), self.now_s, consumed, list(events)))


def two_nodes() -> History:
    history = History()
    history.node("node-a")
    history.node("node-b")
    history.know_nodes()
    return history


def place(history: History, name: str, node: str, cpu: str = "1") -> None:
    """Create and bind a pod correctly."""
    history.pod(name, cpu)
    history.know_pods(name)
    history.reserve((name, node))
    history.bind(name, node, cpu)
    history.know_bound(name, node)
