"""The derived part of ingest's state, and checks of the whole that are too expensive for every
step.
"""

import numpy as np

from services.ingest.core.group_trees import index_group
from services.ingest.core.images import check_images
from services.ingest.core.other_objects import index_hyper_nodes
from services.ingest.core.pods.default_spread import check_spread, replace_spreader
from services.ingest.core.queue_plugins import choose_plugins
from services.ingest.core.queues import index_queues
from services.ingest.core.signatures import index_labels
from services.ingest.core.state import IngestState


def derive(state: IngestState) -> IngestState:
    """Compute the derived fields of a loaded state; return it. Raises PluginMissing."""
    choose_plugins(state)
    state.sig_keys = {held.sig: key for key, held in state.sigs.items()}
    for labels in state.labelset_by_number.values():
        index_labels(state, labels)
    for known in state.node_by_id.values():
        state.nodes[known.node.uid] = known
        state.shard_nodes[known.shard] += 1
    state.gang_keys = {known.id: key for key, known in state.gangs.items()}
    for key, record in state.gangs.items():
        if record.gang is not None:
            index_group(state, key, record.gang)
            if record.gang.replacement_hold_ms and not record.gang.is_in_tree:
                state.keeping.add(record.id)
    for one in state.objects.values():
        replace_spreader(state, None, one)
    index_hyper_nodes(state, [(None, one) for one in state.objects.values()])
    index_queues(state)
    return state


def _counts(column: np.ndarray) -> dict[int, int]:
    values, counts = np.unique(column, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def check(state: IngestState) -> None:
    """Check the table, the interned values and the indexes against each other."""
    slots = state.pods.live()
    assert len(slots) == len(state.pods), f"{len(slots)} rows, {len(state.pods)} uids"
    counted = {
        "sigs": {held.sig: held.pods for held in state.sigs.values()},
        "gangs": {known.id: known.pods for known in state.gangs.values() if known.pods},
        "labelsets": {held.number: held.pods for held in state.labelsets.values()},
    }
    for name, expected in counted.items():
        found = _counts(getattr(state.pods, name)[slots])
        found.pop(0, None)
        assert found == expected, f"{name}: table has {found}, counted {expected}"
    nodes = _counts(state.pods.nodes[slots])
    for code, pods in nodes.items():
        assert code >= 0 or pods, f"code {code}"
        assert code <= 0 or code in state.node_by_id, f"{pods} pods on unknown node {code}"
    waiting = {held.code: held.pods for held in state.waiting.values()}
    assert waiting == {code: pods for code, pods in nodes.items() if code < 0}, "waiting pods"
    assert sum(state.shard_nodes) == len(state.nodes), "nodes per shard"
    check_images(state)
    check_spread(state)
