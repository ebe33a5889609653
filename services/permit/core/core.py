"""Permit's core: one transaction per attempt of a gang, committed or released, never half; and
turns of shards for wide rules (turns.py).

Every shard offers, one plan is made, holds are asked for at once, and then this journal alone
commits, releases or times out; a shard never ends a hold by itself. No attempt waits for more room
while it holds some: it has at most `plans_max` plans, made from one round of offers, and a shard is
asked to hold once. Permit picks no nodes; retries and lanes belong to queueing.

An attempt is released as `stale` if its premise changed (the group changed or was deleted, or
members left so that fewer than minCount remain), or if a shard's offered room was taken before the
hold. Queueing then retries at once; lost offers count as a failure from the `RACES_MAX`th on within
one permit timeout. A shard that refused only what it never offered (see plan.py) would refuse
again: that is a failure at once.

Members with wide rules are held in turns, by one shard after the other (turns.py).
"""

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from typing import Any, assert_never

import numpy as np

from services.permit.core import domains, group_trees, turns
from services.permit.core.config import Config
from services.permit.core.plan import Group, as_members, cut_to, make_plan
from services.permit.core.state import (
    NO_KEY,
    Attempt,
    Hold,
    PermitState,
    PermitTimeout,
    ShardOffer,
)
from services.permit.core.transitions import Phase
from shared.events.base import Configured, Event
from shared.events.ingest import GangGone, GangSet, PodsAssigned, PodsGone
from shared.events.permit import (
    CountsAsked,
    GangCommitted,
    GangReleased,
    GangTimedOut,
    HoldAsked,
    OfferAsked,
    RulesChanged,
    TurnGranted,
)
from shared.events.placement import (
    CountsChanged,
    GangHeld,
    GangOffered,
    GangRefused,
    RulesCounted,
    Shown,
    TurnAsked,
    TurnEnded,
)
from shared.events.queueing import GangDispatched
from shared.machine.core import Core
from shared.machine.saved import load, save
from shared.model.columns import as_numbers, pack, unpack
from shared.model.ids import (
    BINDING,
    INGEST,
    PERMIT,
    QUEUEING,
    EffectId,
    JournalName,
    PodId,
    SignatureId,
    placement,
)
from shared.model.options import read_options


