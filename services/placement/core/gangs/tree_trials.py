"""Nodes for the members of a tree of CompositePodGroups, on a trial table of one shard.

PodGroups are tried in the order of the tree. A group that is infeasible, with those below it, gives
its room to the next ones (schedule_one_podgroup.go of kube-scheduler 1.37). A group with a topology
is tried in each domain inside that of the groups above it, and gets the best one with room for it
(shared/model/groups/topology.py). Volumes that an infeasible group would take stay taken.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from services.placement.core.books.charges import compiled
from services.placement.core.books.ledger import IS_CHARGED
from services.placement.core.gangs import member_choices, places
from services.placement.core.gangs.member_choices import Assumed, Choices
from services.placement.core.gangs.member_picks import Reasons, pick_members, reasons
from services.placement.core.gangs.nominated_places import GangPlaces
from services.placement.core.gangs.trial_picks import with_nominated_pods
from services.placement.core.preemption import in_order
from services.placement.core.state import PlacementState
from shared.events.permit import HoldAsked, OfferAsked
from shared.model.columns import size, unpack
from shared.model.groups.topology import REST, DomainCandidate, Path, best
from shared.model.groups.trees import (
    GroupTree,
    below,
    feasible_leaves,
    has_topology,
    leaves,
    subtrees,
)
from shared.model.ids import GangId, NodeId, SignatureId
from shared.scheduling.plugins.resource_scores import Part
from shared.scheduling.table.layout import Mask
from shared.scheduling.table.picks import Picks

Kinds = Sequence[tuple[SignatureId, int]]
"""How many members of one group have which signature."""
Placed = tuple[SignatureId, Picks, list[Choices]]


class TreeTrial:
    """Members placed one group after the other. `picks`: what is placed of each group of the event;
    `why`: why not more of the first PodGroup that is short. `may_help`: pods of lower priority
    could leave for members that are short.
    """

    def __init__(
        self,
        state: PlacementState,
        event: OfferAsked | HoldAsked,
        members: Sequence[Kinds],
        gives_room: bool = True,
    ) -> None:
        """`members`: parallel to the event's. `gives_room`: infeasible groups are taken back."""
        self.picks: list[list[Placed]] = [[] for _ in members]
        self.why: Reasons = ()
        self.may_help = False
        self._state, self._members, self._gives_room = state, members, gives_room
        self._tree, self._has_topology = event.tree, has_topology(event.tree)
        # Joint places would have to be used in the order in which they were found: not by groups.
        sigs = {sig for kinds in members for sig, _wanted in kinds}
        may_preempt = isinstance(event, OfferAsked) and event.preempts
        self._preempts = may_preempt and not in_order.are_joint(state, sorted(sigs))
        self._is_choosing = False
        self._trial = state.table.trial()
        self._places = GangPlaces(state, event.gang, event.attempt)
        self._fit: Counter[GangId] = Counter()
        self._at: dict[GangId, list[int]] = {}
        for at, leaf in enumerate(event.leaves):
            self._at.setdefault(leaf, []).append(at)
        with member_choices.assumed_on_trial(state) as assumed:
            self._place(event.tree, assumed)

    @property
    def counts(self) -> tuple[int, ...]:
        """Return how many members of each group are placed."""
        return tuple(sum(len(picks.rows) for _sig, picks, _ in ones) for ones in self.picks)

    @property
    def is_feasible(self) -> bool:
        """Return whether the tree may start."""
        return feasible_leaves(self._tree, self._fit) is not None

    def homes(self, is_held: bool = False) -> tuple[Path, ...]:
        """Return, parallel to the tree, the values of its label that the pods of each group with a
        topology have on this shard; if `is_held` with the members placed.
        """
        if not self._has_topology:
            return ()
        return tuple(tuple(sorted(self._values(one, is_held))) for one in subtrees(self._tree))

    def _place(self, tree: GroupTree, assumed: Assumed) -> None:
        around = self._trial.within
        if tree[0].key:
            self._trial.within = self._best_domain(tree, around)
        self._place_inside(tree, assumed)
        self._trial.within = around

    def _place_inside(self, tree: GroupTree, assumed: Assumed) -> None:
        if not tree[0].is_composite:
            self._place_members(tree[0].gang, assumed)
        for one in below(tree):
            self._place(one, assumed)
            if self._gives_room and feasible_leaves(one, self._fit) is None:
                self._take_back(one, assumed)

    def _place_members(self, leaf: GangId, assumed: Assumed) -> None:
        short: SignatureId | None = None
        for at in self._at.get(leaf, ()):
            for sig, wanted in self._members[at]:
                picks, choices = pick_members(
                    self._state, self._trial, sig, wanted, assumed, self._places
                )
                self.picks[at].append((sig, picks, choices))
                self._fit[leaf] += len(picks.rows)
                if short is None and len(picks.rows) < wanted:
                    short = sig
        if short is None or self._is_choosing:
            return
        if self._preempts and not self._has_topology and not self.may_help:
            nominated_pods = self._places.nominated_pods(short) or {}
            with with_nominated_pods(self._trial, nominated_pods):
                self.may_help = places.may_help(self._state, self._trial, short)
        if not self.why:
            self.why = reasons(self._state, self._trial, short, self._places)

    def _take_back(self, infeasible: GroupTree, assumed: Assumed | None = None) -> None:
        """Undo what is placed of a group; without `assumed` its devices are free already."""
        for leaf in leaves(infeasible):
            for at in self._at.get(leaf, ()):
                for sig, picks, choices in self.picks[at]:
                    if len(picks.rows):
                        asked = compiled(self._state, sig)
                        self._trial.charge(asked, picks.rows, picks.masks, -1)
                    if assumed is not None:
                        member_choices.take_back_devices(self._state, choices, assumed)
                self.picks[at] = []
            self._fit[leaf] = 0

    # ----------------------------------------------------------------- domains

    def _best_domain(self, tree: GroupTree, around: Mask | None) -> Mask:
        """Return the nodes of the best domain in which a group is feasible, or else of that in
        which most of its members fit; of the domain in which its pods run if there is one.
        """
        found = self._state.table.domains((tree[0].key,))
        homes = self._values(tree).union(tree[0].homes)
        parts, was_choosing = self._parts(tree), self._is_choosing
        feasible, others = list[DomainCandidate](), list[DomainCandidate]()
        self._is_choosing = True
        for path in found.paths:
            within = found.within(path) if around is None else found.within(path) & around
            if homes.difference(path) or not within.any():
                continue
            self._trial.within = within
            with member_choices.assumed_on_trial(self._state) as assumed:
                self._place_inside(tree, assumed)
            known = feasible if feasible_leaves(tree, self._fit) is not None else others
            known.append(self._candidate(tree, path, within, parts))
            self._take_back(tree)
        self._is_choosing = was_choosing
        if feasible:
            weights = [part.weight for part in parts]
            path = best(feasible, weights, len(self._running(tree))).path
        elif others:
            path = min(others, key=lambda one: (-one.placed, one.path)).path
        else:
            return np.zeros(self._trial.size, np.bool_)
        return found.within(path) if around is None else found.within(path) & around

    def _candidate(
        self, tree: GroupTree, path: Path, within: Mask, parts: Sequence[Part]
    ) -> DomainCandidate:
        """Return a domain, with the members placed."""
        amounts = [part.amounts(self._trial.cols) for part in parts]
        have = tuple(int(amount[within].sum(dtype=np.int64)) for amount, _taken in amounts)
        used = tuple(
            int((taken[within].astype(np.int64) - part.ask).sum(dtype=np.int64))
            for part, (_amount, taken) in zip(parts, amounts, strict=True)
        )
        return DomainCandidate(path, sum(self._fit[leaf] for leaf in leaves(tree)), have, used)

    def _parts(self, tree: GroupTree) -> list[Part]:
        """Return the resources by which domains are scored, for the first members of a group."""
        state = self._state
        ats = (at for leaf in leaves(tree) for at in self._at.get(leaf, ()))
        sig = next((sig for at in ats for sig, _wanted in self._members[at]), None)
        if sig is None:
            return []
        return state.plugins_of(state.specs[sig]).domain_parts(state.table, compiled(state, sig))

    def _values(self, tree: GroupTree, is_held: bool = False) -> set[str]:
        """Return the values of its label that the pods of a group have on this shard; REST for a
        node without the label. Without a label there are none.
        """
        if not tree[0].key:
            return set()
        found = self._state.table.domains((tree[0].key,))
        rows = set(self._state.table.rows_of(self._running(tree)).tolist())
        if is_held:
            rows.update(row for leaf in leaves(tree) for row in self._placed_rows(leaf))
        return {(found.path_of(row) or REST)[0] for row in rows}

    def _placed_rows(self, leaf: GangId) -> list[int]:
        picks = (picks for at in self._at.get(leaf, ()) for _sig, picks, _ in self.picks[at])
        return [row for one in picks for row in one.rows.tolist()]

    def _running(self, tree: GroupTree) -> list[NodeId]:
        """Return the nodes of this shard on which members of a group run, one for each."""
        ledger, found = self._state.ledger, list[NodeId]()
        for node in tree:
            if size(node.placed):
                rows = ledger.rows(unpack(node.placed))
                rows = rows[IS_CHARGED[ledger.kind[rows]]]
                found += ledger.node[rows].tolist()
        return found
