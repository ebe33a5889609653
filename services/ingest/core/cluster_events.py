"""What kinds of events the cluster shows: told once for a step, and only those that some plugin of
the configuration has pods wait for.
"""

from services.ingest.core.state import IngestState
from shared.events.ingest import Happened
from shared.model.cluster_objects import ClusterObject, StorageObject


def note(state: IngestState, *kinds: str) -> None:
    """To be told when all facts of the step are."""
    for kind in kinds:
        if kind in state.config.wakes:
            state.happened[kind] = None


def note_object(state: IngestState, one: ClusterObject, what: str) -> None:
    """The same of an object about volumes."""
    if state.config.wakes and isinstance(one, StorageObject):
        note(state, f"{type(one).__name__}/{what}")


def told(state: IngestState, _event: Happened) -> None:
    """Queueing knows."""
    state.happened.clear()
