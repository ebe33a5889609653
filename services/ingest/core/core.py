"""Ingest's core: the effect of each observation, and the order in which facts are recorded.

`evolve` of an observation updates the state at once and appends the resulting facts to
`state.outbox`; `decide` yields them in order, and `evolve` of each fact removes it. So a fact is
decided exactly once, and folding needs no decisions. Ingest does not place or order pods.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from services.ingest.core import cluster_events, lists, restored
from services.ingest.core.config import Config
from services.ingest.core.derived import check, derive
from services.ingest.core.groups import remove_budgets, remove_gangs, update_budgets, update_gangs
from services.ingest.core.nodes import remove_nodes, update_nodes
from services.ingest.core.other_objects import publish_storage, remove_objects, update_objects
from services.ingest.core.pods import assigned, pods, start_times
from services.ingest.core.pods.default_spread import respread
from services.ingest.core.queue_plugins import requeue
from services.ingest.core.state import FIRST, IngestState, WrongCluster
from shared.events import EVENT_TYPES
from shared.events.base import Configured, Event
from shared.events.ingest import (
    DevicesSet,
    Happened,
    ListAsked,
    MembersLost,
    NamespacesSet,
    NodesSet,
    ObjectsSet,
    PodsNamed,
    ProvisioningSet,
    QueuesSet,
    SourceAdvanced,
    StorageSet,
    WorldListed,
)
from shared.events.observed import (
    BudgetsDeletedSeen,
    BudgetsSeen,
    GangsDeletedSeen,
    GangsSeen,
    InputRejected,
    LeadSeen,
    NodesDeletedSeen,
    NodesSeen,
    ObjectsDeletedSeen,
    ObjectsSeen,
    WatchAdvanced,
    WorldOpened,
)
from shared.machine.core import Core
from shared.machine.handlers import handlers
from shared.machine.saved import load, save
from shared.model.cluster_objects import DeviceObject, SliceObject
from shared.model.columns import split
from shared.model.ids import INGEST, SHARDS_MAX, EffectId, JournalName
from shared.model.options import read_options

RECORD_FACTS_BYTES_MAX = 4 << 20
NODE_BYTES = OBJECT_BYTES = 600


class IngestCore(Core[IngestState]):
    """The core of ingest. Its journal is the world journal; it reads no other."""

    journal = INGEST
    sources: tuple[JournalName, ...] = ()

    def __init__(self, placements: int = 1) -> None:
        """Create a core that routes nodes to shards 0..placements-1."""
        assert 1 <= placements <= SHARDS_MAX, f"{placements} placements"
        self.placements = placements

    def new(self) -> IngestState:
        """Return a state without a world."""
        return IngestState(self.placements)

    def evolve(self, state: IngestState, event: Event) -> None:
        """Apply one event. Raises WrongCluster if the journal is of another cluster."""
        HANDLERS[type(event)](state, event)

    def decide(self, state: IngestState) -> Iterator[Event]:
        """Yield the facts of the step in order, as many as fit one record well, then the position
        up to which observations were consumed. Lost members leave their nodes in the same record.
        """
        outbox, fact = state.outbox, None
        left_bytes = RECORD_FACTS_BYTES_MAX
        while outbox and (left_bytes > 0 or isinstance(fact, MembersLost)):
            fact = outbox[0]
            left_bytes -= _size_bytes(fact)
            yield fact
        if not outbox and state.events_to_publish:
            yield Happened(tuple(sorted(state.events_to_publish)))
        if not outbox and state.seen_revision > state.revision:
            yield SourceAdvanced(state.seen_revision)

    def due_ms(self, state: IngestState) -> int | None:
        """Return now if there are facts to publish; ingest has no timers."""
        waiting = (
            bool(state.outbox or state.events_to_publish) or state.seen_revision > state.revision
        )
        return state.now_ms if waiting else None

    def effects(self, state: IngestState) -> Mapping[EffectId, ListAsked]:
        """Return the requested lists that are not applied yet."""
        return state.effects

    def dump(self, state: IngestState) -> Any:
        """Return canonical plain values."""
        return save(state)

    def load(self, body: Any) -> IngestState:
        """Restore what `dump` returned."""
        return derive(load(self.new(), body))

    def check(self, state: IngestState) -> None:
        """Check that reference counts and reverse indexes agree with the table."""
        check(state)


def _on_configured(state: IngestState, event: Configured) -> None:
    """Apply a new term or configuration: open lists will never be complete."""
    before, was = state.config, state.spreads
    state.config = read_options("ingest", event.config, Config)
    # The objects of such a list are newer than the watch position: list again.
    state.broken_off.update((kind, True) for kind, list_ in state.brackets.items() if list_.marks)
    state.brackets.clear()
    is_other = was != state.spreads or before.schedulers != state.config.schedulers
    if is_other and (was or state.spreads):
        respread(state, list(state.labelsets.values()), all_anew=True)
    if state.config.volumes and not before.volumes:
        publish_storage(state)
    if _queues_by(before) != _queues_by(state.config):
        requeue(state)


def _queues_by(config: Config) -> object:
    return config.schedulers, config.pre_enqueue, config.queue_sort


def _on_world_opened(state: IngestState, event: WorldOpened) -> None:
    if state.cluster and state.cluster != event.cluster:
        raise WrongCluster(
            f"{INGEST}: this journal is of cluster {state.cluster}, but the cluster watched now is "
            f"{event.cluster}; check the kubeconfig, or run 'muster reset'"
        )
    if not state.cluster:
        state.unlisted = list(FIRST)
        state.outbox.append(WorldListed(False))
    state.cluster = event.cluster


def _on_lead_seen(state: IngestState, event: LeadSeen) -> None:
    """Keep a new world incomplete until this process leads. A world once complete stays so."""
    was, state.stands_by = (
        state.stands_by,
        not event.leads and (state.stands_by or bool(state.unlisted)),
    )
    if was and not state.stands_by and not state.unlisted:
        state.outbox.append(WorldListed(True))


def _on_watch_advanced(state: IngestState, event: WatchAdvanced) -> None:
    state.seen_revision = max(state.seen_revision, event.revision)
    state.marks.update(event.marks)


def _on_source_advanced(state: IngestState, event: SourceAdvanced) -> None:
    state.revision = max(state.revision, event.revision)


def _on_input_rejected(state: IngestState, _event: InputRejected) -> None:
    state.rejected += 1


def _size_bytes(event: Event) -> int:
    """Return the approximate size of an event in a record, bytes."""
    if isinstance(event, PodsNamed):
        return len(event.uids) + len(event.names) + 2 * len(event.ids)
    if isinstance(event, NodesSet):
        return sum(NODE_BYTES + len(node.images) for node in event.nodes)
    if isinstance(event, DevicesSet):
        return sum(_device_bytes(one) for one in event.objects)
    if isinstance(event, ObjectsSet | StorageSet | ProvisioningSet):
        return OBJECT_BYTES * len(event.objects)
    if isinstance(event, NamespacesSet):
        return OBJECT_BYTES * len(event.labels)
    if isinstance(event, QueuesSet):
        return OBJECT_BYTES * len(event.queues)
    return 3 * len(getattr(event, "ids", b""))


def _device_bytes(one: DeviceObject) -> int:
    devices = len(one.value.devices) if isinstance(one, SliceObject) else 1
    return OBJECT_BYTES * (1 + devices)


def _end_publishing(state: IngestState, event: Event) -> None:
    """Remove a published fact: it was the first in the outbox."""
    first = state.outbox.popleft() if state.outbox else None
    # Only when a journal is read are they two objects.
    assert first is event or first == event, (
        f"{INGEST}: {event} published where {first} was next: if another version wrote it, "
        "start again with 'muster reset'"
    )


def _on_nodes_seen(state: IngestState, event: NodesSeen) -> None:
    """Keep listed nodes until the list's end, so that all zones are known before any node is
    routed.
    """
    bracket = state.brackets.get("nodes")
    if bracket is None:
        update_nodes(state, list(event.nodes))
        return
    bracket.named += len(event.nodes)
    bracket.nodes.extend(event.nodes)
    bracket.seen.update((node.uid, True) for node in event.nodes)


def _named(state: IngestState, kind: str, keys: Iterable[str]) -> bool:
    """Return whether an observation counts. In a list it is also named, and a stale list does not
    count.
    """
    bracket = state.brackets.get(kind)
    if bracket is None:
        return True
    for key in keys:
        bracket.named += 1
        bracket.seen[key] = True
    return not bracket.stale


def _on_budgets_seen(state: IngestState, event: BudgetsSeen) -> None:
    if _named(state, "budgets", (budget.uid for budget in event.budgets)):
        update_budgets(state, event.budgets)


def _on_gangs_seen(state: IngestState, event: GangsSeen) -> None:
    if _named(state, "gangs", (gang.key for gang in event.gangs)):
        update_gangs(state, event.gangs)


def _on_objects_seen(state: IngestState, event: ObjectsSeen) -> None:
    if _named(state, "objects", (one.uid for one in event.objects)):
        update_objects(state, event.objects)


def _on_nodes_deleted_seen(state: IngestState, event: NodesDeletedSeen) -> None:
    remove_nodes(state, split(event.uids))


def _on_budgets_deleted_seen(state: IngestState, event: BudgetsDeletedSeen) -> None:
    remove_budgets(state, split(event.uids))


def _on_gangs_deleted_seen(state: IngestState, event: GangsDeletedSeen) -> None:
    remove_gangs(state, split(event.keys))


def _on_objects_deleted_seen(state: IngestState, event: ObjectsDeletedSeen) -> None:
    remove_objects(state, split(event.uids))


HANDLERS = {
    **dict.fromkeys(EVENT_TYPES["ingest"], _end_publishing),
    **handlers(
        *(sys.modules[__name__], restored, pods, assigned, start_times, lists, cluster_events),
    ),
}
