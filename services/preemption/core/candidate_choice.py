"""Chooses a candidate: kube-scheduler's pickOneNodeForPreemption over all shards' answers."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from services.preemption.core import queue_use
from services.preemption.core.state import PreemptionState
from shared.events.placement import AS_BY_DEFAULT, PREEMPTION, Candidate, CandidatesFound
from shared.model.columns import as_numbers, size
from shared.model.ids import PodId
from shared.model.preemption.queue_limits import QueueLimits
from shared.model.preemption.victims import PRIORITY_BASE


class Choice(NamedTuple):
    """A shard's candidate with its violations: those that the shard found, and more if others have
    used the budgets since. `mates`: how many pods on other nodes leave with the victims, and
    `mates_sum` the sum of their priorities. `borrowed`: how much the queues of its victims borrow,
    at least.
    """

    shard: int
    candidate: Candidate
    violations: int
    rank: int = 0
    mates: int = 0
    mates_sum: int = 0
    borrowed: int = 0


def order(choice: Choice) -> tuple[int, ...]:
    """Return the sort key of a candidate, lower is better: the plugin that runs first; then
    DefaultPreemption's criteria: fewest violations, lowest highest victim, smallest sum of
    priorities, fewest victims, latest start of the highest victims; then the first found. For a
    pod that claims the queues that borrow most come after the violations.
    """
    found = choice.candidate
    return (
        choice.rank,
        choice.violations,
        -choice.borrowed,
        found.highest,
        found.priority_sum + choice.mates_sum,
        size(found.victims) + choice.mates,
        -found.earliest_start_ms,
        choice.shard,
    )


def choices(
    answers: Iterable[CandidatesFound], state: PreemptionState, limits: QueueLimits | None = None
) -> list[Choice]:
    """Return the candidates that share no victim with other asks and take no queue below its
    guarantee, best first.
    """
    found = [
        choice(answer, candidate, state, limits)
        for answer in answers
        for candidate in answer.candidates
        if _is_open(state, limits, as_numbers(candidate.victims))
    ]
    return sorted(found, key=order)


def _is_open(state: PreemptionState, limits: QueueLimits | None, victims: Sequence[PodId]) -> bool:
    if state.is_taken(victims):
        return False
    return limits is None or queue_use.allows(state, limits, [*victims, *state.mates(victims)])


def choice(
    answer: CandidatesFound,
    candidate: Candidate,
    state: PreemptionState,
    limits: QueueLimits | None = None,
) -> Choice:
    """Return the candidate with its present violations."""
    victims = as_numbers(candidate.victims)
    mates = state.mates(victims)
    violations = state.budgets.violations([*victims, *mates])
    worst = max(candidate.violations, violations)
    mates_sum = sum(state.units.priority(pod) + PRIORITY_BASE for pod in mates)
    borrowed = queue_use.borrowed(state, limits, victims)
    return Choice(answer.shard, candidate, worst, answer.rank, len(mates), mates_sum, borrowed)


def found_message(node: str, victims: int) -> str:
    """Return DefaultPreemption's text about a chosen node."""
    return (
        f"preemption: found a potential placement for pod on node {node}, "
        f"preempting {victims} victims"
    )


def message(answers: Iterable[CandidatesFound]) -> str:
    """Return PostFilter's text in the pod's message if no shard has a candidate: the texts of all
    plugins, each once, with DefaultPreemption's own in its place.
    """
    answers = list(answers)
    texts = dict.fromkeys(text for answer in answers for text in answer.said or AS_BY_DEFAULT)
    default = default_message((answer.reasons, answer.nodes) for answer in answers)
    return ", ".join(default if text == PREEMPTION else text for text in texts)


def default_message(answers: Iterable[tuple[tuple[tuple[str, int], ...], int]]) -> str:
    """Return DefaultPreemption's text for (reasons, nodes) of all shards."""
    reasons: Counter[str] = Counter()
    nodes = 0
    for counts, there in answers:
        nodes += there
        for reason, count in counts:
            reasons[reason] += count
    words = sorted(f"{count} {reason}" for reason, count in reasons.items() if count)
    tail = f" {', '.join(words)}." if words else ""
    return f"preemption: 0/{nodes} nodes are available:{tail}"
