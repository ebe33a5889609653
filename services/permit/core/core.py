"""Permit's core: one transaction per attempt of a gang, committed or given back, never half.

Offers from every shard, one plan, holds asked at once, and then this journal alone says committed,
released or timed out; a shard never gives a hold back by itself. Nothing waits for more room while
it holds some: an attempt has at most `plans_max` plans, made from one round of offers, and a shard
is asked to hold once. It picks no nodes, and retries and lanes are queueing's matter.

Why an attempt is released as `stale`: what it was dispatched for is no longer so (the group
changed or went, or members left so that fewer than minCount remain), or a shard offered room that
others had taken when it was to be held. Queueing then tries again at once; offers that came to
nothing count as a failure from the `RACES_MAX`th on within a gate's time. A shard that refused only
what it never offered (see `plan`) would do so again: that is a failure at once.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from services.permit.core.config import Config, parse_config
from services.permit.core.plan import make_plan
from services.permit.core.state import Attempt, Gate, Hold, PermitState, ShardWord
from services.permit.core.transitions import Phase
from shared.events.base import Configured, Event
from shared.events.ingest import GangGone, GangSet, PodsAssigned, PodsGone
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut, HoldAsked, OfferAsked
from shared.events.placement import GangHeld, GangOffered, GangRefused, Shown
from shared.events.queueing import GangDispatched, Members
from shared.model.columns import pack, unpack
from shared.model.ids import BINDING, INGEST, PERMIT, QUEUEING, placement

__all__ = ["Config", "PermitCore", "PermitState", "parse_config"]


class PermitCore:
    """The state machine; see the module's first lines."""

    journal = PERMIT

    def __init__(self, placements: int) -> None:
        """`placements` is the number of shards (fixed for an epoch)."""
        assert placements >= 1
        self.placements = placements
        shards = (placement(shard) for shard in range(placements))
        self.sources: tuple[str, ...] = (INGEST, QUEUEING, *shards, BINDING)

    def new(self) -> PermitState:
        """See Core.new."""
        return PermitState(self.sources)

    def evolve(self, state: PermitState, event: Event) -> None:
        """See Core.evolve. What concerns no open attempt is ignored: answers may come late."""
        match event:
            case GangDispatched():
                _dispatched(state, event)
            case PodsGone() | PodsAssigned():
                _settle(state, event)
            case GangSet() | GangGone():
                _group_changed(state, event)
            case GangOffered():
                _offered(state, event, self.placements)
            case GangHeld() | GangRefused():
                _hold_answered(state, event)
            case OfferAsked():
                attempt = state.attempts[event.gang, event.attempt]
                attempt.groups = [group for group in attempt.groups if group[1]]
                attempt.follow("offer_asked")
                state.note(attempt)
            case HoldAsked():
                _hold_asked(state, event)
            case GangCommitted() | GangReleased() | GangTimedOut():
                _ended(state, event)
            case Configured():
                state.config = parse_config(event.config.get("permit", {}))

    def decide(self, state: PermitState) -> Iterator[Event]:
        """See Core.decide. Attempts in order of their dispatch, then the gates that are due."""
        pods_left = state.config.step_pods_max
        for _number, gang, key in sorted((key[1], key[0], key) for key in state.todo):
            attempt = state.attempts[key]
            gate = state.gates.get(gang)
            timed_out = gate is not None and gate.due_ms <= state.now_ms
            if timed_out and not attempt.enough and not attempt.broken:
                continue
            if pods_left <= 0:
                return
            pods_left -= max(1, attempt.live)
            yield from self._next(state, attempt)
        while state.timers and state.timers[0][0] <= state.now_ms:
            gang = state.timers[0][1]
            yield GangTimedOut(gang, state.gates[gang].attempt)

    def due_ms(self, state: PermitState) -> int | None:
        """See Core.due_ms."""
        if state.todo:
            return state.now_ms
        return state.timers[0][0] if state.timers else None

    def effects(self, _state: PermitState) -> Mapping[int, Event]:
        """Permit asks nothing of the outside."""
        return {}

    def dump(self, state: PermitState) -> Any:
        """See Core.dump."""
        return state.dump()

    def load(self, body: Any) -> PermitState:
        """See Core.load."""
        state = self.new()
        state.restore(body)
        return state

    def check(self, state: PermitState) -> None:
        """See Core.check."""
        assert state.timers == sorted((gate.due_ms, gang) for gang, gate in state.gates.items())
        for key, attempt in state.attempts.items():
            assert attempt.key == key
            pods = [pod for _sig, ids in attempt.groups for pod in ids]
            assert len(set(pods)) == len(pods), f"attempt {key} has a member twice"
            assert set(attempt.held) <= set(pods), f"attempt {key} holds pods that are no members"
            assert set(attempt.waiting) <= set(attempt.asked)
            if attempt.stale:
                continue
            assert not any(pod in state.settled for pod in pods), f"attempt {key} keeps the gone"
            assert attempt is state.latest(attempt.gang), f"attempt {key} has no gate"

    def _next(self, state: PermitState, attempt: Attempt) -> Iterator[Event]:
        """The next thing to do about one attempt that waits for no shard, or cannot commit."""
        gang, number = attempt.key
        if attempt.broken:
            yield GangReleased(gang, number, (), 0, stale=True)
        elif attempt.phase is Phase.NEW:
            yield OfferAsked(gang, number, _members(attempt.groups), attempt.preempts)
        elif attempt.enough:
            yield _commit(attempt)
        else:
            plan = _plan(attempt) if attempt.plans < state.config.plans_max else {}
            for shard, chosen in plan.items():
                yield HoldAsked(gang, number, shard, _members(chosen))
            if not plan:
                yield _release(attempt, state.raced(attempt) and not _guessed(attempt))


