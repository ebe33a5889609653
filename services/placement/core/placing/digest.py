"""Digests of a shard's free amounts, for routing: sent at once if the change is large,
else later.
"""

from services.placement.core.state import PlacementState
from shared.events.placement import ShardDigest


def due_ms(state: PlacementState) -> int | None:
    """Return when the digest is due, ms: now if the node count changed or a free amount moved by
    more than a share of the shard; after the quiet time if it differs at all; never if it equals
    the last one.
    """
    have, used, last = state.capacity, state.used, state.digest
    share = state.config.digest_share
    cpu = abs(max(0, have.cpu_milli - used.cpu_milli) - last[1])
    memory = abs(max(0, have.memory_bytes - used.memory_bytes) - last[2])
    gpu = abs(max(0, have.gpu_milli - used.gpu_milli) - last[3])
    if (
        cpu * share > have.cpu_milli
        or memory * share > have.memory_bytes
        or gpu * share > have.gpu_milli
        or len(state.nodes) != last[0]
    ):
        return state.now_ms
    if cpu or memory or gpu:
        return max(state.now_ms, state.digest_ms + state.config.digest_quiet_ms)
    return None


def decide_shard_digest(state: PlacementState) -> ShardDigest:
    """Return the present free amounts."""
    return ShardDigest(state.shard, *state.free())


def on_shard_digest(state: PlacementState, event: ShardDigest) -> None:
    """Remember the digest and its time."""
    free = (event.free_cpu_milli, event.free_memory_bytes, event.free_gpu_milli)
    state.digest = (event.nodes, *free)
    state.digest_ms = state.now_ms
