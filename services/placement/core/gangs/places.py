"""Makes room for a gang in a shard: finds victims for its members, and nominates the chosen places.

Members are tried one by one, each after the places of those before it: on a node where it fits, or
else where kube-scheduler's DefaultPreemption would make room. One search serves all members of a
signature. After a choice only the chosen node has changed, and, if victims have budgets, nodes with
budgeted pods are searched again when their turn comes.

A member may fit where room is made for another. So the chosen places are validated together, and a
pod that could stay with all of them placed is no victim.
"""

from collections.abc import Container, Sequence
from heapq import heappop, heappush

import numpy as np

from services.placement.core.books import devices
from services.placement.core.books.charges import compiled
from services.placement.core.books.ledger import IS_CHARGED, IS_VICTIM
from services.placement.core.books.wide_rules import claims_for_one_pod
from services.placement.core.extenders import questions
from services.placement.core.gangs import joint_places
from services.placement.core.gangs.trial_picks import place
from services.placement.core.placing.unsupported import unsupported_reason
from services.placement.core.preemption import in_order, nominations
from services.placement.core.preemption.dry_run import NO_VICTIMS, DryRun
from services.placement.core.preemption.in_order import MemberRow, Reprieve, Trial
from services.placement.core.preemption.pre_check import has_lower_priority_pod
from services.placement.core.preemption.reprieve import TrialNominee
from services.placement.core.preemption.unit_parts import Victim
from services.placement.core.state import PlacementState
from services.placement.core.transitions import State
from shared.events.placement import (
    Candidate,
    GangNominated,
    GangNominationStale,
    Place,
    PlacesFound,
)
from shared.events.preemption import DryRunAsked, GangDryRunAsked, GangNominateAsked
from shared.model.columns import I64, as_numbers, pack, size
from shared.model.ids import NO_POD, GangId, NodeId, PodId, SignatureId
from shared.model.preemption.victims import Nominee
from shared.scheduling.cycle.inter_pod_rules import fits
from shared.scheduling.cycle.score_classes import static_of
from shared.scheduling.table.layout import Mask
from shared.scheduling.table.table import NodeTable

Reasons = tuple[tuple[str, int], ...]


def may_help(
    state: PlacementState, table: NodeTable, sig: SignatureId, is_in_domain: bool = False
) -> bool:
    """Return whether pods of lower priority could leave for members of this signature, on the nodes
    of `table`. `is_in_domain`: the gang has a topology.
    """
    if not is_preempting(state, sig, is_in_domain):
        return False
    if in_order.are_joint(state, (sig,)):  # room on any node may help a member on another one
        lower = (level for level in state.levels if level < state.specs[sig].priority)
        return any(state.levels[level].any() for level in lower)
    return has_lower_priority_pod(state, table, sig, None)


def is_preempting(state: PlacementState, sig: SignatureId, is_in_domain: bool = False) -> bool:
    """Return whether preemption serves such members: not if extenders or plugins choose victims, or
    they have resource claims, nor with joint places if other shards have some of the nodes, or a
    spread must count the nodes of a topology domain alone.
    """
    spec, wanted = state.specs[sig], compiled(state, sig)
    if spec.never_preempts or not wanted.plugins.profile.preempts or wanted.plugins.post_filters:
        return False
    if devices.chooses(state, sig) or unsupported_reason(state, sig):
        return False
    if questions.is_interested(state, sig):
        return False
    if any(one.names_victims(spec) for one in state.config.extenders):
        return False
    if in_order.is_joint(state, sig):
        is_spread = is_in_domain and any(one.hard for one in wanted.constraints)
        if state.shards > 1 or is_spread:
            return False
    return not claims_for_one_pod(state, sig)


