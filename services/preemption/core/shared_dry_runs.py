"""Equal preemptors share one dry run in each shard.

A shard answers with the candidates that they would get one after the other on its nodes. Nodes of
two shards share only budgets, preemption units and the guarantees of queues. So, as long as these
are untouched, the best of the shards' next candidates is what the next preemptor would have got by
itself. A preemptor that cannot be served so waits for the next dry run; the first always is served.
"""

from collections import deque
from collections.abc import Sequence

from services.preemption.core import queue_use
from services.preemption.core.candidate_choice import Choice, choice, order
from services.preemption.core.state import Ask, PreemptionState, Run
from services.preemption.core.transitions import Phase
from shared.events.placement import Candidate, CandidatesFound
from shared.model.columns import as_numbers
from shared.model.preemption.queue_limits import QueueLimits


def on_shared_candidates(state: PreemptionState, event: CandidatesFound, placements: int) -> None:
    """Add a shard's answer; the candidates are shared out when every shard has answered."""
    run = state.runs[event.ask]
    run.found[event.shard] = event
    if len(run.found) == placements:
        del state.runs[event.ask]
        _share_out(state, run)


def _share_out(state: PreemptionState, run: Run) -> None:
    """Give the remaining preemptors a candidate each, in order, as far as the answers allow."""
    known = (state.asks[number] for number in run.asks if number in state.asks)
    asks = deque(ask for ask in known if ask.phase is Phase.DRY_RUN and not ask.end)
    answers = [run.found[shard] for shard in sorted(run.found)]
    if any(answer.lower for answer in answers):
        _serve_first(state, run, asks)
    else:
        _serve(state, asks, answers)
    for ask in asks:
        ask.follow("put_off")
        ask.rounds -= 1
        ask.allowances, ask.spare = {}, {}
        state.note(ask)


def _serve_first(state: PreemptionState, run: Run, asks: deque[Ask]) -> None:
    """Serve only the first preemptor: the extenders' answer is not predictable."""
    if asks and asks[0].ask == run.asks[0]:
        first = asks.popleft()
        first.found = run.found
        first.follow("all_candidates_found")
        state.note(first)


def _serve(state: PreemptionState, asks: deque[Ask], answers: Sequence[CandidatesFound]) -> None:
    """Remove from `asks` the preemptors served with the shards' next candidates, or with none."""
    at = [0] * len(answers)
    limits = queue_use.limits(state, asks[0]) if asks else None
    while asks:
        candidates = _next_candidates(state, answers, at, limits)
        if candidates is None:
            return
        if not candidates:
            _answer(state, asks.popleft(), [(answer, ()) for answer in answers])
            continue
        best, index = min(candidates, key=lambda one: order(one[0]))
        at[index] += 1
        _answer(state, asks.popleft(), [(answers[index], (best.candidate,))])
        is_shared = limits is not None or _concerns_others(state, best.candidate)
        if len(answers) > 1 and is_shared:
            return  # the other shards did not expect that


def _next_candidates(
    state: PreemptionState,
    answers: Sequence[CandidatesFound],
    at: Sequence[int],
    limits: QueueLimits | None,
) -> list[tuple[Choice, int]] | None:
    """Return each shard's next candidate; None if a shard's search ended earlier."""
    found: list[tuple[Choice, int]] = []
    for index, (answer, position) in enumerate(zip(answers, at, strict=True)):
        if position < len(answer.series):
            one = answer.series[position]
            found.append((choice(answer, one, state, limits), index))
        elif answer.cut:
            return None
    return found


def _answer(
    state: PreemptionState,
    ask: Ask,
    answers: Sequence[tuple[CandidatesFound, tuple[Candidate, ...]]],
) -> None:
    """Answer the ask as if it had been alone."""
    for one, candidates in answers:
        ask.found[one.shard] = CandidatesFound(
            one.shard,
            ask.ask,
            ask.pod,
            candidates,
            one.reasons,
            one.nodes,
            rank=one.rank,
            said=one.said,
            protected_until_ms=0 if candidates else one.protected_until_ms,
        )
    ask.follow("all_candidates_found")
    state.note(ask)


def _concerns_others(state: PreemptionState, chosen: Candidate) -> bool:
    victims = as_numbers(chosen.victims)
    return any(state.budgets.coverage.of(pod) or state.units.of(pod) for pod in victims)
