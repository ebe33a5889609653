"""Extenders that choose victims (preemptVerb): they are asked about all candidates before one is
chosen, as in kube-scheduler's callExtenders. Binding calls them, as it knows the pods' names.
"""

from msgspec.structs import replace

from services.preemption.core.state import Ask, PreemptionState
from services.preemption.core.transitions import Phase
from shared.events.binding import VictimsJudged
from shared.events.placement import AS_BY_DEFAULT, PREEMPTION, Candidate, CandidatesFound, LowerPods
from shared.events.preemption import VictimsAsked
from shared.model.columns import as_numbers, pack
from shared.model.ids import NodeId
from shared.model.preemption.victims import NodeVictims, keys_of

NO_CANDIDATE_LEFT = "no candidate node for preemption"


def decide_victims_asked(ask: Ask, rank: int) -> VictimsAsked:
    """Return the question with the candidates of the shards that found them at this plugin."""
    found: list[NodeVictims] = []
    for answer in ask.answers():
        if answer.rank == rank:
            pairs = zip(answer.candidates, answer.lower, strict=True)
            found += [_node_victims(candidate, lower) for candidate, lower in pairs]
    return VictimsAsked(ask.ask, ask.pod, tuple(found))


def _node_victims(candidate: Candidate, lower: LowerPods) -> NodeVictims:
    victims = as_numbers(candidate.victims)
    others = [pod for pod in as_numbers(lower.ids) if pod not in victims]
    return NodeVictims(candidate.node, candidate.victims, candidate.violations, pack(others))


def on_victims_judged(state: PreemptionState, event: VictimsJudged) -> None:
    """Replace the candidates by those that extenders left; keep the texts if none is left."""
    ask = state.asks.get(event.ask)
    if ask is None or ask.phase is not Phase.ASKING_EXTENDERS:
        return
    left = {one.node: one for one in event.candidates}
    ask.found = {shard: _keep_candidates(found, left) for shard, found in sorted(ask.found.items())}
    if not any(found.candidates for found in ask.found.values()):
        ask.found = {
            shard: replace(found, said=_post_filter_texts(found, event.error))
            for shard, found in ask.found.items()
        }
    ask.follow("victims_judged")
    state.note(ask)


def _post_filter_texts(found: CandidatesFound, error: str) -> tuple[str, ...]:
    """Return the texts of all plugins at PostFilter; an error stands alone."""
    if error:
        return (f"preemption: {error}",)
    default_text = f"preemption: {NO_CANDIDATE_LEFT}"
    return tuple(
        default_text if text == PREEMPTION else text for text in found.said or AS_BY_DEFAULT
    )


def _keep_candidates(found: CandidatesFound, left: dict[NodeId, NodeVictims]) -> CandidatesFound:
    if not found.lower:
        return found
    pairs = zip(found.candidates, found.lower, strict=True)
    candidates = [
        _with_victims(candidate, left[candidate.node], lower)
        for candidate, lower in pairs
        if candidate.node in left
    ]
    return replace(found, candidates=tuple(candidates), lower=())


def _with_victims(candidate: Candidate, answer: NodeVictims, lower: LowerPods) -> Candidate:
    """Return the candidate with the sort keys of its present victims."""
    rows = zip(
        as_numbers(lower.ids),
        as_numbers(lower.priorities),
        as_numbers(lower.starts_ms),
        strict=True,
    )
    known = {pod: (priority, start_ms) for pod, priority, start_ms in rows}
    chosen = [known[pod] for pod in as_numbers(answer.victims)]
    highest, priority_sum, earliest_start_ms = keys_of(
        [priority for priority, _ in chosen], [start_ms for _, start_ms in chosen]
    )
    return Candidate(
        node=candidate.node,
        victims=answer.victims,
        violations=answer.violations,
        highest=highest,
        priority_sum=priority_sum,
        earliest_start_ms=earliest_start_ms,
        generation=candidate.generation,
    )
