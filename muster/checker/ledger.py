"""Keeps a shard's books a second time and checks every decision against the inputs it consumed.

The inputs of a record come first (rule 1 in ARCHITECTURE.md), then its own events, one by one.
A decision that does not fit the books at that position is a violation, whatever follows.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from muster.checker.books import InTurn, Ledger, Nomination, Within, is_within
from muster.checker.filters.claims import Attempt
from muster.checker.filters.fits import LISTED_MAX, Load, all_fit, device_room, full_for, why_not
from muster.checker.gangs import kept_places
from muster.checker.gangs import victims as gang_victims
from muster.checker.inputs.journals import Journal, Step
from muster.checker.preemption import victims
from shared.events.base import Event
from shared.events.binding import BindFailed, ClaimsReturned
from shared.events.ingest import (
    BudgetCovers,
    BudgetGone,
    DevicesGone,
    DevicesSet,
    MembersLost,
    NamespacesSet,
    NodesGone,
    NodesSet,
    PodsAssigned,
    PodsGone,
    PodsRelabelled,
    SignatureDefined,
    SignatureRetired,
    StorageGone,
    StorageSet,
    UnitJoined,
)
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut, HoldAsked, TurnGranted
from shared.events.placement import (
    CandidatesFound,
    GangHeld,
    GangNominated,
    Nominated,
    NominationLost,
    PlaceKept,
    PlacesFound,
    Released,
    Reserved,
    RulesCounted,
    ShardDigest,
    TurnEnded,
    VolumesBound,
    VolumesFailed,
)
from shared.events.preemption import DryRunAsked, GangDryRunAsked, NominationCleared
from shared.events.queueing import PlaceGiven
from shared.model.claims import ClaimChoice
from shared.model.columns import pack, split, unpack
from shared.model.ids import service_of
from shared.model.objects import CPU, MEMORY, Node, PodSpec
from shared.model.release import version_of
from shared.model.volumes import Choice

NOWHERE: Mapping[int, Within] = MappingProxyType({})


def replay(journal: Journal, placements: int) -> Ledger:
    """Replay one shard's whole journal."""
    ledger = Ledger(journal.name, placements > 1)
    for step in journal.steps:
        if step.record.claim is not None:
            ledger.version = version_of(step.record.claim.config)
        for source, position, event in step.inputs:
            if isinstance(event, MembersLost):
                kept_places.lost(ledger, event, step.time_ms(source, position))
            _consume(ledger, source, event, step)
        for event in step.own:
            _decide(ledger, event, step)
        kept_places.check_step(ledger, step)
    return ledger


def _consume(ledger: Ledger, source: str, event: Event, step: Step) -> None:
    if service_of(source) == "ingest":
        _world(ledger, event)
        return
    match event:
        case BindFailed():
            pairs = zip(unpack(event.ids).tolist(), unpack(event.nodes).tolist(), strict=True)
            decided = []
            for pod, node in pairs:
                ledger.bind_failed(pod, node)
                if ledger.place.get(pod) == node:
                    decided.append(pod)
            if event.reason == "gone":
                # The cluster answered so: facts in the world journal about the pod are older.
                _world(ledger, PodsGone(pack(decided)))
        case GangReleased() | GangTimedOut():
            held = ledger.holds.pop((event.gang, event.attempt), set())
            ledger.never_sent(held)
            ledger.claims.released(held, event.attempt)
            ledger.release(held)
            gang_victims.released(ledger, event.gang, event.attempt)
        case GangCommitted():
            committed = set(unpack(event.ids).tolist())
            held = ledger.holds.pop((event.gang, event.attempt), set())
            ledger.never_sent(held - committed)
            ledger.claims.released(held - committed, event.attempt)
            ledger.release(held - committed)
            gang_victims.committed(ledger, event.gang)
        case TurnGranted():
            ledger.turn = event.turn
        case HoldAsked():
            ledger.gang_turns[event.gang, event.attempt] = event.turn
            paths = zip(event.members, event.domains, strict=True) if event.domains else ()
            ledger.hold_domains.setdefault((event.gang, event.attempt), {}).update(
                (pod, (event.levels, path))
                for part, path in paths
                for pod in unpack(part.ids).tolist()
            )
        case ClaimsReturned():
            uids, attempt = split(event.uids), (event.pod, event.attempt)
            revisions = unpack(event.revisions).tolist() or [0] * len(uids)
            for uid, revision in zip(uids, revisions, strict=True):
                ledger.claims.settled(uid, attempt, revision)
        case NominationCleared():
            ledger.drop_nomination(event.pod)
        case PlaceGiven():
            kept_places.give(ledger, event)
        case DryRunAsked():
            ledger.asks[event.ask] = event
        case GangDryRunAsked():
            ledger.gang_asks[event.ask] = event
        case _:
            pass


