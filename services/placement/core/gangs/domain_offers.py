"""A shard's offer to a gang with a topology: how many members fit in which domain.

Members that differ only by amounts of one signature are counted in one pass over all nodes. Others
are placed on a trial table for each domain, so that rules between pods, volumes, ports and shared
devices count exactly.
"""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from services.placement.core.books.charges import compiled
from services.placement.core.books.identity import expanded
from services.placement.core.books.ledger import IS_CHARGED
from services.placement.core.extenders import questions
from services.placement.core.gangs import member_choices, places
from services.placement.core.gangs.member_picks import Reasons, pick_members, reasons
from services.placement.core.gangs.nominated_places import GangPlaces
from services.placement.core.placing.unsupported import unsupported_in_gang
from services.placement.core.state import PlacementState
from shared.events.permit import OfferAsked
from shared.events.placement import GangOffered
from shared.model.columns import I64, size, unpack
from shared.model.groups.topology import REST, DomainOffer, Path, Scoring, Topology, added
from shared.model.ids import SignatureId
from shared.scheduling.plugins.resource_scores import Part
from shared.scheduling.table.level_domains import LevelDomains


def decide_offer(state: PlacementState, event: OfferAsked, topology: Topology) -> GangOffered:
    """Return the offer. Its counts and reasons are those of the domain with most room here."""
    found = state.table.domains(topology.levels)
    latest = [expanded(state, (group,))[0].sig for group in event.members]
    parts = [_scored(state, sig) for sig in latest]
    offers = tuple(_offers(state, event, topology, found, parts[0]))
    weights = tuple(part.weight for part in parts[0])
    requests = tuple(tuple(int(part.ask) for part in group) for group in parts)
    homes = _homes(state, event, found)
    sizes = [size(group.ids) for group in event.members]
    path, counts = _most_room(topology, offers, homes, sizes)
    is_short = any(count < needed for count, needed in zip(counts, sizes, strict=True))
    why = _reasons(state, event, found, path) if is_short else ()
    # Other shards may have none of the room that a domain has here.
    may_be_short = event.preempts and (is_short or state.shards > 1)
    helps = may_be_short and any(_may_help(state, sig) for sig in latest)
    nodes = len(state.nodes)
    return GangOffered(
        *(state.shard, event.gang, event.attempt, counts, why, nodes),
        preemptible=helps,
        domains=offers,
        homes=homes,
        scoring=Scoring(weights, requests),
    )


def _may_help(state: PlacementState, sig: SignatureId) -> bool:
    return places.may_help(state, state.table, sig, is_in_domain=True)


def _scored(state: PlacementState, sig: SignatureId) -> list[Part]:
    return state.plugins_of(state.specs[sig]).domain_parts(state.table, compiled(state, sig))


def _offers(
    state: PlacementState,
    event: OfferAsked,
    topology: Topology,
    found: LevelDomains,
    parts: Sequence[Part],
) -> Iterator[DomainOffer]:
    have, used = _amounts(state, parts)
    slots = _slots(state, event)
    if slots is not None:
        columns = [found.sums(column).tolist() for column in (slots, *have, *used)]
        for path, (count, *sums) in zip(found.paths, zip(*columns, strict=True), strict=True):
            middle = len(have)
            yield DomainOffer(path, (count,), tuple(sums[:middle]), tuple(sums[middle:]))
        rest = found.within(REST)
        if topology.highest < 0 and rest.any():
            count, *sums = (
                int(column[rest].sum(dtype=np.int64)) for column in (slots, *have, *used)
            )
            yield DomainOffer(REST, (count,), tuple(sums[: len(have)]), tuple(sums[len(have) :]))
        return
    for depth in range(topology.lowest + 1, topology.highest, -1):
        for path in found.upto(depth):
            within = found.within(path)
            counts = _counts(state, event, found, path)
            totals = tuple(int(column[within].sum(dtype=np.int64)) for column in (*have, *used))
            yield DomainOffer(path, counts, totals[: len(have)], totals[len(have) :])


