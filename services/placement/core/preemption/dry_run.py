"""Preemption in a shard: the dry run over its nodes.

Follows kube-scheduler's DefaultPreemption: remove every pod of lower priority from the node, then
put back as many as fit, most important first, pods whose eviction would violate a budget before the
others. Filtering uses the code of placing (`OneNode.fits`).
"""

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from heapq import heappop, heappush

import numpy as np
from msgspec.structs import replace

from services.placement.core.books.charges import compiled
from services.placement.core.books.identity import latest_sigs
from services.placement.core.books.ledger import IS_VICTIM
from services.placement.core.extenders import retries
from services.placement.core.preemption import nominations
from services.placement.core.preemption.minimum_run_time import (
    protected_message,
    protected_pods,
)
from services.placement.core.preemption.other_queues import OtherQueues
from services.placement.core.preemption.pre_check import have_lower_priority_pods
from services.placement.core.preemption.refusal_reasons import message, messages, stuck_rows
from services.placement.core.preemption.reprieve import (
    Chosen,
    LowerColumns,
    TrialNominee,
    candidate_of,
)
from services.placement.core.preemption.unit_parts import (
    Part,
    Victim,
    on_node,
    parts_of,
    reprieved,
    victim_at,
)
from services.placement.core.state import PlacementState
from shared.events.placement import (
    Candidate,
    CandidatesFound,
    LowerPods,
)
from shared.events.preemption import DryRunAsked
from shared.model.columns import I64, pack, size, unpack
from shared.model.ids import NO_GANG, NO_SIGNATURE, GangId, NodeId, PodId, SignatureId
from shared.model.release import V1_37
from shared.scheduling.cycle.inter_pod_rules import fits, rules_of
from shared.scheduling.cycle.one_node import OneNode
from shared.scheduling.table.layout import Mask

CANDIDATES_MIN = 100
CANDIDATES_PERCENT = 10
BEST = 3
RUNS_MAX = 8  # dry runs in one answer
NODES_AT_ONCE = 128
FEW_ROWS = 32  # up to this many rows, pods are read one by one, not as columns

NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"


VictimsByNode = dict[NodeId, list[Victim]]


def decide_candidates(state: PlacementState, event: DryRunAsked) -> CandidatesFound:
    """Return this shard's best candidates for one preemptor, best first."""
    if event.sig not in state.specs:
        return CandidatesFound(state.shard, event.ask, event.pod, (), (), len(state.nodes))
    if any(one.names_victims(state.specs[event.sig]) for one in state.config.extenders):
        return _decide_for_extenders(state, event)
    if event.others:
        return _decide_series(state, event)
    run = DryRun(state, event)
    found, reasons = _search(run)
    return CandidatesFound(
        shard=state.shard,
        ask=event.ask,
        pod=event.pod,
        candidates=tuple(found[:BEST]),
        reasons=reasons,
        nodes=len(state.nodes),
        protected_until_ms=0 if found else run.protected_until_ms(),
    )


def candidates(
    state: PlacementState, event: DryRunAsked
) -> tuple[list[Candidate], tuple[tuple[str, int], ...]]:
    """Return all candidates, best first, and why the other nodes are none."""
    return _search(DryRun(state, event))


def _search(run: "DryRun") -> tuple[list[Candidate], tuple[tuple[str, int], ...]]:
    run.search()
    found = [candidate for *_key, candidate in sorted(run.found)]
    return found, tuple(sorted(run.reasons.items()))


def _decide_for_extenders(state: PlacementState, event: DryRunAsked) -> CandidatesFound:
    """Return all candidates for the first preemptor, with all pods that extenders may choose as
    victims.
    """
    found, reasons = candidates(state, event)
    lower = EvictablePods(state, event).evictable_on([one.node for one in found])
    return CandidatesFound(
        state.shard,
        event.ask,
        event.pod,
        tuple(found),
        reasons,
        len(state.nodes),
        cut=bool(found and event.others),
        lower=tuple(_columns(lower[one.node]) for one in found),
    )


def _columns(pods: Sequence[Victim]) -> LowerPods:
    return LowerPods(
        pack([one.pod for one in pods]),
        pack([one.priority for one in pods]),
        pack([one.start_ms for one in pods]),
    )


