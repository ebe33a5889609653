"""A shard's offer to a tree of CompositePodGroups: how many members of which PodGroup fit.

PodGroups are tried in the order of the tree on one trial table. A group that is infeasible, with
those below it, gives its room to the next ones (schedule_one_podgroup.go of kube-scheduler 1.37).
With several shards other ones may have what a group lacks here, so members are also counted
without that. Volumes that an infeasible group would take stay taken in the trial.
"""

from collections import Counter

from services.placement.core.books.charges import compiled
from services.placement.core.books.identity import expanded
from services.placement.core.gangs import member_volumes, places
from services.placement.core.gangs.member_picks import Reasons, pick_members, reasons
from services.placement.core.gangs.member_volumes import Assumed
from services.placement.core.gangs.nominated_places import GangPlaces, with_nominated_pods
from services.placement.core.state import PlacementState
from shared.events.permit import OfferAsked
from shared.events.placement import GangOffered
from shared.model.columns import size
from shared.model.groups.trees import GroupTree, below, feasible_leaves, leaves
from shared.model.ids import GangId, SignatureId
from shared.scheduling.table.picks import Picks


def decide_offer(state: PlacementState, event: OfferAsked) -> GangOffered:
    """Return the offer."""
    whole = _Trial(state, event, gives_room=True)
    key, nodes = (state.shard, event.gang, event.attempt), len(state.nodes)
    if state.shards == 1 or not whole.why:
        return GangOffered(*key, tuple(whole.counts), whole.why, nodes, whole.may_help)
    every = _Trial(state, event, gives_room=False)
    counts, fit = tuple(every.counts), tuple(whole.counts)
    return GangOffered(*key, counts, every.why, nodes, every.may_help, whole=fit)


class _Trial:
    """Members placed one group after the other. `counts`: how many of each group of the event;
    `why`: why not more of the first PodGroup that is short. `may_help`: pods of lower priority
    could leave for members that are short.
    """

    def __init__(self, state: PlacementState, event: OfferAsked, gives_room: bool) -> None:
        self.counts = [0] * len(event.members)
        self.why: Reasons = ()
        self.may_help = False
        self._state, self._event = state, event
        self._trial = state.table.trial()
        self._places = GangPlaces(state, event.gang, event.attempt)
        self._fit: Counter[GangId] = Counter()
        self._picks: dict[int, list[tuple[SignatureId, Picks]]] = {}
        self._at: dict[GangId, list[int]] = {}
        for at, leaf in enumerate(event.leaves):
            self._at.setdefault(leaf, []).append(at)
        with member_volumes.assumed_on_trial(state) as assumed:
            self._place(event.tree, assumed, gives_room)

    def _place(self, tree: GroupTree, assumed: Assumed, gives_room: bool) -> None:
        if not tree[0].is_composite:
            self._place_members(tree[0].gang, assumed)
        for one in below(tree):
            self._place(one, assumed, gives_room)
            if gives_room and feasible_leaves(one, self._fit) is None:
                self._take_back(one)

    def _place_members(self, leaf: GangId, assumed: Assumed) -> None:
        short: SignatureId | None = None
        for at in self._at.get(leaf, ()):
            for part in expanded(self._state, (self._event.members[at],)):
                wanted = size(part.ids)
                picks, _ = pick_members(
                    self._state, self._trial, part.sig, wanted, assumed, self._places
                )
                self._picks.setdefault(at, []).append((part.sig, picks))
                self.counts[at] += len(picks.rows)
                self._fit[leaf] += len(picks.rows)
                if short is None and len(picks.rows) < wanted:
                    short = part.sig
        if short is None:
            return
        if self._event.preempts and not self.may_help:
            nominated_pods = self._places.nominated_pods(short) or {}
            with with_nominated_pods(self._trial, nominated_pods):
                self.may_help = places.may_help(self._state, self._trial, short)
        if not self.why:
            self.why = reasons(self._state, self._trial, short, self._places)

    def _take_back(self, infeasible: GroupTree) -> None:
        for leaf in leaves(infeasible):
            for at in self._at.get(leaf, ()):
                for sig, picks in self._picks.pop(at, ()):
                    if len(picks.rows):
                        asked = compiled(self._state, sig)
                        self._trial.charge(asked, picks.rows, picks.masks, -1)
                self.counts[at] = 0
            self._fit[leaf] = 0
