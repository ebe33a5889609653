"""Disruption budgets and gangs: objects related to pods by labels and by key."""

import numpy as np

from services.ingest.core.signatures import acquire_gang, covers, release_gang
from services.ingest.core.state import BudgetRecord, GangRecord, IngestState
from shared.events.ingest import (
    BudgetCovers,
    BudgetGone,
    BudgetSet,
    GangGone,
    GangSet,
    UnitJoined,
)
from shared.model.columns import pack
from shared.model.hyper_nodes import Trees
from shared.model.ids import GangId
from shared.model.objects import Budget, Gang


def update_budgets(state: IngestState, budgets: tuple[Budget, ...]) -> None:
    """Add and change budgets; one with a new selector is a new budget."""
    for budget in budgets:
        known = state.budgets.get(budget.uid)
        if known is not None and known.budget == budget:
            continue
        if known is not None and _selector(known.budget) != _selector(budget):
            remove_budgets(state, [budget.uid])
            known = None
        if known is None:
            _add(state, budget)
        else:
            known.budget = budget
            _publish_budget(state, known, b"")


def remove_budgets(state: IngestState, uids: list[str]) -> None:
    """Delete budgets."""
    for uid in uids:
        known = state.budgets.pop(uid, None)
        if known is None:
            continue
        for labels in state.labelsets.values():
            if known.id in labels.budgets:
                labels.budgets = tuple(id_ for id_ in labels.budgets if id_ != known.id)
        state.outbox.append(BudgetGone(known.id))


def _selector(budget: Budget) -> object:
    return budget.namespace, budget.match_labels, budget.match_expressions


def _add(state: IngestState, budget: Budget) -> None:
    known = state.budgets[budget.uid] = BudgetRecord(state.next_budget, budget)
    state.next_budget += 1
    numbers = []
    for labels in state.labelsets.values():
        if covers(budget, labels.namespace, labels.labels):
            labels.budgets = (*labels.budgets, known.id)
            numbers.append(labels.number)
    table = state.pods
    slots = table.live()
    ids = pack(table.ids[slots[np.isin(table.labelsets[slots], numbers)]])
    _publish_budget(state, known, ids)
    if ids:
        state.outbox.append(BudgetCovers(known.id, ids))


def _publish_budget(state: IngestState, known: BudgetRecord, covered: bytes) -> None:
    budget, table = known.budget, state.pods
    slots = [table.slots[uid] for uid in budget.disrupted if uid in table.slots]
    disrupted = pack(np.sort(table.ids[slots], kind="stable")) if slots else b""
    name = f"{budget.namespace}/{budget.name}"
    state.outbox.append(BudgetSet(known.id, budget.allowed, name, disrupted, covered))


def resolve_disrupted(state: IngestState) -> None:
    """Resolve the pods named in budget statuses that arrived before the pods."""
    for known in state.budgets.values():
        if known.budget.disrupted:
            _publish_budget(state, known, b"")


def update_gangs(state: IngestState, gangs: tuple[Gang, ...]) -> None:
    """Add and change gangs. The published version rises even if the object's does not."""
    for gang in gangs:
        known = state.gangs.get(gang.key)
        if known is not None and known.gang == gang:
            continue
        acquire_gang(state, gang.key, 0)
        record = state.gangs[gang.key]
        record.gang = gang
        record.version = max(record.version + 1, gang.version)
        _publish_gang(state, record, gang)
        if gang.is_unit:
            slots = state.pods.live()
            members = slots[state.pods.gangs[slots] == record.id]
            publish_unit(state, record.id, pack(np.sort(state.pods.ids[members])))


def publish_unit(state: IngestState, gang: GangId, ids: bytes) -> None:
    """Publish pods of a gang if preemption evicts its pods together."""
    known = state.gangs[state.gang_keys[gang]].gang if gang else None
    if known is not None and known.is_unit and ids:
        state.outbox.append(UnitJoined(gang, known.priority or 0, ids))


def _publish_gang(state: IngestState, record: GangRecord, gang: Gang) -> None:
    topology = gang.topology
    if gang.network is not None:
        topology = state.hyper_nodes.trees.topology(gang.network)
    state.outbox.append(
        GangSet(
            *(record.id, gang.key, gang.min_count, gang.timeout_ms, record.version),
            topology=topology,
            minimums=gang.minimums,
            priority=gang.priority,
            provisioning=gang.provisioning,
        )
    )


def follow_tiers(state: IngestState, before: Trees) -> None:
    """Publish the gangs whose topology changed with the tiers of the HyperNodes."""
    trees = state.hyper_nodes.trees
    if (before.tiers, before.names) == (trees.tiers, trees.names):
        return
    for _key, record in sorted(state.gangs.items()):
        gang = record.gang
        if gang is None or gang.network is None:
            continue
        if before.topology(gang.network) != trees.topology(gang.network):
            record.version += 1
            _publish_gang(state, record, gang)


def add_gang_of_pods(state: IngestState, key: str, min_count: int) -> None:
    """Add the gang of pods that say themselves how many they are."""
    if state.gangs[key].gang is None:
        update_gangs(state, (Gang(key=key, min_count=min_count, of_pods=True),))


def remove_gangs(state: IngestState, keys: list[str]) -> None:
    """Delete gangs; a number stays while members live."""
    for key in keys:
        known = state.gangs.get(key)
        if known is None or known.gang is None:
            continue
        known.gang = None
        state.outbox.append(GangGone(known.id))
        release_gang(state, known.id, 0)
