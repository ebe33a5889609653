"""Room for a gang whose places depend on each other (preemption/in_order.py), in one search.

Follows podgrouppreemption.go of kube-scheduler 1.37: place the members one by one where they would
fit without the pods of lower priority, then put these back as long as every member still fits where
it is. Rules count all pods while places are sought, then all but those that keep members away,
then none of lower priority. Of nodes without members only pods that keep members away may leave:
for a spread that must be even, all pods that it counts would. They leave with the first place.

Beyond kube-scheduler the search leaves members on nodes that are free, prefers victims of low
priority, and keeps pods that members must be near to.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product

import numpy as np

from services.placement.core.books.charges import compiled
from services.placement.core.books.ledger import IS_VICTIM, groups
from services.placement.core.gangs import member_choices
from services.placement.core.gangs.member_choices import Assumed
from services.placement.core.gangs.trial_picks import place
from services.placement.core.preemption.dry_run import NO_VICTIMS, DryRun
from services.placement.core.preemption.in_order import MemberRow, Reprieve, Trial
from services.placement.core.preemption.reprieve import candidate_of
from services.placement.core.preemption.unit_parts import Part, Victim, reprieved, victim_at
from services.placement.core.state import PlacementState
from services.placement.core.volumes import reservations
from shared.events.placement import Candidate, Place, PlacesFound
from shared.events.preemption import DryRunAsked, GangDryRunAsked
from shared.model.columns import I64, size
from shared.model.ids import NO_GANG, NO_POD, NodeId, PodId, SignatureId
from shared.scheduling.cycle.one_node import one_node
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.table.layout import Mask
from shared.scheduling.table.picks import Picks

NO_ROWS: I64 = np.zeros(0, np.int64)
Placed = list[tuple[int, MemberRow]]
"""(group, place) of members, by group."""
Leaving = list[tuple[Part, int]]
"""(pods, how many of them violate budgets)"""


def decide_places(
    state: PlacementState, event: GangDryRunAsked, within: Mask | None
) -> PlacesFound:
    """Return places for all needed members, or none."""
    search = _Search(state, event, within)
    found = search.find()
    places = () if found is None else tuple(search.places(*found))
    reasons = () if places else search.why
    return PlacesFound(state.shard, event.ask, event.gang, places, reasons, len(state.nodes))


def free_place(state: PlacementState, node: NodeId) -> Candidate:
    """Return a node as the place of a member that needs no victims."""
    return Candidate(node, b"", 0, 0, 0, 0, state.world)


class _Search(DryRun):
    """The search. Between its tries the trial has all pods but those that are leaving. `why`:
    reasons for too few places. `lower`: ledger rows of the possible victims.
    """

    def __init__(self, state: PlacementState, event: GangDryRunAsked, within: Mask | None) -> None:
        parts = enumerate(event.members)
        self.groups = [(at, one.sig, size(one.ids)) for at, one in parts if one.sig in state.specs]
        sigs = [sig for _group, sig, _size in self.groups]
        lowest = min(sigs, key=lambda sig: state.specs[sig].priority)
        asked = DryRunAsked(
            *(event.ask, NO_POD, lowest, event.budgets, event.taken),
            named=event.named,
            spare=event.spare,
            used=event.used,
        )
        super().__init__(state, asked, only=NO_ROWS, gang=event.gang)
        self.needed = event.needed
        self.why: tuple[tuple[str, int], ...] = ((NO_VICTIMS, len(state.nodes)),)
        self.gang, self.trial = event.gang, Trial(state, event.gang)
        self.trial.table.within = within
        self.lower = self._lower_rows(within)
        members = [compiled(state, sig) for sig in sigs]
        counters = state.table.counters
        self.near = self._moving(counters.sought_by(members))
        away = self._moving(counters.avoided_by(members))
        read = self._moving(set().union(*(counters.read_rows(one) for one in members)))
        # What rules ignore while places are sought, and what may leave nodes without members.
        self.ways: list[tuple[list[SignatureId], list[SignatureId]]] = [([], [])]
        self.ways += [(away, away)] * bool(away) + [(read, away)] * (read != away)

    def _lower_rows(self, within: Mask | None) -> I64:
        state, ledger = self.state, self.state.ledger
        found = np.flatnonzero(IS_VICTIM[ledger.kind])
        priorities = np.zeros(len(found), np.int64)
        for sig, part in groups(ledger.sig[found]):
            priorities[part] = state.specs[sig].priority
        left_out = np.array(sorted({*self.taken, *self.protected}), np.int64)
        kept = (priorities < self.priority) & ~np.isin(ledger.ids(found), left_out)
        if within is not None:
            kept &= np.isin(ledger.node[found], state.table.ids[within])
        if self.other_queues is None:
            return found[kept]
        victims = [victim_at(state, row) for row in found[kept].tolist()]
        victims.sort(key=lambda one: (-one.priority, one.start_ms, one.pod))
        leave = [one.pod for one in self.within_limits(victims)]
        return found[np.isin(ledger.ids(found), leave)]

    def _moving(self, counters: set[int]) -> list[SignatureId]:
        """Return the signatures of possible victims that move one of these counters."""
        sigs = np.unique(self.state.ledger.sig[self.lower]).tolist()
        pairs = ((sig, compiled(self.state, sig).counted) for sig in sigs)
        return [sig for sig, counted in pairs if any(at in counters for at, _ in counted)]

    def find(self) -> tuple[Placed, Leaving] | None:
        """Return places for the needed members, and the pods that leave, of the lowest priorities
        with which there are enough places.
        """
        free = self._placed([])
        if len(free) == self.needed:
            return free, []
        if not len(self.lower):
            return None
        is_near = np.isin(self.state.ledger.sig[self.lower], self.near)
        for lower in (self.lower[~is_near], self.lower) if is_near.any() else (self.lower,):
            found = self._of_least_priority(lower, free)
            if found is not None:
                return found
        return None

    def _of_least_priority(self, lower: I64, free: Placed) -> tuple[Placed, Leaving] | None:
        found = self._tried(lower, free)
        if found is None:
            return None
        priorities = np.zeros(len(lower), np.int64)
        for sig, part in groups(self.state.ledger.sig[lower]):
            priorities[part] = self.state.specs[sig].priority
        levels = np.unique(priorities).tolist()
        low, high = 0, len(levels) - 1
        while low < high:
            middle = (low + high) // 2
            fewer = self._tried(lower[priorities <= levels[middle]], free)
            found = fewer or found
            low, high = (low, middle) if fewer else (middle + 1, high)
        return found

    def _tried(self, lower: I64, free: Placed) -> tuple[Placed, Leaving] | None:
        """Return places for the needed members if these pods may leave: beside the members on free
        nodes, or else anywhere.
        """
        for start, (ignored, away) in product((free, []) if free else ([],), self.ways):
            self._take(lower, ignored, -1)
            placed = sorted([*start, *self._placed(start)], key=lambda one: one[0])
            self._take(lower, ignored, 1)
            if len(placed) == self.needed:
                leaving = self._leaving(lower, away, [member for _group, member in placed])
                if leaving is not None:
                    return placed, leaving
        return None

    def _take(self, lower: I64, ignored: Sequence[SignatureId], sign: int) -> None:
        """Take pods out of the trial (-1), or put them back (1). Rules go on counting them, but not
        those of the signatures `ignored`.
        """
        ledger, table = self.state.ledger, self.trial.table
        for sig, part in groups(ledger.sig[lower]):
            chosen, wanted = lower[part], compiled(self.state, sig)
            rows = table.rows_of(ledger.node[chosen].tolist())
            table.charge(wanted, rows, ledger.devices[chosen], sign)
            if sig not in ignored:
                table.counters.charge_counts(wanted, rows, -sign)

    def _placed(self, before: Placed) -> Placed:
        """Return places for the other members beside those before; why not more, if they are too
        few. The trial is unchanged afterwards.
        """
        state, table, found = self.state, self.trial.table, Placed()
        done: list[tuple[Signature, I64, I64]] = []
        with member_choices.assumed_on_trial(state) as assumed:
            for _group, member in before:
                wanted = compiled(state, member.sig)
                node = one_node(table, member.row, self.trial.nominated_pods(member.sig))
                masks = np.array([node.pick_devices(wanted)], np.int64)
                done.append((wanted, np.array([member.row]), masks))
                table.charge(*done[-1])
                member_choices.assume_choices(state, member.sig, member.row, assumed)
            for group, sig, members in self.groups:
                placed = sum(one == group for one, _member in before)
                count = min(self.needed - len(before) - len(found), members - placed)
                picks = self._picked(sig, count, assumed)
                done.append((compiled(state, sig), picks.rows, picks.masks))
                found += [(group, MemberRow(sig, row)) for row in picks.rows.tolist()]
                if len(picks.rows) < count:
                    self.why = state.kernel.reasons(table, compiled(state, sig)).messages
        for wanted, rows, masks in reversed(done):
            table.charge(wanted, rows, masks, -1)
        return found

    def _picked(self, sig: SignatureId, count: int, assumed: Assumed) -> Picks:
        """Return places for up to `count` members, charged on the trial."""
        state, table = self.state, self.trial.table
        nominated_pods = self.trial.nominated_pods(sig)
        if reservations.chooses(state, sig):
            one = partial(place, state, table, sig, 1, nominated_pods)
            return member_choices.place_each(state, table, sig, count, one, assumed)[0]
        picks = place(state, table, sig, count, nominated_pods)
        table.charge(compiled(state, sig), picks.rows, picks.masks)
        return picks

    def _leaving(
        self, lower: I64, away: Sequence[SignatureId], members: Sequence[MemberRow]
    ) -> Leaving | None:
        """Return which of these pods leave for members in these places; None if the members do not
        fit with all the others there.
        """
        ledger = self.state.ledger
        nodes = self.trial.table.ids[[member.row for member in members]]
        chosen = np.isin(ledger.node[lower], nodes) | np.isin(ledger.sig[lower], away)
        victims = [victim_at(self.state, row) for row in lower[chosen].tolist()]
        victims.sort(key=lambda one: (-one.priority, one.start_ms, one.pod))
        parts = self._parts(victims)
        violations = self._violations(parts)
        trial = Trial(self.state, self.gang)
        trial.table.within = self.trial.table.within
        trial.move([one.pod for one in victims], -1)
        reprieve = Reprieve(trial, members)
        gone = set(reprieved(parts, violations, lambda part: reprieve.stay(_pods(part))))
        together: dict[int, list[int]] = {}  # parts of a unit leave or stay whole from here on
        for at, part in enumerate(parts):
            if at not in gone:
                together.setdefault(part.unit or -at - 1, []).append(at)
        stay = list(together.values())
        refused = reprieve.settle([[pod for at in one for pod in _pods(parts[at])] for one in stay])
        if refused is None:
            return None
        gone.update(at for number in refused for at in stay[number])
        lone = sorted(at for at in gone if parts[at].unit == NO_GANG) if refused else []
        gone.difference_update(lone[at] for at in reprieve.retry([_pods(parts[at]) for at in lone]))
        return [(parts[at], violations[at]) for at in sorted(gone)]

    def places(self, placed: Placed, leaving: Leaving) -> Iterator[Place]:
        """Yield the places, with the victims of each; those on other nodes with the first."""
        state, first = self.state, dict[NodeId, int]()
        nodes = [state.table.node_id_at(member.row) for _group, member in placed]
        for at, node in enumerate(nodes):
            first.setdefault(node, at)
        victims: dict[int, list[Victim]] = {}
        violations = [0] * len(placed)
        for part, count in leaving:
            for number, victim in enumerate(part.here):
                at = first.get(state.ledger.node_at(state.ledger.row(victim.pod)), 0)
                victims.setdefault(at, []).append(victim)
                violations[at] += 0 if number else count
        for at, (group, _member) in enumerate(placed):
            found = free_place(state, nodes[at])
            if at in victims:
                found = candidate_of(nodes[at], victims[at], violations[at], state.world)
            yield Place(group, found)


def _pods(part: Part) -> list[PodId]:
    return [one.pod for one in part.here]
