"""A cluster restored from a backup: revisions run backwards, and seen changes are undone.

Everything is listed again before any pod is placed (docs/adr/0027). Meanwhile no revision is known,
so the list counts whatever it shows. Each pod gets a new number when it is listed, because a bind
or an eviction may have been answered and undone before any watch showed it: decisions about a pod
end with its old number.
"""

from services.ingest.core.list_requests import ask
from services.ingest.core.state import FIRST, IngestState
from shared.events.ingest import WorldListed, WorldRestored
from shared.events.observed import ClusterRestored


def on_cluster_restored(state: IngestState, _event: ClusterRestored) -> None:
    """Forget all revisions. The shell lists all kinds next."""
    state.revision = state.seen_revision = 0
    state.listed_pods = state.listed_objects = 0
    state.marks.clear()
    state.brackets.clear()
    state.doubts.clear()
    state.pods.revisions[: state.pods.used] = 0
    state.is_restored = True
    state.unlisted = list(FIRST)
    state.outbox.append(WorldListed(False))
    state.outbox.append(WorldRestored(False))


def rewound_list_ended(state: IngestState) -> None:
    """End a list that showed pods older than seen before: a restored cluster whose revision was
    raised (etcdutl snapshot restore --bump-revision) looks like that.
    """
    has_objects = state.listed_objects > 0
    on_cluster_restored(state, ClusterRestored(state.seen_revision))
    for kind in (*FIRST, "objects") if has_objects else FIRST:
        ask(state, kind)
