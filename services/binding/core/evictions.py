"""Evictions: all victims of an ask but the last in parallel, then the last one, unless recalled."""

from collections.abc import Iterator

from services.binding.core.bind_rows import backoff_ms, leave_effect
from services.binding.core.pod_table import NAMED
from services.binding.core.state import BindingState, Eviction
from services.binding.core.transitions import Evicting, evicting
from shared.events.base import Event
from shared.events.binding import Evicted, EvictionFailed, EvictionsAsked
from shared.events.observed import EvictAnswers
from shared.events.preemption import EvictAsked, EvictRecalled
from shared.model.api_outcome import Answer
from shared.model.columns import as_numbers, pack
from shared.model.ids import AskId, EffectId, PodId

EVICTED = ""
OUT_OR_HELD = (Evicting.PENDING, Evicting.ASKED, Evicting.REPEAT)


def on_evict_asked(state: BindingState, event: EvictAsked) -> None:
    """Add an ask; victims that are already deleted need no request."""
    victims = list(as_numbers(event.victims))
    assert event.ask not in state.evictions, f"evictions of ask {event.ask} are open"
    phases, beyond = dict.fromkeys(victims, Evicting.PENDING), list(as_numbers(event.beyond))
    why = event.pod, beyond, event.gang, event.claimed_for
    eviction = Eviction(victims, phases, {}, {}, 0, *why)
    state.evictions[event.ask] = eviction
    for victim in victims:
        state.victims[victim] = event.ask
    for victim in victims:
        if state.table.row(victim) < 0:
            _move(state, event.ask, victim, "pod_gone")


def on_evict_recalled(state: BindingState, event: EvictRecalled) -> None:
    """Recall the evictions not sent yet."""
    eviction = state.evictions.get(event.ask)
    if eviction is not None:
        _recall(state, event.ask, eviction)


def _recall(state: BindingState, ask: AskId, eviction: Eviction) -> None:
    for victim in eviction.victims:
        if eviction.phases[victim] is Evicting.PENDING:
            _move(state, ask, victim, "recalled")


def note_victims_gone(state: BindingState, pods: list[PodId]) -> None:
    """Note deleted pods, some of which may be victims."""
    for pod in pods:
        ask = state.victims.get(pod)
        if ask is not None:
            _move(state, ask, pod, "pod_gone")


def decide_evictions(state: BindingState) -> Iterator[Event]:
    """Yield one effect for each ask with evictions to send."""
    for ask in sorted(state.evictions):
        ready = _ready(state, state.evictions[ask])
        if ready:
            yield EvictionsAsked(EffectId(state.next_effect), ask, pack(ready))


def _ready(state: BindingState, eviction: Eviction) -> list[PodId]:
    phases, table = eviction.phases, state.table
    last = eviction.victims[-1]
    others_end = all(
        phases[victim] not in OUT_OR_HELD for victim in eviction.victims if victim != last
    )
    ready = []
    for victim in eviction.victims:
        phase = phases[victim]
        if phase is Evicting.REPEAT and eviction.due[victim] <= state.now_ms:
            ready.append(victim)
        elif phase is Evicting.PENDING and (victim != last or others_end):
            row = table.row(victim)
            if row >= 0 and table.flags.item(row) & NAMED:
                ready.append(victim)
    return ready


def evictions_due_ms(state: BindingState) -> int | None:
    """Return when the next eviction can be sent, ms."""
    due_ms: int | None = None
    for eviction in state.evictions.values():
        if _ready(state, eviction):
            return state.now_ms
        for at_ms in eviction.due.values():
            due_ms = at_ms if due_ms is None else min(due_ms, at_ms)
    return due_ms


def on_evictions_asked(state: BindingState, event: EvictionsAsked) -> None:
    """Note that the deletes of one effect are sent."""
    assert event.effect >= state.next_effect, f"effect {event.effect} was used before"
    state.next_effect = event.effect + 1
    state.effects[event.effect] = event
    eviction = state.evictions[event.ask]
    victims = as_numbers(event.ids)
    state.pods_left[event.effect] = len(victims)
    for victim in victims:
        _move(state, event.ask, victim, "evict_asked")
        eviction.effects[victim] = event.effect


def on_evict_answers(state: BindingState, event: EvictAnswers) -> None:
    """Apply the answers to one effect; late ones are ignored."""
    effect = state.effects.get(event.effect)
    if not isinstance(effect, EvictionsAsked):
        return
    for pod, code in zip(as_numbers(event.ids), event.codes, strict=True):
        eviction = state.evictions.get(effect.ask)
        if eviction is None or eviction.effects.get(pod) != event.effect:
            continue
        answer = Answer(code)
        definite = answer in (Answer.DONE, Answer.GONE, Answer.REFUSED, Answer.BUSY)
        _move(state, effect.ask, pod, answer.name.lower() if definite else "unknown")


def _move(state: BindingState, ask: AskId, victim: PodId, event: str) -> None:
    eviction = state.evictions[ask]
    before = eviction.phases[victim]
    after = evicting(before, event, victim, ask)
    eviction.phases[victim] = after
    eviction.due.pop(victim, None)
    if before is Evicting.ASKED:
        leave_effect(state, eviction.effects.pop(victim), 1)
    if after is Evicting.REPEAT:
        eviction.due[victim] = state.now_ms + backoff_ms(state.config, eviction.tries)
        eviction.tries = min(eviction.tries + 1, 30)
    elif after is Evicting.EVICTED or after is Evicting.FAILED:
        reason = "" if after is Evicting.EVICTED else event
        state.evict_reports.setdefault((ask, reason), []).append(victim)
        if state.victims.get(victim) == ask:
            del state.victims[victim]
        if event == "refused":
            _recall(state, ask, eviction)
        if state.evictions.get(ask) is eviction and not any(
            phase in OUT_OR_HELD for phase in eviction.phases.values()
        ):
            del state.evictions[ask]


def decide_evict_reports(state: BindingState) -> Iterator[Event]:
    """Yield the outcomes of victims, by ask and reason."""
    for ask, reason in sorted(state.evict_reports):
        ids = pack(state.evict_reports[ask, reason])
        yield EvictionFailed(ask, ids, reason) if reason else Evicted(ask, ids)


def on_evicted(state: BindingState, event: Evicted) -> None:
    """Drop the reported victims."""
    del state.evict_reports[event.ask, EVICTED]


def on_eviction_failed(state: BindingState, event: EvictionFailed) -> None:
    """Drop the reported victims."""
    del state.evict_reports[event.ask, event.reason]
