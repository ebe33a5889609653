"""Nodes: keyed by uid, routed to a shard once and for good, found by name from pods.

A node that is made again under its name goes to the shard in which the name was: that shard alone
knows of binds to the old one, which name it by name and may land on the new one.
"""

from hashlib import blake2b

import numpy as np

from services.ingest.core.cluster_events import note
from services.ingest.core.images import count, tell
from services.ingest.core.list_requests import ask
from services.ingest.core.pods.start_times import tell_started
from services.ingest.core.state import OVERFLOW, HeldNode, IngestState, Waiting
from shared.events.ingest import NodesGone, NodesSet, PodsAssigned
from shared.model.cluster_event_kinds import NODE_ADD, NODE_DELETE, node_changes
from shared.model.columns import pack
from shared.model.objects import Node

ZONE = "topology.kubernetes.io/zone"
NODES_PER_EVENT = 2_000
LEFT_REMEMBERED_MAX = 65_536
SHARD_BITS = 10
SHARD_MASK = (1 << SHARD_BITS) - 1
"""`node_names` packs a node's id and shard into one number, so that pods find both at once."""


def nodes_seen(state: IngestState, nodes: list[Node]) -> None:
    """Added and changed nodes; unchanged ones are not told again."""
    fresh = [node for node in nodes if node.uid not in state.nodes]
    _replace(state, fresh)
    _map_zones(state, fresh)
    told: dict[int, list[HeldNode]] = {}
    added: list[HeldNode] = []
    images: list[int] = []
    for node in nodes:
        held = state.nodes.get(node.uid)
        if held is None:
            held = _add(state, node)
            added.append(held)
            images += count(state, node, 1)
            note(state, NODE_ADD)
        elif held.node == node:
            continue
        else:
            if held.node.images != node.images:
                images += count(state, held.node, -1) + count(state, node, 1)
            _count_zone(state, held.node, held.shard, -1)
            if state.config.wakes:
                note(state, *node_changes(held.node, node))
            held.node = node
            _count_zone(state, node, held.shard, 1)
        told.setdefault(held.shard, []).append(held)
    if state.images and (images or added):
        tell(state, images)
    for shard in sorted(told):
        for start in range(0, len(told[shard]), NODES_PER_EVENT):
            part = told[shard][start : start + NODES_PER_EVENT]
            ids = pack([held.id for held in part])
            state.outbox.append(NodesSet(shard, ids, tuple(held.node for held in part)))
    if state.waiting and added:
        for held in added:
            _adopt(state, held)
        if "" in state.waiting:
            ask(state, "pods")


def _replace(state: IngestState, fresh: list[Node]) -> None:
    """A name is one node's: whoever has a new one's name is gone, though nobody has said so yet
    (a list that is doubted tells what came before it tells what went).
    """
    old = (state.node_names.get(node.name) for node in fresh)
    gone = [state.node_by_id[key >> SHARD_BITS].node.uid for key in old if key is not None]
    if gone:
        nodes_gone(state, gone)


def nodes_gone(state: IngestState, uids: list[str]) -> None:
    """Deleted nodes. Pods still assigned to such a name wait for the next node of that name."""
    told: dict[int, list[int]] = {}
    lost: list[HeldNode] = []
    images: list[int] = []
    for uid in uids:
        held = state.nodes.pop(uid, None)
        if held is None:
            continue
        del state.node_by_id[held.id]
        _count_zone(state, held.node, held.shard, -1)
        if state.node_names[held.node.name] >> SHARD_BITS == held.id:
            del state.node_names[held.node.name]
        told.setdefault(held.shard, []).append(held.id)
        images += count(state, held.node, -1)
        lost.append(held)
        if len(state.shard_nodes) > 1:
            _remember_left(state, held)
    if lost:
        note(state, NODE_DELETE)
    for shard in sorted(told):
        state.outbox.append(NodesGone(shard, pack(told[shard])))
    if state.images and lost:
        tell(state, images)
    for held in lost:
        _orphan(state, held)


