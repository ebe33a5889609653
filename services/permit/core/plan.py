"""Which shard holds which members: a pure function of what the shards said they could give.

One shard is preferred, because then one step decides; a gang is cut over shards only when no shard
alone has room for minCount. Ties go round the shards by the gang's number, so that many equal
gangs do not all meet on the first shard.

Every shard tries the same members in the same order, so where members differ all of them offer room
for the first ones. If that is too little, a shard is asked for others of the members in place of
those that are had elsewhere, as many as it offered: it knows best, and holds all of them or none.
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
    plan = _cut(order, groups, offers, {})
    if _planned(plan) < needed:
        plan = _cut(order, groups, offers, {shard: sum(offers[shard]) for shard in order})
    return plan if _planned(plan) >= needed else {}


def _cut(
    order: Sequence[int],
    groups: Sequence[Group],
    offers: Mapping[int, Sequence[int]],
    room: Mapping[int, int],
) -> dict[int, list[Group]]:
    """What each shard offered of what those before it left; where it has `room` others instead."""
    plan: dict[int, list[Group]] = {}
    left = [(sig, list(ids)) for sig, ids in groups]
    for shard in order:
        counts = [min(len(ids), at) for (_sig, ids), at in zip(left, offers[shard], strict=False)]
        spare = room.get(shard, 0) - sum(counts)
        for at, (_sig, ids) in enumerate(left[: len(counts)]):
            more = min(len(ids) - counts[at], max(0, spare))
            counts[at] += more
            spare -= more
        taken = [(sig, ids[:count]) for (sig, ids), count in zip(left, counts, strict=False)]
        left = [(sig, ids[count:]) for (sig, ids), count in zip(left, counts, strict=False)]
        chosen = [(sig, ids) for sig, ids in taken if ids]
        if chosen:
            plan[shard] = chosen
    return plan


def _planned(plan: Mapping[int, list[Group]]) -> int:
    return sum(len(ids) for chosen in plan.values() for _sig, ids in chosen)


def _total(groups: Sequence[Group], counts: Sequence[int]) -> int:
    return sum(
        min(len(ids), max(count, 0)) for (_sig, ids), count in zip(groups, counts, strict=False)
    )
