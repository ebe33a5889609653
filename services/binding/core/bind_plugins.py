"""Plugins of users at a bind: before it (permit, preBind) and after it (postBind), run as effects.

An answer is definite: done, or why not. They run again if nobody recorded an answer, so a plugin
has to bear that. Nothing is known here of the plugins but whose pods they want.
"""

from collections.abc import Iterator

from services.binding.core.bind_rows import leave_effect, move
from services.binding.core.binds import open_effect, permitted
from services.binding.core.state import BindingState
from services.binding.core.status_patches import waits_for
from services.binding.core.transitions import Phase
from shared.events.base import Event
from shared.events.binding import PermitsAsked, PostBindsAsked, PreBindFailed, PreBindsAsked
from shared.events.observed import PostBindAnswers, PreBindAnswers
from shared.model.columns import pack, unpack
from shared.model.objects import PodSpec

EFFECT_PODS = 1_024


def reserved(state: BindingState, ids: bytes, spec: PodSpec) -> None:
    """The pods' spec is kept until their binds end."""
    for pod in unpack(ids).tolist():
        if state.table.row(pod) >= 0:
            state.hooked[pod] = spec


def asked(state: BindingState, event: PermitsAsked | PreBindsAsked) -> None:
    """The plugins run for these pods."""
    open_effect(state, event.effect, event)
    word = "permit_asked" if isinstance(event, PermitsAsked) else "pre_bind_asked"
    for pod in unpack(event.ids).tolist():
        row = state.table.row(pod)
        move(state, row, word)
        state.table.effects[row] = event.effect


def pre_bind_answers(state: BindingState, event: PreBindAnswers) -> None:
    """Answers to one effect; those that come late or twice concern nobody."""
    table, ids = state.table, unpack(event.ids).tolist()
    plugins = event.plugins or ("",) * len(ids)
    errors = event.errors or (False,) * len(ids)
    for pod, text, plugin, error in zip(ids, event.texts, plugins, errors, strict=True):
        row = table.find(pod)
        if row < 0 or table.effects.item(row) != event.effect:
            continue
        phase = table.phases.item(row)
        if phase not in (Phase.PERMITTING, Phase.PRE_BINDING) or pod in state.pre_bind_no:
            continue
        if text:
            state.pre_bind_no[pod] = text
            if plugin or error:
                state.pre_bind_by[pod] = plugin, error
        elif phase == Phase.PERMITTING:
            permitted(state, row)
        else:
            move(state, row, "pre_bound")
            state.todo.append(pod)


def give_up(state: BindingState) -> Iterator[Event]:
    """Who is not bound, because a plugin says so."""
    for pod, text in sorted(state.pre_bind_no.items()):
        node = state.table.nodes.item(state.table.row(pod))
        yield PreBindFailed(pod, node, text, *state.pre_bind_by.get(pod, ()))


def ask_post_binds(state: BindingState) -> Iterator[Event]:
    """Who is bound now, for the plugins to be told of."""
    while state.post_new:
        yield PostBindsAsked(state.next_effect, pack(sorted(state.post_new)[:EFFECT_PODS]))


def pre_bind_failed(state: BindingState, event: PreBindFailed) -> None:
    """Nothing was sent: the pod is given up at once, and shows why."""
    move(state, state.table.row(event.pod), "pre_bind_failed")
    if event.plugin:
        state.refused_by[event.pod] = event.plugin
    if state.config.status_patches:
        waits_for(state, event.pod, event.reason, is_error=event.error)


def post_binds_asked(state: BindingState, event: PostBindsAsked) -> None:
    """The plugins are told of these pods."""
    open_effect(state, event.effect, event)
    for pod in unpack(event.ids).tolist():
        state.post_binds[pod].effect = event.effect
        del state.post_new[pod]


def post_bind_answers(state: BindingState, event: PostBindAnswers) -> None:
    """They know."""
    for pod in unpack(event.ids).tolist():
        found = state.post_binds.get(pod)
        if found is not None and found.effect == event.effect:
            del state.post_binds[pod]
            leave_effect(state, event.effect, 1)
