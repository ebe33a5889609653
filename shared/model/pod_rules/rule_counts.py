"""What the inter-pod rules of a pod count on the nodes of one shard, or of several."""

from collections.abc import Iterable

from msgspec import Struct

from shared.model.ids import SignatureId

HARD_SPREAD, SOFT_SPREAD = "hard spread", "soft spread"
AFFINITY, ANTI_AFFINITY = "affinity", "anti-affinity"
KEPT_AWAY = "kept away"  # by the anti-affinity of pods on nodes, all terms of a key together
ATTRACTED = "attracted"  # by preferred terms, its own and those of pods on nodes: weights
IN_USE = "claim in use"  # the nodes whose pods use the claim that the key names

NO_NODE_COUNTED = -1


class RuleCount(Struct, frozen=True, gc=False):
    """The pods that one rule counts, by value of its topology key.

    `rule` is one of the kinds above, and `at` says which of the pod's rules of this kind it is (0
    for rules of other pods). `values` has every value of a counted node; none by hostname, where no
    two shards share a value. `total`: all of these pods. Of a hard spread by hostname: `lowest`,
    the fewest pods of a node, and the number of `domains`.
    """

    rule: str
    at: int
    key: str
    values: tuple[tuple[str, int], ...] = ()
    total: int = 0
    lowest: int = NO_NODE_COUNTED
    domains: int = 0


class SignatureCounts(Struct, frozen=True, gc=False):
    """The counts of all rules that concern pods of one signature."""

    sig: SignatureId
    counts: tuple[RuleCount, ...]


def added(shards: Iterable[tuple[SignatureCounts, ...]]) -> tuple[SignatureCounts, ...]:
    """Return the sums over several shards, by signature."""
    by_sig: dict[SignatureId, dict[tuple[str, int, str], RuleCount]] = {}
    for shard in shards:
        for one in shard:
            found = by_sig.setdefault(one.sig, {})
            for count in one.counts:
                place = (count.rule, count.at, count.key)
                found[place] = _sum(found[place], count) if place in found else count
    return tuple(
        SignatureCounts(sig, tuple(count for _, count in sorted(found.items())))
        for sig, found in sorted(by_sig.items())
    )


def _sum(one: RuleCount, other: RuleCount) -> RuleCount:
    values = dict(one.values)
    for value, count in other.values:
        values[value] = values.get(value, 0) + count
    lowest = [each.lowest for each in (one, other) if each.lowest != NO_NODE_COUNTED]
    return RuleCount(
        one.rule,
        one.at,
        one.key,
        tuple(sorted(values.items())),
        one.total + other.total,
        min(lowest, default=NO_NODE_COUNTED),
        one.domains + other.domains,
    )
