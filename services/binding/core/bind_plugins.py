"""Users' plugins at a bind, run as effects: Permit and PreBind before it, PostBind after it.

An answer is definite: done, or why not. Plugins run again if no answer was recorded, so they must
be idempotent. The core only knows which plugins want which pods.
"""

from collections.abc import Iterator

from services.binding.core.bind_rows import leave_effect, move
from services.binding.core.binds import continue_permitted, open_effect
from services.binding.core.conditions.status_patches import set_message
from services.binding.core.state import BindingState
from services.binding.core.transitions import Phase
from shared.events.base import Event
from shared.events.binding import PermitsAsked, PostBindsAsked, PreBindFailed, PreBindsAsked
from shared.events.observed import PostBindAnswers, PreBindAnswers
from shared.model.columns import pack, unpack
from shared.model.ids import EffectId
from shared.model.objects import PodSpec

EFFECT_PODS = 1_024


def keep_specs(state: BindingState, ids: bytes, spec: PodSpec) -> None:
    """Keep the pods' spec until their binds end."""
    for pod in unpack(ids).tolist():
        if state.table.row(pod) >= 0:
            state.plugin_specs[pod] = spec


def on_plugins_asked(state: BindingState, event: PermitsAsked | PreBindsAsked) -> None:
    """Note that the plugins run for these pods."""
    open_effect(state, event.effect, event)
    word = "permit_asked" if isinstance(event, PermitsAsked) else "pre_bind_asked"
    for pod in unpack(event.ids).tolist():
        row = state.table.row(pod)
        move(state, row, word)
        state.table.effects[row] = event.effect


def on_pre_bind_answers(state: BindingState, event: PreBindAnswers) -> None:
    """Apply the answers to one effect; late and repeated ones are ignored."""
    table, ids = state.table, unpack(event.ids).tolist()
    plugins = event.plugins or ("",) * len(ids)
    errors = event.errors or (False,) * len(ids)
    for pod, text, plugin, error in zip(ids, event.texts, plugins, errors, strict=True):
        row = table.find(pod)
        if row < 0 or table.effects.item(row) != event.effect:
            continue
        phase = table.phases.item(row)
        if phase not in (Phase.PERMITTING, Phase.PRE_BINDING) or pod in state.pre_bind_rejections:
            continue
        if text:
            state.pre_bind_rejections[pod] = text
            if plugin or error:
                state.pre_bind_rejectors[pod] = plugin, error
        elif phase == Phase.PERMITTING:
            continue_permitted(state, row)
        else:
            move(state, row, "pre_bound")
            state.queued.append(pod)


def decide_pre_bind_failed(state: BindingState) -> Iterator[Event]:
    """Yield the pods that a plugin keeps from being bound."""
    for pod, text in sorted(state.pre_bind_rejections.items()):
        node = state.table.node_at(state.table.row(pod))
        yield PreBindFailed(pod, node, text, *state.pre_bind_rejectors.get(pod, ()))


def decide_post_binds(state: BindingState) -> Iterator[Event]:
    """Yield the bound pods for PostBind plugins."""
    while state.post_new:
        yield PostBindsAsked(
            EffectId(state.next_effect), pack(sorted(state.post_new)[:EFFECT_PODS])
        )


def on_pre_bind_failed(state: BindingState, event: PreBindFailed) -> None:
    """Give the pod up at once, as nothing was sent; its message says why."""
    move(state, state.table.row(event.pod), "pre_bind_failed")
    if event.plugin:
        state.permit_rejectors[event.pod] = event.plugin
    if state.config.status_patches:
        set_message(state, event.pod, event.reason, is_error=event.error)


def on_post_binds_asked(state: BindingState, event: PostBindsAsked) -> None:
    """Note that PostBind plugins run for these pods."""
    open_effect(state, event.effect, event)
    for pod in unpack(event.ids).tolist():
        state.post_binds[pod].effect = event.effect
        del state.post_new[pod]


def on_post_bind_answers(state: BindingState, event: PostBindAnswers) -> None:
    """Drop the pods whose PostBind plugins have answered."""
    for pod in unpack(event.ids).tolist():
        found = state.post_binds.get(pod)
        if found is not None and found.effect == event.effect:
            del state.post_binds[pod]
            leave_effect(state, event.effect, 1)