def _world(ledger: Ledger, event: Event) -> None:
    match event:
        case SignatureDefined():
            ledger.specs[event.sig] = event.spec
            ledger.retired.discard(event.sig)
        case SignatureRetired():
            ledger.retired.add(event.sig)
        case NodesSet():
            for node, value in zip(unpack(event.ids).tolist(), event.nodes, strict=True):
                ledger.node_came(node, value)
        case NodesGone():
            for node in unpack(event.ids).tolist():
                ledger.node_gone(node)
        case PodsAssigned():
            columns = zip(
                unpack(event.ids).tolist(),
                unpack(event.sigs).tolist(),
                unpack(event.nodes).tolist(),
                strict=True,
            )
            for pod, sig, node in columns:
                ledger.on_the_way.pop(pod, None)
                if pod not in ledger.gone:
                    ledger.put(pod, ledger.specs[sig], node)
                    ledger.facts.add(pod)
                    ledger.drop_nomination(pod)
        case PodsGone():
            for pod in unpack(event.ids).tolist():
                ledger.gone.add(pod)
                ledger.on_the_way.pop(pod, None)
                ledger.uncharge(pod)
                ledger.drop_nomination(pod)
        case PodsRelabelled():
            pairs = zip(unpack(event.ids).tolist(), unpack(event.sigs).tolist(), strict=True)
            for pod, sig in pairs:
                if pod in ledger.place:
                    ledger.loads[ledger.place[pod]].pods[pod] = ledger.specs[sig]
        case StorageSet():
            ledger.volumes.update(event.objects)
        case DevicesSet():
            ledger.claims.update(event.objects)
        case DevicesGone():
            ledger.claims.gone(split(event.uids))
        case StorageGone():
            ledger.volumes.gone(split(event.uids))
        case NamespacesSet():
            ledger.namespaces.update(event.labels)
            for name in split(event.gone):
                ledger.namespaces.pop(name, None)
        case BudgetCovers():
            ledger.covered.setdefault(event.budget, set()).update(unpack(event.ids).tolist())
        case BudgetGone():
            ledger.covered.pop(event.budget, None)
        case UnitJoined():
            ledger.together.learn(event)
        case _:
            pass


def _chosen(ledger: Ledger, step: Step, pod: int, choices: tuple[Choice, ...]) -> None:
    for rule, text in ledger.volumes.reserved(pod, choices):
        ledger.blame(rule, step.position, text)


def _chosen_devices(
    ledger: Ledger, step: Step, attempt: Attempt, choices: tuple[ClaimChoice, ...]
) -> None:
    for text in ledger.claims.reserved(attempt, choices):
        ledger.blame("one-claim-per-device", step.position, text)


