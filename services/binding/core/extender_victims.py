"""Extenders that have a say in who goes for a preemptor: asked by an effect of binding, which knows
pods by name; asking changes nothing, so a new owner asks again.
"""

from collections.abc import Iterator

from services.binding.core.state import BindingState
from shared.events.binding import ExtendersPreemptAsked, VictimsJudged
from shared.events.observed import ExtendersPreempted
from shared.events.preemption import VictimsAsked


def victims_asked(state: BindingState, event: VictimsAsked) -> None:
    """Preemption wants to know."""
    state.judge_new[event.ask] = event


def ask(state: BindingState) -> Iterator[ExtendersPreemptAsked]:
    """One effect for each ask."""
    for number, event in sorted(state.judge_new.items()):
        yield ExtendersPreemptAsked(state.next_effect, number, event.pod, event.candidates)


def asked(state: BindingState, event: ExtendersPreemptAsked) -> None:
    """It is open until somebody answers."""
    state.next_effect = event.effect + 1
    state.effects[event.effect] = event
    state.left[event.effect] = 1
    del state.judge_new[event.ask]


def answered(state: BindingState, event: ExtendersPreempted) -> None:
    """Answers that come twice concern nobody."""
    if state.effects.pop(event.effect, None) is None:
        return
    del state.left[event.effect]
    state.judged[event.ask] = event


def tell(state: BindingState) -> Iterator[VictimsJudged]:
    """What extenders said."""
    for number, event in sorted(state.judged.items()):
        yield VictimsJudged(number, event.pod, event.candidates, event.error)


def told(state: BindingState, event: VictimsJudged) -> None:
    """Preemption knows."""
    del state.judged[event.ask]
