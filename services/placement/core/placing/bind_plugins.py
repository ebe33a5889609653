"""Plugins of users and extenders that act when a pod is bound: binding is told what they may read
of it.
"""

from services.placement.core.state import PlacementState
from shared.model.objects import PodSpec


def shown(state: PlacementState, sig: int) -> PodSpec | None:
    """The spec of pods at whose bind plugins of users act or that an extender binds; None = of
    others.
    """
    spec = state.specs[sig]
    plugins_act = state.sigs[sig].plugins.profile.acts_at_bind
    extender_binds = any(one.binds(spec) for one in state.config.extenders)
    return spec if plugins_act or extender_binds else None
