"""Volumes of gangs' members: chosen and held with their places, told to binding after the commit.

Permit commits, and knows no volumes. Its commit only says for whom binding waits for the shard's
own word (VolumesChosen). From then on it is as with a pod reserved alone: that word comes before
what the same journal says of the claims (VolumesBound, VolumesFailed), and their time begins then.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from services.placement.core.books.charges import compiled
from services.placement.core.placing.cycle import NOTHING, Chosen, joined
from services.placement.core.state import MemberChoice, PlacementState, VolumeWait
from services.placement.core.volumes import reservations
from shared.events.base import Event
from shared.events.permit import GangCommitted
from shared.events.placement import GangHeld, VolumesChosen
from shared.model.columns import pack, unpack
from shared.model.objects import PodSpec
from shared.model.volumes import Choice
from shared.scheduling.table.table import NodeTable

Choices = tuple[Choice, ...]
Assumed = list[tuple[Choice, str]]
"""Choices with the names of their nodes."""


@contextmanager
def trying(state: PlacementState) -> Iterator[Assumed]:
    """What is noted here is shown to those who are tried next, and given back at the end."""
    assumed: Assumed = []
    try:
        yield assumed
    finally:
        for choice, name in reversed(assumed):
            state.storage.give_back(choice, name)


def place_each(
    state: PlacementState,
    trial: NodeTable,
    sig: int,
    count: int,
    place_one: Callable[[], Chosen],
    assumed: Assumed,
) -> tuple[Chosen, list[Choices]]:
    """One after the other, charged on the trial: what one gets, the next one finds taken. No
    choices where the pods need none.
    """
    chooses = reservations.chooses(state, sig)
    wanted = compiled(state, sig)
    picks: list[Chosen] = []
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
        choices.append(reservations.chosen(state, sig, row))
        for choice in choices[-1]:
            assumed.append((choice, trial.nodes[row].name))
            state.storage.assume(*assumed[-1])
    return joined(picks) if picks else NOTHING, choices


class Saved(Struct, array_like=True):
    """A member's choices, as they are dumped; attempt 0: they are to be told."""

    gang: int
    attempt: int
    pod: int
    node: int
    choices: Choices
    spec: PodSpec | None


def held(state: PlacementState, event: GangHeld) -> None:
    """They are held from now on, until permit says what becomes of the attempt."""
    if not event.volumes:
        return
    where = dict(zip(unpack(event.ids).tolist(), unpack(event.nodes).tolist(), strict=True))
    members = state.member_choices[event.gang, event.attempt] = {}
    for one in event.volumes:
        node = where[one.pod]
        members[one.pod] = MemberChoice(node, one.choices, one.spec)
        name = state.nodes[node].name
        reservations.hold(state, one.pod, VolumeWait(node, name, one.choices, None))


def committed(state: PlacementState, event: GangCommitted) -> None:
    """Binding is to be told of those who are committed, whatever became of them meanwhile: it waits
    for that.
    """
    members = state.member_choices.pop((event.gang, event.attempt), None)
    if members is None:
        return
    for pod in unpack(event.with_volumes).tolist():
        if pod in members:
            state.choices_to_tell[pod] = members[pod]


def released(state: PlacementState, key: tuple[int, int]) -> None:
    """Nothing of the attempt counts."""
    state.member_choices.pop(key, None)


def news(state: PlacementState) -> Iterator[Event]:
    """What was chosen for members that are committed."""
    for pod, one in sorted(state.choices_to_tell.items()):
        yield VolumesChosen(state.shard, pack([pod]), pack([one.node]), one.choices, one.spec)


def told(state: PlacementState, event: VolumesChosen) -> None:
    """The time for the claims begins; whoever holds nothing any more is binding's to give up."""
    pod = int.from_bytes(event.ids, "little")
    del state.choices_to_tell[pod]
    wait = state.volume_waits.get(pod)
    if wait is not None and wait.until_ms is None:
        sig = int(state.ledger.sig[state.ledger.row(pod)])
        wait.until_ms = state.now_ms + reservations.bind_timeout_ms(state, sig)
        reservations.look(state, [pod])


def dump(state: PlacementState) -> list[Saved]:
    """By gang, attempt and pod."""
    kept = sorted((*key, members) for key, members in state.member_choices.items())
    kept.append((0, 0, state.choices_to_tell))
    return [
        Saved(gang, attempt, pod, one.node, one.choices, one.spec)
        for gang, attempt, members in kept
        for pod, one in sorted(members.items())
    ]


def load(state: PlacementState, saved: Iterable[Saved]) -> None:
    """Inverse of `dump`; what they hold is among those who wait for volumes."""
    for one in saved:
        choice = MemberChoice(one.node, one.choices, one.spec)
        if one.attempt:
            members = state.member_choices.setdefault((one.gang, one.attempt), {})
            members[one.pod] = choice
        else:
            state.choices_to_tell[one.pod] = choice
