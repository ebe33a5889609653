"""Volumes that other shards chose, as binding announced them: assumed here too until facts show the
outcome. This shard's own choices are in reservations.py.
"""

from services.placement.core.state import OtherShardVolumes, PlacementState
from services.placement.core.volumes.reservations import wake_volume_users
from shared.events.binding import VolumesGranted, VolumesOver
from shared.model.columns import unpack


def on_volumes_granted(state: PlacementState, event: VolumesGranted) -> None:
    """Assume the volumes of another shard's pod: no pod of this shard gets them."""
    if event.shard != state.shard:
        assume_theirs(state, event.number, OtherShardVolumes(event.node, event.volumes))


def assume_theirs(state: PlacementState, number: int, one: OtherShardVolumes) -> None:
    """Assume the volumes of one promise."""
    state.other_shard_volumes[number] = one
    for choice in one.choices:
        state.storage.assume(choice, one.name)


def on_volumes_over(state: PlacementState, event: VolumesOver) -> None:
    """Note ended promises; they count until this shard has read the facts that show the outcome."""
    for number, world in zip(
        unpack(event.numbers).tolist(), unpack(event.worlds).tolist(), strict=True
    ):
        one = state.other_shard_volumes.get(number)
        if one is not None:
            one.world = world
            state.ended_other_shard_volumes.append(number)
    release_ended(state)


def release_ended(state: PlacementState) -> None:
    """Release ended promises whose facts have arrived. Called only when storage facts arrive:
    before them a volume still shows its last known state.
    """
    late = []
    for number in state.ended_other_shard_volumes:
        if state.other_shard_volumes[number].world > state.world:
            late.append(number)
            continue
        one = state.other_shard_volumes.pop(number)
        for choice in one.choices:
            state.storage.release(choice, one.name)
        wake_volume_users(state)
    state.ended_other_shard_volumes = late
