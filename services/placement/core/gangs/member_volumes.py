"""Volumes of gang members: chosen and held with their places, sent to binding after the commit.

Permit commits without knowing volumes. Its commit only names the members for which binding waits
for the shard's VolumesChosen. From then on it is as for a single pod: VolumesChosen comes before
the same journal's VolumesBound or VolumesFailed, and the bind timeout of the claims starts with it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from services.placement.core.books.charges import compiled
from services.placement.core.gangs.trial_picks import NOTHING, joined
from services.placement.core.state import MemberChoice, PlacementState, VolumeWait
from services.placement.core.volumes import reservations
from shared.events.base import Event
from shared.events.permit import GangCommitted
from shared.events.placement import GangHeld, VolumesChosen
from shared.model.columns import pack, unpack
from shared.model.ids import GangAttempt, PodId, SignatureId
from shared.model.volumes import Choice
from shared.scheduling.table.picks import Picks
from shared.scheduling.table.table import NodeTable

Choices = tuple[Choice, ...]
Assumed = list[tuple[Choice, str]]
"""Volume choices with the names of their nodes."""


@contextmanager
def assumed_on_trial(state: PlacementState) -> Iterator[Assumed]:
    """Yield a list of assumed volumes that later trials respect; all are released at the end."""
    assumed: Assumed = []
    try:
        yield assumed
    finally:
        for choice, name in reversed(assumed):
            state.storage.release(choice, name)


def place_each(
    state: PlacementState,
    trial: NodeTable,
    sig: SignatureId,
    count: int,
    place_one: Callable[[], Picks],
    assumed: Assumed,
) -> tuple[Picks, list[Choices]]:
    """Place pods one by one, charged on the trial, as each changes what the next one finds. No
    choices if the pods need none.
    """
    chooses = reservations.chooses(state, sig)
    wanted = compiled(state, sig)
    picks: list[Picks] = []
    choices: list[Choices] = []
    while len(picks) < count:
        pick = place_one()
        if not len(pick.rows):
            break
        trial.charge(wanted, pick.rows, pick.masks)
        row = int(pick.rows[0])
        picks.append(pick)
        if not chooses:
            continue
        choices.append(assume_choices(state, sig, row, assumed))
    return joined(picks) if picks else NOTHING, choices


def assume_choices(state: PlacementState, sig: SignatureId, row: int, assumed: Assumed) -> Choices:
    """Assume the choices of a pod placed on the node of this row, and return them."""
    choices = reservations.choices_on(state, sig, row)
    for choice in choices:
        assumed.append((choice, state.table.nodes[row].name))
        state.storage.assume(*assumed[-1])
    return choices


def hold_choices(state: PlacementState, event: GangHeld) -> None:
    """Hold the choices until permit ends the attempt."""
    if not event.volumes:
        return
    where = dict(zip(unpack(event.ids).tolist(), unpack(event.nodes).tolist(), strict=True))
    members = state.member_choices.setdefault((event.gang, event.attempt), {})
    for one in event.volumes:
        node = where[one.pod]
        members[one.pod] = MemberChoice(node, one.choices, one.spec)
        name = state.nodes[node].name
        reservations.assume_volumes(state, one.pod, VolumeWait(node, name, one.choices, None))


def commit_choices(state: PlacementState, event: GangCommitted) -> None:
    """Queue the committed members' choices for binding, which waits for them whatever happened to
    the members meanwhile.
    """
    members = state.member_choices.pop((event.gang, event.attempt), None)
    if members is None:
        return
    for pod in unpack(event.with_volumes).tolist():
        if pod in members:
            state.choices_to_report[pod] = members[pod]


def drop_choices(state: PlacementState, key: GangAttempt) -> None:
    """Drop the choices of the attempt."""
    state.member_choices.pop(key, None)


def decide_volumes_chosen(state: PlacementState) -> Iterator[Event]:
    """Yield the choices of committed members."""
    for pod, one in sorted(state.choices_to_report.items()):
        yield VolumesChosen(state.shard, pack([pod]), pack([one.node]), one.choices, one.spec)


def on_volumes_chosen(state: PlacementState, event: VolumesChosen) -> None:
    """Start the bind timeout of the claims. A member that holds nothing any more is given up by
    binding.
    """
    pod = PodId(int.from_bytes(event.ids, "little"))
    del state.choices_to_report[pod]
    wait = state.volume_waits.get(pod)
    if wait is not None and wait.until_ms is None:
        sig = state.ledger.sig_at(state.ledger.row(pod))
        wait.until_ms = state.now_ms + reservations.bind_timeout_ms(state, sig)
        reservations.check_claims(state, [pod])
