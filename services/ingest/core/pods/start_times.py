"""Start times of pods on their nodes, published to the nodes' shards."""

import numpy as np

from services.ingest.core.state import IngestState
from shared.events.ingest import PodsStarted
from shared.events.observed import PodsStartedSeen
from shared.model.columns import I64, pack, split, unpack

SECOND_MS = 1_000
LATEST_S = (1 << 32) - 1


def on_pods_started_seen(state: IngestState, event: PodsStartedSeen) -> None:
    """Store the start times of pods with a node."""
    table = state.pods
    uids, starts_ms = split(event.uids), unpack(event.starts_ms)
    assert len(uids) == len(starts_ms), f"PodsStartedSeen {event.uids}: columns"
    slots = table.find(uids)
    starts_s = np.clip(starts_ms // SECOND_MS, 0, LATEST_S)
    found = np.flatnonzero(slots >= 0)
    found = found[table.started_s[slots[found]] != starts_s[found]]
    slots = slots[found]
    table.any_started = table.any_started or bool(len(slots))
    table.started_s[slots] = starts_s[found]
    publish_started(state, slots[table.nodes[slots] > 0])


def publish_started(state: IngestState, slots: I64) -> None:
    """Publish PodsStarted for each affected shard, ascending; the pods are on known nodes."""
    table = state.pods
    if not table.any_started:
        return
    slots = slots[table.started_s[slots] > 0]
    nodes = table.nodes[slots].tolist()
    shards = np.array([state.node_by_id[node].shard for node in nodes], np.int64)
    for shard in np.unique(shards).tolist():
        slots_there = slots[shards == shard]
        starts_ms = table.started_s[slots_there].astype(np.int64) * SECOND_MS
        state.outbox.append(PodsStarted(shard, pack(table.ids[slots_there]), pack(starts_ms)))