def decide_places(state: PlacementState, event: GangDryRunAsked) -> PlacesFound:
    """Return places for the needed members, each after those before it, or all there are."""
    nodes = len(state.nodes)
    sigs = [part.sig for part in event.members if part.sig in state.specs]
    if in_order.are_joint(state, sigs):
        if all(is_preempting(state, sig, bool(event.levels)) for sig in sigs):
            return joint_places.decide_places(state, event, _within(state, event))
        return PlacesFound(state.shard, event.ask, event.gang, (), (), nodes)
    places: list[Place] = []
    nominees: list[TrialNominee] = []
    reasons: Reasons = ()
    for group, part in enumerate(event.members):
        count = min(event.needed - len(places), size(part.ids))
        if not count or part.sig not in state.specs or not is_preempting(state, part.sig):
            continue
        found, why = _nominees(state, event, part.sig, count, nominees)
        reasons = reasons or why
        places += [Place(group, nominee.candidate) for nominee in found]
        nominees += found
    if places and len(places) < event.needed:
        reasons = ((NO_VICTIMS, nodes),)  # reasons with all of these placed
    return PlacesFound(state.shard, event.ask, event.gang, tuple(places), reasons, nodes)


def _nominees(
    state: PlacementState,
    event: GangDryRunAsked,
    sig: SignatureId,
    count: int,
    before: Sequence[TrialNominee],
) -> tuple[list[TrialNominee], Reasons]:
    found = _free(state, event, sig, count, before)
    if len(found) == count:
        return found, ()
    run = _Members(state, event, sig, [*before, *found])
    found += run.nominees(count - len(found))
    return found, tuple(sorted(run.reasons.items()))


def _within(state: PlacementState, event: GangDryRunAsked) -> Mask | None:
    """Return the nodes of the gang's topology domain; None for all nodes."""
    return state.table.domains(event.levels).within(event.domain) if event.levels else None


def _free(
    state: PlacementState,
    event: GangDryRunAsked,
    sig: SignatureId,
    count: int,
    before: Sequence[TrialNominee],
) -> list[TrialNominee]:
    """Return nodes on which members fit without victims."""
    spec = state.specs[sig]
    nominated_pods = nominations.nominated_pods_for(
        state, spec.priority, gang=event.gang, queue=spec.queue
    )
    for nominee in before:
        nominated_pods.setdefault(nominee.candidate.node, []).append((nominee.wanted, nominee.mask))
    trial = state.table.trial()
    trial.within = _within(state, event)
    picks = place(state, trial, sig, count, nominated_pods)
    nodes = state.table.ids[picks.rows].tolist()
    wanted = compiled(state, sig)
    return [
        TrialNominee(wanted, mask, joint_places.free_place(state, node))
        for node, mask in zip(nodes, picks.masks.tolist(), strict=True)
    ]


class _Members(DryRun):
    """The dry run for the members of one signature."""

    def __init__(
        self,
        state: PlacementState,
        event: GangDryRunAsked,
        sig: SignatureId,
        before: Sequence[TrialNominee],
    ) -> None:
        """`before`: the places of other members."""
        asked = DryRunAsked(
            *(event.ask, NO_POD, sig, event.budgets, event.taken),
            named=event.named,
            spare=event.spare,
            used=event.used,
        )
        super().__init__(state, asked, before, gang=event.gang)
        # Nodes whose pods leave for the gang: the next member may fit there without more victims.
        self.shared = {one.candidate.node for one in before if one.candidate.victims}
        self.fresh: set[int] = set()  # rows searched with the present budgets
        # The ledger's rows of running pods by node: a node or two are searched for each member.
        running = np.flatnonzero(IS_VICTIM[state.ledger.kind])
        self.rows_by_node = running[np.argsort(state.ledger.node[running], kind="stable")]
        self.nodes_by_row = state.ledger.node[self.rows_by_node]
        within = _within(state, event)
        if within is not None:
            self.rows = self.rows[within[self.rows]]
        rows = state.table.rows_of(sorted(self.shared))
        known_rows = self.rows[np.isin(self.rows, rows)]
        self.rows = self.rows[~np.isin(self.rows, rows)]
        for row in known_rows.tolist():
            self._look(row)

    def _evictable_rows(self, nodes: I64) -> I64:
        edges = np.searchsorted(self.nodes_by_row, np.stack((nodes, nodes + 1), axis=1)).tolist()
        found = [self.rows_by_node[start:end] for start, end in edges]
        return np.concatenate(found)

    def nominees(self, count: int) -> list[TrialNominee]:
        """Return up to `count` places."""
        found: list[TrialNominee] = []
        while len(found) < count:
            self.search()
            if not self.found:
                break
            nominee = self._next()
            if nominee is not None:
                found.append(nominee)
        return found

    def _next(self) -> TrialNominee | None:
        """Return the best place, or None if its node must be searched again first."""
        _key, row, chosen = heappop(self.found)
        self.clean -= not chosen.violations
        victims = as_numbers(chosen.victims)
        if row not in self.fresh and any(self._is_limited(pod) for pod in victims):
            self.fresh.add(row)
            self._look(row)
            return None
        before = dict(self.left), dict(self.spare)
        nominee = TrialNominee(self.wanted, self._mask(row, chosen), chosen)
        self._nominate(nominee)
        if (self.left, self.spare) != before or (victims and self.other_queues is not None):
            self.fresh.clear()
        if victims:
            self.shared.add(chosen.node)
        self._look(row)
        return nominee

    def _is_limited(self, pod: PodId) -> bool:
        """Return whether the pod's eviction depends on those before it."""
        if self.other_queues is not None:
            return True
        return bool(self._budgets(pod) or self.state.units.of(pod) in self.spare)

    def _mask(self, row: int, chosen: Candidate) -> int:
        """Return the devices of the next member there."""
        if not self.wanted.gpu_count:
            return 0
        victims, leaving = self._victims(np.array([row], np.int64))
        gone = set(as_numbers(chosen.victims))
        leave = [one for one in victims.get(chosen.node, ()) if one.pod in gone]
        scratch = self._without(row, chosen.node, [*leaving.get(chosen.node, ()), *leave])
        return scratch.pick_devices(self.wanted)

    def _look(self, row: int) -> None:
        """Search a node again; it has no place among the found ones meanwhile."""
        for _tried in self._each(np.array([row], np.int64)):
            pass

    def _try_node(
        self, row: int, node: NodeId, victims: list[Victim], leaving: list[Victim]
    ) -> None:
        if node in self.shared and self._fits(self._without(row, node, leaving)):
            heappush(self.found, ((-1,), row, joint_places.free_place(self.state, node)))
            self.clean += 1
        else:
            super()._try_node(row, node, victims, leaving)


