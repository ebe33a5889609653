"""Disruption budgets and gangs: objects that pods point at, by labels and by key."""

import numpy as np

from services.ingest.core.signatures import covers, drop_gang, take_gang
from services.ingest.core.state import HeldBudget, IngestState
from shared.events.ingest import BudgetCovers, BudgetGone, BudgetSet, GangGone, GangSet
from shared.model.columns import pack
from shared.model.objects import Budget, Gang


def budgets_seen(state: IngestState, budgets: tuple[Budget, ...]) -> None:
    """Added and changed budgets; one with another selector is another budget."""
    for budget in budgets:
        held = state.budgets.get(budget.uid)
        if held is not None and held.budget == budget:
            continue
        if held is not None and _selector(held.budget) != _selector(budget):
            budgets_gone(state, [budget.uid])
            held = None
        if held is None:
            _add(state, budget)
        else:
            held.budget = budget
            _tell(state, held, b"")


def budgets_gone(state: IngestState, uids: list[str]) -> None:
    """Deleted budgets."""
    for uid in uids:
        held = state.budgets.pop(uid, None)
        if held is None:
            continue
        for labels in state.labelsets.values():
            if held.id in labels.budgets:
                labels.budgets = tuple(id_ for id_ in labels.budgets if id_ != held.id)
        state.outbox.append(BudgetGone(held.id))


def _selector(budget: Budget) -> object:
    return budget.namespace, budget.match_labels, budget.match_expressions


def _add(state: IngestState, budget: Budget) -> None:
    held = state.budgets[budget.uid] = HeldBudget(state.next_budget, budget)
    state.next_budget += 1
    numbers = []
    for labels in state.labelsets.values():
        if covers(budget, labels.namespace, labels.labels):
            labels.budgets = (*labels.budgets, held.id)
            numbers.append(labels.number)
    table = state.pods
    slots = table.live()
    ids = pack(table.ids[slots[np.isin(table.labelsets[slots], numbers)]])
    _tell(state, held, ids)
    if ids:
        state.outbox.append(BudgetCovers(held.id, ids))


def _tell(state: IngestState, held: HeldBudget, covered: bytes) -> None:
    budget, table = held.budget, state.pods
    slots = [table.slots[uid] for uid in budget.disrupted if uid in table.slots]
    disrupted = pack(np.sort(table.ids[slots], kind="stable")) if slots else b""
    name = f"{budget.namespace}/{budget.name}"
    state.outbox.append(BudgetSet(held.id, budget.allowed, name, disrupted, covered))


def disrupted_told(state: IngestState) -> None:
    """The pods that budgets name are known now, where the budgets came first."""
    for held in state.budgets.values():
        if held.budget.disrupted:
            _tell(state, held, b"")


def gangs_seen(state: IngestState, gangs: tuple[Gang, ...]) -> None:
    """Added and changed gangs. The version told rises even if the object's own does not."""
    for gang in gangs:
        known = state.gangs.get(gang.key)
        if known is not None and known.gang == gang:
            continue
        take_gang(state, gang.key, 0)
        held = state.gangs[gang.key]
        held.gang = gang
        held.version = max(held.version + 1, gang.version)
        state.outbox.append(
            GangSet(held.id, gang.key, gang.min_count, gang.timeout_ms, held.version)
        )


def gangs_gone(state: IngestState, keys: list[str]) -> None:
    """Deleted gangs; the number stays while members live."""
    for key in keys:
        held = state.gangs.get(key)
        if held is None or held.gang is None:
            continue
        held.gang = None
        state.outbox.append(GangGone(held.id))
        drop_gang(state, held.id, 0)
