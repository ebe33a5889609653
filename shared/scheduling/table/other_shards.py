"""What the rules of a pod count on the nodes of other shards."""

from collections.abc import Iterable

from shared.model.pod_rules.rule_counts import RuleCount


class OtherShards:
    """The counts by rule. Nothing is counted where there is one shard."""

    def __init__(self, counts: Iterable[RuleCount] = ()) -> None:
        """`counts`: the sums over the other shards."""
        self._counts = {(one.rule, one.at, one.key): one for one in counts}

    def find(self, rule: str, at: int, key: str) -> RuleCount:
        """Return the count of one rule of the pod; without values if nothing is counted."""
        return self._counts.get((rule, at, key), RuleCount(rule, at, key))

    def by_key(self, rule: str) -> list[RuleCount]:
        """Return the counts of rules of this kind that are not the pod's own, by topology key."""
        return [one for (kind, _at, _key), one in sorted(self._counts.items()) if kind == rule]


NO_OTHERS = OtherShards()
