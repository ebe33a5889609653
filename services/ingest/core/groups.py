"""Disruption budgets and gangs: objects related to pods by labels and by key."""

import numpy as np

from services.ingest.core.group_trees import (
    enter,
    join_unit,
    leave,
    publish_trees,
    top_of,
)
from services.ingest.core.pods.identity import spec_of
from services.ingest.core.signatures import acquire_gang, covers, release_gang
from services.ingest.core.state import BudgetRecord, GangRecord, IngestState
from shared.events.ingest import (
    BudgetCovers,
    BudgetGone,
    BudgetSet,
    GangGone,
    GangSet,
    MembersLost,
    MinimumRunTime,
    UnitJoined,
)
from shared.model.columns import pack
from shared.model.groups.hyper_nodes import Trees
from shared.model.ids import NO_GANG, GangId, SignatureId
from shared.model.objects import Budget, Gang, PodSpec


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
    tops: list[str] = []
    for gang in gangs:
        known = state.gangs.get(gang.key)
        if known is not None and known.gang == gang:
            continue
        acquire_gang(state, gang.key, 0)
        record = state.gangs[gang.key]
        if gang.is_in_tree or record.root:
            tops += _move_in_trees(state, record, gang)
            continue
        before, record.gang = record.gang, gang
        record.version = max(record.version + 1, gang.version)
        _publish_gang(state, record, gang)
        _publish_run_time(state, record.id, gang, before)
        _note_keeping(state, record.id, before, gang.replacement_hold_ms)
        if _leaves_whole(gang) or (before is not None and _leaves_whole(before)):
            _publish_members(state, record.id, gang)
    publish_trees(state, tops, _publish_gang)


def _move_in_trees(state: IngestState, record: GangRecord, gang: Gang) -> list[str]:
    """Apply a changed group of a tree; return the topmost groups of the trees that change."""
    before = record.gang
    _note_keeping(state, record.id, before)
    tops = [top_of(state, gang.key)]
    record.gang, record.root = gang, NO_GANG if not gang.min_groups else record.root
    record.version = max(record.version + 1, gang.version)
    enter(state, gang)
    if before is not None and before.parent != gang.parent:
        leave(state, before)
    return [*tops, top_of(state, gang.key)]


def _publish_run_time(state: IngestState, number: GangId, gang: Gang, before: Gang | None) -> None:
    """Publish the minimum run time of all pods of a group if it changed."""
    if gang.minimum_run_ms == (before.minimum_run_ms if before is not None else 0):
        return
    slots = state.pods.live()
    ids = state.pods.ids[slots[state.pods.gangs[slots] == number]]
    if len(ids):
        state.outbox.append(MinimumRunTime(pack(np.sort(ids)), gang.minimum_run_ms))


def _note_keeping(
    state: IngestState, number: GangId, before: Gang | None, hold_ms: int = 0
) -> None:
    """Note for how long a group keeps the places of lost members. What it keeps ends if it said
    something else before, or is gone.
    """
    if hold_ms:
        state.keeping.add(number)
    else:
        state.keeping.discard(number)
    if before is not None and before.replacement_hold_ms not in (0, hold_ms):
        state.outbox.append(MembersLost(number, b"", 0))


def publish_ends(state: IngestState, slots: list[int], are_lost: bool) -> None:
    """Publish which of these members leave places that their groups keep: those on nodes, if they
    are lost. A group whose last pods finish keeps no place, since they are not replaced.
    """
    table, rows = state.pods, np.array(slots, np.int64)
    for number in np.unique(table.gangs[rows]).tolist():
        if number not in state.keeping:
            continue
        record = state.gangs[state.gang_keys[number]]
        assert record.gang is not None
        part = rows[table.gangs[rows] == number]
        ids = np.sort(table.ids[part[table.nodes[part] > 0]])
        if are_lost and len(ids):
            hold_ms = record.gang.replacement_hold_ms
            state.outbox.append(MembersLost(GangId(number), pack(ids), hold_ms))
        elif not are_lost and len(part) == record.pods:
            state.outbox.append(MembersLost(GangId(number), b"", 0))


def _leaves_whole(gang: Gang) -> bool:
    """Return whether preemption evicts some of its pods together."""
    return gang.is_unit or gang.keeps_minimum


def _publish_members(state: IngestState, number: GangId, gang: Gang) -> None:
    """Publish all pods of a group whose pods leave together, by signature if their priorities
    count.
    """
    table = state.pods
    slots = table.live()
    members = slots[table.gangs[slots] == number]
    members = members[np.argsort(table.ids[members], kind="stable")]
    if gang.is_unit:
        parts = [members]
    else:
        parts = [members[table.sigs[members] == sig] for sig in np.unique(table.sigs[members])]
    for part in parts:
        if len(part):
            priority = spec_of(state, SignatureId(int(table.sigs[part[0]]))).priority
            _publish_unit(state, number, gang, pack(table.ids[part]), priority)


def publish_unit(state: IngestState, gang: GangId, ids: bytes, spec: PodSpec) -> None:
    """Publish pods of a gang, all of this spec, if preemption evicts some of its pods together, or
    none before a time.
    """
    known = state.gangs[state.gang_keys[gang]].gang if gang else None
    if known is None or not ids:
        return
    if known.minimum_run_ms:
        state.outbox.append(MinimumRunTime(ids, known.minimum_run_ms))
    if known.parent:
        join_unit(state, gang, ids)
    elif _leaves_whole(known):
        _publish_unit(state, gang, known, ids, spec.priority)


def _publish_unit(
    state: IngestState, number: GangId, gang: Gang, ids: bytes, priority: int
) -> None:
    if gang.is_unit:
        state.outbox.append(UnitJoined(number, gang.priority or 0, ids))
    else:
        state.outbox.append(UnitJoined(number, priority, ids, gang.min_count))


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
            root=record.root,
            below_minimum=gang.below_minimum,
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
    tops: list[str] = []
    for key in keys:
        known = state.gangs.get(key)
        if known is None or known.gang is None:
            continue
        before, known.gang = known.gang, None
        _note_keeping(state, known.id, before)
        if before.is_in_tree:
            tops += [top_of(state, before.parent), key]
            leave(state, before)
        if not before.min_groups or known.root:
            state.outbox.append(GangGone(known.id))
        known.root = NO_GANG
        release_gang(state, known.id, 0)
    publish_trees(state, tops, _publish_gang)
