"""Checks wide rules: each reservation in a turn against the pods of all shards.

The other shards count for a turn before it is granted. What they had then, and what the shard of
the turn has at the reservation, are all pods there are.
"""

from collections.abc import Sequence

from muster.checker.books import InTurn, Ledger
from muster.checker.filters.inter_pod_rules import Around, Neighbours
from muster.checker.filters.volumes import users


def check(shards: Sequence[Ledger]) -> None:
    """Check the turns of all shards; the problems go to the books of the shard that reserved."""
    for shard in shards:
        others = [other for other in shards if other is not shard]
        for one in shard.in_turns:
            _check_one(shard, others, one)


def _check_one(shard: Ledger, others: Sequence[Ledger], one: InTurn) -> None:
    text = f"pod {one.pod} on node {one.node.name} in turn {one.turn}"
    standing = list(one.standing)
    for other in others:
        if one.turn not in other.counted:
            shard.blame("turns", one.position, f"{text}: {other.journal} has not counted")
            return
        counted = other.counted[one.turn]
        pods = ((pod, spec) for _node, load in counted for pod, spec in load.pods.items())
        for claim in users(one.claims, pods) if one.claims else ():
            shard.blame("one-pod-per-claim", one.position, f"{text}: {claim}")
        standing += counted
    obstacle = Around(one.spec, Neighbours(standing, shard.namespaces)).obstacle(one.node)
    if obstacle is not None:
        shard.blame("inter-pod-rules", one.position, f"{text}: {obstacle}")
