"""Evicts what is left of gangs below their minCount, as queueing asks: for no pod, so without a dry
run and a nomination. From then on these are victims like others.
"""

from collections.abc import Iterator

from services.preemption.core.state import PreemptionState, Victim
from shared.events.preemption import EvictAsked
from shared.events.queueing import GangEvictAsked
from shared.model.columns import as_numbers, pack
from shared.model.ids import NO_NODE, NO_POD, AskId


def on_gang_evict_asked(state: PreemptionState, event: GangEvictAsked) -> None:
    """Note the members on nodes that do not leave already."""
    pods = [
        pod
        for pod in as_numbers(event.ids)
        if pod in state.placed and pod not in state.gone and pod not in state.victims
    ]
    if pods:
        state.gang_evictions[event.gang] = pods


def on_pods_gone(state: PreemptionState) -> None:
    """Forget deleted members."""
    left = {
        gang: [pod for pod in pods if pod not in state.gone]
        for gang, pods in state.gang_evictions.items()
    }
    state.gang_evictions = {gang: pods for gang, pods in left.items() if pods}


def decide(state: PreemptionState) -> Iterator[EvictAsked]:
    """Yield the evictions, before anything else can choose these pods."""
    for gang, pods in sorted(state.gang_evictions.items()):
        beyond = state.budgets.beyond(pods)
        ask = AskId(state.last_ask + 1)
        yield EvictAsked(ask, NO_POD, NO_NODE, pack(pods), pack(beyond), gang)


def on_evict_asked(state: PreemptionState, event: EvictAsked) -> None:
    """Claim the victims; no ask stays open for them."""
    state.last_ask = event.ask
    del state.gang_evictions[event.gang]
    for pod in as_numbers(event.victims):
        state.victims[pod] = Victim(event.ask)
        state.budgets.charge(pod)
