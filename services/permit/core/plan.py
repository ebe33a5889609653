"""Decides which shard holds which members: a pure function of the shards' offers.

One shard is preferred, because then one step decides; a gang is split over shards only if the first
one has no room for minCount. The first is the one that keeps most places of lost members for the
gang, else the one with most room.
Ties rotate over the shards by the gang's number, so that many equal gangs do not all choose the
first shard.

Every shard tries the same members in the same order, so if members differ all shards offer room for
the first ones. If that is too little, a shard is asked for other members in place of those placed
elsewhere, as many as it offered: it holds all of them or none.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from shared.events.queueing import Members
from shared.model.columns import pack
from shared.model.ids import PodId, SignatureId

Group = tuple[SignatureId, list[PodId]]
"""(signature, pods)"""


def as_members(groups: Sequence[Group]) -> tuple[Members, ...]:
    """Return the groups that have members, for an event."""
    return tuple(Members(sig, pack(ids)) for sig, ids in groups if ids)


Plan = dict[int, list[Group]]
"""shard -> members to hold there"""
NOTHING_KEPT: Mapping[int, int] = MappingProxyType({})


def make_plan(
    first: int,
    needed: int,
    groups: Sequence[Group],
    offers: Mapping[int, Sequence[int]],
    is_enough: Callable[[Plan], bool] | None = None,
    kept: Mapping[int, int] = NOTHING_KEPT,
) -> Plan:
    """Return a plan for at least `needed` members together, for which `is_enough` holds; empty if
    that is impossible.

    `groups` are members without a hold; `offers` has counts parallel to them, by shard. Of equal
    shards the one at or next after `first` wins. `kept`: places of lost members, by shard.
    """
    totals = {shard: _total(groups, counts) for shard, counts in offers.items()}

    def rank(shard: int) -> tuple[int, int, bool, int]:
        return -kept.get(shard, 0), -totals[shard], shard < first, shard

    order = sorted(totals, key=rank)
    if not order:
        return {}
    tries = [order[:1]] if totals[order[0]] >= needed else []
    if not tries or is_enough is not None:
        tries.append(order)
    for shards in tries:
        for room in ({}, {shard: sum(offers[shard]) for shard in shards}):
            plan = _cut(shards, groups, offers, room)
            if _planned(plan) >= needed and (is_enough is None or is_enough(plan)):
                return plan
    return {}


def cut_to(plan: Plan, most: int, is_enough: Callable[[Plan], bool] | None = None) -> Plan:
    """Return the plan without the last members beyond `most`, except those without which it is not
    enough.
    """
    left = {shard: [(sig, list(ids)) for sig, ids in chosen] for shard, chosen in plan.items()}
    spare = _planned(left) - most
    for ids in [ids for chosen in left.values() for _sig, ids in chosen][::-1]:
        for at in range(len(ids) - 1, -1, -1):
            if spare <= 0:
                break
            pod = ids.pop(at)
            if is_enough is not None and not is_enough(left):
                ids.insert(at, pod)
            else:
                spare -= 1
    kept = {shard: [group for group in chosen if group[1]] for shard, chosen in left.items()}
    return {shard: chosen for shard, chosen in kept.items() if chosen}


def _cut(
    order: Sequence[int],
    groups: Sequence[Group],
    offers: Mapping[int, Sequence[int]],
    room: Mapping[int, int],
) -> Plan:
    """Return what each shard offers of the members left by the shards before it; `room`: it may
    hold other members instead.
    """
    plan: Plan = {}
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
