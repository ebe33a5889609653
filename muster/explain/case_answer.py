"""What `muster score` answers, in kube-scheduler's words: `code` is that of a Status."""

from typing import Any, NotRequired, TypedDict

from shared.scheduling.api.custom.failures import Failure

ERROR, UNRESOLVABLE = "Error", "UnschedulableAndUnresolvable"


class Status(TypedDict):
    """How an extension point ended; `plugin` is the one that rejected the pod, if one did."""

    code: str
    reasons: list[str]
    plugin: str


class NodeStatus(Status):
    """How Filter ended for a node; if it is feasible, the weighted scores by plugin, and the total
    of these. `allocations`: what the pod's new resource claims would get there, as their
    status.allocation, by NAMESPACE/NAME; only if there are any.
    """

    feasible: bool
    scores: dict[str, int]
    total: int
    allocations: NotRequired[dict[str, Any]]


def failed(code: str, reason: str, plugin: str = "") -> NodeStatus:
    """Return the status of a node that is not feasible."""
    return {
        "feasible": False,
        "code": code,
        "plugin": plugin,
        "reasons": [reason],
        "scores": {},
        "total": 0,
    }


class PreemptionCandidate(TypedDict):
    """The pods that leave a node (`NAMESPACE/NAME`), and how many of them beyond a budget."""

    victims: list[str]
    violations: int


class Preemption(TypedDict):
    """How PostFilter ended: the nodes where it makes room, the one that is chosen (or empty, and
    the message says why), and the victims there that do not leave already.
    """

    candidates: dict[str, PreemptionCandidate]
    best: str
    message: str
    evicted: list[str]


class Sampling(TypedDict):
    """The node, by its place, with which the search for the next pod begins."""

    next: int


class SearchAnswer(TypedDict):
    """How each node fares. `best`: the nodes of the highest total. `fitError`: why no node is
    feasible; empty if one is. `sampling`: only if the profile samples nodes; nodes that were not
    examined are left out.
    """

    preFilterStatus: Status
    nodes: dict[str, NodeStatus]
    fitError: str
    best: list[str]
    sampling: NotRequired[Sampling]


class PodAnswer(SearchAnswer):
    """How each node fares for a pod. `best`: the nodes of the highest total. `fitError`: why no
    node is feasible; empty if one is. `sampling`: only if the profile samples nodes; nodes that
    were not examined are left out. `preEnqueueStatus`: only of a pod with scheduling gates, or
    whose resource claims are missing. `preemption`: only if the case asks for it and no node is
    feasible.
    """

    namespace: str
    name: str
    preEnqueueStatus: NotRequired[Status]
    preemption: NotRequired[Preemption]


class CaseAnswer(TypedDict):
    """The answers about a case's pods."""

    pods: list[PodAnswer]


class Scored(CaseAnswer):
    """The answers about a case's pods, and the failures of users' plugins."""

    pluginFailures: list[Failure]
