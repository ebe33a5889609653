"""Facts of ingest and binding about pods and budgets."""

from typing import assert_never

from services.preemption.core import gang_evictions, queue_use
from services.preemption.core.answers import start_victim_timeout
from services.preemption.core.state import LEFT, Ask, PreemptionState
from services.preemption.core.transitions import Phase
from shared.events.binding import Bound
from shared.events.ingest import (
    BudgetCovers,
    BudgetGone,
    BudgetSet,
    PodsAssigned,
    PodsGone,
    UnitJoined,
)
from shared.model.columns import unpack
from shared.model.ids import NodeId, PodId


def on_pods_placed_or_gone(state: PreemptionState, event: PodsGone | PodsAssigned | Bound) -> None:
    """Note pods that are deleted or have a node: preemptors among them need nothing more."""
    ids = unpack(event.ids)
    is_gone = isinstance(event, PodsGone)
    if isinstance(event, PodsAssigned) and state.queue_sigs:
        queue_use.on_pods_assigned(state, event)
    if is_gone:
        queue_use.release(state, ids.tolist() if state.queue_pods else ())
        state.gone.add(ids)
        state.placed.add(ids)  # pods that never had a node are added too
        state.budgets.coverage.forget(ids)
        if state.units:
            state.units.forget(ids.tolist())
        if state.gang_evictions:
            gang_evictions.on_pods_gone(state)
    else:
        state.placed.add(ids)
        if state.units:
            state.units.place(ids.tolist())
    if not state.by_pod and not state.victims:
        return
    nodes = [0] * len(ids) if isinstance(event, PodsGone) else unpack(event.nodes).tolist()
    for pod, node in zip(ids.tolist(), nodes, strict=True):
        if pod in state.by_pod:
            _finish_preemptor(state, state.asks[state.by_pod[pod]], node)
        if is_gone and pod in state.victims:
            _finish_victim(state, pod)


def _finish_preemptor(state: PreemptionState, ask: Ask, node: NodeId) -> None:
    """End a preemptor's ask: it is deleted (node 0: the shard sees that itself), or on a node,
    perhaps the nominated one.
    """
    if ask.phase is Phase.READY and node in (0, ask.node):
        ask.follow("preemptor_left")
        state.close(ask)
    else:
        state.finish(ask, LEFT)


def _finish_victim(state: PreemptionState, pod: PodId) -> None:
    victim = state.victims.pop(pod)
    state.budgets.forget_victim(pod)
    ask = state.asks.get(victim.ask)
    if ask is not None:
        start_victim_timeout(state, ask)


def on_unit_joined(state: PreemptionState, event: UnitJoined) -> None:
    """Add pods to a preemption unit."""
    pods = unpack(event.ids).tolist()
    state.units.join(event.gang, event.priority, pods, event.least)
    state.units.place(pod for pod in pods if pod in state.placed)


def on_budget_changed(state: PreemptionState, event: BudgetSet | BudgetCovers | BudgetGone) -> None:
    """Update disruption budgets and the pods they cover."""
    match event:
        case BudgetSet():
            state.budgets.set(event, state.eviction_accepted())
        case BudgetCovers():
            state.budgets.cover(event.budget, unpack(event.ids), state.eviction_accepted())
        case BudgetGone():
            state.budgets.drop(event.budget)
        case _:
            assert_never(event)
