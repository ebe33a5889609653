"""How many members of a gang their queues have room for, and whether its minimum claims."""

from services.queueing.core.gangs.member_lists import needed_groups, pending_groups
from services.queueing.core.queues.quota import BORROWS, CLAIMS, PLAIN
from services.queueing.core.state import Gang, QueueingState
from shared.events.queueing import Members
from shared.model.columns import ID_BYTES, size


def members_within(
    state: QueueingState, gang: Gang, groups: tuple[Members, ...], needed: int
) -> tuple[tuple[Members, ...], str]:
    """Return the first of these members for which their queues have room, and why the next one has
    none. There are none if the gang cannot start with them: fewer than `needed`, or with parts or a
    tree not all.
    """
    quota = state.quota
    if quota is None:
        return groups, ""
    chosen, taken, why = list[Members](), dict[str, dict[str, int]](), ""
    for group in groups:
        sig, count = state.sigs[group.sig], size(group.ids)
        fit = count
        if sig.queue:
            fit = min(count, quota.room(sig.queue, sig.amounts, also=taken))
            quota.add(taken, sig.queue, sig.amounts, fit)
        if fit < count and not why:
            why = quota.message(sig.queue, sig.amounts, also=taken)
        if fit:
            chosen.append(Members(group.sig, group.ids[: fit * ID_BYTES]))
    is_short = sum(size(one.ids) for one in chosen) < needed
    if why and (is_short or gang.minimums or gang.tree):
        return (), why
    return tuple(chosen), why


def are_held(state: QueueingState, gang: Gang, needed: int) -> bool:
    """Return whether a gang's members must wait for a queue; it is kept until one uses less."""
    if state.quota is None or members_within(state, gang, pending_groups(state, gang), needed)[0]:
        return False
    state.quota.held_gangs[gang.gang] = None
    return True


def gang_standing(state: QueueingState, gang: Gang, needed: int) -> int:
    """Return whether a gang's first `needed` members claim together (CLAIMS) or borrow (BORROWS);
    PLAIN if they are in no queue. A gang that borrows is kept until the queue whose guarantee is
    used up uses less.
    """
    quota = state.quota
    if quota is None or not quota.has_guarantees:
        return PLAIN
    groups = needed_groups(state, gang) if gang.tree else pending_groups(state, gang)
    left = sum(size(one.ids) for one in groups) if gang.tree else needed
    found, taken = PLAIN, dict[str, dict[str, int]]()
    for group in groups:
        sig, count = state.sigs[group.sig], min(left, size(group.ids))
        left -= count
        if not sig.queue or not count:
            continue
        pods, name = quota.claimed(sig.queue, sig.amounts, also=taken)
        if pods < count:
            if name:
                quota.borrowing_gangs.setdefault(name, {})[gang.gang] = None
            return BORROWS
        quota.add(taken, sig.queue, sig.amounts, count)
        found = CLAIMS
    return found


def claiming_members(
    state: QueueingState, gang: Gang, groups: tuple[Members, ...], needed: int
) -> tuple[Members, ...]:
    """Return the first `needed` members, and those after them that claim, too, of a gang whose
    minimum claims; of another one, or with parts or a tree, all. The others come as single pods.
    """
    quota = state.quota
    if quota is None or gang.minimums or gang.tree or gang_standing(state, gang, needed) != CLAIMS:
        return groups
    found, taken = list[Members](), dict[str, dict[str, int]]()
    for group in groups:
        sig, count = state.sigs[group.sig], size(group.ids)
        first = min(needed, count)
        if sig.queue:
            quota.add(taken, sig.queue, sig.amounts, first)
            more = min(count - first, quota.claimed(sig.queue, sig.amounts, also=taken)[0])
            quota.add(taken, sig.queue, sig.amounts, more)
            count = first + more
        needed -= first
        if count:
            found.append(Members(group.sig, group.ids[: count * ID_BYTES]))
    return tuple(found)