class PermitCore(Core[PermitState]):
    """Permit's state machine; see the module docstring."""

    journal = PERMIT

    def __init__(self, placements: int) -> None:
        """`placements`: the number of shards (fixed for an epoch)."""
        assert placements >= 1
        self.placements = placements
        shards = (placement(shard) for shard in range(placements))
        self.sources: tuple[JournalName, ...] = (INGEST, QUEUEING, *shards, BINDING)

    def new(self) -> PermitState:
        """Return the state before any event."""
        return PermitState(self.sources)

    def evolve(self, state: PermitState, event: Event) -> None:
        """Apply one event. Events about no open attempt are ignored: answers may be late."""
        match event:
            case GangDispatched():
                _on_gang_dispatched(state, event)
            case PodsGone() | PodsAssigned():
                _on_pods_assigned_or_gone(state, event)
            case GangSet() | GangGone():
                _on_group_changed(state, event)
            case GangOffered():
                _on_gang_offered(state, event, self.placements)
            case GangHeld() | GangRefused():
                turns.on_hold_answer(state, event)
                _on_hold_answer(state, event)
            case OfferAsked():
                attempt = state.attempts[event.gang, event.attempt]
                attempt.drop_empty_groups()
                attempt.asked_at = state.choices
                attempt.follow("offer_asked")
                state.note(attempt)
            case HoldAsked():
                _on_hold_asked(state, event)
            case GangCommitted() | GangReleased() | GangTimedOut():
                _on_attempt_ended(state, event)
                turns.end_without_hold(state, self.placements)
            case TurnAsked():
                turns.on_turn_asked(state, event)
            case CountsAsked():
                turns.on_counts_asked(state, event)
            case RulesCounted():
                turns.on_rules_counted(state, event, self.placements)
            case TurnGranted():
                turns.on_turn_granted(state, event)
            case TurnEnded():
                turns.on_turn_ended(state, event)
            case CountsChanged():
                turns.on_counts_changed(state, event)
            case RulesChanged():
                turns.on_rules_changed(state, event)
            case Configured():
                state.config = read_options("permit", event.config, Config)

    def decide(self, state: PermitState) -> Iterator[Event]:
        """Yield the decisions: turns, attempts in order of dispatch, then the due timeouts."""
        yield from turns.decide_turns(state, self.placements)
        pods_left = state.config.step_pods_max
        for _number, gang, key in sorted((key[1], key[0], key) for key in state.undecided):
            attempt = state.attempts[key]
            timeout = state.timeouts.get(gang)
            timed_out = timeout is not None and timeout.due_ms <= state.now_ms
            if timed_out and not attempt.can_commit and not attempt.cannot_commit:
                continue
            if pods_left <= 0:
                return
            pods_left -= max(1, attempt.live)
            yield from self._decide_attempt(state, attempt)
        while state.timers and state.timers[0][0] <= state.now_ms:
            gang = state.timers[0][1]
            yield GangTimedOut(gang, state.timeouts[gang].attempt)

    def due_ms(self, state: PermitState) -> int | None:
        """Return when there is something to decide without new input, ms."""
        if state.undecided or turns.is_due(state, self.placements):
            return state.now_ms
        return state.timers[0][0] if state.timers else None

    def effects(self, _state: PermitState) -> Mapping[EffectId, Event]:
        """Return nothing: permit has no effects."""
        return {}

    def dump(self, state: PermitState) -> Any:
        """Return canonical plain values."""
        return save(state)

    def load(self, body: Any) -> PermitState:
        """Restore what `dump` returned."""
        return load(self.new(), body).derive()

    def check(self, state: PermitState) -> None:
        """Check the derived parts of the state."""
        assert state.timers == sorted(
            (timeout.due_ms, gang) for gang, timeout in state.timeouts.items()
        )
        for one in state.asked_turns:
            is_open = one.of == NO_KEY or one.of in state.attempts
            assert is_open, f"attempt {one.of} has ended and waits for its turn"
        for key, attempt in state.attempts.items():
            assert attempt.key == key
            pods = [pod for _sig, ids in attempt.groups for pod in ids]
            assert len(set(pods)) == len(pods), f"attempt {key} has a member twice"
            assert set(attempt.held) <= set(pods), f"attempt {key} holds pods that are no members"
            assert set(attempt.open_shards) <= set(attempt.asked)
            if attempt.stale:
                continue
            assert not any(pod in state.settled for pod in pods), (
                f"attempt {key} has a settled member"
            )
            assert attempt is state.latest(attempt.gang), f"attempt {key} is not its gang's latest"

    def _decide_attempt(self, state: PermitState, attempt: Attempt) -> Iterator[Event]:
        """Yield the next decision about an attempt that waits for no shard or cannot commit."""
        gang, number = attempt.key
        if attempt.cannot_commit:
            yield GangReleased(gang, number, (), 0, stale=True)
        elif attempt.phase is Phase.NEW:
            members, placed = as_members(attempt.groups), pack(attempt.placed)
            topology, preempts = attempt.topology, attempt.preempts
            needed = 0 if topology is None or attempt.minimums else attempt.min_count
            pairs = zip(attempt.leaves, attempt.groups, strict=bool(attempt.tree))
            leaves = tuple(leaf for leaf, (_sig, ids) in pairs if ids)
            asked = gang, number, members, preempts, topology, placed, needed
            yield OfferAsked(*asked, tree=attempt.tree, leaves=leaves)
        elif attempt.can_commit:
            yield _decide_commit(attempt)
        elif attempt.topology is not None:
            yield from _decide_in_domain(state, attempt)
        elif attempt.has_topology:
            yield _decide_in_domains(state, attempt)
        elif attempt.wide:
            yield _decide_release(attempt, state.lost_race(attempt) and _lacks_reasons(attempt))
        else:
            plan = {}
            if attempt.plans < state.config.plans_max:
                plan = group_trees.plan_holds(attempt) if attempt.tree else _plan_holds(attempt)
            for shard, chosen in plan.items():
                yield HoldAsked(gang, number, shard, as_members(chosen))
            if not plan:
                yield _decide_release(
                    attempt, state.lost_race(attempt) and not _asked_beyond_offers(attempt)
                )


