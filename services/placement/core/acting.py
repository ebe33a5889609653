"""Plugins of users that act when a pod is bound: binding is told what they may read of it."""

from services.placement.core.state import PlacementState
from shared.model.objects import PodSpec


def shown(state: PlacementState, sig: int) -> PodSpec | None:
    """The spec of pods at whose bind such plugins act; None = nobody does."""
    wanted = state.sigs[sig]
    return state.specs[sig] if wanted.plugins.profile.acts_at_bind else None
