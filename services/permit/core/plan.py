"""Which shard holds which members: a pure function of what the shards said they could give.

One shard is preferred, because then one step decides; a gang is cut over shards only when no shard
alone has room for minCount. Ties go round the shards by the gang's number, so that many equal
gangs do not all meet on the first shard.
"""

from collections.abc import Mapping, Sequence

Group = tuple[int, list[int]]
"""(signature, pods)"""


def make_plan(
    first: int, needed: int, groups: Sequence[Group], offers: Mapping[int, Sequence[int]]
) -> dict[int, list[Group]]:
    """Shard -> members to hold there, at least `needed` together; empty when that is impossible.

    `groups` are members without a hold, `offers` counts parallel to them, by shard. Of equal shards
    the one at or next after `first` is taken.
    """
    totals = {shard: _total(groups, counts) for shard, counts in offers.items()}
    order = sorted(totals, key=lambda shard: (-totals[shard], shard < first, shard))
    if not order:
        return {}
    if totals[order[0]] >= needed:
        order = order[:1]
    plan: dict[int, list[Group]] = {}
    left = [(sig, list(ids)) for sig, ids in groups]
    for shard in order:
        taken = [(sig, ids[:count]) for (sig, ids), count in zip(left, offers[shard], strict=False)]
        left = [
            (sig, ids[len(got) :]) for (sig, ids), (_sig, got) in zip(left, taken, strict=False)
        ]
        chosen = [(sig, ids) for sig, ids in taken if ids]
        if chosen:
            plan[shard] = chosen
    planned = sum(len(ids) for chosen in plan.values() for _sig, ids in chosen)
    return plan if planned >= needed else {}


def _total(groups: Sequence[Group], counts: Sequence[int]) -> int:
    return sum(
        min(len(ids), max(count, 0)) for (_sig, ids), count in zip(groups, counts, strict=False)
    )
