"""Who goes from a node to make room for a pod."""

from collections.abc import Sequence

from msgspec import Struct

PRIORITY_BASE = 1 << 31  # makes every priority positive, as kube-scheduler does before it adds them


class NodeVictims(Struct, frozen=True, gc=False, array_like=True):
    """`victims` leave a node, `violations` of them beyond their budgets; `others` are further pods
    there that could leave in their place.
    """

    node: int
    victims: bytes
    violations: int
    others: bytes = b""


class Nominee(Struct, frozen=True, gc=False, array_like=True):
    """A gang's member with a place that is kept for it under `ask` while `victims` leave it: none
    where there is room, or where others of the gang make it.
    """

    ask: int
    pod: int
    sig: int
    node: int
    victims: bytes = b""


def keys_of(priorities: Sequence[int], starts_ms: Sequence[int]) -> tuple[int, int, int]:
    """What pickOneNodeForPreemption looks at: the priority of the first victim, which it takes for
    the highest; the sum of all; the earliest start of those with the highest.
    """
    highest = max(priorities)
    starts = zip(priorities, starts_ms, strict=True)
    return (
        priorities[0],
        sum(priority + PRIORITY_BASE for priority in priorities),
        min(start_ms for priority, start_ms in starts if priority == highest),
    )
