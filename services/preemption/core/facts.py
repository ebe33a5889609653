"""What the world and binding say about pods and budgets."""

from services.preemption.core.answers import all_answered
from services.preemption.core.state import LEFT, Ask, PreemptionState
from services.preemption.core.transitions import Phase
from shared.events.binding import Bound
from shared.events.ingest import BudgetCovers, BudgetGone, BudgetSet, PodsAssigned, PodsGone
from shared.model.columns import unpack


def pods(state: PreemptionState, event: PodsGone | PodsAssigned | Bound) -> None:
    """Pods that left, or got a node: preemptors among them need nothing any more."""
    ids = unpack(event.ids)
    is_gone = isinstance(event, PodsGone)
    if is_gone:
        state.gone.add(ids)
        state.placed.add(ids)  # or those that never had a node would stay outside for ever
        state.budgets.coverage.forget(ids)
    else:
        state.placed.add(ids)
    if not state.by_pod and not state.victims:
        return
    nodes = [0] * len(ids) if isinstance(event, PodsGone) else unpack(event.nodes).tolist()
    for pod, node in zip(ids.tolist(), nodes, strict=True):
        if pod in state.by_pod:
            _preemptor_left(state, state.asks[state.by_pod[pod]], node)
        if is_gone and pod in state.victims:
            _victim_left(state, pod)


def _preemptor_left(state: PreemptionState, ask: Ask, node: int) -> None:
    """Gone (node 0: the shard sees that itself), or on a node: perhaps on the nominated one."""
    if ask.phase is Phase.READY and node in (0, ask.node):
        ask.follow("preemptor_left")
        state.close(ask)
    else:
        state.finish(ask, LEFT)


def _victim_left(state: PreemptionState, pod: int) -> None:
    victim = state.victims.pop(pod)
    state.budgets.gone(pod)
    ask = state.asks.get(victim.ask)
    if ask is not None:
        all_answered(state, ask)


def budget(state: PreemptionState, event: BudgetSet | BudgetCovers | BudgetGone) -> None:
    """Disruption budgets and whom they cover."""
    match event:
        case BudgetSet():
            state.budgets.set(event, state.evicted())
        case BudgetCovers():
            state.budgets.cover(event.budget, unpack(event.ids), state.evicted())
        case BudgetGone():
            state.budgets.drop(event.budget)
