"""All other objects of the cluster, by uid: kept and told as they are, for who will read them."""

from services.ingest.core.identity import tell_namespaces
from services.ingest.core.state import IngestState
from shared.events.ingest import ObjectsGone, ObjectsSet
from shared.model.cluster_objects import ClusterObject, Namespace
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
        tell_namespaces(state, [one.name for one in told if isinstance(one, Namespace)])


def objects_gone(state: IngestState, uids: list[str]) -> None:
    """Deleted objects."""
    gone = [state.objects.pop(uid) for uid in dict.fromkeys(uids) if uid in state.objects]
    if gone:
        state.outbox.append(ObjectsGone(join(one.uid for one in gone)))
        tell_namespaces(state, [one.name for one in gone if isinstance(one, Namespace)])