def _decide(ledger: Ledger, event: Event, step: Step) -> None:
    match event:
        case Reserved():
            _reserve(ledger, step, _rows(event, [event.sig] * (len(event.ids) // 8)))
            if event.volumes:
                _chosen(ledger, step, int.from_bytes(event.ids, "little"), event.volumes)
            if event.claims:
                attempt = int.from_bytes(event.ids, "little"), event.attempt
                _chosen_devices(ledger, step, attempt, event.claims)
        case VolumesBound():
            ledger.volumes.over(unpack(event.ids).tolist())
        case VolumesFailed():
            ledger.volumes.over([event.pod])
        case GangHeld():
            pods = unpack(event.ids).tolist()
            ledger.holds.setdefault((event.gang, event.attempt), set()).update(pods)
            own_turn, ledger.turn = ledger.turn, ledger.gang_turns[event.gang, event.attempt]
            domains = ledger.hold_domains[event.gang, event.attempt]
            _reserve(ledger, step, _rows(event, unpack(event.sigs).tolist()), event.gang, domains)
            ledger.turn = own_turn
            gang_victims.held(ledger, event)
            for one in event.volumes:
                _chosen(ledger, step, one.pod, one.choices)
            for member in event.claims:
                _chosen_devices(ledger, step, (member.pod, event.attempt), member.choices)
        case Released():
            ledger.release(unpack(event.ids).tolist())
        case RulesCounted():
            ledger.counted[event.turn] = ledger.standing()
        case TurnEnded():
            ledger.turn = 0
        case CandidatesFound():
            victims.candidates(ledger, event, step)
        case Nominated():
            victims.nominate(ledger, event, step)
        case PlacesFound():
            gang_victims.places(ledger, event, step)
        case GangNominated():
            gang_victims.nominate(ledger, event, step)
        case PlaceKept():
            kept_places.keep(ledger, event, step)
        case NominationLost():
            kept_places.end(ledger, event)
        case ShardDigest():
            ledger.digest = event
        case _:
            pass


def _rows(event: Reserved | GangHeld, sigs: list[int]) -> Iterator[tuple[int, int, int, int]]:
    pods = unpack(event.ids).tolist()
    masks = unpack(event.devices).tolist() if event.devices else [0] * len(pods)
    return zip(pods, sigs, unpack(event.nodes).tolist(), masks, strict=True)


def _reserve(
    ledger: Ledger,
    step: Step,
    rows: Iterator[tuple[int, int, int, int]],
    gang: int = 0,
    domains: Mapping[int, Within] = NOWHERE,
) -> None:
    """Check and charge reservations. Places nominated for `gang` do not block its own members, each
    of which is asked for in one of the `domains`.
    """
    for pod, sig, node, mask in rows:
        spec, where = ledger.specs[sig], ledger.nodes.get(node)
        if pod in ledger.gone:
            ledger.blame("no-ghosts", step.position, f"pod {pod} reserved after it was gone")
        if pod in ledger.place:
            ledger.blame(
                "one-charge",
                step.position,
                f"pod {pod} reserved on node {node} while charged to node {ledger.place[pod]}",
            )
        if where is None:
            ledger.blame("own-nodes", step.position, f"pod {pod} on node {node}, not of this shard")
            continue
        nominees = [
            one
            for one in ledger.nominations.values()
            if one.node == node and one.pod != pod and one.is_before(spec)
            if not gang or one.gang != gang
        ]
        within = domains.get(pod)
        if within is not None and not is_within(where, *within):
            text = f"pod {pod} on node {node} ({where.name}), not in {within[1]}"
            ledger.blame("gang-domain", step.position, text)
        _check_room(ledger, step, pod, spec, node, where, mask, nominees, within)
        if not gang:
            kept_places.check_seat(ledger, step, pod, node)
        _check_devices(ledger, step, pod, spec, node, mask)
        # A pod on a node that is not known yet counts nowhere.
        known = ((one, row) for one, row in ledger.place.items() if row in ledger.nodes)
        standing = ((one, ledger.loads[row].pods[one]) for one, row in known)
        for text in ledger.volumes.shared(spec, standing) if spec.volumes else ():
            ledger.blame("one-pod-per-claim", step.position, f"pod {pod}: {text}")
        ledger.put(pod, spec, node, mask)
        nomination = ledger.nominations.get(pod)
        if nomination is not None and not (gang and nomination.gang == gang):
            del ledger.nominations[pod]


def _check_room(
    ledger: Ledger,
    step: Step,
    pod: int,
    spec: PodSpec,
    node: int,
    where: Node,
    mask: int,
    nominees: list[Nomination],
    within: Within | None,
) -> None:
    load = ledger.loads.get(node, Load())
    reason = why_not(spec, where, load)
    is_listed = where.gpu_count <= LISTED_MAX
    if reason == "gpu" and is_listed and device_room(where, load) is None:
        # A pod of another scheduler is here and its device is unknown: device by device only our
        # own pods can be checked.
        return
    if reason is not None:
        rule = "no-over-commit" if full_for(spec, where, load) else "hard-constraints"
        ledger.blame(rule, step.position, f"pod {pod} on node {node} ({where.name}): {reason}")
        return
    if ledger.is_wide(spec):
        if not ledger.turn:
            ledger.blame("turns", step.position, f"pod {pod} with wide rules reserved without one")
        standing, claims = ledger.standing(), ledger.volumes.exclusive(spec)
        ledger.in_turns.append(
            InTurn(ledger.turn, step.position, pod, spec, where, standing, claims, within)
        )
    around = None if ledger.turn else ledger.around(spec, within=within)
    if around is not None:
        reason = around.obstacle(where)
        if reason is not None:
            text = f"pod {pod} on node {node} ({where.name}): {reason}"
            ledger.blame("inter-pod-rules", step.position, text)
    _check_on_the_way(ledger, step, pod, spec, node)
    if nominees:
        _check_nominated(ledger, step, pod, spec, node, mask, nominees)


def _check_on_the_way(ledger: Ledger, step: Step, pod: int, spec: PodSpec, node: int) -> None:
    """Check that the pod leaves room for pods whose bind to an older node of this name may land."""
    where, load = ledger.nodes[node], ledger.loads.get(node, Load())
    late = [one for one, to in ledger.on_the_way.items() if to.name == where.name and one != pod]
    if not late:
        return
    for one in late:
        load = load.plus(one, ledger.on_the_way[one].spec)
    reason = why_not(spec, where, load)
    if reason is not None:
        text = f"pod {pod} over-fills node {node} ({where.name}) if binds to its name land, of pods"
        ledger.blame("no-over-commit", step.position, f"{text} {sorted(late)}: {reason}")


def _check_nominated(
    ledger: Ledger,
    step: Step,
    pod: int,
    spec: PodSpec,
    node: int,
    mask: int,
    nominees: list[Nomination],
) -> None:
    """Check that the pod leaves room for pods nominated here with at least its priority."""
    where, load = ledger.nodes[node], ledger.loads.get(node, Load())
    # The victims leave: the nominees take their space and need no other.
    crowded = load.without(victim for one in nominees for victim in one.victims)
    before = device_room(where, crowded)
    after = device_room(where, crowded.plus(pod, spec, mask))
    for one in nominees:
        crowded = crowded.plus(-one.pod, one.spec)
    reason = why_not(spec, where, crowded)
    if reason == "gpu" or (reason is None and spec.gpu is not None):
        # Compare device by device, and only for this pod: pods of higher priority may have taken
        # nominated devices before.
        if before is None or after is None:
            return
        gpus = [one.spec.gpu for one in nominees if one.spec.gpu is not None]
        reason = "gpu" if all_fit(gpus, before) and not all_fit(gpus, after) else None
    if reason is not None:
        ledger.blame(
            "nominated-space", step.position, f"pod {pod} on node {node} takes it: {reason}"
        )


def _check_devices(
    ledger: Ledger, step: Step, pod: int, spec: PodSpec, node: int, mask: int
) -> None:
    if spec.gpu is None:
        return
    if mask.bit_count() != spec.gpu.count:
        ledger.blame("gpu-devices", step.position, f"pod {pod} got device mask {mask:#x}")
        return
    load = ledger.loads[node]
    if ledger.nodes[node].gpu_count > LISTED_MAX:
        return
    for device in range(mask.bit_length()):
        if not mask >> device & 1:
            continue
        used = sum(
            other.gpu.milli
            for one, other in load.pods.items()
            if other.gpu is not None and load.devices.get(one, 0) >> device & 1
        )
        if used + spec.gpu.milli > 1000 or device >= ledger.nodes[node].gpu_count:
            ledger.blame(
                "gpu-devices", step.position, f"pod {pod}: device {device} of node {node} is full"
            )


def at_rest(ledger: Ledger) -> None:
    """Check the books at rest: no reservation without a pod that the cluster shows."""
    for pod, node in sorted(ledger.place.items()):
        if pod not in ledger.facts:
            ledger.blame("conservation", -1, f"pod {pod} still reserved on node {node}")
    for pod in sorted(ledger.volumes.waits):
        ledger.blame("conservation", -1, f"pod {pod} waits for volumes for ever")
    for uid in sorted(ledger.claims.chosen):
        ledger.blame("conservation", -1, f"claim {uid} is given devices for ever")
    names = {where.name for where in ledger.nodes.values()}
    for pod, late in sorted(ledger.on_the_way.items()):
        if late.name in names:
            ledger.blame("conservation", -1, f"pod {pod}: bind to {late.name} never settled")
    for (gang, attempt), pods in sorted(ledger.holds.items()):
        left = sorted(pods & set(ledger.place) - ledger.facts)
        if left:
            ledger.blame("conservation", -1, f"gang {gang} attempt {attempt} still holds {left}")
    digest = ledger.digest
    if digest is not None and not ledger.nominations:
        _check_digest(ledger, digest)


def _check_digest(ledger: Ledger, digest: ShardDigest) -> None:
    """Check that the shard's digest of free amounts equals the books."""
    for name, resource in (("free_cpu_milli", CPU), ("free_memory_bytes", MEMORY)):
        free = max(
            0,
            sum(
                dict(node.allocatable).get(resource, 0) - ledger.loads[row].used(resource)
                for row, node in ledger.nodes.items()
            ),
        )
        digested = getattr(digest, name)
        if digested != free:
            ledger.blame("conservation", -1, f"the digest says {name} {digested}, the books {free}")