def _decide_in_domain(state: PermitState, attempt: Attempt) -> Iterator[Event]:
    """Yield the holds in the attempt's domain, or the release: it is no failure as long as another
    domain may have room.
    """
    plan = {} if attempt.plans or attempt.topology is None else domains.plan_holds(attempt)
    for shard, asked in plan.items():
        members, paths = zip(*asked, strict=True)
        yield HoldAsked(*attempt.key, shard, members, levels=attempt.levels, domains=paths)
    if not plan:
        excluded = state.excluded(attempt)
        is_next = attempt.domain is not None and domains.choose(attempt, excluded, {}) is not None
        yield _decide_release(attempt, stale=is_next)


def _decide_in_domains(state: PermitState, attempt: Attempt) -> HoldAsked | GangReleased:
    """Return the next hold of a tree with topologies, or the release: it is no failure if the
    offered room was taken. Members with wide rules are held in turns, which know no such trees.
    """
    asked = None if attempt.wide else group_trees.next_hold(attempt)
    was_taken = state.lost_race(attempt) and not attempt.held
    return asked or _decide_release(attempt, stale=was_taken)


def _decide_commit(attempt: Attempt) -> GangCommitted:
    starting = attempt.starting(attempt.held) if attempt.tree else attempt.held
    assert starting is not None, f"{attempt.key} commits an infeasible tree"
    pods = [pod for _sig, ids in attempt.groups for pod in ids if pod in starting]
    holds = [attempt.held[pod] for pod in pods]
    shards = len({hold.shard for hold in holds})
    nodes = pack([hold.node for hold in holds])
    waiting = pack(pod for pod in attempt.with_volumes if pod in starting)
    shown = _shown(attempt, starting)
    return GangCommitted(attempt.gang, attempt.attempt, pack(pods), nodes, shards, shown, waiting)


def _shown(attempt: Attempt, starting: Container[PodId]) -> tuple[Shown, ...]:
    """Return the bind plugin specs of members that start."""
    held = (
        ([pod for pod in ids if pod in starting], spec) for ids, spec in attempt.bind_plugin_specs
    )
    return tuple(Shown(pack(ids), spec) for ids, spec in held if ids)


def _plan_holds(attempt: Attempt) -> dict[int, list[Group]]:
    """Return shard -> members to hold, for members without a hold and shards not asked before (a
    shard is asked to hold once).
    """
    offers = {
        shard: word.counts
        for shard, word in sorted(attempt.offers.items())
        if shard not in attempt.asked
    }
    first = attempt.gang % len(attempt.offers)
    needed = attempt.min_count - len(attempt.held)
    rule, kept = attempt.minimums_rule, attempt.kept()
    plan = make_plan(first, needed, attempt.without_hold(), offers, rule, kept)
    return cut_to(plan, needed, attempt.minimums_rule) if attempt.minimum_only else plan


def _asked_beyond_offers(attempt: Attempt) -> bool:
    """Return whether all refusing shards were asked for more members of some group than they had
    offered.
    """
    holding = {hold.shard for hold in attempt.held.values()}
    refused = [shard for shard in attempt.asked if shard not in holding]
    return bool(refused) and all(_exceeds_offer(attempt, shard) for shard in refused)


def _exceeds_offer(attempt: Attempt, shard: int) -> bool:
    asked, counts = set(attempt.asked[shard]), attempt.offers[shard].counts
    return any(
        len(asked.intersection(ids)) > count
        for (_sig, ids), count in zip(attempt.groups, counts, strict=False)
    )


def _lacks_reasons(attempt: Attempt) -> bool:
    """Return whether a shard refused because of an older decision about a member."""
    return any(word.nodes and not word.reasons for word in attempt.offers.values())


