"""Volumes and devices of gang members: chosen and held with their places, sent to binding after the
commit.

Permit commits without knowing them. Its commit only names the members for which binding waits for
the shard's VolumesChosen. From then on it is as for a single pod: VolumesChosen comes before the
same journal's VolumesBound or VolumesFailed, and the bind timeout of the claims starts with it.

Devices of a hold are in use. Before the commit nothing is written, so a release frees them at once.
Members that share a resource claim all write the devices that the first one chose; they are free
once none of the members can write them any more.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from services.placement.core.books import devices
from services.placement.core.books.charges import compiled
from services.placement.core.gangs.trial_picks import NOTHING, joined
from services.placement.core.state import MemberChoice, PlacementState, VolumeWait
from services.placement.core.volumes import reservations
from shared.events.base import Event
from shared.events.permit import GangCommitted
from shared.events.placement import GangHeld, VolumesChosen
from shared.model.claims import ClaimChoice
from shared.model.columns import pack, unpack
from shared.model.ids import GangAttempt, PodId, SignatureId
from shared.model.volumes import Choice
from shared.scheduling.table.picks import Picks
from shared.scheduling.table.table import NodeTable


@dataclass
class Assumed:
    """What members of a trial have: volume choices with the names of their nodes, and the uids of
    resource claims, one for each member that uses it.
    """

    volumes: list[tuple[Choice, str]] = field(default_factory=list)
    claims: list[str] = field(default_factory=list)


class Choices(NamedTuple):
    """What one member gets with its node."""

    volumes: tuple[Choice, ...] = ()
    claims: tuple[ClaimChoice, ...] = ()


@contextmanager
def assumed_on_trial(state: PlacementState) -> Iterator[Assumed]:
    """Yield what is assumed, which later trials respect; all is released at the end."""
    assumed = Assumed()
    try:
        yield assumed
    finally:
        for choice, name in reversed(assumed.volumes):
            state.storage.release(choice, name)
        for uid in assumed.claims:
            state.claims.take_back(uid)


def chooses(state: PlacementState, sig: SignatureId) -> bool:
    """Return whether volumes or devices are chosen together with the node."""
    return reservations.chooses(state, sig) or devices.chooses(state, sig)


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
    wanted, is_choosing = compiled(state, sig), chooses(state, sig)
    picks: list[Picks] = []
    choices: list[Choices] = []
    while len(picks) < count:
        pick = place_one()
        if not len(pick.rows):
            break
        trial.charge(wanted, pick.rows, pick.masks)
        row = int(pick.rows[0])
        picks.append(pick)
        if is_choosing:
            choices.append(assume_choices(state, sig, row, assumed))
    return joined(picks) if picks else NOTHING, choices


def assume_choices(state: PlacementState, sig: SignatureId, row: int, assumed: Assumed) -> Choices:
    """Assume the choices of a pod placed on the node of this row, and return them."""
    volumes = reservations.choices_on(state, sig, row)
    for choice in volumes:
        assumed.volumes.append((choice, state.table.nodes[row].name))
        state.storage.assume(*assumed.volumes[-1])
    claims = devices.choices_on(state, sig, row)
    for claim in claims:
        if claim.allocation is not None:
            state.claims.try_out(claim.uid, claim.allocation)
            assumed.claims.append(claim.uid)
    return Choices(volumes, claims)


def take_back_devices(state: PlacementState, choices: Sequence[Choices], assumed: Assumed) -> None:
    """Free the devices that only these members of a trial have."""
    for claim in (claim for one in choices for claim in one.claims):
        if claim.allocation is not None:
            state.claims.take_back(claim.uid)
            assumed.claims.remove(claim.uid)


def hold_choices(state: PlacementState, event: GangHeld) -> None:
    """Hold the choices until permit ends the attempt."""
    if not (event.volumes or event.claims):
        return
    where = dict(zip(unpack(event.ids).tolist(), unpack(event.nodes).tolist(), strict=True))
    members = state.member_choices.setdefault((event.gang, event.attempt), {})
    for one in event.volumes:
        node = where[one.pod]
        members[one.pod] = MemberChoice(node, one.choices, one.spec)
        name = state.nodes[node].name
        reservations.assume_volumes(state, one.pod, VolumeWait(node, name, one.choices, None))
    for pod, claims, spec in ((one.pod, one.choices, one.spec) for one in event.claims):
        volumes = members[pod].choices if pod in members else ()
        members[pod] = MemberChoice(where[pod], volumes, spec, claims, event.attempt)
        devices.assume_devices(state, pod, event.attempt, claims)


def commit_choices(state: PlacementState, event: GangCommitted) -> None:
    """Queue the committed members' choices for binding, which waits for them whatever happened to
    the members meanwhile.
    """
    members = state.member_choices.pop((event.gang, event.attempt), None)
    if members is None:
        return
    for pod in unpack(event.with_volumes).tolist():
        if pod in members:
            state.choices_to_report[pod] = members.pop(pod)
    _free_devices(state, members)


def drop_choices(state: PlacementState, key: GangAttempt) -> None:
    """Drop the choices of the attempt."""
    _free_devices(state, state.member_choices.pop(key, {}))


def _free_devices(state: PlacementState, members: dict[PodId, MemberChoice]) -> None:
    """Free the devices of members that binding never hears of."""
    for pod, one in members.items():
        devices.free_devices(state, pod, one.attempt, one.claims)


def decide_volumes_chosen(state: PlacementState) -> Iterator[Event]:
    """Yield the choices of committed members."""
    for pod, one in sorted(state.choices_to_report.items()):
        yield VolumesChosen(
            *(state.shard, pack([pod]), pack([one.node]), one.choices, one.spec),
            claims=one.claims,
            attempt=one.attempt,
        )


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