def _decide_series(state: PlacementState, event: DryRunAsked) -> CandidatesFound:
    """Return the candidates of equal preemptors, each after those before it: from one dry run as
    far as it can tell, then from another.
    """
    answer = partial(CandidatesFound, state.shard, event.ask, event.pod, nodes=len(state.nodes))
    asked = np.concatenate(([event.pod], unpack(event.others)))
    at_once = len(asked) if _are_alike(state, event.sig, asked) else 1
    series: list[Candidate] = []
    for _run in range(RUNS_MAX):
        run = DryRun(
            state, event, [TrialNominee(compiled(state, event.sig), 0, one) for one in series]
        )
        run.search()
        if not run.found:
            return answer(
                (),
                tuple(sorted(run.reasons.items())),
                series=tuple(series),
                protected_until_ms=run.protected_until_ms(),
            )
        series += run.best(at_once - len(series))
        if len(series) == at_once:
            break
    return answer((), series=tuple(series), cut=len(series) < len(asked))


def _are_alike(state: PlacementState, sig: SignatureId, pods: I64) -> bool:
    """Return whether one dry run can serve all of them: not pods with their own nomination here,
    which is not in their way, nor pods whose signature changed; and device choices differ for each.
    """
    if compiled(state, sig).gpu_count or (
        state.has_latest_sigs and latest_sigs(state, NO_SIGNATURE, pods).any()
    ):
        return False
    return not any(pod in state.nomination_of_pod for pod in pods.tolist())


