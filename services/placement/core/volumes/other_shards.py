"""Volumes that other shards chose, as binding told: held here too, until facts say what became of
them. What this shard chose itself it holds on its own (see `volumes`).
"""

from collections.abc import Iterable

from msgspec import Struct

from services.placement.core.state import Elsewhere, PlacementState
from services.placement.core.volumes.reservations import changed
from shared.events.binding import VolumesGranted, VolumesOver
from shared.model.columns import unpack
from shared.model.volumes import Choice


class Saved(Struct, array_like=True):
    """One promise, as it is dumped."""

    number: int
    name: str
    choices: tuple[Choice, ...]
    world: int


def granted(state: PlacementState, event: VolumesGranted) -> None:
    """A pod of another shard has these: nobody here gets them."""
    if event.shard != state.shard:
        _hold(state, event.number, Elsewhere(event.node, event.volumes))


def _hold(state: PlacementState, number: int, one: Elsewhere) -> None:
    state.elsewhere[number] = one
    for choice in one.choices:
        state.storage.assume(choice, one.name)


def over(state: PlacementState, event: VolumesOver) -> None:
    """They count until the facts are here that say what became of them."""
    for number, world in zip(
        unpack(event.numbers).tolist(), unpack(event.worlds).tolist(), strict=True
    ):
        one = state.elsewhere.get(number)
        if one is not None:
            one.world = world
            state.elsewhere_over.append(number)
    caught_up(state)


def caught_up(state: PlacementState) -> None:
    """More facts are here. What is over is looked at no more often than facts about storage come:
    before them a volume is shown as they last said it.
    """
    late = []
    for number in state.elsewhere_over:
        if state.elsewhere[number].world > state.world:
            late.append(number)
            continue
        one = state.elsewhere.pop(number)
        for choice in one.choices:
            state.storage.give_back(choice, one.name)
        changed(state)
    state.elsewhere_over = late


def dump(state: PlacementState) -> list[Saved]:
    """By number."""
    return [
        Saved(number, one.name, one.choices, one.world)
        for number, one in sorted(state.elsewhere.items())
    ]


def load(state: PlacementState, saved: Iterable[Saved]) -> None:
    """Inverse of `dump`; the storage is there."""
    for one in saved:
        _hold(state, one.number, Elsewhere(one.name, one.choices, one.world))
        if one.world >= 0:
            state.elsewhere_over.append(one.number)
