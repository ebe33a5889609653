"""Places that groups keep for the replacements of lost members (`muster.io/replacement-hold`).

Such a place is a nomination for the whole gang without victims, charged when the lost member leaves
its node, in the same step. It ends when a member takes it, at a time, and when its group or node is
gone. As with all nominations pods of higher priority do not see it.

Attempts of the gang find it as one of the gang's places (nominated_places.py). A single pod gets it
from queueing, which knows the members: from then on it is the nomination of that pod.
"""

from services.placement.core.books.ledger import IS_VICTIM
from services.placement.core.preemption import nominations
from services.placement.core.state import Nomination, PlacementState
from shared.events.ingest import MembersLost
from shared.events.placement import PlaceKept
from shared.events.queueing import PlaceGiven
from shared.model.columns import as_numbers

GROUP_CHANGED = "the group keeps no places any more"


def on_members_lost(state: PlacementState, event: MembersLost) -> None:
    """Keep the places of these members, which are about to leave; or keep none any more."""
    if not event.hold_ms:
        nominations.end_kept(state, event.gang, GROUP_CHANGED)
    ledger, until_ms = state.ledger, state.now_ms + event.hold_ms
    for pod in as_numbers(event.ids):
        if not IS_VICTIM[ledger.kind_of(pod)]:
            continue  # on a node of another shard
        row, ask = ledger.row(pod), nominations.kept_ask(pod)
        place = ledger.sig_at(row), ledger.node_at(row), int(ledger.devices[row])
        nominations.add(state, Nomination(ask, pod, *place, [], gang=event.gang, until_ms=until_ms))


def on_place_kept(state: PlacementState, event: PlaceKept) -> None:
    """Note that queueing learns of it."""
    state.nominations[event.ask].announced = True


def on_place_given(state: PlacementState, event: PlaceGiven) -> None:
    """Make a place the nomination of the member that takes it, unless it has ended."""
    one = state.nominations.get(event.ask)
    if event.shard != state.shard or one is None or not one.counts:
        return
    nominations.drop_of_pod(state, event.pod)
    del state.nomination_of_pod[one.pod]
    one.pod = event.pod
    state.nomination_of_pod[event.pod] = event.ask


def due_ms(state: PlacementState) -> int | None:
    """Return when the next kept place ends, ms."""
    return min((one.until_ms for one in nominations.kept(state)), default=None)