def _amounts(state: PlacementState, parts: Sequence[Part]) -> tuple[list[I64], list[I64]]:
    """Return what is allocatable and requested of the scored resources, by row."""
    have, used = [], []
    for part in parts:
        amount, taken = part.amounts(state.table.cols)
        have.append(amount.astype(np.int64))
        used.append((taken - part.ask).astype(np.int64))
    return have, used


def _slots(state: PlacementState, event: OfferAsked) -> I64 | None:
    """Return how many members fit on each node; None if that needs trials."""
    parts = expanded(state, event.members)
    if len(event.members) != 1 or len(parts) != 1 or state.nominations:
        return None
    sig = parts[0].sig
    is_special = questions.is_interested(state, sig) or member_choices.chooses(state, sig)
    if is_special or unsupported_in_gang(state, sig):
        return None
    return state.kernel.slots(state.table, compiled(state, sig))


def _counts(
    state: PlacementState, event: OfferAsked, found: LevelDomains, path: Path
) -> tuple[int, ...]:
    """Return how many members of each group fit in a domain, with the groups in the given order if
    enough fit, else in the better one of both orders.
    """
    counts, _ = _placed(state, event, found, path)
    if sum(counts) >= event.needed or len(event.members) == 1:
        return counts
    in_reverse = msgspec.structs.replace(event, members=event.members[::-1])
    others, _ = _placed(state, in_reverse, found, path)
    return others[::-1] if sum(others) > sum(counts) else counts


def _placed(
    state: PlacementState, event: OfferAsked, found: LevelDomains, path: Path, why: bool = False
) -> tuple[tuple[int, ...], Reasons]:
    """Return how many members of each group fit in a domain, one group after the other, and, if
    asked, why not more of the first group that is short.
    """
    trial, gang_places = state.table.trial(), GangPlaces(state, event.gang, event.attempt)
    trial.within = found.within(path)
    counts: list[int] = []
    short: SignatureId | None = None
    with member_choices.assumed_on_trial(state) as assumed:
        for group in event.members:
            placed = 0
            for part in expanded(state, (group,)):
                wanted = size(part.ids)
                picks, _ = pick_members(state, trial, part.sig, wanted, assumed, gang_places)
                placed += len(picks.rows)
                if short is None and len(picks.rows) < wanted:
                    short = part.sig
            counts.append(placed)
        if not why or short is None:
            return tuple(counts), ()
        return tuple(counts), reasons(state, trial, short, gang_places)


def _reasons(state: PlacementState, event: OfferAsked, found: LevelDomains, path: Path) -> Reasons:
    return _placed(state, event, found, path, why=True)[1]


def _homes(state: PlacementState, event: OfferAsked, found: LevelDomains) -> tuple[Path, ...]:
    """Return the domains of the members that have a node here."""
    rows = state.ledger.rows(unpack(event.placed))
    rows = rows[IS_CHARGED[state.ledger.kind[rows]]]
    nodes = np.unique(state.ledger.node[rows])
    at = state.table.rows_of(nodes.tolist())
    return tuple(sorted({found.path_of(row) for row in at.tolist()}))


def _most_room(
    topology: Topology, offers: Sequence[DomainOffer], homes: Sequence[Path], sizes: Sequence[int]
) -> tuple[Path, tuple[int, ...]]:
    """Return the widest domain that may be used with most room for members, and its counts."""
    depth = topology.highest + 1
    counts: dict[Path, tuple[int, ...]] = {}
    exact = {one.path for one in offers if len(one.path) == depth}
    for one in offers:
        path = one.path[:depth]
        if len(one.path) < depth or (path in exact and one.path != path):
            continue
        if all(home[:depth] == path for home in homes):
            counts[path] = added((counts[path], one.counts)) if path in counts else one.counts

    def room(path: Path) -> tuple[int, Path]:
        pairs = zip(counts[path], sizes, strict=True)
        return -sum(min(count, wanted) for count, wanted in pairs), path

    if not counts:
        return (), tuple(0 for _ in sizes)
    most = min(counts, key=room)
    return most, counts[most]
