"""Decides which shard holds which members: a pure function of the shards' offers.

One shard is preferred, because then one step decides; a gang is split over shards only if no shard
alone has room for minCount. Ties rotate over the shards by the gang's number, so that many equal
gangs do not all choose the first shard.

Every shard tries the same members in the same order, so if members differ all shards offer room for
the first ones. If that is too little, a shard is asked for other members in place of those placed
elsewhere, as many as it offered: it holds all of them or none.
"""

from collections.abc import Mapping, Sequence

from shared.events.queueing import Members
from shared.model.columns import pack
from shared.model.ids import PodId, SignatureId

Group = tuple[SignatureId, list[PodId]]
"""(signature, pods)"""


def as_members(groups: Sequence[Group]) -> tuple[Members, ...]:
    """Return the groups that have members, for an event."""
    return tuple(Members(sig, pack(ids)) for sig, ids in groups if ids)


def make_plan(
    first: int, needed: int, groups: Sequence[Group], offers: Mapping[int, Sequence[int]]
) -> dict[int, list[Group]]:
    """Return shard -> members to hold there, at least `needed` together; empty if that is
    impossible.

    `groups` are members without a hold; `offers` has counts parallel to them, by shard. Of equal
    shards the one at or next after `first` wins.
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
    """Return what each shard offers of the members left by the shards before it; `room`: it may
    hold other members instead.
    """
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
