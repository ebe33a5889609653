"""Devices of claims: what a reserved pod's claims get, and how it is given back.

The writes themselves are in core/volumes.py: claims are written with the volumes. Here is what
follows when the bind ends:

- bound to the node after a write was sent: the claim's fact shows the shard the outcome;
- ended before any write: the shard may have the devices at once (ClaimsReturned);
- else a write may have landed, or may still land. The claim is given back under a precondition that
  also refuses every older write, and repeated until the answer is definite. Only then the shard may
  give the devices to another claim.
"""

from collections.abc import Iterator, Sequence

from services.binding.core.config import Config
from services.binding.core.state import BindingState, ClaimReturn, ClaimWrite
from services.binding.core.transitions import Phase
from shared.events.base import Event
from shared.events.binding import ClaimReturnsAsked, ClaimsReturned, VolumesTaken
from shared.events.observed import ClaimReturnAnswers
from shared.events.placement import Reserved
from shared.model.api_outcome import Answer
from shared.model.claims import ClaimChoice
from shared.model.columns import join, pack, unpack
from shared.model.ids import NO_EFFECT, AttemptId, EffectId, PodId

EFFECT_RETURNS = 256
PRE_BIND = 'running PreBind plugin "DynamicResources": '
INDEFINITE = (Answer.UNKNOWN, Answer.BUSY, Answer.REFUSED)


def note_claims(state: BindingState, event: Reserved) -> None:
    """Keep what is to be written for the claims of a reserved pod."""
    pod = PodId(int.from_bytes(event.ids, "little"))
    write = ClaimWrite(event.shard, event.attempt, event.claims)
    if state.table.row(pod) >= 0:
        state.claims[pod] = write
        if any(one.pod == pod for one in state.claim_returns.values()):
            state.claim_conflicts[pod] = PRE_BIND + "its claims are being given back"
    else:
        _free(state, pod, write.shard, write.attempt, write.choices)


def are_written(state: BindingState, pod: PodId) -> bool:
    """Return whether nothing is left to be written for the pod's claims."""
    write = state.claims.get(pod)
    return write is None or write.is_written


def end_claims(state: BindingState, row: int, pod: PodId, end: Phase) -> None:
    """Settle the claims of a pod whose bind has ended; called while the pod has its name."""
    write = state.claims.pop(pod, None)
    state.claim_conflicts.pop(pod, None)
    if write is None or (end is Phase.BOUND and write.is_sent):
        return
    if not write.is_sent:
        _free(state, pod, write.shard, write.attempt, write.choices)
        return
    choices = write.choices
    if end is Phase.FOREIGN:  # others bound the pod, which uses what has devices
        choices = tuple(one for one in choices if one.allocation is not None)
        if not choices:
            return
    table = state.table
    chunk, place = table.names[table.chunks.item(row)], table.places.item(row)
    names = chunk.uid_list()[place], chunk.namespace, chunk.name_list()[place]
    state.last_return += 1
    state.claim_returns[state.last_return] = ClaimReturn(
        pod, *names, write.shard, write.attempt, choices, due_ms=state.now_ms
    )


def _free(
    state: BindingState,
    pod: PodId,
    shard: int,
    attempt: AttemptId,
    choices: Sequence[ClaimChoice],
) -> None:
    given = [one.uid for one in choices if one.allocation is not None]
    if given:
        state.claims_over.append((shard, pod, attempt, join(given)))


def decide_conflicts(state: BindingState) -> Iterator[Event]:
    """Yield pods that were reserved again before their claims were given back."""
    for pod, why in sorted(state.claim_conflicts.items()):
        yield VolumesTaken(pod, state.table.node_at(state.table.row(pod)), why)


def decide_returns(state: BindingState) -> Iterator[Event]:
    """Yield what shards may have again, and the next claims to give back once those before are
    answered.
    """
    for over in list(state.claims_over):
        yield ClaimsReturned(*over)
    due = [one for one, what in state.claim_returns.items() if what.due_ms <= state.now_ms]
    if due and not state.return_effect:
        yield ClaimReturnsAsked(EffectId(state.next_effect), pack(due[:EFFECT_RETURNS]))


def due_ms(state: BindingState) -> int | None:
    """Return when there is something to decide, ms."""
    if state.claims_over:
        return state.now_ms
    if state.return_effect:
        return None
    return min((one.due_ms for one in state.claim_returns.values()), default=None)


def on_claims_returned(state: BindingState, _event: ClaimsReturned) -> None:
    """Drop what was reported."""
    state.claims_over.popleft()


def on_claim_returns_asked(state: BindingState, event: ClaimReturnsAsked) -> None:
    """Note that these claims are being given back."""
    state.next_effect = event.effect + 1
    state.effects[event.effect] = event
    state.return_effect = event.effect


def on_claim_return_answers(state: BindingState, event: ClaimReturnAnswers) -> None:
    """End the effect; claims without a definite answer are given back later. A late answer is
    ignored.
    """
    effect = state.effects.get(event.effect)
    if not isinstance(effect, ClaimReturnsAsked):
        return
    del state.effects[event.effect]
    state.return_effect = NO_EFFECT
    for number, code in zip(unpack(effect.numbers).tolist(), event.codes, strict=True):
        one = state.claim_returns[number]
        if Answer(code) in INDEFINITE:
            one.due_ms = state.now_ms + _wait_ms(state.config, one.tries)
            one.tries = min(one.tries + 1, 20)
        else:
            del state.claim_returns[number]
            _free(state, one.pod, one.shard, one.attempt, one.choices)


def _wait_ms(config: Config, tries: int) -> int:
    return min(config.repeat_max_ms, config.repeat_initial_ms << tries)
