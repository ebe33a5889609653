"""All other objects of the cluster, by uid, kept and published as they are."""

from collections.abc import Sequence
from typing import NamedTuple

from services.ingest.core.cluster_events import note_object
from services.ingest.core.groups import follow_tiers
from services.ingest.core.hyper_nodes import Change
from services.ingest.core.nodes import relabel
from services.ingest.core.pods.default_spread import follow
from services.ingest.core.pods.identity import publish_namespaces
from services.ingest.core.queues import follow_queues
from services.ingest.core.state import IngestState
from shared.events.ingest import (
    DevicesGone,
    DevicesSet,
    ObjectsGone,
    ObjectsSet,
    ProvisioningGone,
    ProvisioningSet,
    StorageGone,
    StorageSet,
)
from shared.model.cluster_objects import (
    ClusterObject,
    DeviceObject,
    HyperNode,
    Namespace,
    ProvisioningRequest,
    StorageObject,
)
from shared.model.columns import join

STORAGE_PER_EVENT = 2_000


def update_objects(state: IngestState, objects: tuple[ClusterObject, ...]) -> None:
    """Add and change objects; unchanged ones are not published again."""
    changes: list[Change] = []
    for one in objects:
        before = state.objects.get(one.uid)
        if before != one:
            state.objects[one.uid] = one
            changes.append((before, one))
            note_object(state, one, "Add" if before is None else "Update")
    if changes:
        others, storage, requests, devices = _parted(state, [one for _, one in changes if one])
        if others:
            state.outbox.append(ObjectsSet(tuple(others)))
        if storage:
            state.outbox.append(StorageSet(tuple(storage)))
        if requests:
            state.outbox.append(ProvisioningSet(tuple(requests)))
        if devices:
            state.outbox.append(DevicesSet(tuple(devices)))
        publish_namespaces(state, [one.name for one in others if isinstance(one, Namespace)])
        follow(state, changes)
        publish_relabelled(state, changes)
        follow_queues(state, changes)


def remove_objects(state: IngestState, uids: list[str]) -> None:
    """Delete objects."""
    removed = [state.objects.pop(uid) for uid in dict.fromkeys(uids) if uid in state.objects]
    for one in removed:
        note_object(state, one, "Delete")
    if removed:
        others, storage, requests, devices = _parted(state, removed)
        if others:
            state.outbox.append(ObjectsGone(join(one.uid for one in others)))
        if storage:
            state.outbox.append(StorageGone(join(one.uid for one in storage)))
        if requests:
            state.outbox.append(ProvisioningGone(join(one.uid for one in requests)))
        if devices:
            state.outbox.append(DevicesGone(join(one.uid for one in devices)))
        publish_namespaces(state, [one.name for one in others if isinstance(one, Namespace)])
        changes: list[Change] = [(one, None) for one in removed]
        follow(state, changes)
        publish_relabelled(state, changes)
        follow_queues(state, changes)


def index_hyper_nodes(state: IngestState, changes: Sequence[Change]) -> list[str]:
    """Change HyperNodes; return the names of the nodes with other labels since."""
    found = [pair for pair in changes if any(isinstance(one, HyperNode) for one in pair)]
    if not found:
        return []
    return state.hyper_nodes.change(found, (known.node for known in state.node_by_id.values()))


def publish_relabelled(state: IngestState, changes: Sequence[Change]) -> None:
    """Publish the nodes and the gangs that changed HyperNodes concern."""
    before = state.hyper_nodes.trees
    relabel(state, index_hyper_nodes(state, changes))
    follow_tiers(state, before)


class _Parts(NamedTuple):
    others: list[ClusterObject]
    storage: list[StorageObject]
    requests: list[ProvisioningRequest]
    devices: list[DeviceObject]


def _parted(state: IngestState, objects: Sequence[ClusterObject]) -> _Parts:
    """Return apart from the others the storage objects, if shards get them, the requests to the
    cluster autoscaler, and classes, slices and claims of devices.
    """
    found = _Parts([], [], [], [])
    for one in objects:
        if isinstance(one, ProvisioningRequest):
            found.requests.append(one)
        elif isinstance(one, DeviceObject):
            found.devices.append(one)
        elif isinstance(one, StorageObject) and state.config.volumes:
            found.storage.append(one)
        else:
            found.others.append(one)
    return found


def publish_storage(state: IngestState) -> None:
    """Publish all known storage objects, as shards get them from now on."""
    known = [one for _uid, one in sorted(state.objects.items()) if isinstance(one, StorageObject)]
    for start in range(0, len(known), STORAGE_PER_EVENT):
        state.outbox.append(StorageSet(tuple(known[start : start + STORAGE_PER_EVENT])))
