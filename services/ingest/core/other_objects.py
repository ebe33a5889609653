"""All other objects of the cluster, by uid: kept and told as they are, for who will read them."""

from collections.abc import Sequence

from services.ingest.core.cluster_events import note_object
from services.ingest.core.pods.default_spread import follow
from services.ingest.core.pods.identity import tell_namespaces
from services.ingest.core.state import IngestState
from shared.events.ingest import ObjectsGone, ObjectsSet, StorageGone, StorageSet
from shared.model.cluster_objects import ClusterObject, Namespace, StorageObject
from shared.model.columns import join

STORAGE_PER_EVENT = 2_000


def objects_seen(state: IngestState, objects: tuple[ClusterObject, ...]) -> None:
    """Added and changed objects; unchanged ones are not told again."""
    changes = []
    for one in objects:
        before = state.objects.get(one.uid)
        if before != one:
            state.objects[one.uid] = one
            changes.append((before, one))
            note_object(state, one, "Add" if before is None else "Update")
    if changes:
        told, storage = _parted(state, [one for _before, one in changes])
        if told:
            state.outbox.append(ObjectsSet(tuple(told)))
        if storage:
            state.outbox.append(StorageSet(tuple(storage)))
        tell_namespaces(state, [one.name for one in told if isinstance(one, Namespace)])
        follow(state, changes)


def objects_gone(state: IngestState, uids: list[str]) -> None:
    """Deleted objects."""
    gone = [state.objects.pop(uid) for uid in dict.fromkeys(uids) if uid in state.objects]
    for one in gone:
        note_object(state, one, "Delete")
    if gone:
        told, storage = _parted(state, gone)
        if told:
            state.outbox.append(ObjectsGone(join(one.uid for one in told)))
        if storage:
            state.outbox.append(StorageGone(join(one.uid for one in storage)))
        tell_namespaces(state, [one.name for one in told if isinstance(one, Namespace)])
        follow(state, [(one, None) for one in gone])


def _parted(
    state: IngestState, objects: Sequence[ClusterObject]
) -> tuple[list[ClusterObject], list[StorageObject]]:
    """Those about volumes apart, where shards are told of them."""
    if not state.config.volumes:
        return list(objects), []
    others: list[ClusterObject] = [one for one in objects if not isinstance(one, StorageObject)]
    return others, [one for one in objects if isinstance(one, StorageObject)]


def tell_storage(state: IngestState) -> None:
    """Shards are told from now on: of all that is known already."""
    known = [one for _uid, one in sorted(state.objects.items()) if isinstance(one, StorageObject)]
    for start in range(0, len(known), STORAGE_PER_EVENT):
        state.outbox.append(StorageSet(tuple(known[start : start + STORAGE_PER_EVENT])))
