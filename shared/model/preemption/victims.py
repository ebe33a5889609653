"""Victims on a node, which leave to make room for a pod."""

from collections.abc import Sequence

from msgspec import Struct

from shared.model.ids import AskId, NodeId, PodId, SignatureId

PRIORITY_BASE = 1 << 31  # makes every priority positive before adding, as in kube-scheduler


class NodeVictims(Struct, frozen=True, gc=False, array_like=True):
    """`victims` leave a node, `violations` of them beyond their budgets; `others` are further pods
    there that could leave in their place.
    """

    node: NodeId
    victims: bytes
    violations: int
    others: bytes = b""


class Nominee(Struct, frozen=True, gc=False, array_like=True):
    """A gang's member with a place kept for it under `ask` while `victims` leave: none if there is
    room, or if other members make it.
    """

    ask: AskId
    pod: PodId
    sig: SignatureId
    node: NodeId
    victims: bytes = b""


def keys_of(priorities: Sequence[int], starts_ms: Sequence[int]) -> tuple[int, int, int]:
    """Return what pickOneNodeForPreemption compares: the priority of the first victim, which it
    takes for the highest; the sum of all; the earliest start of those with the highest.
    """
    highest = max(priorities)
    starts = zip(priorities, starts_ms, strict=True)
    return (
        priorities[0],
        sum(priority + PRIORITY_BASE for priority in priorities),
        min(start_ms for priority, start_ms in starts if priority == highest),
    )
