"""Ingest's core: what each observation changes, and in which order ingest records facts.

`evolve` of an observation keeps the books at once and puts the facts that follow from it on
`state.outbox`; `decide` hands them out in order, and `evolve` of each takes it off again. So a
fact is decided exactly once, and folding needs no decisions. Nothing here places or orders pods.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from services.ingest.core import cluster_events, snapshot
from services.ingest.core.config import Config, parse_config
from services.ingest.core.groups import budgets_gone, budgets_seen, gangs_gone, gangs_seen
from services.ingest.core.lists import list_began, list_ended
from services.ingest.core.nodes import nodes_gone, nodes_seen
from services.ingest.core.other_objects import objects_gone, objects_seen, tell_storage
from services.ingest.core.pods.assigned import pods_bound_seen
from services.ingest.core.pods.default_spread import respread
from services.ingest.core.pods.pods import pods_deleted_seen, pods_seen
from services.ingest.core.pods.start_times import pods_started_seen
from services.ingest.core.queue_plugins import requeue
from services.ingest.core.restored import cluster_restored
from services.ingest.core.state import FIRST, IngestState, WrongCluster
from shared.events import observed as seen
from shared.events.base import Configured, Event
from shared.events.ingest import (
    Happened,
    IngestEvent,
    ListAsked,
    NamespacesSet,
    NodesSet,
    ObjectsSet,
    PodsNamed,
    SourceAdvanced,
    StorageSet,
    WorldListed,
)
from shared.model.columns import split
from shared.model.ids import INGEST, SHARDS_MAX

OWN = IngestEvent.__args__
TOLD_BYTES_MAX = 4 << 20
NODE_BYTES = OBJECT_BYTES = 600


class IngestCore:
    """Ingest's journal is the world journal; it reads no other."""

    journal = INGEST
    sources: tuple[str, ...] = ()

    def __init__(self, placements: int = 1) -> None:
        """Nodes are routed to shards 0..placements-1."""
        assert 1 <= placements <= SHARDS_MAX, f"{placements} placements"
        self.placements = placements
        self._evolve: dict[type, Callable[[IngestState, Any], None]] = {
            Configured: _configured,
            seen.WorldOpened: _world_opened,
            seen.ClusterRestored: cluster_restored,
            seen.PodsSeen: pods_seen,
            seen.PodsBoundSeen: pods_bound_seen,
            seen.PodsStartedSeen: pods_started_seen,
            seen.PodsDeletedSeen: pods_deleted_seen,
            seen.NodesSeen: _nodes_seen,
            seen.NodesDeletedSeen: lambda state, event: nodes_gone(state, split(event.uids)),
            seen.BudgetsSeen: _budgets_seen,
            seen.BudgetsDeletedSeen: lambda state, event: budgets_gone(state, split(event.uids)),
            seen.GangsSeen: _gangs_seen,
            seen.GangsDeletedSeen: lambda state, event: gangs_gone(state, split(event.keys)),
            seen.ObjectsSeen: _objects_seen,
            seen.ObjectsDeletedSeen: lambda state, event: objects_gone(state, split(event.uids)),
            seen.ListBegan: list_began,
            seen.ListEnded: list_ended,
            seen.WatchAdvanced: _watch_advanced,
            seen.InputRejected: _input_rejected,
            **dict.fromkeys(OWN, _told),
            Happened: cluster_events.told,
            SourceAdvanced: _source_advanced,
        }

    def new(self) -> IngestState:
        """No world yet."""
        return IngestState(self.placements)

    def evolve(self, state: IngestState, event: Event) -> None:
        """Raises WrongCluster when the journal is of another cluster."""
        self._evolve[type(event)](state, event)

    def decide(self, state: IngestState) -> Iterator[Event]:
        """The facts of the step in order, as many as one record holds well, then how far the
        outside has been consumed.
        """
        outbox = state.outbox
        left_bytes = TOLD_BYTES_MAX
        while outbox and left_bytes > 0:
            left_bytes -= _size_bytes(outbox[0])
            yield outbox[0]
        if not outbox and state.happened:
            yield Happened(tuple(sorted(state.happened)))
        if not outbox and state.seen_revision > state.revision:
            yield SourceAdvanced(state.seen_revision)

    def due_ms(self, state: IngestState) -> int | None:
        """Ingest has no timers."""
        waiting = bool(state.outbox or state.happened) or state.seen_revision > state.revision
        return state.now_ms if waiting else None

    def effects(self, state: IngestState) -> Mapping[int, ListAsked]:
        """Lists asked for that have not been applied."""
        return state.effects

    def dump(self, state: IngestState) -> Any:
        """See the module `saved`."""
        return snapshot.dump(state)

    def load(self, body: Any) -> IngestState:
        """Inverse of dump."""
        return snapshot.load(body, self.placements)

    def check(self, state: IngestState) -> None:
        """Reference counts and reverse indexes agree with the table."""
        snapshot.check(state)


