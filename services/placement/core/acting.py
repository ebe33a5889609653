"""Plugins of users and extenders that act when a pod is bound: binding is told what they may read
of it.
"""

from services.placement.core.state import PlacementState
from shared.model.objects import PodSpec


def shown(state: PlacementState, sig: int) -> PodSpec | None:
    """The spec of pods at whose bind somebody acts; None = nobody does."""
    return state.specs[sig] if plugins_act(state, sig) or extender_binds(state, sig) else None


def plugins_act(state: PlacementState, sig: int) -> bool:
    """Whether plugins of users act when these pods are bound."""
    return state.sigs[sig].plugins.profile.acts_at_bind


def extender_binds(state: PlacementState, sig: int) -> bool:
    """Whether an extender binds these pods."""
    return any(one.binds(state.specs[sig]) for one in state.config.extenders)
