"""When a shard says what it has left, for routing: at once when it matters, else in a while."""

from services.placement.core.state import PlacementState
from shared.events.placement import ShardDigest


def due_ms(state: PlacementState) -> int | None:
    """Now when the node count changed or a free amount moved by more than a share of the shard;
    when it was quiet for long enough if it differs at all; never when it is what was said last.
    """
    have, used, said = state.capacity, state.used, state.digest
    share = state.config.digest_share
    cpu = abs(max(0, have.cpu_milli - used.cpu_milli) - said[1])
    memory = abs(max(0, have.memory_bytes - used.memory_bytes) - said[2])
    gpu = abs(max(0, have.gpu_milli - used.gpu_milli) - said[3])
    if (
        cpu * share > have.cpu_milli
        or memory * share > have.memory_bytes
        or gpu * share > have.gpu_milli
        or len(state.nodes) != said[0]
    ):
        return state.now_ms
    if cpu or memory or gpu:
        return max(state.now_ms, state.digest_ms + state.config.digest_quiet_ms)
    return None


def shard_digest(state: PlacementState) -> ShardDigest:
    """What is free now."""
    return ShardDigest(state.shard, *state.free())


def digested(state: PlacementState, event: ShardDigest) -> None:
    """Remember what was said, and when."""
    free = (event.free_cpu_milli, event.free_memory_bytes, event.free_gpu_milli)
    state.digest = (event.nodes, *free)
    state.digest_ms = state.now_ms
