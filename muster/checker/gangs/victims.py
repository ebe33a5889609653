"""Checks a gang's nominated places in a shard: room for all of them at once, no needless victim.

The places belong to the whole gang. A place rests while it is held for a member, and counts again
if the hold is released.
"""

from muster.checker.books import Ledger, Nomination, is_within
from muster.checker.filters.fits import Load, surely_fits, surely_not
from muster.checker.gangs import kept_places
from muster.checker.inputs.journals import Step
from muster.checker.preemption.victims import check_victims, crowd, others_leaving
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
        spec = ledger.specs[ask.members[place.group].sig]
        if (taken | seen) & set(victims):
            ledger.blame("victims", step.position, f"ask {event.ask}: victims are taken already")
        seen.update(victims)
        if victims:
            check_victims(ledger, step, 0, spec, place.candidate.node, victims)
        where = ledger.nodes.get(place.candidate.node)
        if ask.levels and where and not is_within(where, ask.levels, ask.domain):
            text = f"ask {event.ask}: a place on node {where.name}, not in {ask.domain}"
            ledger.blame("gang-domain", step.position, text)
    if len(event.places) > ask.needed:
        ledger.blame("victims-needed", step.position, f"ask {event.ask}: too many places")


def nominate(ledger: Ledger, event: GangNominated, step: Step) -> None:
    """Check a nomination node by node and add it to the books."""
    kept_places.end_of_gang(ledger, event.gang)
    for node in sorted({one.node for one in event.nominees}):
        here = [one for one in event.nominees if one.node == node]
        if node not in ledger.nodes:
            ledger.blame("own-nodes", step.position, f"nomination on node {node}")
            continue
        victims = [pod for one in here for pod in unpack(one.victims).tolist()]
        for one in here:
            leaving = unpack(one.victims).tolist()
            if leaving:
                check_victims(ledger, step, one.pod, ledger.specs[one.sig], node, leaving)
        reason = _obstacle(ledger, node, here, set(victims))
        if reason is not None:
            text = f"gang {event.gang} would not fit node {node}: {reason}"
            ledger.blame("victims-suffice", step.position, text)
        for victim in victims:
            fewer = set(victims) - ledger.together.kept_with(victim, victims)
            if _surely_fit(ledger, node, here, fewer):
                text = f"gang {event.gang} fits node {node} with victim {victim} kept"
                ledger.blame("victims-needed", step.position, text)
    for one in event.nominees:
        spec, leave = ledger.specs[one.sig], tuple(unpack(one.victims).tolist())
        ledger.drop_nomination(one.pod)
        ledger.nominations[one.pod] = Nomination(one.pod, one.node, spec, leave, event.gang)


def _loads(
    ledger: Ledger, node: int, here: list[Nominee], victims: set[int]
) -> list[tuple[PodSpec, Load]]:
    """Return each nominee's spec with the node's load when the nominees before it are placed."""
    found: list[tuple[PodSpec, Load]] = []
    for at, one in enumerate(here):
        spec = ledger.specs[one.sig]
        gone = others_leaving(ledger, one.pod, node) | victims
        load = crowd(ledger, one.pod, spec, node, gone)
        for before in here[:at]:
            load.add(-before.pod, ledger.specs[before.sig])
        found.append((spec, load))
    return found


def _obstacle(ledger: Ledger, node: int, here: list[Nominee], victims: set[int]) -> str | None:
    where = ledger.nodes[node]
    for spec, load in _loads(ledger, node, here, victims):
        reason = surely_not(spec, where, load) or _rule(ledger, node, spec, load)
        if reason is not None:
            return reason
    return None


def _rule(ledger: Ledger, node: int, spec: PodSpec, load: Load) -> str | None:
    """Return which rule between pods keeps the pod off the node with this load."""
    around = ledger.around(spec, node, load)
    return around.obstacle(ledger.nodes[node]) if around is not None else None


def _surely_fit(ledger: Ledger, node: int, here: list[Nominee], victims: set[int]) -> bool:
    where = ledger.nodes[node]
    return all(
        surely_fits(spec, where, load)
        and not ledger.is_wide(spec)  # pods of other shards may keep it off
        and _rule(ledger, node, spec, load) is None
        for spec, load in _loads(ledger, node, here, victims)
    )


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
