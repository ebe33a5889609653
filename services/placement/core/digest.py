"""When a shard says what it has left, for routing: at once when it matters, else in a while."""

from services.placement.core.state import PlacementState
from shared.events.placement import ShardDigest


def due_ms(state: PlacementState) -> int | None:
    """Now when the node count changed or a free amount moved by more than a share of the shard;
    when it was quiet for long enough if it differs at all; never when it is what was said last.
    """
    free, said = state.free(), state.digest
    if free == said:
        return None
    if free[0] != said[0] or _moved(state, free, said):
        return state.now_ms
    return max(state.now_ms, state.digest_ms + state.config.digest_quiet_ms)


def _moved(state: PlacementState, free: tuple[int, ...], said: tuple[int, ...]) -> bool:
    have, share = state.capacity, state.config.digest_share
    return (
        abs(free[1] - said[1]) * share > have.cpu_milli
        or abs(free[2] - said[2]) * share > have.memory_bytes
        or abs(free[3] - said[3]) * share > have.gpu_milli
    )


def shard_digest(state: PlacementState) -> ShardDigest:
    """What is free now."""
    return ShardDigest(state.shard, *state.free())


def digested(state: PlacementState, event: ShardDigest) -> None:
    """Remember what was said, and when."""
    free = (event.free_cpu_milli, event.free_memory_bytes, event.free_gpu_milli)
    state.digest = (event.nodes, *free)
    state.digest_ms = state.now_ms
