"""Queues of pods: the tree that counts, and the queue of each pod as a part of its signature.

Objects that are no tree change nothing: the last tree stays. The shell says what is wrong.
"""

from collections.abc import Iterable, Sequence

from services.ingest.core.hyper_nodes import Change
from services.ingest.core.pods.identity import labelsets_of, namespaces, pods_of, relabel
from services.ingest.core.state import IngestState
from shared.events.ingest import QueuesSet
from shared.model.cluster_objects import Namespace, Queue
from shared.model.queues import DEFAULT_QUEUE, QUEUE_LABEL, tree_faults


def follow_queues(state: IngestState, changes: Sequence[Change]) -> None:
    """Follow changed queues, and namespaces that name one; pods get new signatures."""
    if _are_any(changes, Queue):
        _follow_tree(state)
    if state.queues and _are_any(changes, Namespace):
        before = state.queue_of_namespace
        index_queues(state)
        after = state.queue_of_namespace
        changed = [name for name in (before | after) if before.get(name) != after.get(name)]
        if changed:
            relabel(state, pods_of(state, labelsets_of(state, changed)))


def _are_any(changes: Iterable[Change], kind: type[Queue] | type[Namespace]) -> bool:
    return any(isinstance(one, kind) for pair in changes for one in pair)


def _follow_tree(state: IngestState) -> None:
    given = (one for one in state.objects.values() if isinstance(one, Queue))
    # Of several objects of a name the one with the last uid counts.
    by_name = {one.name: one for one in sorted(given, key=lambda one: one.uid)}
    after = tuple(by_name[name] for name in sorted(by_name))
    if after == state.queues or tree_faults(after):
        return
    before, state.queues = state.queue_by_name, after
    index_queues(state)
    state.outbox.append(QueuesSet(after))
    if bool(before) != bool(after) or (DEFAULT_QUEUE in before) != (DEFAULT_QUEUE in by_name):
        relabel(state, state.pods.live())


def index_queues(state: IngestState) -> None:
    """Compute what is derived from the queues and the namespaces."""
    state.queue_by_name = {one.name: one for one in state.queues}
    state.queue_of_namespace = {}
    if state.queues:
        named = ((one.name, dict(one.labels)) for one in namespaces(state).values())
        found = ((name, labels.get(QUEUE_LABEL, "")) for name, labels in named)
        state.queue_of_namespace = {name: queue for name, queue in found if queue}
