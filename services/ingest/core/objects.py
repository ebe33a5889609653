"""All other objects of the cluster, by uid: kept and told as they are, for who will read them."""

from services.ingest.core.identity import tell_namespaces
from services.ingest.core.spreading import follow
from services.ingest.core.state import IngestState
from shared.events.ingest import ObjectsGone, ObjectsSet
from shared.model.cluster_objects import ClusterObject, Namespace
from shared.model.columns import join


def objects_seen(state: IngestState, objects: tuple[ClusterObject, ...]) -> None:
    """Added and changed objects; unchanged ones are not told again."""
    changes = []
    for one in objects:
        before = state.objects.get(one.uid)
        if before != one:
            state.objects[one.uid] = one
            changes.append((before, one))
    if changes:
        told = tuple(one for _before, one in changes)
        state.outbox.append(ObjectsSet(told))
        tell_namespaces(state, [one.name for one in told if isinstance(one, Namespace)])
        follow(state, changes)


def objects_gone(state: IngestState, uids: list[str]) -> None:
    """Deleted objects."""
    gone = [state.objects.pop(uid) for uid in dict.fromkeys(uids) if uid in state.objects]
    if gone:
        state.outbox.append(ObjectsGone(join(one.uid for one in gone)))
        tell_namespaces(state, [one.name for one in gone if isinstance(one, Namespace)])
        follow(state, [(one, None) for one in gone])
