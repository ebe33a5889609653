"""Checks a gang's nominated places in a shard: room for all of them at once, no needless victim.

The places belong to the whole gang. A place rests while it is held for a member, and counts again
if the hold is released.
"""

from collections.abc import Iterator

from muster.checker.books import Ledger, Nomination, is_within
from muster.checker.filters.fits import Load, surely_fits, surely_not
from muster.checker.gangs import kept_places
from muster.checker.inputs.journals import Step
from muster.checker.preemption.victims import check_victims, crowd
from shared.events.placement import GangHeld, GangNominated, PlacesFound
from shared.model.columns import unpack
from shared.model.objects import PodSpec
from shared.model.preemption.victims import Nominee


def places(ledger: Ledger, event: PlacesFound, step: Step) -> None:
    """Check a dry run's answer: no more places than asked for, no victim of another preemptor."""
    ask = ledger.gang_asks.get(event.ask)
    if ask is None:
        ledger.blame("asked", step.position, f"places for ask {event.ask}, which was not asked")
        return
    taken = set(unpack(ask.taken).tolist())
    seen: set[int] = set()
    for place in event.places:
        victims = unpack(place.candidate.victims).tolist()
        sig = ask.members[place.group].sig
        if (taken | seen) & set(victims):
            ledger.blame("victims", step.position, f"ask {event.ask}: victims are taken already")
        seen.update(victims)
        _check_victims(ledger, step, 0, sig, place.candidate.node, victims)
        where = ledger.nodes.get(place.candidate.node)
        if ask.levels and where and not is_within(where, ask.levels, ask.domain):
            text = f"ask {event.ask}: a place on node {where.name}, not in {ask.domain}"
            ledger.blame("gang-domain", step.position, text)
    if len(event.places) > ask.needed:
        ledger.blame("victims-needed", step.position, f"ask {event.ask}: too many places")


def nominate(ledger: Ledger, event: GangNominated, step: Step) -> None:
    """Check a nomination and add it to the books."""
    kept_places.end_of_gang(ledger, event.gang)
    nominees, gang = list(event.nominees), event.gang
    victims = {pod for one in nominees for pod in unpack(one.victims).tolist()}
    for one in nominees:
        if one.node not in ledger.nodes:
            ledger.blame("own-nodes", step.position, f"nomination on node {one.node}")
        _check_victims(ledger, step, one.pod, one.sig, one.node, unpack(one.victims).tolist())
    nominees = [one for one in nominees if one.node in ledger.nodes]
    reason = _obstacle(ledger, nominees, victims)
    if reason is not None:
        ledger.blame("victims-suffice", step.position, f"gang {gang} would not fit: {reason}")
    for victim in sorted(victims):
        fewer = victims - ledger.together.kept_with(victim, list(victims))
        if _surely_fit(ledger, nominees, fewer, ledger.place.get(victim)):
            text = f"gang {gang} fits with victim {victim} kept"
            ledger.blame("victims-needed", step.position, text)
    for one in event.nominees:
        spec, leave = ledger.specs[one.sig], tuple(unpack(one.victims).tolist())
        ledger.drop_nomination(one.pod)
        ledger.nominations[one.pod] = Nomination(one.pod, one.node, spec, leave, gang)


def _check_victims(
    ledger: Ledger, step: Step, pod: int, sig: int, node: int, victims: list[int]
) -> None:
    """Check that victims are of lower priority, and on the node of the member. Rules over several
    nodes may have pods leave other nodes, if the shard knows all nodes.
    """
    spec = ledger.specs[sig]
    for victim in victims:
        where = node if ledger.is_divided else ledger.place.get(victim, node)
        check_victims(ledger, step, pod, spec, where, [victim])


def _loads(
    ledger: Ledger, nominees: list[Nominee], victims: set[int]
) -> Iterator[tuple[PodSpec, int, dict[int, Load]]]:
    """Yield each nominee's spec and node, with the loads of the nodes that differ when the nominees
    before it are placed.
    """
    resting = [one for kept in ledger.resting.values() for one in kept]
    pods = {one.pod for one in nominees}
    others = (one for one in (*ledger.nominations.values(), *resting) if one.pod not in pods)
    gone = victims.union(*(one.victims for one in others))
    nodes: set[int] = {one.node for one in nominees}
    nodes |= {ledger.place[pod] for pod in gone if pod in ledger.place}
    loads: dict[int, Load] = {
        node: ledger.loads.get(node, Load()).without(gone) for node in sorted(nodes)
    }
    for at, one in enumerate(nominees):
        spec = ledger.specs[one.sig]
        here = crowd(ledger, one.pod, spec, one.node, gone)
        for before in nominees[:at]:
            if before.node == one.node:
                here.add(-before.pod, ledger.specs[before.sig])
        yield spec, one.node, {**loads, one.node: here}
        loads[one.node].add(-one.pod, spec)


def _obstacle(ledger: Ledger, nominees: list[Nominee], victims: set[int]) -> str | None:
    for spec, node, loads in _loads(ledger, nominees, victims):
        reason = surely_not(spec, ledger.nodes[node], loads[node])
        reason = reason or _rule(ledger, node, spec, loads)
        if reason is not None:
            return f"node {node}: {reason}"
    return None


def _rule(ledger: Ledger, node: int, spec: PodSpec, loads: dict[int, Load]) -> str | None:
    """Return which rule between pods keeps the pod off the node with these loads."""
    around = ledger.around(spec, loads)
    return around.obstacle(ledger.nodes[node]) if around is not None else None


def _surely_fit(
    ledger: Ledger, nominees: list[Nominee], victims: set[int], node: int | None
) -> bool:
    """Return whether all nominees fit, those of `node` first: a look at one node is cheap. Volumes
    may keep a pod off.
    """
    if any(ledger.specs[one.sig].volumes for one in nominees):
        return False
    here = [one for one in nominees if one.node == node]
    for part in (here, nominees):
        for spec, at, loads in _loads(ledger, part, victims):
            if not surely_fits(spec, ledger.nodes[at], loads[at]):
                return False
            if part is nominees and _rule(ledger, at, spec, loads) is not None:
                return False
    # Pods of other shards may keep them off.
    return not any(ledger.is_wide(ledger.specs[one.sig]) for one in nominees)


def held(ledger: Ledger, event: GangHeld) -> None:
    """Let the places rest that are held for members."""
    resting = ledger.resting.setdefault((event.gang, event.attempt), [])
    columns = zip(unpack(event.sigs).tolist(), unpack(event.nodes).tolist(), strict=True)
    for sig, node in columns:
        kind = ledger.specs[sig].anonymous()
        for pod, one in ledger.nominations.items():
            is_its = (one.gang, one.node) == (event.gang, node)
            if is_its and one.spec.anonymous() == kind:
                resting.append(ledger.nominations.pop(pod))
                break


def released(ledger: Ledger, gang: int, attempt: int) -> None:
    """Restore the gang's resting places."""
    for one in ledger.resting.pop((gang, attempt), ()):
        ledger.nominations[one.pod] = one


def committed(ledger: Ledger, gang: int) -> None:
    """Remove the places of a gang that was committed."""
    for key in [key for key in ledger.resting if key[0] == gang]:
        del ledger.resting[key]
    for pod, one in list(ledger.nominations.items()):
        if one.gang == gang and not one.until_ms:
            del ledger.nominations[pod]
