"""Members of gangs that HTTP extenders judge: all are asked about before their shard offers room.

As in kube-scheduler, where members wait at permit unbound, extenders hear of one member at a time
and of no place that another was given. What they say counts for the whole attempt: the hold is
tried with the same answers.
"""

from collections import Counter

from services.placement.core.books.charges import compiled
from services.placement.core.books.identity import expanded
from services.placement.core.extenders import questions, retries
from services.placement.core.placing.cycle import NOTHING, Chosen
from services.placement.core.preemption.nominations import held_against
from services.placement.core.state import PlacementState
from shared.events.permit import OfferAsked
from shared.events.placement import ExtendersAsked
from shared.events.queueing import Members
from shared.model.columns import pack, unpack
from shared.scheduling.cycle.inter_pod_rules import as_columns
from shared.scheduling.table.layout import Held
from shared.scheduling.table.table import NodeTable

Attempt = tuple[int, int]
"""(gang, attempt)"""
Reasons = tuple[tuple[str, int], ...]
NOT_LEFT = "node(s) that extenders do not leave"


def must_wait(state: PlacementState) -> bool:
    """Whether the first ask needs extenders, who are asked about another pod."""
    event = state.todo.asks[0].event
    return (
        state.todo.is_asking()
        and isinstance(event, OfferAsked)
        and any(questions.concerned(state, one.sig) for one in _parts(state, event))
    )


def question(state: PlacementState, event: OfferAsked) -> ExtendersAsked | None:
    """The next member about whom extenders are to be asked; who fits nowhere is not worth it."""
    if not state.config.extenders:
        return None
    said = state.judged.get((event.gang, event.attempt), {})
    for part in _parts(state, event):
        sig = part.sig
        if sig in said or not questions.concerned(state, sig):
            continue
        held = held_against(state, state.specs[sig].priority) if state.nominations else None
        rows = state.kernel.fitting(state.table, compiled(state, sig), held)
        if len(rows):
            pod, ask = int(unpack(part.ids)[0]), state.extender_asks + 1
            nodes = pack(state.table.ids[rows])
            return ExtendersAsked(ask, event.attempt, sig, pod, nodes, gang=event.gang)
    return None


def _parts(state: PlacementState, event: OfferAsked) -> list[Members]:
    return [one for one in expanded(state, event.members) if one.sig in state.specs]


def place_one(
    state: PlacementState, table: NodeTable, key: Attempt, sig: int, held: Held | None
) -> Chosen:
    """A place for one member among the nodes that extenders left it."""
    answer = state.judged.get(key, {}).get(sig)
    if answer is None or answer.error:
        return NOTHING
    rows, more = questions.still_there(table, answer)
    wanted = compiled(state, sig)
    found = state.kernel.place_among(table, wanted, held, rows, more)
    if found is None:
        return NOTHING
    return Chosen(*as_columns(wanted, [found[0]]), found[0].feasible, found[0].runner_up)


def reasons(state: PlacementState, key: Attempt, sig: int, of_plugins: Reasons) -> Reasons:
    """Why there is no place: the words of plugins and of extenders."""
    answer = state.judged.get(key, {}).get(sig)
    if answer is not None and answer.error:
        return ((answer.error, 0),)
    found = Counter(dict(of_plugins))
    for text, count in answer.failed if answer is not None else ():
        found[text] += count
    return tuple(sorted(found.items())) or ((NOT_LEFT, len(state.nodes)),)


def refused(state: PlacementState, key: Attempt, sig: int) -> None:
    """Its members are tried anew although no node may announce it."""
    answer = state.judged.get(key, {}).get(sig)
    if answer is not None:
        retries.remember(state, sig, answer)


def over(state: PlacementState, key: Attempt) -> None:
    """The attempt came to its end."""
    state.judged.pop(key, None)
    open_ = state.todo.judging
    if open_ is not None and (open_.gang, open_.attempt) == key:
        state.todo.judging = None