def decide_gang_nomination(
    state: PlacementState, event: GangNominateAsked, void: bool
) -> GangNominated | GangNominationStale:
    """Validate all nominees together against the present state: keep all or none."""
    stale = GangNominationStale(state.shard, event.ask, event.gang)
    if void or not all(_is_wanting(state, one) for one in event.nominees):
        return stale
    if in_order.are_joint(state, (one.sig for one in event.nominees)):
        leave = _needed_jointly(state, event.gang, event.nominees)
        return stale if leave is None else _nominated(state, event, leave)
    leaving: set[PodId] = set()
    for node in sorted({one.node for one in event.nominees}):
        nominees_here = [one for one in event.nominees if one.node == node]
        leave = _needed(state, event.gang, node, nominees_here)
        if leave is None:
            return stale
        leaving |= leave
    return _nominated(state, event, leaving)


def _nominated(
    state: PlacementState, event: GangNominateAsked, leaving: Container[PodId]
) -> GangNominated:
    """Return the nominations with those of their victims that must leave."""
    nominees = tuple(
        Nominee(
            one.ask,
            one.pod,
            one.sig,
            one.node,
            pack(v for v in as_numbers(one.victims) if v in leaving),
        )
        for one in event.nominees
    )
    return GangNominated(state.shard, event.ask, event.gang, nominees)


def _is_wanting(state: PlacementState, one: Nominee) -> bool:
    """Return whether the member exists without a place, and its node and signature are known."""
    kind = state.ledger.kind_of(one.pod)
    if one.sig not in state.specs or state.table.row_of(one.node) is None:
        return False
    return not IS_CHARGED[kind] and kind not in (State.GONE, State.STRAY)


