"""Extender calls about gang members: all members are asked about before their shard offers room.

As in kube-scheduler, where members wait at permit unbound, extenders hear of one member at a time
and not of the places given to others. Their answers count for the whole attempt: the hold uses the
same ones.
"""

from collections import Counter

from services.placement.core.books.charges import compiled
from services.placement.core.books.identity import expanded
from services.placement.core.extenders import questions, retries
from services.placement.core.gangs.trial_picks import NOTHING
from services.placement.core.preemption.nominations import nominated_pods_for
from services.placement.core.state import PlacementState
from shared.events.permit import OfferAsked
from shared.events.placement import ExtendersAsked
from shared.events.queueing import Members
from shared.model.columns import pack, unpack
from shared.model.ids import EffectId, GangAttempt, PodId, SignatureId
from shared.scheduling.cycle.kernel import as_picks
from shared.scheduling.table.layout import NominatedPods
from shared.scheduling.table.picks import Picks
from shared.scheduling.table.table import NodeTable

"""(gang, attempt)"""
Reasons = tuple[tuple[str, int], ...]
NOT_LEFT = "node(s) that extenders do not leave"


def must_wait(state: PlacementState) -> bool:
    """Return whether the first task needs an extender call while another call is open."""
    event = state.work_queue.tasks[0].event
    return (
        state.work_queue.has_open_call()
        and isinstance(event, OfferAsked)
        and any(questions.is_interested(state, one.sig) for one in _parts(state, event))
    )


def decide_question(state: PlacementState, event: OfferAsked) -> ExtendersAsked | None:
    """Return the next extender call about a member, or None. Members that fit nowhere
    need no call.
    """
    if not state.config.extenders:
        return None
    answers = state.member_answers.get((event.gang, event.attempt), {})
    for part in _parts(state, event):
        sig = part.sig
        if sig in answers or not questions.is_interested(state, sig):
            continue
        nominated_pods = None
        if state.nominations:
            spec = state.specs[sig]
            nominated_pods = nominated_pods_for(
                state, spec.priority, gang=event.gang, queue=spec.queue
            )
        rows = state.kernel.fitting(state.table, compiled(state, sig), nominated_pods)
        if len(rows):
            pod, effect = PodId(unpack(part.ids).item(0)), EffectId(state.extender_asks + 1)
            nodes = pack(state.table.ids[rows])
            return ExtendersAsked(effect, event.attempt, sig, pod, nodes, gang=event.gang)
    return None


def _parts(state: PlacementState, event: OfferAsked) -> list[Members]:
    return [one for one in expanded(state, event.members) if one.sig in state.specs]


def place_one(
    state: PlacementState,
    table: NodeTable,
    key: GangAttempt,
    sig: SignatureId,
    nominated_pods: NominatedPods | None,
) -> Picks:
    """Return a place for one member among the nodes that extenders left."""
    answer = state.member_answers.get(key, {}).get(sig)
    if answer is None or answer.error:
        return NOTHING
    rows, more = questions.existing_nodes(table, answer)
    wanted = compiled(state, sig)
    found = state.kernel.place_among(table, wanted, nominated_pods, rows, more)
    if found is None:
        return NOTHING
    return as_picks(wanted, found[0])


def reasons(
    state: PlacementState, key: GangAttempt, sig: SignatureId, of_plugins: Reasons
) -> Reasons:
    """Return why there is no place: the reasons of plugins and extenders."""
    answer = state.member_answers.get(key, {}).get(sig)
    if answer is not None and answer.error:
        return ((answer.error, 0),)
    found = Counter(dict(of_plugins))
    for text, count in answer.failed if answer is not None else ():
        found[text] += count
    return tuple(sorted(found.items())) or ((NOT_LEFT, len(state.nodes)),)


def note_refused(state: PlacementState, key: GangAttempt, sig: SignatureId) -> None:
    """Retry its members later even though no node may announce it."""
    answer = state.member_answers.get(key, {}).get(sig)
    if answer is not None:
        retries.remember(state, sig, answer)


def end_attempt(state: PlacementState, key: GangAttempt) -> None:
    """Forget the answers of an ended attempt."""
    state.member_answers.pop(key, None)
    open_ = state.work_queue.member_call
    if open_ is not None and (open_.gang, open_.attempt) == key:
        state.work_queue.member_call = None
