"""The kinds of cluster events (Happened): published once per step, and only those that a configured
plugin waits for.
"""

from services.ingest.core.state import IngestState
from shared.events.ingest import Happened
from shared.model.cluster_objects import ClusterObject, StorageObject


def note(state: IngestState, *kinds: str) -> None:
    """Note kinds of events, published after all facts of the step."""
    for kind in kinds:
        if kind in state.config.wakes:
            state.events_to_publish[kind] = None


def note_object(state: IngestState, one: ClusterObject, what: str) -> None:
    """Note the kind of event of a storage object."""
    if state.config.wakes and isinstance(one, StorageObject):
        note(state, f"{type(one).__name__}/{what}")


def on_happened(state: IngestState, _event: Happened) -> None:
    """Clear the published kinds."""
    state.events_to_publish.clear()