def _configured(state: IngestState, event: Configured) -> None:
    """A new term, or another configuration: lists that were open will never be complete."""
    before, was = state.config, state.spreads
    state.config = parse_config(event.config.get("ingest", {}))
    # What such a list has shown is newer than what a watch would go on from: list again.
    state.broken_off.update((kind, True) for kind, list_ in state.brackets.items() if list_.marks)
    state.brackets.clear()
    is_other = was != state.spreads or before.schedulers != state.config.schedulers
    if is_other and (was or state.spreads):
        respread(state, list(state.labelsets.values()), all_anew=True)
    if state.config.volumes and not before.volumes:
        tell_storage(state)
    if _queues_by(before) != _queues_by(state.config):
        requeue(state)


def _queues_by(config: Config) -> object:
    return config.schedulers, config.pre_enqueue, config.queue_sort


def _world_opened(state: IngestState, event: seen.WorldOpened) -> None:
    if state.cluster and state.cluster != event.cluster:
        raise WrongCluster(
            f"{INGEST}: this journal is of cluster {state.cluster}, but the cluster watched now is "
            f"{event.cluster}; check the kubeconfig, or run 'muster reset'"
        )
    if not state.cluster:
        state.unlisted = list(FIRST)
        state.outbox.append(WorldListed(False))
    state.cluster = event.cluster


def _watch_advanced(state: IngestState, event: seen.WatchAdvanced) -> None:
    state.seen_revision = max(state.seen_revision, event.revision)
    state.marks.update(event.marks)


def _source_advanced(state: IngestState, event: SourceAdvanced) -> None:
    state.revision = max(state.revision, event.revision)


def _input_rejected(state: IngestState, _event: seen.InputRejected) -> None:
    state.rejected += 1


def _size_bytes(event: Event) -> int:
    """Roughly what an event takes in the record."""
    if isinstance(event, PodsNamed):
        return len(event.uids) + len(event.names) + 2 * len(event.ids)
    if isinstance(event, NodesSet):
        return sum(NODE_BYTES + len(node.images) for node in event.nodes)
    if isinstance(event, ObjectsSet | StorageSet):
        return OBJECT_BYTES * len(event.objects)
    if isinstance(event, NamespacesSet):
        return OBJECT_BYTES * len(event.labels)
    return 3 * len(getattr(event, "ids", b""))


def _told(state: IngestState, event: Event) -> None:
    """One of our own: it was the next one to be told."""
    first = state.outbox.popleft() if state.outbox else None
    assert type(first) is type(event), f"{INGEST}: {event} told where {first} was next"


def _nodes_seen(state: IngestState, event: seen.NodesSeen) -> None:
    """Listed nodes wait for the list's end, so that all zones are known before any is routed."""
    bracket = state.brackets.get("nodes")
    if bracket is None:
        nodes_seen(state, list(event.nodes))
        return
    bracket.named += len(event.nodes)
    bracket.nodes.extend(event.nodes)
    bracket.seen.update((node.uid, True) for node in event.nodes)


def _named(state: IngestState, kind: str, keys: Iterable[str]) -> bool:
    """Whether what is seen counts; in a list it is named, and what is stale does not count."""
    bracket = state.brackets.get(kind)
    if bracket is None:
        return True
    for key in keys:
        bracket.named += 1
        bracket.seen[key] = True
    return not bracket.stale


def _budgets_seen(state: IngestState, event: seen.BudgetsSeen) -> None:
    if _named(state, "budgets", (budget.uid for budget in event.budgets)):
        budgets_seen(state, event.budgets)


def _gangs_seen(state: IngestState, event: seen.GangsSeen) -> None:
    if _named(state, "gangs", (gang.key for gang in event.gangs)):
        gangs_seen(state, event.gangs)


def _objects_seen(state: IngestState, event: seen.ObjectsSeen) -> None:
    if _named(state, "objects", (one.uid for one in event.objects)):
        objects_seen(state, event.objects)
