"""All other objects of the cluster, by uid: kept and told as they are, for who will read them."""

from services.ingest.core.state import IngestState
from shared.events.ingest import ObjectsGone, ObjectsSet
from shared.model.cluster_objects import ClusterObject
from shared.model.columns import join


def objects_seen(state: IngestState, objects: tuple[ClusterObject, ...]) -> None:
    """Added and changed objects; unchanged ones are not told again."""
    told = []
    for one in objects:
        if state.objects.get(one.uid) != one:
            state.objects[one.uid] = one
            told.append(one)
    if told:
        state.outbox.append(ObjectsSet(tuple(told)))


def objects_gone(state: IngestState, uids: list[str]) -> None:
    """Deleted objects."""
    gone = [uid for uid in uids if state.objects.pop(uid, None) is not None]
    if gone:
        state.outbox.append(ObjectsGone(join(gone)))