def _decide_release(attempt: Attempt, stale: bool) -> GangReleased:
    """Return the release for missing room, with members, reasons and node counts summed over the
    shards' latest offers.
    """
    reasons: Counter[str] = Counter()
    nodes = 0
    for word in attempt.offers.values():
        nodes += word.nodes
        for message, count in word.reasons:
            reasons[message] += count
    sorted_reasons = tuple(sorted(reasons.items()))
    if stale:
        return GangReleased(attempt.gang, attempt.attempt, sorted_reasons, nodes, stale=True)
    if attempt.tree:
        needed, placed = attempt.tree[0].least, group_trees.count_feasible(attempt)
        return GangReleased(
            *(attempt.gang, attempt.attempt, sorted_reasons, nodes),
            preemptible=attempt.preemptible,
            placed=min(placed, needed),
            needed=needed,
        )
    domain, placed = "", _count_placed(attempt)
    may_preempt, paths = attempt.preemptible, domains.for_preemption(attempt)
    if attempt.topology is not None:
        domain, placed = domains.most_placed(attempt)
        placed = min(placed, attempt.min_count - 1)
        may_preempt &= bool(paths)
    return GangReleased(
        attempt.gang,
        attempt.attempt,
        sorted_reasons,
        nodes,
        preemptible=may_preempt,
        placed=placed,
        needed=attempt.min_count,
        domain=domain,
        domains=paths if may_preempt else (),
    )


def _count_placed(attempt: Attempt) -> int:
    """Return how many members are held, or would fit in the shards that hold none. It is less than
    needed: where more would fit, a shard could not hold what it was asked to.
    """
    live = {pod for _sig, ids in attempt.groups for pod in ids}
    placed = set(attempt.held)
    for shard, asked in sorted(attempt.asked.items()):
        others = [pod for pod in asked if pod in live and pod not in placed]
        placed.update(others[: attempt.offers[shard].placed])
    offers = [word.counts for shard, word in attempt.offers.items() if shard not in attempt.asked]
    more = 0
    for (_sig, ids), *counts in zip(attempt.groups, *offers, strict=False):
        more += min(sum(pod not in placed for pod in ids), sum(counts))
    return min(len(placed) + more, attempt.min_count - 1)


def _on_gang_dispatched(state: PermitState, event: GangDispatched) -> None:
    gang = event.gang
    if (gang, event.attempt) in state.attempts:
        return
    earlier = state.latest(gang)
    if earlier is not None:
        earlier.stale = True
        state.note(earlier)
    is_deleted = gang in state.deleted and gang not in state.versions
    if not is_deleted:
        timeout = state.timeouts.get(gang)
        start_ms = timeout.start_ms if timeout is not None else state.now_ms
        races, excluded = (timeout.races, timeout.excluded) if timeout is not None else (0, [])
        timeout = PermitTimeout(start_ms, event.timeout_ms, event.attempt, races, excluded)
        state.set_timeout(gang, timeout)
    groups: list[Group] = [
        (members.sig, state.settled.outside(unpack(members.ids).tolist()))
        for members in event.members
    ]
    attempt = Attempt(gang, event.attempt, event.version, max(1, event.min_count), groups)
    attempt.preempts, attempt.minimums = event.preempts, event.minimums
    attempt.tree, attempt.leaves = event.tree, list(event.leaves)
    attempt.minimum_only = event.minimum_only
    attempt.topology, attempt.placed = event.topology, unpack(event.placed).tolist()
    attempt.stale = is_deleted or state.versions.get(gang, 0) > event.version
    state.open(attempt)


def _on_pods_assigned_or_gone(state: PermitState, event: PodsGone | PodsAssigned) -> None:
    """Remove pods that are deleted or have a node from their gangs."""
    ids = unpack(event.ids)
    state.settled.add(ids)
    if isinstance(event, PodsGone):
        for attempt in state.attempts.values():
            if attempt.placed:
                attempt.lose(ids.tolist())
                state.note(attempt)
    if not state.member_of:
        return
    for pod in ids.tolist():
        key = state.member_of.pop(pod, None)
        if key is not None:
            attempt = state.attempts[key]
            attempt.drop(pod)
            state.note(attempt)


def _on_group_changed(state: PermitState, event: GangSet | GangGone) -> None:
    attempt = state.latest(event.gang)
    if isinstance(event, GangGone):
        state.versions.pop(event.gang, None)
        state.deleted.add(np.array([event.gang], np.int64))
        state.end_timeout(event.gang)
        is_stale = True
    else:
        version = max(event.version, state.versions.get(event.gang, 0))
        state.versions[event.gang] = version
        is_stale = attempt is not None and attempt.version < version
    if attempt is not None and is_stale:
        attempt.stale = True
        state.note(attempt)


