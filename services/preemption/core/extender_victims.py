"""Extenders have a say in who goes (preemptVerb): they are asked about all candidates before one is
chosen, as kube-scheduler's callExtenders does. Binding asks, which knows the pods' names.
"""

from msgspec.structs import replace

from services.preemption.core.state import Ask, PreemptionState
from services.preemption.core.transitions import Phase
from shared.events.binding import VictimsJudged
from shared.events.placement import AS_BY_DEFAULT, PREEMPTION, Candidate, CandidatesFound, LowerPods
from shared.events.preemption import VictimsAsked
from shared.model.columns import few, pack
from shared.model.victims import NodeVictims, keys_of

NOBODY_LEFT = "no candidate node for preemption"


def asked(ask: Ask, rank: int) -> VictimsAsked:
    """The candidates of those shards that found them at this place among the plugins."""
    found: list[NodeVictims] = []
    for answer in ask.answers():
        if answer.rank == rank:
            pairs = zip(answer.candidates, answer.lower, strict=True)
            found += [_told(candidate, lower) for candidate, lower in pairs]
    return VictimsAsked(ask.ask, ask.pod, tuple(found))


def _told(candidate: Candidate, lower: LowerPods) -> NodeVictims:
    victims = few(candidate.victims)
    others = [pod for pod in few(lower.ids) if pod not in victims]
    return NodeVictims(candidate.node, candidate.victims, candidate.violations, pack(others))


def judged(state: PreemptionState, event: VictimsJudged) -> None:
    """What is left is chosen from as if the shards had found it; words stand where nothing is."""
    ask = state.asks.get(event.ask)
    if ask is None or ask.phase is not Phase.JUDGING:
        return
    left = {one.node: one for one in event.candidates}
    ask.found = {shard: _left_of(found, left) for shard, found in sorted(ask.found.items())}
    if not any(found.candidates for found in ask.found.values()):
        ask.found = {
            shard: replace(found, said=_said(found, event.error))
            for shard, found in ask.found.items()
        }
    ask.follow("victims_judged")
    state.note(ask)


def _said(found: CandidatesFound, error: str) -> tuple[str, ...]:
    """The words of all plugins at postFilter; an error is told alone."""
    if error:
        return (f"preemption: {error}",)
    own = f"preemption: {NOBODY_LEFT}"
    return tuple(own if text == PREEMPTION else text for text in found.said or AS_BY_DEFAULT)


def _left_of(found: CandidatesFound, left: dict[int, NodeVictims]) -> CandidatesFound:
    if not found.lower:
        return found
    pairs = zip(found.candidates, found.lower, strict=True)
    candidates = [
        _changed(candidate, left[candidate.node], lower)
        for candidate, lower in pairs
        if candidate.node in left
    ]
    return replace(found, candidates=tuple(candidates), lower=())


def _changed(candidate: Candidate, said: NodeVictims, lower: LowerPods) -> Candidate:
    """With the keys of those who go now."""
    rows = zip(few(lower.ids), few(lower.priorities), few(lower.starts_ms), strict=True)
    known = {pod: (priority, start_ms) for pod, priority, start_ms in rows}
    chosen = [known[pod] for pod in few(said.victims)]
    highest, priority_sum, earliest_start_ms = keys_of(
        [priority for priority, _ in chosen], [start_ms for _, start_ms in chosen]
    )
    return Candidate(
        node=candidate.node,
        victims=said.victims,
        violations=said.violations,
        highest=highest,
        priority_sum=priority_sum,
        earliest_start_ms=earliest_start_ms,
        generation=candidate.generation,
    )
