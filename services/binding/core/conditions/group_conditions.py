"""Conditions of PodGroups: lossy, one effect at a time, the latest message wins."""

from collections.abc import Iterator

from services.binding.core.state import BindingState
from shared.events.base import Event
from shared.events.binding import GroupsAsked
from shared.events.observed import GroupAnswers
from shared.events.queueing import GangShown
from shared.model.ids import NO_EFFECT, EffectId

EFFECT_GROUPS = 64


def on_gang_shown(state: BindingState, event: GangShown) -> None:
    """Remember what the group's condition is to say, if conditions are written."""
    if state.config.status_patches:
        state.group_conditions[event.key] = event.message
        if event.is_error:
            state.group_errors[event.key] = None
        else:
            state.group_errors.pop(event.key, None)


def decide_groups(state: BindingState) -> Iterator[Event]:
    """Yield the next conditions once the earlier ones are written or given up."""
    if state.group_conditions and not state.group_effect:
        keys = tuple(sorted(state.group_conditions)[:EFFECT_GROUPS])
        messages = tuple(state.group_conditions[key] for key in keys)
        errors = tuple(key for key in keys if key in state.group_errors)
        yield GroupsAsked(EffectId(state.next_effect), keys, messages, errors)


def on_groups_asked(state: BindingState, event: GroupsAsked) -> None:
    """Note that these conditions are being written."""
    state.next_effect = event.effect + 1
    state.effects[event.effect] = event
    state.group_effect = event.effect
    for key in event.keys:
        del state.group_conditions[key]
        state.group_errors.pop(key, None)


def on_group_answers(state: BindingState, event: GroupAnswers) -> None:
    """End the effect; a late answer is ignored."""
    if state.group_effect == event.effect:
        del state.effects[event.effect]
        state.group_effect = NO_EFFECT