def _on_gang_offered(state: PermitState, event: GangOffered, placements: int) -> None:
    attempt = state.attempts.get((event.gang, event.attempt))
    if attempt is None or attempt.phase is not Phase.OFFERING or event.shard in attempt.offers:
        return
    attempt.offers[event.shard] = ShardOffer(
        event.counts,
        event.reasons,
        event.nodes,
        domains=event.domains,
        homes=event.homes,
        scoring=event.scoring,
        whole=event.whole,
        kept=event.kept,
    )
    attempt.preemptible |= event.preemptible
    if event.wide:
        attempt.wide = sorted({*attempt.wide, *map(SignatureId, as_numbers(event.wide))})
    if len(attempt.offers) == placements and attempt.topology is not None:
        timeout = state.timeouts.get(attempt.gang)
        excluded = timeout.excluded if timeout is not None else ()
        attempt.domain = domains.choose(attempt, excluded, state.taken(attempt))
        state.choices += 1
        attempt.chosen_at = state.choices
    if len(attempt.offers) < placements:
        attempt.follow("offered")
    elif attempt.wide and not attempt.lacks_domain and not attempt.has_topology:
        turns.wait_in_line(state, attempt)
    else:
        attempt.follow("all_offered")
    state.note(attempt)


def _on_hold_asked(state: PermitState, event: HoldAsked) -> None:
    attempt = state.attempts[event.gang, event.attempt]
    if event.turn:
        turns.on_hold_asked(state, event)
    else:
        assert event.shard not in attempt.asked, f"{attempt.key}: shard {event.shard} asked twice"
    if attempt.phase is not Phase.HOLDING:
        attempt.plans += 1
    asked = [pod for part in event.members for pod in unpack(part.ids).tolist()]
    attempt.asked[event.shard] = asked
    attempt.open_shards.append(event.shard)
    attempt.follow("hold_asked")
    state.note(attempt)


def _on_hold_answer(state: PermitState, event: GangHeld | GangRefused) -> None:
    attempt = state.attempts.get((event.gang, event.attempt))
    if attempt is None or event.shard not in attempt.open_shards:
        return
    attempt.open_shards.remove(event.shard)
    if isinstance(event, GangRefused):
        word = attempt.offers[event.shard]
        word.reasons, word.nodes, word.placed = event.reasons, event.nodes, event.placed
        attempt.refusals += 1
        attempt.stale |= event.uncounted
    else:
        attempt.refusals = 0
        if event.homes:
            attempt.offers[event.shard].homes = event.homes
        asked = set(attempt.asked[event.shard])
        nodes = unpack(event.nodes).tolist()
        for pod, node in zip(unpack(event.ids).tolist(), nodes, strict=True):
            if pod in asked and state.member_of.get(pod) == attempt.key:
                attempt.held[pod] = Hold(node, event.shard)
        attempt.bind_plugin_specs += [(unpack(one.ids).tolist(), one.spec) for one in event.shown]
        attempt.bind_plugin_specs.sort(key=lambda one: one[0][0])
        choosing = {one.pod for one in event.volumes} | {one.pod for one in event.claims}
        attempt.with_volumes = sorted(choosing.union(attempt.with_volumes))
    attempt.follow("hold_answered" if attempt.open_shards else "all_holds_answered")
    state.note(attempt)


def _on_attempt_ended(
    state: PermitState, event: GangCommitted | GangReleased | GangTimedOut
) -> None:
    """End an attempt, and with it the permit timeout unless the gang may still retry within it."""
    attempt = state.attempts.get((event.gang, event.attempt))
    if attempt is not None:
        match event:
            case GangCommitted():
                assert attempt.can_commit, f"{attempt.key} commits {len(attempt.held)} members"
                attempt.follow("gang_committed")
            case GangReleased():
                if event.stale and attempt.topology is None and state.lost_race(attempt):
                    state.timeouts[event.gang].races += 1
                state.note_excluded(attempt, event.stale)
                attempt.follow("gang_released")
            case GangTimedOut():
                attempt.follow("gang_timed_out")
            case _:
                assert_never(event)
        state.close(attempt)
    if not isinstance(event, GangReleased):
        state.end_timeout(event.gang)
