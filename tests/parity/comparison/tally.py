"""Coverage of a set of cases: messages, and how many values each score plugin takes. Checks
nothing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

VALUES_MIN = 3
"""A case covers a score plugin if the plugin has this many values on the nodes of one pod."""
SCORED = (
    *("TaintToleration", "NodeAffinity", "NodeResourcesFit"),
    *("NodeResourcesBalancedAllocation", "PodTopologySpread", "InterPodAffinity"),
)
"""Score plugins of the cases in cases.py; ImageLocality has other cases."""
MESSAGES = (
    "node(s) were unschedulable",
    "node(s) had untolerated taint(s)",
    "node(s) didn't match Pod's node affinity/selector",
    "node(s) didn't satisfy plugin(s) [NodeAffinity]",
    "pod affinity terms conflict",
    "node(s) didn't have free ports for the requested pod ports",
    "Too many pods",
    "Insufficient cpu",
    "Insufficient memory",
    "Insufficient ephemeral-storage",
    "Insufficient hugepages-2Mi",
    "Insufficient example.com/widget",
    "Insufficient example.com/gadget",
    "Insufficient nvidia.com/gpu",
    "node(s) didn't match pod topology spread constraints (missing required label)",
    "node(s) didn't match pod topology spread constraints",
    "node(s) didn't match pod affinity rules",
    "node(s) didn't match pod anti-affinity rules",
    "node(s) didn't satisfy existing pods anti-affinity rules",
)


class Tally:
    """Counts over many answers; a case counts once for each message and plugin."""

    def __init__(self) -> None:
        self.cases = self.pods = self.nodes = self.feasible = 0
        self.messages: Counter[str] = Counter()
        self.scores: Counter[str] = Counter()

    def add(self, answer: Mapping[str, Any]) -> None:
        """Count one case's answer; an error counts only as a case."""
        self.cases += 1
        pods = answer.get("pods", [])
        self.messages.update({text for pod in pods for text in _messages(pod)})
        self.scores.update({plugin for pod in pods for plugin in _varied(pod)})
        self.pods += len(pods)
        for pod in pods:
            self.nodes += len(pod["nodes"])
            self.feasible += sum(node["feasible"] for node in pod["nodes"].values())


def _messages(pod: Mapping[str, Any]) -> Iterator[str]:
    yield from pod.get("preEnqueueStatus", {"reasons": ()})["reasons"]
    yield from pod["preFilterStatus"]["reasons"]
    for node in pod["nodes"].values():
        yield from node["reasons"]


def _varied(pod: Mapping[str, Any]) -> Iterator[str]:
    """Yield the plugins with several values on this pod's nodes."""
    values: dict[str, set[int]] = {}
    for node in pod["nodes"].values():
        for plugin, score in node["scores"].items():
            values.setdefault(plugin, set()).add(score)
    yield from (plugin for plugin, found in values.items() if len(found) >= VALUES_MIN)
