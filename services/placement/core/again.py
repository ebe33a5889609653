"""When pods are tried anew that extenders refused, and who extenders are asked about now."""

from services.placement.core import sampling
from services.placement.core.state import PlacementState
from shared.events.observed import ExtendersAnswered
from shared.events.placement import ExtendersAsked

AGAIN_MS = 300_000
"""When a pod is tried anew that extenders refused: nobody tells a shard that they changed their
mind. As long as kube-scheduler leaves a pod among the unschedulable ones.
"""
FAILED_AGAIN_MS = 1_000
"""The same where one failed: by then the queue knows how long the pod has to back off."""


def asked(state: PlacementState, event: ExtendersAsked) -> None:
    """Extenders are asked about a pod."""
    sampling.searched(state, event.examined)
    state.extender_asks = event.ask
    state.todo.ask(event)


def answered(state: PlacementState, event: ExtendersAnswered) -> None:
    """They answered."""
    state.todo.answered(event)


def due(state: PlacementState) -> list[int]:
    """Signatures that extenders refused, whose pods are to be tried anew now."""
    return [sig for sig, at_ms in sorted(state.again.items()) if at_ms <= state.now_ms]


def refused(state: PlacementState, sig: int) -> None:
    """Remember when to try pods anew that extenders refused: no node may announce it."""
    asking = state.todo.asking
    if asking is not None and asking.answer is not None and sig in state.refused:
        state.again[sig] = state.now_ms + (FAILED_AGAIN_MS if asking.answer.error else AGAIN_MS)