def _members(groups: list[tuple[int, list[int]]]) -> tuple[Members, ...]:
    return tuple(Members(sig, pack(ids)) for sig, ids in groups if ids)


def _commit(attempt: Attempt) -> GangCommitted:
    pods = [pod for _sig, ids in attempt.groups for pod in ids if pod in attempt.held]
    holds = [attempt.held[pod] for pod in pods]
    shards = len({hold.shard for hold in holds})
    nodes = pack([hold.node for hold in holds])
    waiting = pack(pod for pod in attempt.with_volumes if pod in attempt.held)
    shown = _shown(attempt)
    return GangCommitted(attempt.gang, attempt.attempt, pack(pods), nodes, shards, shown, waiting)


def _shown(attempt: Attempt) -> tuple[Shown, ...]:
    """What binding must know of members that are held still."""
    held = (([pod for pod in ids if pod in attempt.held], spec) for ids, spec in attempt.shown)
    return tuple(Shown(pack(ids), spec) for ids, spec in held if ids)


def _plan(attempt: Attempt) -> dict[int, list[tuple[int, list[int]]]]:
    """Members without a hold, over shards not asked before (so a hold is asked once a shard)."""
    open_groups = [
        (sig, [pod for pod in ids if pod not in attempt.held]) for sig, ids in attempt.groups
    ]
    offers = {
        shard: word.counts
        for shard, word in sorted(attempt.words.items())
        if shard not in attempt.asked
    }
    first = attempt.gang % len(attempt.words)
    return make_plan(first, attempt.min_count - len(attempt.held), open_groups, offers)


def _guessed(attempt: Attempt) -> bool:
    """Whether all who refused were asked for more of some group than they had offered."""
    holding = {hold.shard for hold in attempt.held.values()}
    refused = [shard for shard in attempt.asked if shard not in holding]
    return bool(refused) and all(_is_beyond(attempt, shard) for shard in refused)


def _is_beyond(attempt: Attempt, shard: int) -> bool:
    asked, counts = set(attempt.asked[shard]), attempt.words[shard].counts
    return any(
        len(asked.intersection(ids)) > count
        for (_sig, ids), count in zip(attempt.groups, counts, strict=False)
    )


def _release(attempt: Attempt, stale: bool) -> GangReleased:
    """Room is missing: reasons and node counts summed over the shards' latest words."""
    reasons: Counter[str] = Counter()
    nodes = 0
    for word in attempt.words.values():
        nodes += word.nodes
        for message, count in word.reasons:
            reasons[message] += count
    told = tuple(sorted(reasons.items()))
    helps = attempt.preemptible and not stale
    return GangReleased(attempt.gang, attempt.attempt, told, nodes, stale, helps)


