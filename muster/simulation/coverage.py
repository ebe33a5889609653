"""Coverage of faults and situations: counted per run and summed over many; a zero is a failure."""

from collections import Counter
from collections.abc import Iterator, Mapping

from muster.checker.check import Report
from muster.checker.inputs.journals import Journal
from muster.simulation.bus import FAILURES
from muster.simulation.network import Way
from muster.simulation.scenario import MUTATIONS, NOT_APPLICABLE, PAIRS, REMADE
from shared.events.base import Event
from shared.events.binding import (
    ClaimReturnsAsked,
    ClaimsReturned,
    VolumesGranted,
    VolumesTaken,
)
from shared.events.ingest import NodesGone
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut, HoldAsked
from shared.events.placement import (
    GangNominated,
    GangNominationStale,
    Nominated,
    NominationLost,
    NominationStale,
    VolumesBound,
    VolumesChosen,
    VolumesFailed,
)
from shared.events.preemption import GangNominateAsked, GangRoomMade
from shared.events.queueing import GangDispatched, GangPreemptRecalled
from shared.machine.crash import CrashPoint
from shared.model.columns import unpack
from shared.model.groups.topology import Path
from shared.model.ids import INGEST, PERMIT, SERVICES

_EVENTS: tuple[tuple[type[Event], str], ...] = (
    (GangReleased, "gang-released"),
    (GangTimedOut, "gang-timed-out"),
    (Nominated, "preemption-nominated"),
    (NominationStale, "preemption-stale"),
    (NominationLost, "preemption-lost"),
    (GangNominated, "gang-nominated"),
    (GangNominationStale, "gang-nomination-stale"),
    (GangRoomMade, "gang-room-made"),
    (GangPreemptRecalled, "gang-preemption-recalled"),
)
ELSEWHERE = "the nominated pod has a place already"
_VOLUMES: tuple[tuple[type[Event], str], ...] = (
    (VolumesChosen, "volumes-chosen"),
    (VolumesBound, "volumes-bound"),
    (VolumesFailed, "volumes-failed"),
    (VolumesGranted, "volumes-granted"),
    (VolumesTaken, "volumes-taken"),
    (ClaimReturnsAsked, "claims-given-back"),
    (ClaimsReturned, "claims-returned"),
)
"""Situations of worlds with volumes or resource claims only."""
TOPOLOGY = (
    "topology-committed",
    "topology-no-domain",
    "topology-another-domain",
    "topology-late-member-joined",
    "topology-late-member-waits",
    "topology-replaced",
    "topology-in-turns",
)
"""Situations of worlds whose gangs have a topology. Another domain is taken where the first could
not be held; a member is replaced after its node has gone.
"""
_OUTCOMES = ("bound", "gone", "foreign", "abandoned")

FAULTS = (
    *FAILURES,
    "late-append-landed",
    "stale-append-landed",
    "stale-append-refused",
    "bus-unavailable",
    "reader-lag",
    "cut",
    *(way.value for way in Way if way is not Way.THERE_AND_BACK),
    "late-post",
    "watch-gone",
    "stale-list",
    "pod-touched-first",
    "kill",
    "takeover",
    "ghost",
    "ghost-effect-again",
    "clock-jump",
    "torn-snapshot",
    "shard-killed-in-hold",
    *dict.fromkeys(MUTATIONS),
    REMADE,
    "cluster-restored",
)
EVENTS = (
    "void-record-skipped",
    "takeover-before-append",
    "standby-takeover-after-silence",
    "snapshot-fallback",
    "reset",
    "gang-committed",
    "gang-across-shards",
    "gang-released-with-holds",
    "gang-timed-out-with-holds",
    *(name for _kind, name in _EVENTS),
    "preemptor-went-elsewhere",
    "gang-nominated-across-shards",
    *(f"unknown-bind-{outcome}" for outcome in _OUTCOMES),
    "foreign-bind-absorbed",
    "late-post-after-re-placement",
    "bind-landed-on-remade-node",
    "node-remade-with-binds-on-the-way",
)


def pair_key(service: str, point: CrashPoint) -> str:
    """Return the key of a cell in the crash table."""
    return f"crash:{service}:{point.value}"


def required() -> list[str]:
    """Return everything that must happen at least once over all seeds."""
    return [*(pair_key(*pair) for pair in PAIRS), *FAULTS, *EVENTS]


