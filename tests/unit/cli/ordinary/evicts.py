"""Chooses victims, with sets, sorting and named tuples."""

from enum import IntEnum
from typing import NamedTuple

from muster.plugin import Evict, Plugin, Pod, RefusedNodes, Stop


class Rank(IntEnum):
    LOW = 0
    HIGH = 1


class Choice(NamedTuple):
    cost: int
    node: int
    pods: list


class Clears(Plugin):
    reads = ("priority", "labels.app", "requests.cpu")
    amounts = ("cpu",)

    def post_filter(self, pod: Pod, nodes: RefusedNodes):
        if pod["priority"] < Rank.HIGH:
            return Stop(f"{Rank.LOW.name} pods evict nobody")
        best = None
        seen: set[str] = set()
        for at in nodes.may_help().nonzero()[0].tolist():
            pods = [one for one in nodes.pods(at) if not one.is_protected]
            pods.sort(key=lambda one: (one.priority, -one.since_ms))
            apps = {one["labels.app"] for one in pods}
            if apps & seen:
                continue
            seen |= apps
            choice = Choice(sum(one["requests.cpu"] for one in pods), at, pods)
            if best is None or choice.cost < best.cost:
                best = choice
        if best is None:
            said = sorted({reason for reasons in nodes.reasons() for reason in reasons})
            return "; ".join(said) or None
        return Evict(best.node, best.pods)
