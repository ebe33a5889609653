"""A gang's places in a shard: there for all of them together, and nobody goes who could stay.

Places are the whole gang's. While some of them are held for its members the others stay kept; those
that are held rest, and count again if the hold comes to nothing.
"""

from muster.checker.books import Ledger, Nomination
from muster.checker.filters.fits import Load, surely_fits, surely_not
from muster.checker.inputs.journals import Step
from muster.checker.victims import check_victims, crowd, others_leaving
from shared.events.placement import GangHeld, GangNominated, PlacesFound
from shared.model.columns import unpack
from shared.model.objects import PodSpec
from shared.model.victims import Nominee


def places(ledger: Ledger, event: PlacesFound, step: Step) -> None:
    """A dry run's answer: no more places than were asked for, and nobody's victims."""
    ask = ledger.gang_asks.get(event.ask)
    if ask is None:
        ledger.blame("asked", step.position, f"places for ask {event.ask} nobody asked")
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
    if len(event.places) > ask.needed:
        ledger.blame("victims-needed", step.position, f"ask {event.ask}: too many places")


def nominate(ledger: Ledger, event: GangNominated, step: Step) -> None:
    """Judged node by node, and entered into the books."""
    for node in sorted({one.node for one in event.nominees}):
        here = [one for one in event.nominees if one.node == node]
        if node not in ledger.nodes:
            ledger.blame("own-nodes", step.position, f"nomination on node {node}")
            continue
        victims = [pod for one in here for pod in unpack(one.victims).tolist()]
        for one in here:
            own = unpack(one.victims).tolist()
            if own:
                check_victims(ledger, step, one.pod, ledger.specs[one.sig], node, own)
        reason = _obstacle(ledger, node, here, set(victims))
        if reason is not None:
            text = f"gang {event.gang} would not fit node {node}: {reason}"
            ledger.blame("victims-suffice", step.position, text)
        for victim in victims:
            if _surely_fit(ledger, node, here, set(victims) - {victim}):
                text = f"gang {event.gang} fits node {node} with victim {victim} kept"
                ledger.blame("victims-needed", step.position, text)
    for one in event.nominees:
        spec, leave = ledger.specs[one.sig], tuple(unpack(one.victims).tolist())
        ledger.drop_nomination(one.pod)
        ledger.nominations[one.pod] = Nomination(one.pod, one.node, spec, leave, event.gang)


def _loads(
    ledger: Ledger, node: int, here: list[Nominee], victims: set[int]
) -> list[tuple[PodSpec, Load]]:
    """What each of them finds on the node, those before it there."""
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
    reasons = (surely_not(spec, where, load) for spec, load in _loads(ledger, node, here, victims))
    return next((reason for reason in reasons if reason is not None), None)


def _surely_fit(ledger: Ledger, node: int, here: list[Nominee], victims: set[int]) -> bool:
    where = ledger.nodes[node]
    return all(surely_fits(spec, where, load) for spec, load in _loads(ledger, node, here, victims))


def held(ledger: Ledger, event: GangHeld) -> None:
    """Places that are held for a member rest."""
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
    """The gang's places are kept for it again."""
    for one in ledger.resting.pop((gang, attempt), ()):
        ledger.nominations[one.pod] = one


def committed(ledger: Ledger, gang: int) -> None:
    """The gang needs its places no more."""
    for key in [key for key in ledger.resting if key[0] == gang]:
        del ledger.resting[key]
    for pod in [pod for pod, one in ledger.nominations.items() if one.gang == gang]:
        del ledger.nominations[pod]
