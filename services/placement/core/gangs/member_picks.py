"""Nodes for gang members of one signature on a trial table, and why no more of them fit."""

from services.placement.core.books.charges import compiled
from services.placement.core.extenders import gang_members, questions
from services.placement.core.gangs import member_choices
from services.placement.core.gangs.member_choices import Assumed, Choices
from services.placement.core.gangs.nominated_places import GangPlaces
from services.placement.core.gangs.trial_picks import NOTHING, joined, place, with_nominated_pods
from services.placement.core.placing.unsupported import unsupported_in_gang
from services.placement.core.state import PlacementState
from shared.model.ids import SignatureId
from shared.scheduling.table.picks import Picks
from shared.scheduling.table.table import NodeTable

Reasons = tuple[tuple[str, int], ...]


def pick_members(
    state: PlacementState,
    trial: NodeTable,
    sig: SignatureId,
    count: int,
    assumed: Assumed,
    gang_places: GangPlaces,
) -> tuple[Picks, list[Choices]]:
    """Place and charge members on the trial: `count`, or as many as fit."""
    if unsupported_in_gang(state, sig):
        return NOTHING, []
    choices: list[Choices] = []
    judged = questions.is_interested(state, sig)
    if judged or member_choices.chooses(state, sig):

        def one() -> Picks:
            if judged:
                nominated_pods = gang_places.nominated_pods(sig, one_by_one=True)
                return gang_members.place_one(state, trial, gang_places.key, sig, nominated_pods)
            for in_place in gang_places.place_members(trial, sig, 1):
                trial.charge(compiled(state, sig), in_place.rows, in_place.masks, -1)
                return in_place
            return place(state, trial, sig, 1, gang_places.nominated_pods(sig, one_by_one=True))

        picks, choices = member_choices.place_each(state, trial, sig, count, one, assumed)
    else:
        in_places = gang_places.place_members(trial, sig, count)
        nominated_pods = gang_places.nominated_pods(sig)
        picks = place(state, trial, sig, count - len(in_places), nominated_pods)
        trial.charge(compiled(state, sig), picks.rows, picks.masks)
        picks = joined([*in_places, picks]) if in_places else picks
    return picks, choices


def reasons(
    state: PlacementState, trial: NodeTable, sig: SignatureId, gang_places: GangPlaces
) -> Reasons:
    """Return why no more members of this signature fit on the trial."""
    why_not = unsupported_in_gang(state, sig)
    if why_not:
        return ((why_not, len(state.nodes)),)
    with with_nominated_pods(trial, gang_places.nominated_pods(sig) or {}):
        why = state.kernel.reasons(trial, compiled(state, sig)).messages
    if questions.is_interested(state, sig):
        return gang_members.reasons(state, gang_places.key, sig, why)
    return why
