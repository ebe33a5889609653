"""Which topology domain a gang gets, and which shard holds which members there: pure functions of
the shards' offers.

Levels are tried from the narrowest up. At the first level with a domain that has room for the
needed members, the best such domain wins (shared/model/groups/topology.py). Inside it members fill
the domains of the next level, those with most room first; the last one is the tightest that has
room for the rest. If members run already, their domain is the only one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from services.permit.core.plan import Group, as_members, cut_to, make_plan
from services.permit.core.state import Attempt
from shared.events.queueing import Members
from shared.model.groups.topology import (
    REST,
    Amounts,
    DomainCandidate,
    DomainOffer,
    Path,
    Scoring,
    Topology,
    added,
    best,
    name_of,
)

DOMAINS_MAX = 32
"""The number of domains in which preemption looks for room."""
Parts = dict[int, list[DomainOffer]]
"""shard -> the offers that make up one domain"""


class _Domain(NamedTuple):
    """A domain. `room`: how many pods like the members fit. `placed`: how many members would run
    there; `counts`: how many of each group. `parts`: the shards' offers of it.
    """

    path: Path
    placed: int
    room: int
    counts: Amounts
    parts: list[DomainOffer]


def choose(attempt: Attempt, excluded: Sequence[Path], taken: Mapping[Path, int]) -> Path | None:
    """Return the domain to hold members in, except the `excluded` ones; None if none has room.
    `taken`: how many members of other gangs will be held in which domain before these. That is a
    hint, as they may be larger or smaller.

    Members with wide rules are counted by each shard alone, so their counts are guesses: after the
    domains that seem to have room all others are tried.
    """
    found = [one for one in _domains(attempt) if one.path not in excluded]
    needed = attempt.min_count - len(attempt.held)
    enough = [one for one in found if one.placed >= needed]
    if taken and len(enough) > 1:
        left = [one for one in enough if one.room - _inside(taken, one.path) >= needed]
        enough = left or enough
    if not enough and attempt.wide:
        enough = found
    if not enough:
        return None
    narrowest = max(len(one.path) for one in enough)
    level = [one for one in enough if len(one.path) == narrowest]
    scoring = _scoring(attempt)
    if len(level) == 1 or scoring is None:
        return level[0].path
    candidates = [_candidate(one, scoring) for one in level]
    return best(candidates, scoring.weights, len(attempt.placed)).path


def _inside(taken: Mapping[Path, int], path: Path) -> int:
    """Return how many members are taken into a domain or a narrower one inside it."""
    return sum(count for other, count in taken.items() if other[: len(path)] == path)


def most_placed(attempt: Attempt) -> tuple[str, int]:
    """Return the name of the domain in which most members fit, and how many do."""
    found = _domains(attempt)
    if not found or attempt.topology is None:
        return "", 0
    most = min(found, key=lambda one: (-one.placed, one.path))
    return name_of(attempt.topology.levels, most.path), most.placed


def for_preemption(attempt: Attempt) -> tuple[Path, ...]:
    """Return the domains of the broadest allowed level; those in which most members fit come first.
    No pod is evicted to reach a narrower level.
    """
    topology = attempt.topology
    if topology is None:
        return ()
    depth = topology.highest + 1
    found = [one for one in _domains(attempt) if len(one.path) == depth]
    found.sort(key=lambda one: (-one.placed, one.path))
    return tuple(one.path for one in found[:DOMAINS_MAX])


def plan_holds(attempt: Attempt) -> dict[int, list[tuple[Members, Path]]]:
    """Return shard -> members to hold, with their domains, all in the attempt's domain; empty if
    too few fit.
    """
    path, topology = attempt.domain, attempt.topology
    if path is None or topology is None:
        return {}
    rooms, groups = _Rooms(attempt, topology), attempt.without_hold()
    needed = attempt.min_count - len(attempt.held)
    is_enough = attempt.minimums_rule
    if attempt.minimum_only and len(groups) == 1:
        groups = [(sig, ids[:needed]) for sig, ids in groups]
    parts: list[tuple[Path, list[Group], int]] = [(path, groups, needed)]
    if len(groups) == 1 and rooms.is_by_narrowest(path, len(topology.levels)):
        parts = list(_filled(rooms, path, groups[0], len(topology.levels)))
    first, total = attempt.gang % len(attempt.offers), 0
    asked: dict[int, list[tuple[Members, Path]]] = {}
    for domain, members, least in parts:
        offers = rooms.by_shard(domain)
        plan = make_plan(first, least, members, offers, is_enough, attempt.kept())
        if attempt.minimum_only:
            plan = cut_to(plan, least, is_enough)
        for shard, chosen in plan.items():
            asked.setdefault(shard, []).extend((one, domain) for one in as_members(chosen))
            total += sum(len(ids) for _sig, ids in chosen)
    return {shard: asked[shard] for shard in sorted(asked)} if total >= needed else {}


class _Rooms:
    """The offers of all shards by domain of every level."""

    def __init__(self, attempt: Attempt, topology: Topology) -> None:
        self._parts: dict[Path, Parts] = {}
        self._whole: set[Path] = set()
        for shard, offer in sorted(attempt.offers.items()):
            whole = {one.path for one in offer.domains}
            self._whole |= whole
            for one in offer.domains:
                self._parts.setdefault(one.path, {}).setdefault(shard, []).append(one)
                for depth in range(topology.highest + 1, len(one.path)):
                    path = one.path[:depth]
                    # A domain counted as a whole is not the sum of narrower ones.
                    if path not in whole:
                        self._parts.setdefault(path, {}).setdefault(shard, []).append(one)

    def is_by_narrowest(self, path: Path, depth: int) -> bool:
        """Return whether all shards counted a domain by those of the narrowest level."""
        return len(path) == depth or path not in self._whole

    def paths(self, depth: int) -> list[Path]:
        """Return the domains of a level, ascending."""
        return sorted(path for path in self._parts if len(path) == depth and path != REST)

    def below(self, path: Path) -> list[Path]:
        """Return the domains of the next narrower level inside a domain, ascending; inside the
        whole cluster also the rest.
        """
        inside = self.paths(len(path) + 1)
        rest = [REST] if REST in self._parts and not path else []
        return [one for one in inside if one[: len(path)] == path] + rest

    def parts(self, path: Path) -> list[DomainOffer]:
        """Return the offers that make up a domain."""
        return [one for offers in self._parts[path].values() for one in offers]

    def by_shard(self, path: Path) -> dict[int, Amounts]:
        """Return how many members of each group fit in a domain, by shard."""
        return {
            shard: added([one.counts for one in offers])
            for shard, offers in self._parts[path].items()
        }

    def room(self, path: Path) -> int:
        """Return how many members of the only group fit in a domain."""
        return sum(one.counts[0] for one in self.parts(path))


def _filled(
    rooms: _Rooms, path: Path, group: Group, depth: int
) -> Iterator[tuple[Path, list[Group], int]]:
    """Yield narrowest domains with their members: as few domains of each level as possible."""
    sig, ids = group
    left = list(ids)
    for domain, count in _fill(rooms, path, len(left), depth):
        yield domain, [(sig, left[:count])], count
        left = left[count:]


def _fill(rooms: _Rooms, path: Path, count: int, depth: int) -> Iterator[tuple[Path, int]]:
    """Yield narrowest domains inside a domain, with how many of `count` members each gets."""
    if len(path) == depth or path == REST:
        yield path, min(count, rooms.room(path))
        return
    room = {child: rooms.room(child) for child in rooms.below(path)}
    while count and room:
        enough = [child for child in room if room[child] >= count]
        if enough:
            child = min(enough, key=lambda one: (room[one], one))
        else:
            child = min(room, key=lambda one: (-room[one], one))
        taken = min(count, room.pop(child))
        if taken:
            yield from _fill(rooms, child, taken, depth)
        count -= taken


def _domains(attempt: Attempt) -> list[_Domain]:
    """Return the domains that the topology allows, the narrowest level first."""
    topology = attempt.topology
    assert topology is not None
    rooms = _Rooms(attempt, topology)
    homes = {home for offer in attempt.offers.values() for home in offer.homes}
    sizes = [len(ids) for _sig, ids in attempt.without_hold()]
    found: list[_Domain] = []
    for depth in range(topology.lowest + 1, topology.highest, -1):
        for path in rooms.paths(depth):
            if any(home[:depth] != path for home in homes):
                continue
            parts = rooms.parts(path)
            room = added([one.counts for one in parts])
            counts = tuple(map(min, room, sizes))
            found.append(_Domain(path, sum(counts), sum(room), counts, parts))
    return found


def _candidate(domain: _Domain, scoring: Scoring) -> DomainCandidate:
    """Return the domain as it would be with the members."""
    requested = added([one.requested for one in domain.parts])
    for count, request in zip(domain.counts, scoring.requests, strict=True):
        if count:
            pairs = zip(requested, request, strict=True)
            requested = tuple(before + count * amount for before, amount in pairs)
    allocatable = added([one.allocatable for one in domain.parts])
    return DomainCandidate(domain.path, domain.placed, allocatable, requested)


def _scoring(attempt: Attempt) -> Scoring | None:
    found = (offer.scoring for offer in attempt.offers.values() if offer.scoring is not None)
    return next(found, None)
