"""Extenders that choose victims for a preemptor, called by an effect of binding, which knows pods
by name. A call changes nothing, so a new owner repeats it.
"""

from collections.abc import Iterator

from services.binding.core.state import BindingState
from shared.events.binding import ExtendersPreemptAsked, VictimsJudged
from shared.events.observed import ExtendersPreempted
from shared.events.preemption import VictimsAsked
from shared.model.ids import EffectId


def on_victims_asked(state: BindingState, event: VictimsAsked) -> None:
    """Queue preemption's question."""
    state.victims_to_ask[event.ask] = event


def decide_extenders_preempt(state: BindingState) -> Iterator[ExtendersPreemptAsked]:
    """Yield one effect for each ask."""
    for number, event in sorted(state.victims_to_ask.items()):
        yield ExtendersPreemptAsked(
            EffectId(state.next_effect), number, event.pod, event.candidates
        )


def on_extenders_preempt_asked(state: BindingState, event: ExtendersPreemptAsked) -> None:
    """Open the effect until it is answered."""
    state.next_effect = event.effect + 1
    state.effects[event.effect] = event
    state.pods_left[event.effect] = 1
    del state.victims_to_ask[event.ask]


def on_extenders_preempted(state: BindingState, event: ExtendersPreempted) -> None:
    """Keep the first answer."""
    if state.effects.pop(event.effect, None) is None:
        return
    del state.pods_left[event.effect]
    state.victim_answers[event.ask] = event


def decide_victims_judged(state: BindingState) -> Iterator[VictimsJudged]:
    """Yield the extenders' answers."""
    for number, event in sorted(state.victim_answers.items()):
        yield VictimsJudged(number, event.pod, event.candidates, event.error)


def on_victims_judged(state: BindingState, event: VictimsJudged) -> None:
    """Drop the answer that was sent to preemption."""
    del state.victim_answers[event.ask]
