"""When pods were started on their nodes: kept beside them, told to the shards that have these."""

import numpy as np

from services.ingest.core.state import IngestState
from shared.events.ingest import PodsStarted
from shared.events.observed import PodsStartedSeen
from shared.model.columns import I64, pack, split, unpack

SECOND_MS = 1_000
LATEST_S = (1 << 32) - 1


def pods_started_seen(state: IngestState, event: PodsStartedSeen) -> None:
    """Pods that have a node run there since then."""
    table = state.pods
    uids, starts_ms = split(event.uids), unpack(event.starts_ms)
    assert len(uids) == len(starts_ms), f"PodsStartedSeen {event.uids}: columns"
    slots = table.find(uids)
    starts_s = np.clip(starts_ms // SECOND_MS, 0, LATEST_S)
    news = np.flatnonzero(slots >= 0)
    news = news[table.started_s[slots[news]] != starts_s[news]]
    slots = slots[news]
    table.any_started = table.any_started or bool(len(slots))
    table.started_s[slots] = starts_s[news]
    tell_started(state, slots[table.nodes[slots] > 0])


def tell_started(state: IngestState, slots: I64) -> None:
    """PodsStarted for each shard concerned, ascending; the pods are on known nodes."""
    table = state.pods
    if not table.any_started:
        return
    slots = slots[table.started_s[slots] > 0]
    nodes = table.nodes[slots].tolist()
    shards = np.array([state.node_by_id[node].shard for node in nodes], np.int64)
    for shard in np.unique(shards).tolist():
        own = slots[shards == shard]
        starts_ms = table.started_s[own].astype(np.int64) * SECOND_MS
        state.outbox.append(PodsStarted(shard, pack(table.ids[own]), pack(starts_ms)))