def of_journals(journals: Mapping[str, Journal]) -> Counter[str]:
    """Count the situations in one epoch's events."""
    seen: Counter[str] = Counter()
    for journal in journals.values():
        seen["void-record-skipped"] += journal.voids
        for entry in journal.entries:
            events = list(entry.events())
            parts = Counter(one.ask for one in events if isinstance(one, GangNominateAsked))
            seen["gang-nominated-across-shards"] += sum(n > 1 for n in parts.values())
            for event in events:
                if isinstance(event, GangCommitted):
                    seen["gang-committed"] += 1
                    seen["gang-across-shards"] += event.shards > 1
                if isinstance(event, NominationLost):
                    seen["preemptor-went-elsewhere"] += event.reason == ELSEWHERE
                if isinstance(event, HoldAsked):
                    seen["gang-in-turns"] += event.turn > 0
                for kind, name in (*_EVENTS, *_VOLUMES):
                    seen[name] += isinstance(event, kind)
    return seen


def of_report(report: Report) -> Counter[str]:
    """Count the situations in the checker's books."""
    seen = of_journals(report.journals)
    for settled in report.binds.settled.values():
        for one in settled:
            if one.unknown:
                seen[f"unknown-bind-{one.outcome}"] += 1
            if one.outcome == "foreign":
                seen["foreign-bind-absorbed"] += 1
    for shard in report.shards:
        seen["node-remade-with-binds-on-the-way"] += shard.remade
    for (gang, attempt), how in report.gangs.ended.items():
        if how != "committed" and report.gangs.held.get((gang, attempt)):
            seen[f"gang-{how.replace(' ', '-')}-with-holds"] += 1
    return seen + of_topologies(report.journals)


def of_topologies(journals: Mapping[str, Journal]) -> Counter[str]:
    """Count the situations of gangs with a topology in one epoch's events."""
    seen: Counter[str] = Counter()
    sent: dict[tuple[int, int], GangDispatched] = {}
    domain: dict[tuple[int, int], Path] = {}
    failed: dict[int, set[Path]] = {}  # domains in which holds failed since the last commit
    places: dict[int, set[int]] = {}
    gone_ms = _nodes_gone_ms(journals[INGEST])
    for step in journals[PERMIT].steps:
        for _source, _position, event in step.inputs:
            if isinstance(event, GangDispatched) and event.topology is not None:
                sent[event.gang, event.attempt] = event
        for event in step.own:
            if not isinstance(event, HoldAsked | GangCommitted | GangReleased):
                continue
            key, gang = (event.gang, event.attempt), event.gang
            if key not in sent:
                continue
            is_late = bool(sent[key].placed)
            if isinstance(event, HoldAsked):
                domain[key] = min(event.domains)
                seen["topology-in-turns"] += event.turn > 0
            elif isinstance(event, GangCommitted):
                before, now_ms = places.setdefault(gang, set()), step.record.time_ms
                seen["topology-committed"] += 1
                seen["topology-late-member-joined"] += is_late
                seen["topology-replaced"] += any(
                    gone_ms.get(node, now_ms) < now_ms for node in before
                )
                seen["topology-another-domain"] += bool(failed.pop(gang, set()) - {domain[key]})
                before.update(unpack(event.nodes).tolist())
            elif event.stale and key in domain:
                failed.setdefault(gang, set()).add(domain[key])
            elif not event.stale:
                seen["topology-late-member-waits" if is_late else "topology-no-domain"] += 1
    return seen


def _nodes_gone_ms(world: Journal) -> dict[int, int]:
    """Return when each node went, ms."""
    return {
        node: entry.record.time_ms
        for entry in world.entries
        for event in entry.events()
        if isinstance(event, NodesGone)
        for node in unpack(event.ids).tolist()
    }


def table(total: Mapping[str, int]) -> Iterator[str]:
    """Yield the lines of the coverage table: crash points by service, then the rest."""
    yield f"{'crash point':<20}" + "".join(f"{service:>12}" for service in SERVICES)
    for point in CrashPoint:
        cells = [
            "n/a"
            if (service, point) in NOT_APPLICABLE
            else str(total.get(pair_key(service, point), 0))
            for service in SERVICES
        ]
        yield f"{point.value:<20}" + "".join(f"{cell:>12}" for cell in cells)
    for (service, point), why in NOT_APPLICABLE.items():
        yield f"n/a {service} {point.value}: {why}"
    for name in (*FAULTS, *EVENTS):
        yield f"{name:<34}{total.get(name, 0):>8}"


def zeros(total: Mapping[str, int]) -> list[str]:
    """Return what never happened."""
    return [name for name in required() if not total.get(name)]
