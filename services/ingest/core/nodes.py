"""Nodes: keyed by uid, routed to a shard by a hash of the name, found by name from pods.

So every shard has nodes of every zone, and one turn places many pods that are spread by zone. A
node created again under its name goes to the same shard: only that shard knows the binds to the old
node, which name it by name and may land on the new one.
"""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

from services.ingest.core.cluster_events import note
from services.ingest.core.hyper_nodes import with_labels
from services.ingest.core.images import count, publish_counts
from services.ingest.core.list_requests import ask
from services.ingest.core.pods.start_times import publish_started
from services.ingest.core.state import OVERFLOW, IngestState, NodeRecord, UnknownNode
from shared.events.ingest import NodesGone, NodesSet, PodsAssigned
from shared.model.cluster_event_kinds import NODE_ADD, NODE_DELETE, node_changes
from shared.model.columns import pack
from shared.model.ids import NodeId
from shared.model.objects import Node

NODES_PER_EVENT = 2_000
SHARD_BITS = 10
SHARD_MASK = (1 << SHARD_BITS) - 1
"""`node_names` packs a node's id and shard into one number, so that pods find both at once."""


def update_nodes(state: IngestState, nodes: list[Node]) -> None:
    """Add and change nodes; unchanged ones are not published again."""
    fresh = [node for node in nodes if node.uid not in state.nodes]
    _replace(state, fresh)
    changed: list[NodeRecord] = []
    added: list[NodeRecord] = []
    images: list[int] = []
    for node in nodes:
        known = state.nodes.get(node.uid)
        if known is None or known.node.labels != node.labels:
            state.hyper_nodes.put(node)
        if known is None:
            known = _add(state, node)
            added.append(known)
            images += count(state, node, 1)
            note(state, NODE_ADD)
        elif known.node == node:
            continue
        else:
            if known.node.images != node.images:
                images += count(state, known.node, -1) + count(state, node, 1)
            if state.config.wakes:
                note(state, *node_changes(known.node, node))
            known.node = node
        changed.append(known)
    if state.images and (images or added):
        publish_counts(state, images)
    _publish(state, changed)
    if state.waiting and added:
        for known in added:
            _adopt(state, known)
        if "" in state.waiting:
            ask(state, "pods")


def _publish(state: IngestState, changed: Iterable[NodeRecord]) -> None:
    """Publish nodes with the labels of their HyperNodes."""
    by_shard: dict[int, list[NodeRecord]] = {}
    for known in changed:
        by_shard.setdefault(known.shard, []).append(known)
    for shard, found in sorted(by_shard.items()):
        for start in range(0, len(found), NODES_PER_EVENT):
            part = found[start : start + NODES_PER_EVENT]
            nodes = tuple(state.hyper_nodes.labelled(known.node) for known in part)
            state.outbox.append(NodesSet(shard, pack([known.id for known in part]), nodes))


def relabel(state: IngestState, names: Iterable[str]) -> None:
    """Publish nodes whose HyperNodes changed."""
    found = [state.node_by_id[NodeId(state.node_names[name] >> SHARD_BITS)] for name in names]
    for known in found:
        known.node = with_labels(known.node, known.node.labels)
    _publish(state, found)


def _replace(state: IngestState, fresh: list[Node]) -> None:
    """Delete older nodes with the name of a new one: a name belongs to one node. Their deletion may
    not be observed yet (an unconfirmed list shows additions before deletions).
    """
    old = (state.node_names.get(node.name) for node in fresh)
    gone = [state.node_by_id[NodeId(key >> SHARD_BITS)].node.uid for key in old if key is not None]
    if gone:
        remove_nodes(state, gone)


def remove_nodes(state: IngestState, uids: list[str]) -> None:
    """Delete nodes. Pods still assigned to such a name wait for the next node of that name."""
    published: dict[int, list[NodeId]] = {}
    lost: list[NodeRecord] = []
    images: list[int] = []
    for uid in uids:
        known = state.nodes.pop(uid, None)
        if known is None:
            continue
        del state.node_by_id[known.id]
        state.shard_nodes[known.shard] -= 1
        if state.node_names[known.node.name] >> SHARD_BITS == known.id:
            del state.node_names[known.node.name]
            state.hyper_nodes.drop(known.node.name)
        published.setdefault(known.shard, []).append(known.id)
        images += count(state, known.node, -1)
        lost.append(known)
    if lost:
        note(state, NODE_DELETE)
    for shard in sorted(published):
        state.outbox.append(NodesGone(shard, pack(published[shard])))
    if state.images and lost:
        publish_counts(state, images)
    for known in lost:
        _orphan(state, known)


def waiting_code(state: IngestState, name: str) -> int:
    """Return the value in the node column for an unknown node's name."""
    found = state.waiting.get(name)
    if found is not None:
        return found.code
    if len(state.waiting) >= state.config.held_names_max:
        state.waiting.setdefault("", UnknownNode(OVERFLOW))
        return OVERFLOW
    code = state.next_waiting
    state.next_waiting -= 1
    state.waiting[name] = UnknownNode(code)
    return code


def _add(state: IngestState, node: Node) -> NodeRecord:
    known = NodeRecord(NodeId(state.next_node), _route(state, node), node)
    state.next_node += 1
    state.nodes[node.uid] = known
    state.node_by_id[known.id] = known
    state.node_names[node.name] = known.id << SHARD_BITS | known.shard
    state.shard_nodes[known.shard] += 1
    return known


def _route(state: IngestState, node: Node) -> int:
    shards = len(state.shard_nodes)
    if shards == 1:
        return 0
    digest = blake2b(node.name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % shards


def _publish_assigned(state: IngestState, known: NodeRecord, code: int) -> int:
    """Move the pods with `code` in the node column to a known node; return how many."""
    table = state.pods
    slots = table.on_node(code)
    if len(slots):
        table.nodes[slots] = known.id
        table.is_published[slots] = 1
        nodes = np.full(len(slots), known.id, np.int64)
        state.outbox.append(
            PodsAssigned(known.shard, pack(table.ids[slots]), pack(table.sigs[slots]), pack(nodes))
        )
        publish_started(state, slots)
    return len(slots)


def _adopt(state: IngestState, known: NodeRecord) -> None:
    """Publish the pods that were assigned to this name before its node was known."""
    waiting = state.waiting.pop(known.node.name, None)
    if waiting is not None:
        moved = _publish_assigned(state, known, waiting.code)
        assert moved == waiting.pods, f"node {known.node.name}: {moved} of {waiting.pods} waited"


def _orphan(state: IngestState, known: NodeRecord) -> None:
    table = state.pods
    slots = table.on_node(known.id)
    if not len(slots):
        return
    successor = state.node_names.get(known.node.name)
    if successor is not None:
        _publish_assigned(state, state.node_by_id[NodeId(successor >> SHARD_BITS)], known.id)
        return
    code = waiting_code(state, known.node.name)
    table.nodes[slots] = code
    found = state.waiting["" if code == OVERFLOW else known.node.name]
    found.pods += len(slots)