def _dispatched(state: PermitState, event: GangDispatched) -> None:
    gang = event.gang
    if (gang, event.attempt) in state.attempts:
        return
    earlier = state.latest(gang)
    if earlier is not None:
        earlier.stale = True
        state.note(earlier)
    is_deleted = gang in state.deleted and gang not in state.versions
    if not is_deleted:
        gate = state.gates.get(gang)
        start_ms, races = (gate.start_ms, gate.races) if gate is not None else (state.now_ms, 0)
        state.set_gate(gang, Gate(start_ms, event.timeout_ms, event.attempt, races))
    groups = [
        (members.sig, state.settled.outside(unpack(members.ids).tolist()))
        for members in event.members
    ]
    attempt = Attempt(gang, event.attempt, event.version, max(1, event.min_count), groups)
    attempt.preempts = event.preempts
    attempt.stale = is_deleted or state.versions.get(gang, 0) > event.version
    state.open(attempt)


def _settle(state: PermitState, event: PodsGone | PodsAssigned) -> None:
    """Pods that are gone or have a node are members of nothing from here on."""
    ids = unpack(event.ids)
    state.settled.add(ids)
    if not state.member_of:
        return
    for pod in ids.tolist():
        key = state.member_of.pop(pod, None)
        if key is not None:
            attempt = state.attempts[key]
            attempt.drop(pod)
            state.note(attempt)


def _group_changed(state: PermitState, event: GangSet | GangGone) -> None:
    attempt = state.latest(event.gang)
    if isinstance(event, GangGone):
        state.versions.pop(event.gang, None)
        state.deleted.add(np.array([event.gang], np.int64))
        state.end_gate(event.gang)
        is_stale = True
    else:
        version = max(event.version, state.versions.get(event.gang, 0))
        state.versions[event.gang] = version
        is_stale = attempt is not None and attempt.version < version
    if attempt is not None and is_stale:
        attempt.stale = True
        state.note(attempt)


def _offered(state: PermitState, event: GangOffered, placements: int) -> None:
    attempt = state.attempts.get((event.gang, event.attempt))
    if attempt is None or attempt.phase is not Phase.OFFERING or event.shard in attempt.words:
        return
    attempt.words[event.shard] = ShardWord(event.counts, event.reasons, event.nodes)
    attempt.preemptible |= event.preemptible
    attempt.follow("all_offered" if len(attempt.words) == placements else "offered")
    state.note(attempt)


def _hold_asked(state: PermitState, event: HoldAsked) -> None:
    attempt = state.attempts[event.gang, event.attempt]
    assert event.shard not in attempt.asked, f"{attempt.key}: shard {event.shard} asked twice"
    if attempt.phase is not Phase.HOLDING:
        attempt.plans += 1
    asked = [pod for part in event.members for pod in unpack(part.ids).tolist()]
    attempt.asked[event.shard] = asked
    attempt.waiting.append(event.shard)
    attempt.follow("hold_asked")
    state.note(attempt)


def _hold_answered(state: PermitState, event: GangHeld | GangRefused) -> None:
    attempt = state.attempts.get((event.gang, event.attempt))
    if attempt is None or event.shard not in attempt.waiting:
        return
    attempt.waiting.remove(event.shard)
    if isinstance(event, GangRefused):
        offered = attempt.words[event.shard].counts
        attempt.words[event.shard] = ShardWord(offered, event.reasons, event.nodes)
    else:
        asked = set(attempt.asked[event.shard])
        nodes = unpack(event.nodes).tolist()
        for pod, node in zip(unpack(event.ids).tolist(), nodes, strict=True):
            if pod in asked and state.member_of.get(pod) == attempt.key:
                attempt.held[pod] = Hold(node, event.shard)
        attempt.shown += [(unpack(one.ids).tolist(), one.spec) for one in event.shown]
        attempt.shown.sort(key=lambda one: one[0][0])
        attempt.with_volumes = sorted({*attempt.with_volumes, *(one.pod for one in event.volumes)})
    attempt.follow("hold_answered" if attempt.waiting else "all_holds_answered")
    state.note(attempt)


def _ended(state: PermitState, event: GangCommitted | GangReleased | GangTimedOut) -> None:
    """An attempt's end, and with it the gate's unless the gang may still try in its time."""
    attempt = state.attempts.get((event.gang, event.attempt))
    if attempt is not None:
        match event:
            case GangCommitted():
                assert attempt.enough, f"{attempt.key} commits {len(attempt.held)} members"
                attempt.follow("gang_committed")
            case GangReleased():
                if event.stale and state.raced(attempt):
                    state.gates[event.gang].races += 1
                attempt.follow("gang_released")
            case GangTimedOut():
                attempt.follow("gang_timed_out")
        state.close(attempt)
    if not isinstance(event, GangReleased):
        state.end_gate(event.gang)
