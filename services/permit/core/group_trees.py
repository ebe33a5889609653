"""Which shard holds which members of a tree of CompositePodGroups: pure functions of the offers."""

from collections import Counter

from msgspec import structs

from services.permit.core.plan import Group, Plan, as_members, make_plan
from services.permit.core.state import Attempt
from shared.events.permit import HoldAsked
from shared.model.groups.trees import (
    GroupTree,
    feasible_groups,
    feasible_leaves,
    fitting_leaves,
    missing,
)
from shared.model.ids import GangId, PodId

Offers = dict[int, tuple[int, ...]]
"""shard -> how many members of each group fit"""


def plan_holds(attempt: Attempt) -> Plan:
    """Return shard -> members to hold, of groups that all start with them; empty if the tree is
    infeasible.

    Equal members fill all room in the order of the tree. Of others, groups that are feasible on one
    shard alone go first: in the other counts an infeasible group may have the room of the next one,
    which may be too little for it.
    """

    def starting(plan: Plan) -> set[PodId]:
        planned = {pod for chosen in plan.values() for _sig, ids in chosen for pod in ids}
        return attempt.starting(planned.union(attempt.held)) or set()

    words = sorted(attempt.offers.items())
    shards = {shard: word for shard, word in words if shard not in attempt.asked}
    whole = {shard: word.whole or word.counts for shard, word in shards.items()}
    every = {shard: word.counts for shard, word in shards.items()}
    members, first = attempt.without_hold(), attempt.gang % len(attempt.offers)
    fitting, count = _fitting(attempt, members, every)
    tries = [(members, whole, 1), (members, every, 1), (fitting, every, max(1, count))]
    if len({sig for sig, _ids in members}) == 1:
        tries = [tries[2], *tries[:2]]
    for groups, offers, needed in tries:
        plan = make_plan(first, needed, groups, offers, lambda plan: bool(starting(plan)))
        kept = starting(plan)
        if kept:
            return _only(plan, kept)
    return {}


def _only(plan: Plan, kept: set[PodId]) -> Plan:
    """Return the plan for these members only."""
    parts = {
        shard: [(sig, [pod for pod in ids if pod in kept]) for sig, ids in chosen]
        for shard, chosen in plan.items()
    }
    return {shard: part for shard, part in parts.items() if any(ids for _sig, ids in part)}


def _fitting(attempt: Attempt, groups: list[Group], offers: Offers) -> tuple[list[Group], int]:
    """Return the members without those of groups that need more than all room, and how many of
    them have room.
    """
    sizes: Counter[GangId] = Counter()
    for leaf, (_sig, ids) in zip(attempt.leaves, groups, strict=True):
        sizes[leaf] += len(ids)
    room = sum(map(sum, offers.values()))
    fitting, left = fitting_leaves(attempt.tree, sizes, room)
    pairs = zip(attempt.leaves, groups, strict=True)
    found = [(sig, ids if leaf in (fitting or ()) else []) for leaf, (sig, ids) in pairs]
    return found, room - left


def next_hold(attempt: Attempt) -> HoldAsked | None:
    """Return the question to the next shard to hold members of a tree with topologies, in domains
    of its choice; None if no shard is left.

    A shard on which the tree is feasible goes first. Otherwise one shard after the other holds what
    fits in the domains that the ones before it took, beginning with another one at each attempt.
    """
    shards = {shard: word for shard, word in attempt.offers.items() if shard not in attempt.asked}
    whole = {shard: word.whole or word.counts for shard, word in shards.items()}
    feasible = [shard for shard, counts in whole.items() if _is_feasible(attempt, counts)]
    if attempt.held or not feasible:
        if len(attempt.offers) == 1:
            return None
        first = attempt.attempt % len(attempt.offers)
        left = [(shard < first, shard) for shard, word in shards.items() if any(word.counts)]
        return _tree_hold(attempt, min(left)[1], partly=True) if left else None
    most = min((-sum(whole[shard]), shard) for shard in feasible)
    return _tree_hold(attempt, most[1], partly=False)


def _is_feasible(attempt: Attempt, counts: tuple[int, ...]) -> bool:
    """Return whether the tree starts with these members, and some do."""
    fit: Counter[GangId] = Counter()
    for leaf, count in zip(attempt.leaves, counts, strict=False):
        fit[leaf] += count
    return any(counts) and feasible_leaves(attempt.tree, fit) is not None


def _tree_hold(attempt: Attempt, shard: int, partly: bool) -> HoldAsked:
    held: Counter[GangId] = Counter()
    for leaf, (_sig, ids) in zip(attempt.leaves, attempt.groups, strict=True):
        held[leaf] += sum(pod in attempt.held for pod in ids)
    groups = attempt.without_hold()
    leaves = (leaf for leaf, group in zip(attempt.leaves, groups, strict=True) if group[1])
    tree, members = _with_homes(attempt, missing(attempt.tree, held)), as_members(groups)
    return HoldAsked(*attempt.key, shard, members, tree=tree, leaves=tuple(leaves), partly=partly)


def _with_homes(attempt: Attempt, tree: GroupTree) -> GroupTree:
    """Return the tree with the values of the labels that the pods of each group have."""
    homes = [set[str]() for _ in tree]
    for word in attempt.offers.values():
        for known, values in zip(homes, word.homes, strict=False):
            known.update(values)
    pairs = zip(tree, homes, strict=True)
    return tuple(structs.replace(node, homes=tuple(sorted(known))) for node, known in pairs)


def count_feasible(attempt: Attempt) -> int:
    """Return how many groups right below the root would have nodes, as offered."""
    counts: Counter[GangId] = Counter()
    offers = [word.counts for word in attempt.offers.values()]
    for leaf, (_sig, ids), *fit in zip(attempt.leaves, attempt.groups, *offers, strict=False):
        counts[leaf] += min(len(ids), sum(fit))
    return feasible_groups(attempt.tree, counts)
