"""Growth: members above minCount wait while a gang of their priority lacks its minimum.

A gang lacks its minimum from the arrival of enough members until a try fails, and once more when a
node has improved for it. So growth waits for tries that may succeed, not for gangs without room or
that a queue holds back, and goes first for a while after each failed try: a gang that never fits
cannot stop it.

Volcano, too, orders jobs with their minimum after those that lack it (gang.go, jobOrderFn).
"""

from services.queueing.core.config import GROWTH_MS
from services.queueing.core.state import Gang, QueueingState


def note(state: QueueingState, gang: Gang, lacks_minimum: bool) -> None:
    """Update the indexes after a change of the gang. `lacks_minimum`: it is or may be tried for its
    minimum.
    """
    if lacks_minimum and (gang.attempt or _is_hopeful(gang)):
        state.lacking_minimum[gang.gang] = None
    else:
        state.lacking_minimum.pop(gang.gang, None)
    if gang.committed and gang.waiting:
        state.growing[gang.gang] = None
    elif gang.committed:
        state.growing.pop(gang.gang, None)


def _is_hopeful(gang: Gang) -> bool:
    return not gang.held and (not gang.failures or gang.improved or gang.has_room)


def must_wait(state: QueueingState, gang: Gang) -> bool:
    """Return whether members of this gang above its minCount wait for another gang of its priority
    or a higher one.
    """
    others = (state.gangs[number] for number in state.lacking_minimum)
    return any(
        one.priority >= gang.priority and one is not gang and _goes_first(state, one)
        for one in others
    )


def _goes_first(state: QueueingState, one: Gang) -> bool:
    if one.attempt or not one.failures or one.has_room:
        return True
    return one.failed_ms + GROWTH_MS <= state.now_ms


def next_gang(state: QueueingState) -> Gang | None:
    """Return the first gang, by priority and age, whose waiting members need not wait any more."""
    gangs = [state.gangs[number] for number in state.growing]
    free = [gang for gang in gangs if gang.committed and not must_wait(state, gang)]
    return min(free, key=lambda gang: (-gang.priority, gang.seq), default=None)
