"""Disruption budgets under the real disruption controller: guarded Deployments, each eviction that
left too few healthy pods, and whether Muster knew that when it decided.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.live.checker import journals
from tests.live.checker.cluster_state import PODS, Change
from tests.live.checker.shard_books import uids_of
from tests.support.kube_api import KubeApi
from tests.support.kube_objects import deployment, eventually

BUDGETS = "/registry/poddisruptionbudgets/default/"
GUARDED, REPLICAS, LEAST = tuple(f"guarded-{number}" for number in range(5)), 12, 10
APPS = "/apis/apps/v1/namespaces/default/deployments"
POLICIES = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
READY_S = 120.0


def guard(api: KubeApi, scheduler: str) -> None:
    """Create Deployments of low priority with a budget each; wait until all of their pods are
    ready.
    """
    for name in GUARDED:
        spec = {"cpu": "1", "schedulerName": scheduler, "priorityClassName": "low"}
        api.create(APPS, deployment(name, REPLICAS, **spec)).ok()
        selector = {"matchLabels": {"app": name}}
        budget = {"metadata": {"name": name}, "spec": {"minAvailable": LEAST, "selector": selector}}
        version = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
        api.create(POLICIES, {**version, **budget}).ok()

    def are_kept() -> bool:
        statuses = [one.get("status", {}) for one in api.items(POLICIES)]
        return all(one.get("disruptionsAllowed") == REPLICAS - LEAST for one in statuses)

    eventually(are_kept, "every budget allows what it is to allow", timeout_s=READY_S)


def unguard(api: KubeApi) -> None:
    """Delete all of them."""
    for path in (APPS, POLICIES):
        api.request("DELETE", path).ok()


@dataclass(frozen=True)
class Breach:
    """An eviction that left too few pods; `allowed` is the budget's allowance in its status at that
    time.
    """

    uid: str
    pod: str
    budget: str
    healthy: int
    least: int
    allowed: int


@dataclass
class Budgets:
    """Reads the history; `evicted` counts all evictions of guarded pods."""

    breaches: list[Breach] = field(default_factory=list)
    evicted: int = 0
    is_over: bool = False
    _healthy: dict[str, dict[str, bool]] = field(default_factory=dict)
    _status: dict[str, Any] = field(default_factory=dict)
    _before: dict[str, Any] = field(default_factory=dict)

    def take(self, changes: Iterable[Change]) -> None:
        """Read the next change."""
        for change in changes:
            if change.key.startswith(BUDGETS) and change.value is not None:
                self._status[change.key.removeprefix(BUDGETS)] = change.value.get("status", {})
            elif change.key.startswith(PODS) and not self.is_over:
                self._pod(change)

    def _pod(self, change: Change) -> None:
        pod = change.value or self._before.pop(change.key, None)
        app = pod["metadata"].get("labels", {}).get("app") if pod else ""
        if app not in GUARDED:
            return
        uid, healthy = pod["metadata"]["uid"], self._healthy.setdefault(app, {})
        if change.value is not None:
            self._before[change.key] = pod
        if change.value is None or pod["metadata"].get("deletionTimestamp"):
            if uid in healthy:
                self._evicted(change.key.removeprefix(PODS), uid, app)
                del healthy[uid]
        elif _is_ready(pod):
            healthy[uid] = True
        else:
            healthy.pop(uid, None)

    def _evicted(self, name: str, uid: str, app: str) -> None:
        self.evicted += 1
        status, healthy = self._status.get(app, {}), len(self._healthy[app]) - 1
        least = status.get("desiredHealthy", 0)
        if healthy < least:
            allowed = status.get("disruptionsAllowed", 0)
            self.breaches.append(Breach(uid, name, app, healthy, least, allowed))


def _is_ready(pod: Any) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def known(run: Path) -> dict[str, int]:
    """Return by victim's uid how many victims of its candidate were beyond their budgets."""
    recorded = journals.of_file(run / "journals.db")
    uids = uids_of(recorded)
    found: dict[tuple[int, int, bytes], int] = {}
    for entry in recorded["placement/0"]:
        for event in entry.of("candidates_found"):
            for one in (*event.get("candidates", ()), *event.get("series", ())):
                found[event["ask"], one[0], bytes(one[1])] = one[2]
    beyond: dict[str, int] = {}
    for entry in recorded["preemption/0"]:
        for event in entry.of("nominate_asked"):
            count = found.get((event["ask"], event["node"], bytes(event["victims"])), 0)
            beyond |= {uids[pod]: count for pod in journals.column(event["victims"])}
    return beyond
