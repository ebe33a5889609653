"""Topology of gangs: domains of nodes by the values of labels, and which domain a gang gets.

A domain is named by a path: the values of the labels of one level and of all broader ones. The
empty path is the whole cluster. A node without one of the labels is in no other domain.
"""

from collections.abc import Sequence

from msgspec import Struct

Path = tuple[str, ...]
"""Values of labels, the broadest level first; empty: the whole cluster."""
REST: Path = ("*",)
"""The nodes of no domain, which the whole cluster has, too. No label has this value."""
Amounts = tuple[int, ...]
"""Amounts of the scored resources, in base units."""


class Topology(Struct, frozen=True, omit_defaults=True, gc=False):
    """Members of a gang run in one domain: of the narrowest level with a domain that has room.
    `levels`: keys of node labels, the broadest first. Domains of `levels[lowest]` are tried first,
    then broader ones up to `levels[highest]`; -1: at last the whole cluster. Inside their domain
    members fill as few domains of the narrower levels as possible.
    """

    levels: tuple[str, ...]
    lowest: int = 0
    highest: int = 0


class NetworkTopology(Struct, frozen=True, omit_defaults=True, gc=False):
    """A gang's place among the HyperNodes of Volcano: in one HyperNode at most of a tier, by number
    or by name (neither: of any tier), or, if not `is_hard`, in as low a one as has room.
    """

    is_hard: bool = True
    highest_tier: int | None = None
    highest_tier_name: str = ""


class DomainOffer(Struct, frozen=True, gc=False, array_like=True):
    """The room of one domain on the nodes of one shard. `counts`: how many members of each group
    fit, one group after the other; may exceed the group. `allocatable` and `requested`: sums of the
    scored resources over the domain's nodes, without the members.
    """

    path: Path
    counts: tuple[int, ...]
    allocatable: Amounts = ()
    requested: Amounts = ()


class Scoring(Struct, frozen=True, gc=False, array_like=True):
    """How domains are scored: the weights of the scored resources, and what one member of each
    group requests of them.
    """

    weights: tuple[int, ...]
    requests: tuple[Amounts, ...]


class DomainCandidate(Struct, frozen=True, gc=False):
    """A domain in which `placed` members would run, and its sums with them."""

    path: Path
    placed: int
    allocatable: Amounts
    requested: Amounts


def best(
    candidates: Sequence[DomainCandidate], weights: Sequence[int], resting: int = 0
) -> DomainCandidate:
    """Return the candidate with the highest score, of equal ones the first by path. `resting`:
    members with a node, which count for each candidate.

    The score is that of kube-scheduler 1.37 for placements (TopologyAwareWorkloadScheduling): the
    number of members in percent of the most (PodGroupPodsCount) plus the share of the domain that
    is allocated then (NodeResourcesFit.ScorePlacement), so that the fullest domain wins.
    """
    most = max(1, max(one.placed for one in candidates) + resting)

    def order(one: DomainCandidate) -> tuple[int, Path]:
        pods = (one.placed + resting) * 100 // most
        return -pods - allocated_percent(weights, one.requested, one.allocatable), one.path

    return min(candidates, key=order)


def allocated_percent(
    weights: Sequence[int], requested: Sequence[int], allocatable: Sequence[int]
) -> int:
    """Return the weighted mean of what is requested, in whole percents of what is allocatable;
    resources of which there is none are left out.
    """
    total = summed = 0
    for weight, used, have in zip(weights, requested, allocatable, strict=True):
        if have > 0:
            total += weight * (min(used, have) * 100 // have)
            summed += weight
    return total // summed if summed else 0


def added(parts: Sequence[Amounts]) -> Amounts:
    """Return the sums by position."""
    return parts[0] if len(parts) == 1 else tuple(map(sum, zip(*parts, strict=True)))


def name_of(levels: Sequence[str], path: Path) -> str:
    """Return a domain's name for messages: `zone=a, rack=r1`; empty for the whole cluster."""
    return ", ".join(f"{key}={value}" for key, value in zip(levels, path, strict=False))
