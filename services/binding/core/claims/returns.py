"""Devices of claims: what a reserved pod's claims get, and how shards learn what became of it.

The writes themselves are in core/volumes.py: claims are written with the volumes. Here is what
follows when the bind ends:

- ended before any write: the devices are free at once;
- bound once the claims were written: the claims show the devices at the revisions of the answer;
- else a write may have landed, or may still land. The claim is given back, which refuses every
  older write, and repeated until the answer is definite. It is asked for at one resourceVersion of
  the claim: so one that comes late does not undo what was written since. If the pod is on its node
  without an answer to its write, it keeps what it has, and only later writes are refused.

Each outcome goes to the shard with the claim's resourceVersion (ClaimsReturned). The first fact of
that resourceVersion or a later one shows whether the devices are free.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from services.binding.core.config import Config
from services.binding.core.state import BindingState, ClaimReturn, ClaimWrite
from services.binding.core.transitions import Phase
from shared.events.base import Event
from shared.events.binding import ClaimReturnsAsked, ClaimsReturned, VolumesTaken
from shared.events.observed import ClaimReturnAnswers
from shared.events.placement import Reserved, VolumesChosen
from shared.model.api_outcome import Answer
from shared.model.claims import ClaimChoice
from shared.model.columns import join, pack, unpack
from shared.model.ids import NO_EFFECT, EffectId, PodId

EFFECT_RETURNS = 256
PRE_BIND = 'running PreBind plugin "DynamicResources": '


def note_claims(state: BindingState, event: Reserved | VolumesChosen) -> None:
    """Keep what is to be written for the claims of a reserved pod."""
    pod = PodId(int.from_bytes(event.ids, "little"))
    write = ClaimWrite(event.shard, event.attempt, event.claims)
    if state.table.row(pod) >= 0:
        state.claims[pod] = write
        if any(one.pod == pod for one in state.claim_returns.values()):
            state.claim_conflicts[pod] = PRE_BIND + "its claims are being given back"
    else:
        _settle(state, pod, write)


def are_written(state: BindingState, pod: PodId) -> bool:
    """Return whether nothing is left to be written for the pod's claims."""
    write = state.claims.get(pod)
    return write is None or bool(write.revisions)


def end_claims(state: BindingState, row: int, pod: PodId, end: Phase) -> None:
    """Settle the claims of a pod whose bind has ended; called while the pod has its name."""
    write = state.claims.pop(pod, None)
    state.claim_conflicts.pop(pod, None)
    if write is None:
        return
    if not write.is_sent or (end is Phase.BOUND and write.revisions):
        _settle(state, pod, write, write.revisions)
        return
    choices = _at(write.choices, write.revisions)
    if end in (Phase.BOUND, Phase.FOREIGN):  # others bound the pod, which uses what has devices
        choices = tuple(one for one in choices if one.allocation is not None)
        if not choices:
            return
    names = "", "", ""
    if end is not Phase.BOUND:
        table = state.table
        chunk, place = table.names[table.chunks.item(row)], table.places.item(row)
        names = chunk.uid_list()[place], chunk.namespace, chunk.name_list()[place]
    state.last_return += 1
    state.claim_returns[state.last_return] = ClaimReturn(
        pod, *names, write.shard, write.attempt, choices, due_ms=state.now_ms
    )


def _at(choices: Sequence[ClaimChoice], revisions: bytes) -> tuple[ClaimChoice, ...]:
    """Return the choices with these resourceVersions of their claims, if there are any."""
    if not revisions:
        return tuple(choices)
    pairs = zip(choices, unpack(revisions).tolist(), strict=True)
    return tuple(replace(choice, revision=revision) for choice, revision in pairs)


def _settle(
    state: BindingState, pod: PodId, ended: ClaimWrite | ClaimReturn, revisions: bytes = b""
) -> None:
    """Report what became of the devices that a shard chose; without revisions no write was sent."""
    shown = unpack(revisions).tolist() or [0] * len(ended.choices)
    pairs = zip(ended.choices, shown, strict=True)
    found = {choice.uid: at for choice, at in pairs if choice.allocation is not None}
    if found:
        report = ended.shard, pod, ended.attempt, join(found), pack(list(found.values()))
        state.claims_over.append(report)


def decide_conflicts(state: BindingState) -> Iterator[Event]:
    """Yield pods that were reserved again before their claims were given back."""
    for pod, why in sorted(state.claim_conflicts.items()):
        yield VolumesTaken(pod, state.table.node_at(state.table.row(pod)), why)


def decide_returns(state: BindingState) -> Iterator[Event]:
    """Yield the outcomes that shards wait for, and the next claims to give back once those before
    are answered.
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
    """End the effect; claims that are not given back for certain are given back later. A late
    answer is ignored.
    """
    effect = state.effects.get(event.effect)
    if not isinstance(effect, ClaimReturnsAsked):
        return
    del state.effects[event.effect]
    state.return_effect = NO_EFFECT
    numbers = unpack(effect.numbers).tolist()
    shown = event.revisions or [b""] * len(numbers)
    for number, code, revisions in zip(numbers, event.codes, shown, strict=True):
        one = state.claim_returns[number]
        if Answer(code) is Answer.DONE:
            del state.claim_returns[number]
            _settle(state, one.pod, one, revisions)
        elif Answer(code) is Answer.STALE:
            one.choices, one.due_ms = _at(one.choices, revisions), state.now_ms
        else:
            one.due_ms = state.now_ms + _wait_ms(state.config, one.tries)
            one.tries = min(one.tries + 1, 20)


def _wait_ms(config: Config, tries: int) -> int:
    return min(config.repeat_max_ms, config.repeat_initial_ms << tries)
