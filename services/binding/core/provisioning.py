"""Requests to the cluster autoscaler for nodes: lossy, one effect at a time, the newest wins.
Queueing sends again what the cluster does not show.
"""

from collections.abc import Iterator

from services.binding.core.state import BindingState
from shared.events.base import Event
from shared.events.binding import ProvisioningRefused, RequestsAsked
from shared.events.observed import RequestAnswers
from shared.events.queueing import ProvisioningAsked, ProvisioningWithdrawn
from shared.model.ids import NO_EFFECT, EffectId

EFFECT_REQUESTS = 16


def on_provisioning_asked(
    state: BindingState, event: ProvisioningAsked | ProvisioningWithdrawn
) -> None:
    """Remember what is to be written or deleted."""
    state.provisioning[event.request.key] = event.request


def decide_requests(state: BindingState) -> Iterator[Event]:
    """Yield why earlier requests were refused, and the next ones once those are over."""
    if state.provisioning_errors:
        yield ProvisioningRefused(*zip(*sorted(state.provisioning_errors.items()), strict=True))
    if state.provisioning and not state.provisioning_effect:
        keys = sorted(state.provisioning)[:EFFECT_REQUESTS]
        requests = tuple(state.provisioning[key] for key in keys)
        yield RequestsAsked(EffectId(state.next_effect), requests)


def is_due(state: BindingState) -> bool:
    """Return whether there is something to decide now."""
    return bool(state.provisioning_errors or (state.provisioning and not state.provisioning_effect))


def on_requests_asked(state: BindingState, event: RequestsAsked) -> None:
    """Note that these requests are being written."""
    state.next_effect = event.effect + 1
    state.effects[event.effect] = event
    state.provisioning_effect = event.effect
    for request in event.requests:
        del state.provisioning[request.key]


def on_request_answers(state: BindingState, event: RequestAnswers) -> None:
    """End the effect; a late answer is ignored."""
    effect = state.effects.get(event.effect)
    if not isinstance(effect, RequestsAsked):
        return
    del state.effects[event.effect]
    state.provisioning_effect = NO_EFFECT
    for request, message in zip(effect.requests, event.messages, strict=True):
        if message and not request.uid:
            state.provisioning_errors[request.key] = message


def on_provisioning_refused(state: BindingState, _event: ProvisioningRefused) -> None:
    """Drop what was reported."""
    state.provisioning_errors.clear()
