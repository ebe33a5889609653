"""Which shard holds which members of a tree of CompositePodGroups: pure functions of the offers."""

from collections import Counter

from services.permit.core.plan import Group, Plan, make_plan
from services.permit.core.state import Attempt
from shared.model.group_trees import feasible_groups, fitting_leaves
from shared.model.ids import GangId, PodId

Offers = dict[int, tuple[int, ...]]
"""shard -> how many members of each group fit"""


def plan_holds(attempt: Attempt) -> Plan:
    """Return shard -> members to hold, of groups that all start with them; empty if the tree is
    infeasible. Counts of groups that are feasible on one shard alone go first: in the other counts
    an infeasible group may have the room of the next one, for which that is asked at last.
    """

    def starting(plan: Plan) -> set[PodId]:
        planned = {pod for chosen in plan.values() for _sig, ids in chosen for pod in ids}
        return attempt.starting(planned.union(attempt.held)) or set()

    words = sorted(attempt.offers.items())
    shards = {shard: word for shard, word in words if shard not in attempt.asked}
    whole = {shard: word.whole or word.counts for shard, word in shards.items()}
    every = {shard: word.counts for shard, word in shards.items()}
    members, first = attempt.without_hold(), attempt.gang % len(attempt.offers)
    tries = ((members, whole), (members, every), (_fitting(attempt, members, every), every))
    for groups, offers in tries:
        plan = make_plan(first, 1, groups, offers, lambda plan: bool(starting(plan)))
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


def _fitting(attempt: Attempt, groups: list[Group], offers: Offers) -> list[Group]:
    """Return the members without those of groups that need more than all room."""
    sizes: Counter[GangId] = Counter()
    for leaf, (_sig, ids) in zip(attempt.leaves, groups, strict=True):
        sizes[leaf] += len(ids)
    fitting, _left = fitting_leaves(attempt.tree, sizes, sum(map(sum, offers.values())))
    pairs = zip(attempt.leaves, groups, strict=True)
    return [(sig, ids if leaf in (fitting or ()) else []) for leaf, (sig, ids) in pairs]


def count_feasible(attempt: Attempt) -> int:
    """Return how many groups right below the root would have nodes, as offered."""
    counts: Counter[GangId] = Counter()
    offers = [word.counts for word in attempt.offers.values()]
    for leaf, (_sig, ids), *fit in zip(attempt.leaves, attempt.groups, *offers, strict=False):
        counts[leaf] += min(len(ids), sum(fit))
    return feasible_groups(attempt.tree, counts)
