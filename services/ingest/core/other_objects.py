"""All other objects of the cluster, by uid, kept and published as they are."""

from collections.abc import Sequence

from services.ingest.core.cluster_events import note_object
from services.ingest.core.pods.default_spread import follow
from services.ingest.core.pods.identity import publish_namespaces
from services.ingest.core.state import IngestState
from shared.events.ingest import ObjectsGone, ObjectsSet, StorageGone, StorageSet
from shared.model.cluster_objects import ClusterObject, Namespace, StorageObject
from shared.model.columns import join

STORAGE_PER_EVENT = 2_000


def update_objects(state: IngestState, objects: tuple[ClusterObject, ...]) -> None:
    """Add and change objects; unchanged ones are not published again."""
    changes = []
    for one in objects:
        before = state.objects.get(one.uid)
        if before != one:
            state.objects[one.uid] = one
            changes.append((before, one))
            note_object(state, one, "Add" if before is None else "Update")
    if changes:
        others, storage = _parted(state, [one for _before, one in changes])
        if others:
            state.outbox.append(ObjectsSet(tuple(others)))
        if storage:
            state.outbox.append(StorageSet(tuple(storage)))
        publish_namespaces(state, [one.name for one in others if isinstance(one, Namespace)])
        follow(state, changes)


def remove_objects(state: IngestState, uids: list[str]) -> None:
    """Delete objects."""
    removed = [state.objects.pop(uid) for uid in dict.fromkeys(uids) if uid in state.objects]
    for one in removed:
        note_object(state, one, "Delete")
    if removed:
        others, storage = _parted(state, removed)
        if others:
            state.outbox.append(ObjectsGone(join(one.uid for one in others)))
        if storage:
            state.outbox.append(StorageGone(join(one.uid for one in storage)))
        publish_namespaces(state, [one.name for one in others if isinstance(one, Namespace)])
        follow(state, [(one, None) for one in removed])


def _parted(
    state: IngestState, objects: Sequence[ClusterObject]
) -> tuple[list[ClusterObject], list[StorageObject]]:
    """Return the storage objects apart from the others, if shards get them."""
    if not state.config.volumes:
        return list(objects), []
    others: list[ClusterObject] = [one for one in objects if not isinstance(one, StorageObject)]
    return others, [one for one in objects if isinstance(one, StorageObject)]


def publish_storage(state: IngestState) -> None:
    """Publish all known storage objects, as shards get them from now on."""
    known = [one for _uid, one in sorted(state.objects.items()) if isinstance(one, StorageObject)]
    for start in range(0, len(known), STORAGE_PER_EVENT):
        state.outbox.append(StorageSet(tuple(known[start : start + STORAGE_PER_EVENT])))