class DryRun:
    """One dry run: nodes in tie order, until there are enough candidates."""

    def __init__(
        self,
        state: PlacementState,
        event: DryRunAsked,
        before: Sequence[TrialNominee] = (),
        only: I64 | None = None,
        gang: GangId = NO_GANG,
    ) -> None:
        """`before`: places of others that are not in the state yet; `only`: search
        these rows only; `gang`: that of the preemptors, if it asks for all of them.
        """
        self.state = state
        self.wanted = compiled(state, event.sig)
        self.priority = state.specs[event.sig].priority
        self.left = {one.budget: one.left for one in event.budgets}
        self.named = {one.budget: set(unpack(one.pods).tolist()) for one in event.named}
        self.spare = {one.gang: one.left for one in event.spare}
        self.taken = set(unpack(event.taken).tolist())
        self.alone = nominations.left_alone(state, self.taken)
        self.taken.update(state.victims_of)
        self.protected = protected_pods(state) if state.minimum_run_ms else {}
        self.other_queues = OtherQueues(state, event) if event.used else None
        self.protections = self._protections()
        spec = state.specs[event.sig]
        self.nominated_pods = nominations.nominated_pods_for(
            state, self.priority, event.pod, gang, spec.queue
        )
        for one in before:
            self._nominate(one)
        self.rows = retries.rows_to_try(state, event.sig, self.nominated_pods)
        if only is not None:
            self.rows = self.rows[np.isin(self.rows, only)]
        self.enough = CANDIDATES_MIN
        if self.other_queues is None:  # else every preemptor is searched for alone
            self.enough = max(self.enough, len(state.nodes) * CANDIDATES_PERCENT // 100)
        few = only is not None and len(self.rows) <= FEW_ROWS
        self.lower_columns = None if few else self._lower_pods()
        self.tries = self._tries()
        self.reasons: dict[str, int] = {}
        # The sort key of pickOneNodeForPreemption, then the row: the one found first.
        self.found: list[tuple[tuple[int, ...], int, Candidate]] = []
        self.clean = 0  # candidates that violate no budget

    def _nominate(self, nominee: TrialNominee) -> None:
        """Apply a preemptor's place: charged, its victims leaving."""
        victims = unpack(nominee.candidate.victims).tolist()
        self.nominated_pods.setdefault(nominee.candidate.node, []).append(
            (nominee.wanted, nominee.mask)
        )
        self.taken.update(victims)
        if self.other_queues is not None:
            self.other_queues.leave(victims)
        for pod in victims:
            for budget in self._budgets(pod):
                self.left[budget] = max(0, self.left.get(budget, 0) - 1)
            unit = self.state.units.of(pod)
            if unit in self.spare:
                self.spare[unit] = max(0, self.spare[unit] - 1)

    def search(self) -> None:
        """Fill `found` and `reasons` until there are enough candidates."""
        while len(self.found) < self.enough or not self.clean:
            if next(self.tries, False) is False:
                return

    def best(self, most: int) -> list[Candidate]:
        """Return the best candidate, then the best for the next preemptor after that, up to `most`,
        as long as only the chosen nodes change. The run cannot be used afterwards.
        """
        series: list[Candidate] = []
        while self.found:
            _key, row, chosen = heappop(self.found)
            series.append(chosen)
            if len(series) == most or self.lower_columns is None or self.lower_columns.covered[row]:
                break
            self.clean -= not chosen.violations
            self._nominate(TrialNominee(self.wanted, 0, chosen))
            if self.lower_columns.leave(row, unpack(chosen.victims)):
                deque(self._at_once(self.lower_columns, np.array([row], np.int64)), maxlen=0)
            self.search()
        return series

    def _tries(self) -> Iterator[None]:
        """Yield after each group of nodes, in tie order; pods are read a few nodes at a time."""
        to_try = self.rows[~np.isin(self.state.table.ids[self.rows], self.alone)]
        with_lower = to_try
        if self.lower_columns is None and self.other_queues is None:
            nodes = self.state.table.ids[to_try]
            have = have_lower_priority_pods(self.state, nodes, self.priority)
            self._count_without(to_try[~have])
            with_lower = to_try[have]
        for start in range(0, len(with_lower), NODES_AT_ONCE):
            rows = with_lower[start : start + NODES_AT_ONCE]
            yield from (
                self._each(rows)
                if self.lower_columns is None
                else self._at_once(self.lower_columns, rows)
            )
        if not self.found:  # else no reasons are needed
            stuck = self._count_stuck()
            self._count(NO_VICTIMS, len(self.rows) - len(to_try))
            self._count(NOT_HELPFUL, len(self.state.nodes) - len(self.rows) - stuck)

    def _count_stuck(self) -> int:
        """Count the reasons on nodes where preemption would resolve the first refusal but not a
        later one; return the number of nodes.
        """
        rows = stuck_rows(self.state, self.wanted, self.nominated_pods)
        victims, leaving = self._victims(rows) if len(rows) else ({}, {})
        for row in rows.tolist():
            node = self.state.table.node_id_at(row)
            if not victims.get(node):
                self._count(NO_VICTIMS, 1)
                continue
            scratch = self._without(row, node, [*leaving.get(node, []), *victims[node]])
            for text in messages(self.state, scratch, self.wanted):
                self._count(text, 1)
        return len(rows)

    def _lower_pods(self) -> LowerColumns | None:
        """Return the columns of evictable pods if nodes can be searched together, which
        is usual.
        """
        wanted, table = self.wanted, self.state.table
        if wanted.gpu_count or wanted.ports or rules_of(table, wanted) is not None:
            return None
        taken = np.array(sorted(self.taken), np.int64)
        protected = np.array(sorted(self.protected), np.int64)
        which = None if self.other_queues is None else self._may_leave
        return LowerColumns(self.state, wanted, taken, self.nominated_pods, protected, which)

    def _protections(self) -> dict[NodeId, int]:
        """Return when the first protected pod of lower priority on a node may be a victim, ms."""
        ledger, found = self.state.ledger, dict[NodeId, int]()
        for pod, end_ms in self.protected.items():
            row = ledger.row(pod)
            is_there = IS_VICTIM[ledger.kind[row]]
            if is_there and self._may_leave(ledger.sig_at(row)):
                node = ledger.node_at(row)
                found[node] = min(found.get(node, end_ms), end_ms)
        return found

    def _may_leave(self, sig: SignatureId) -> bool:
        """Return whether such pods may leave: those of lower priority, and what a pod that claims
        may take.
        """
        if self.state.specs[sig].priority < self.priority:
            return True
        return self.other_queues is not None and self.other_queues.borrows(sig) > 0

    def protected_until_ms(self) -> int:
        """Return when the first protected pod of lower priority may be a victim, ms; 0: none."""
        return min(self.protections.values(), default=0)

    def _each(self, rows: I64) -> Iterator[None]:
        """Search node by node."""
        victims, leaving = self._victims(rows)
        for row in rows.tolist():
            node = self.state.table.node_id_at(row)
            self._try_node(row, node, victims.get(node, []), leaving.get(node, []))
            yield

    def _at_once(self, lower: LowerColumns, rows: I64) -> Iterator[None]:
        """Search with one reprieve for all nodes with enough room and no budgets."""
        some = (lower.number[rows] > 0) & ~lower.fits_already[rows]
        short = np.logical_or.reduce([column[rows] for column in lower.short])
        covered = lower.covered[rows]
        chosen = lower.victims(rows[some & ~short & ~covered])
        alone = self._each(rows[some & ~short & covered])
        number = counted = 0
        for at in np.flatnonzero(some & ~short).tolist():
            self._count_refused(lower, rows[counted:at], some[counted:at])
            counted = at + 1
            if covered[at]:
                next(alone)
            else:
                self._add_chosen(int(rows[at]), chosen, number)
                number += 1
            yield
        self._count_refused(lower, rows[counted:], some[counted:])

    def _count_refused(self, lower: LowerColumns, rows: I64, some: Mask) -> None:
        """Count the rows that are no candidates: no victims, or too little room without them."""
        if not len(rows):
            return
        self._count_without(rows[~some])
        checks = zip(self.wanted.amount_checks, lower.short, strict=True)
        for (column, _), short in checks:
            nodes = int(np.count_nonzero(short[rows[some]]))
            if nodes:
                self._count(message(self.state, column, self.wanted), nodes)

    def _count_without(self, rows: I64) -> None:
        """Count the rows without victims, and those of them whose pods are protected."""
        nodes = self.state.table.ids[rows].tolist() if self.protections else ()
        ends = [self.protections[node] for node in nodes if node in self.protections]
        if ends:
            self._count(protected_message(min(ends)), len(ends))
        self._count(NO_VICTIMS, len(rows) - len(ends))

    def _add_chosen(self, row: int, chosen: Chosen, number: int) -> None:
        part = slice(chosen.ends[number - 1] if number else 0, chosen.ends[number])
        columns = (chosen.pods[part], chosen.priorities[part], chosen.starts_ms[part])
        rows = zip(*columns, strict=True)
        victims = [
            Victim(pod, NO_SIGNATURE, 0, priority, start_ms) for pod, priority, start_ms in rows
        ]
        self._add(row, [Part([victim]) for victim in victims], 0)

    def _victims(self, rows: I64) -> tuple[VictimsByNode, VictimsByNode]:
        """Return, by node, the pods of lower priority, most important first, and those already
        leaving.
        """
        ledger, state = self.state.ledger, self.state
        there = self._evictable_rows(state.table.ids[rows])
        found = [
            victim_at(state, row)
            for row, sig in zip(there.tolist(), ledger.sig[there].tolist(), strict=True)
            if self._may_leave(sig) or ledger.pod_at(row) in self.taken
        ]
        found.sort(key=lambda one: (-one.priority, one.start_ms, one.pod))
        victims: VictimsByNode = {}
        leaving: VictimsByNode = {}
        for victim in found:
            node = ledger.node_at(ledger.row(victim.pod))
            if victim.pod in self.taken:
                leaving.setdefault(node, []).append(victim)
            elif victim.pod not in self.protected:
                victims.setdefault(node, []).append(victim)
        return victims, leaving

    def _evictable_rows(self, nodes: I64) -> I64:
        """Return the ledger's rows of the pods that run on these nodes."""
        ledger = self.state.ledger
        here = np.zeros(int(max(ledger.node.max(initial=0), nodes.max())) + 1, np.bool_)
        here[nodes] = True
        return np.flatnonzero(here[ledger.node] & IS_VICTIM[ledger.kind])

    def _try_node(
        self, row: int, node: NodeId, victims: list[Victim], leaving: list[Victim]
    ) -> None:
        leave = self.within_limits(victims)
        if not leave:
            self._count_without(np.array([row], np.int64))
            return
        scratch = self._without(row, node, leaving)
        if self._fits(scratch):
            # Pods that leave already make room: no other victim is needed.
            self._count(NO_VICTIMS, 1)
            return
        self._remove(scratch, leave)
        if len(leave) < len(victims) and not self._fits(scratch):
            # Small pods may have used up what a large one needed.
            leave = self.within_limits(victims, largest_first=True)
            scratch = self._without(row, node, [*leaving, *leave])
        if not self._fits(scratch):
            for text in messages(self.state, scratch, self.wanted):
                self._count(text, 1)
            return
        chosen, violations = self._reprieve(scratch, leave)
        self._add(row, chosen, violations)

    def _without(self, row: int, node: NodeId, pods: list[Victim]) -> OneNode:
        """Return the node with its nominated pods and without these pods."""
        scratch = OneNode(self.state.table, row)
        for sig, mask in self.nominated_pods.get(node, ()):
            scratch.add_nominated(sig, mask)
        self._remove(scratch, pods)
        return scratch

    def _fits(self, scratch: OneNode) -> bool:
        return fits(self.state.table, self.wanted, scratch)

    def _remove(self, scratch: OneNode, pods: list[Victim]) -> None:
        for pod in pods:
            scratch.remove(compiled(self.state, pod.sig), pod.mask)

    def _reprieve(self, scratch: OneNode, victims: list[Victim]) -> tuple[list[Part], int]:
        """Put back the parts that fit; return those that do not, most important first, and how
        many of their pods violate budgets.
        """
        parts = self._parts(victims)
        if self.other_queues is not None:
            parts = self.other_queues.in_order(parts)
        violations = self._violations(parts)
        gone = reprieved(parts, violations, partial(self._stays, scratch))
        left = [parts[number] for number in gone]
        if self.other_queues is not None:
            left.sort(key=lambda part: -part.here[0].priority)  # as the candidate's keys want it
        return left, sum(violations[number] for number in gone)

    def within_limits(self, victims: list[Victim], largest_first: bool = False) -> list[Victim]:
        """Return the victims that may leave together, as far as guarantees of queues go."""
        if self.other_queues is None or not victims:
            return victims
        leave = {one.pod for one in self.other_queues.within(self._parts(victims), largest_first)}
        return [one for one in victims if one.pod in leave]

    def _stays(self, scratch: OneNode, part: Part) -> bool:
        """Put a part back if the pod fits beside it; return whether it does."""
        for one in part.here:
            scratch.add(compiled(self.state, one.sig), one.mask)
        if self._fits(scratch):
            return True
        self._remove(scratch, part.here)
        return False

    def _parts(self, victims: Sequence[Victim]) -> list[Part]:
        return parts_of(self.state, victims, self.spare, self.taken)

    def _violations(self, parts: list[Part]) -> list[int]:
        """Return how many pods of each part would violate a budget."""
        violating = self._violating([one for part in parts for one in part.pods()])
        return [sum(one.pod in violating for one in part.pods()) for part in parts]

    def _violating(self, victims: list[Victim]) -> set[PodId]:
        """Return the victims beyond their budgets' allowances; a budget not given has none left."""
        left = dict(self.left)
        violating: set[PodId] = set()
        for victim in victims:
            for one in self._budgets(victim.pod):
                left[one] = left.get(one, 0) - 1
                if left[one] < 0:
                    violating.add(victim.pod)
                    if self.state.config.compatibility >= V1_37:
                        break
        return violating

    def _budgets(self, pod: PodId) -> tuple[int, ...]:
        """Return the budgets that the pod's eviction would use, ascending: not those whose status
        counts it already.
        """
        first = int(self.state.ledger.budget[pod - self.state.ledger.base])
        if not first:
            return ()
        both = (first, *self.state.budgets_more.get(pod, ()))
        return tuple(one for one in sorted(both) if pod not in self.named.get(one, ()))

    def _add(self, row: int, chosen: list[Part], violations: int) -> None:
        node = self.state.table.node_id_at(row)
        here = [one for part in chosen for one in part.here]
        candidate = whole = candidate_of(node, here, violations, self.state.world)
        if self.state.units:
            everywhere = [one for part in chosen for one in part.pods()]
            whole = candidate_of(node, everywhere, violations, self.state.world)
            candidate = replace(candidate, earliest_start_ms=whole.earliest_start_ms)
        borrows = 0
        if self.other_queues is not None:
            borrows = min((self.other_queues.borrows(one.sig) for one in here), default=0)
        key = (
            *(violations, -borrows, whole.highest, whole.priority_sum),
            *(size(whole.victims), -whole.earliest_start_ms),
        )
        heappush(self.found, (key, row, candidate))
        self.clean += not violations

    def _count(self, message: str, nodes: int) -> None:
        if nodes:
            self.reasons[message] = self.reasons.get(message, 0) + nodes


class EvictablePods(DryRun):
    """Evictable pods and candidates for answers in which extenders or plugins choose
    the victims.
    """

    def evictable(self, row: int) -> list[Victim]:
        """Return the pods of lower priority on a node that do not leave yet, most
        important first.
        """
        node = self.state.table.node_id_at(row)
        return self.evictable_on([node])[node]

    def evictable_on(self, nodes: Sequence[NodeId]) -> VictimsByNode:
        """Return the evictable pods of several nodes, by node."""
        rows = [row for node in nodes if (row := self.state.table.row_of(node)) is not None]
        victims, _leaving = self._victims(np.array(rows, np.int64)) if rows else ({}, {})
        return {node: self.within_limits(victims.get(node, [])) for node in nodes}

    def is_protected(self, victim: Victim) -> bool:
        """Return whether its eviction alone violates a budget."""
        return bool(self._violating([victim]))

    def candidate(self, row: int, chosen: list[Victim]) -> Candidate:
        """Return the candidate in which these victims, and the rest of their units, leave this
        node.
        """
        if self.state.units:
            pods = {one.pod for one in chosen}
            chosen = on_node(self.state, self.evictable(row), pods, self.spare)
        parts = self._parts(chosen)
        self._add(row, parts, sum(self._violations(parts)))
        return self.found.pop()[-1]