def _remember_left(state: IngestState, held: HeldNode) -> None:
    left = state.left_shards
    left[held.node.name] = held.shard
    if len(left) > LEFT_REMEMBERED_MAX:
        del left[next(iter(left))]


def waiting_code(state: IngestState, name: str) -> int:
    """What stands in the node column for an unknown node's name."""
    found = state.waiting.get(name)
    if found is not None:
        return found.code
    if len(state.waiting) >= state.config.held_names_max:
        state.waiting.setdefault("", Waiting(OVERFLOW))
        return OVERFLOW
    code = state.next_waiting
    state.next_waiting -= 1
    state.waiting[name] = Waiting(code)
    return code


def _add(state: IngestState, node: Node) -> HeldNode:
    held = HeldNode(state.next_node, _route(state, node), node)
    state.next_node += 1
    state.nodes[node.uid] = held
    state.node_by_id[held.id] = held
    state.node_names[node.name] = held.id << SHARD_BITS | held.shard
    _count_zone(state, node, held.shard, 1)
    return held


def _count_zone(state: IngestState, node: Node, shard: int, change: int) -> None:
    state.shard_nodes[shard] += change
    zone = node.labels.get(ZONE, "")
    left = state.zone_nodes.get(zone, 0) + change
    if left:
        state.zone_nodes[zone] = left
    else:
        del state.zone_nodes[zone]


def _map_zones(state: IngestState, fresh: list[Node]) -> None:
    """Give new zones their shards, the largest first, each to the shard with the fewest nodes.

    Zones count only once there are at least as many as shards; until then names are hashed.
    """
    counts: dict[str, int] = {}
    for node in fresh:
        zone = node.labels.get(ZONE, "")
        if zone:
            counts[zone] = counts.get(zone, 0) + 1
    zones = {zone for zone in state.zone_nodes if zone} | counts.keys()
    if len(zones) < len(state.shard_nodes):
        return
    load = list(state.shard_nodes)
    unmapped = sorted((-n, zone) for zone, n in counts.items() if zone not in state.zone_shards)
    for negative, zone in unmapped:
        shard = load.index(min(load))
        state.zone_shards[zone] = shard
        load[shard] -= negative


def _route(state: IngestState, node: Node) -> int:
    shards = len(state.shard_nodes)
    if shards == 1:
        return 0
    left = state.left_shards.pop(node.name, None)
    if left is not None:
        return left
    zone = node.labels.get(ZONE, "")
    found = state.zone_shards.get(zone) if zone else None
    if found is not None:
        return found
    digest = blake2b(node.name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % shards


def _tell_assigned(state: IngestState, held: HeldNode, code: int) -> int:
    """Move the pods at `code` in the node column to a known node; returns how many."""
    table = state.pods
    slots = table.on_node(code)
    if len(slots):
        table.nodes[slots] = held.id
        table.told[slots] = 1
        nodes = np.full(len(slots), held.id, np.int64)
        state.outbox.append(
            PodsAssigned(held.shard, pack(table.ids[slots]), pack(table.sigs[slots]), pack(nodes))
        )
        tell_started(state, slots)
    return len(slots)


def _adopt(state: IngestState, held: HeldNode) -> None:
    """Pods were assigned to this name before its node was seen."""
    waiting = state.waiting.pop(held.node.name, None)
    if waiting is not None:
        moved = _tell_assigned(state, held, waiting.code)
        assert moved == waiting.pods, f"node {held.node.name}: {moved} of {waiting.pods} waited"


def _orphan(state: IngestState, held: HeldNode) -> None:
    table = state.pods
    slots = table.on_node(held.id)
    if not len(slots):
        return
    successor = state.node_names.get(held.node.name)
    if successor is not None:
        _tell_assigned(state, state.node_by_id[successor >> SHARD_BITS], held.id)
        return
    code = waiting_code(state, held.node.name)
    table.nodes[slots] = code
    found = state.waiting["" if code == OVERFLOW else held.node.name]
    found.pods += len(slots)