def _needed(
    state: PlacementState, gang: GangId, node: NodeId, nominees: Sequence[Nominee]
) -> set[PodId] | None:
    """Return the pods that must leave the node so that all of these fit, or None if that is
    impossible.
    """
    ledger = state.ledger
    lowest: dict[PodId, int] = {}  # victim -> priority of the member it leaves for
    for one in nominees:
        for pod in as_numbers(one.victims):
            lowest[pod] = state.specs[one.sig].priority
    rows = [row for pod in lowest if (row := ledger.placed_row(pod, node)) is not None]
    victims = {ledger.pod_at(row): state.specs[ledger.sig_at(row)].priority for row in rows}
    if not all(IS_VICTIM[ledger.kind[row]] for row in rows):
        return None
    if any(priority >= lowest[pod] for pod, priority in victims.items()):
        return None
    if not nominations.leaving_on(state, node).isdisjoint(victims):
        return None
    leave = set(victims)
    if not _all_fit(state, gang, node, nominees, leave):
        return None
    for pod in sorted(leave, key=lambda pod: _importance(state, pod, victims[pod])):
        together = leave & {pod, *state.units.mates([pod])}
        if _all_fit(state, gang, node, nominees, leave - together):
            leave -= together
    return leave


def _needed_jointly(
    state: PlacementState, gang: GangId, nominees: Sequence[Nominee]
) -> set[PodId] | None:
    """Return the pods that must leave so that all of these fit, each beside those before it, or
    None if that is impossible. Pods may leave other nodes than those of the nominees.
    """
    ledger = state.ledger
    lowest = min(state.specs[one.sig].priority for one in nominees)
    named = {pod for one in nominees for pod in as_numbers(one.victims)}
    leave = {pod for pod in named if IS_VICTIM[ledger.kind_of(pod)]}
    sigs = {pod: ledger.sig_at(ledger.row(pod)) for pod in leave}
    priorities = {pod: state.specs[sig].priority for pod, sig in sigs.items()}
    if any(priority >= lowest for priority in priorities.values()):
        return None
    if not leave.isdisjoint(state.victims_of):
        return None
    trial, rows = Trial(state, gang), [state.table.row_of(one.node) for one in nominees]
    members = [
        MemberRow(one.sig, row) for one, row in zip(nominees, rows, strict=True) if row is not None
    ]
    trial.move(sorted(leave), -1)
    reprieve = Reprieve(trial, members)
    stay: list[list[PodId]] = []
    gone: list[list[PodId]] = []
    for pod in sorted(leave, key=lambda pod: _importance(state, pod, priorities[pod])):
        together = sorted(leave.intersection((pod, *state.units.mates([pod]))))
        if together and together[0] == pod:
            (stay if reprieve.stay(together) else gone).append(together)
    refused = reprieve.settle(stay)
    if refused is None or _are_in_the_way(state, nominees):
        return None
    gone += [stay[at] for at in refused]
    back = reprieve.retry(gone) if refused else []
    return {pod for at, pods in enumerate(gone) if at not in back for pod in pods}


def _are_in_the_way(state: PlacementState, nominees: Sequence[Nominee]) -> bool:
    """Return whether a pod being tried on one of these nodes would have to wait for the victims."""
    pairs = (
        (one, nominations.room_for(state, one.pod, one.sig, one.node, set())) for one in nominees
    )
    return any(
        nominations.is_in_the_way(state, one.sig, one.node, mask) for one, (_, mask) in pairs
    )


def _importance(state: PlacementState, pod: PodId, priority: int) -> tuple[int, int, int, int]:
    """Return the sort key of reprieve: pods covered by a budget first, then as in the dry run."""
    row = state.ledger.row(pod)
    return (state.ledger.budget[row] == 0, -priority, int(state.ledger.start_ms[row]), pod)


def _all_fit(
    state: PlacementState,
    gang: GangId,
    node: NodeId,
    nominees: Sequence[Nominee],
    leave: set[PodId],
) -> bool:
    """Return whether these fit on the node one by one without the pods in `leave` and all others
    that are leaving, and no pod being tried there now has to wait for that.
    """
    before: list[tuple[SignatureId, int]] = []
    for one in nominees:
        wanted = compiled(state, one.sig)
        static = static_of(state.table, wanted.spec, wanted.plugins).ok
        row = state.table.row_of(node)
        if static is not None and not static[row]:
            return False
        scratch = nominations.node_with_nominated(
            state, one.pod, one.sig, node, leave | nominations.leaving_on(state, node), gang
        )
        for sig, mask in before:
            scratch.add_nominated(compiled(state, sig), mask)
        if not fits(state.table, wanted, scratch, as_placed=bool(before)):
            return False
        mask = scratch.pick_devices(wanted)
        if nominations.is_in_the_way(state, one.sig, node, mask):
            return False
        before.append((one.sig, mask))
    return True
