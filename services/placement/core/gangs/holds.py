"""A shard's part in gangs: offers on a trial state, holds in one step, and giving them back.

The shard never ends a hold by itself: permit's journal says committed or released.
"""

import msgspec
import numpy as np

from services.placement.core.books import remade_nodes
from services.placement.core.books.charges import compiled, put, take
from services.placement.core.books.identity import expanded
from services.placement.core.books.ledger import groups
from services.placement.core.extenders import gang_members, questions
from services.placement.core.gangs import member_volumes, places
from services.placement.core.gangs.member_volumes import Assumed, Choices
from services.placement.core.gangs.nominated_places import OwnRoom, holding
from services.placement.core.placing import bind_plugins
from services.placement.core.placing.cycle import NOTHING, Chosen, joined, place
from services.placement.core.placing.dispatches import assert_not_over, remember_refused, settle
from services.placement.core.placing.unsupported import obstacle
from services.placement.core.preemption import nominations
from services.placement.core.state import PlacementState
from services.placement.core.transitions import State
from services.placement.core.volumes import reservations
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut, HoldAsked, OfferAsked
from shared.events.placement import GangHeld, GangOffered, GangRefused, MemberVolumes, Shown
from shared.events.queueing import Members
from shared.model.columns import I64, pack, pack_totals, size, unpack
from shared.scheduling.table.layout import Held
from shared.scheduling.table.table import NodeTable

Reasons = tuple[tuple[str, int], ...]
Part = tuple[I64, I64, Chosen, list[Choices]]
"""(pods, their signatures, picks, what their claims get: empty where nothing is to be chosen)"""
PLACEABLE = (State.FREE,)
LEFT_OUT = (State.GONE, State.ASSIGNED, State.STRAY, State.BOUND)


def offer(state: PlacementState, event: OfferAsked, void: bool) -> GangOffered:
    """How many of each group fit, tried in order on a trial state; reasons of the first that is
    short.
    """
    nodes = len(state.nodes)
    known = all(group.sig in state.specs for group in expanded(state, event.members))
    if void or not known:
        none = tuple(0 for _ in event.members)
        return GangOffered(state.shard, event.gang, event.attempt, none, (), nodes)
    trial, own = state.table.trial(), OwnRoom(state, event.gang, event.attempt)
    counts: list[int] = []
    reasons: Reasons = ()
    helps = False
    with member_volumes.trying(state) as assumed:
        for group in event.members:
            placed = 0
            for part in expanded(state, (group,)):
                picks, _, why = _try(state, trial, part.sig, size(part.ids), assumed, own)
                placed += len(picks.rows)
                reasons = reasons or why
                if event.preempts and why and not helps:
                    with holding(trial, own.held(part.sig) or {}):
                        helps = places.may_help(state, trial, part.sig)
            counts.append(placed)
    offered = GangOffered(state.shard, event.gang, event.attempt, tuple(counts), reasons, nodes)
    return msgspec.structs.replace(offered, preemptible=helps)


def _try(
    state: PlacementState, trial: NodeTable, sig: int, count: int, assumed: Assumed, own: OwnRoom
) -> tuple[Chosen, list[Choices], Reasons]:
    """Place and charge on the trial; with reasons when it is less than asked for."""
    why_not = obstacle(state, sig)
    if why_not:
        return NOTHING, [], ((why_not, len(state.nodes)),)
    choices: list[Choices] = []
    judged = questions.concerned(state, sig)
    if judged or reservations.chooses(state, sig):
        held = own.held(sig)

        def one() -> Chosen:
            if judged:
                return gang_members.place_one(state, trial, own.key, sig, held)
            return place(state, trial, sig, 1, held)

        picks, choices = member_volumes.place_each(state, trial, sig, count, one, assumed)
    else:
        mine = own.take(trial, sig, count)
        held = own.held(sig)
        picks = place(state, trial, sig, count - len(mine), held)
        trial.charge(compiled(state, sig), picks.rows, picks.masks)
        picks = joined([*mine, picks]) if mine else picks
    if len(picks.rows) == count:
        return picks, choices, ()
    why = _why(state, trial, sig, held or {})
    return picks, choices, gang_members.reasons(state, own.key, sig, why) if judged else why


def _why(state: PlacementState, trial: NodeTable, sig: int, held: Held) -> Reasons:
    """Reasons on the trial."""
    with holding(trial, held):
        return state.kernel.reasons(trial, compiled(state, sig)).messages


def hold(state: PlacementState, event: HoldAsked, void: bool) -> GangHeld | GangRefused:
    """All that is asked for, or nothing. Members that are gone or placed already are left out."""
    refuse = GangRefused(state.shard, event.gang, event.attempt, (), len(state.nodes), state.world)
    known = all(group.sig in state.specs for group in event.members)
    if void or not known or event.shard != state.shard:
        return refuse
    trial, own = state.table.trial(), OwnRoom(state, event.gang, event.attempt)
    parts: list[Part] = []
    with member_volumes.trying(state) as assumed:
        for group in event.members:
            ids = unpack(group.ids)
            rows = state.ledger.rows(ids)  # first: it may replace the columns
            kinds = state.ledger.kind[rows]
            ids = ids[~np.isin(kinds, LEFT_OUT)]
            if not np.isin(kinds, (*PLACEABLE, *LEFT_OUT)).all():
                return refuse
            picks, choices, why = _try(state, trial, group.sig, len(ids), assumed, own)
            if why:
                return msgspec.structs.replace(refuse, reasons=why)
            parts.append((ids, np.full(len(ids), group.sig), picks, choices))
    return _held(state, event, parts)


def _held(state: PlacementState, event: HoldAsked, parts: list[Part]) -> GangHeld:
    masks = np.concatenate([picks.masks for _ids, _sigs, picks, _choices in parts])
    rows = np.concatenate([picks.rows for _ids, _sigs, picks, _choices in parts])
    return GangHeld(
        shard=state.shard,
        gang=event.gang,
        attempt=event.attempt,
        ids=pack(np.concatenate([ids for ids, *_rest in parts])),
        sigs=pack(np.concatenate([sigs for _ids, sigs, *_rest in parts])),
        nodes=pack(state.table.ids[rows]),
        totals=pack_totals(
            np.concatenate([picks.totals for _ids, _sigs, picks, _choices in parts])
        ),
        world=state.world,
        devices=pack(masks) if masks.any() else b"",
        shown=_shown(state, parts),
        volumes=_volumes(state, parts),
    )


def _volumes(state: PlacementState, parts: list[Part]) -> tuple[MemberVolumes, ...]:
    """Members for which volumes were chosen."""
    return tuple(
        MemberVolumes(pod, own, bind_plugins.shown(state, sig))
        for ids, sigs, _picks, choices in parts
        if choices
        for pod, sig, own in zip(ids.tolist(), sigs.tolist(), choices, strict=True)
    )


def _shown(state: PlacementState, parts: list[Part]) -> tuple[Shown, ...]:
    """Members at whose bind somebody acts; those with volumes are told with these."""
    parts = [part for part in parts if len(part[0]) and not part[3]]
    specs = [(ids, bind_plugins.shown(state, int(sigs[0]))) for ids, sigs, *_rest in parts]
    return tuple(Shown(pack(ids), spec) for ids, spec in specs if spec is not None)


def answered(state: PlacementState, event: GangOffered | GangHeld | GangRefused) -> None:
    """The first ask is answered; what was short is remembered for wake-ups."""
    ask = state.todo.asks.popleft()
    asked = ask.event
    assert isinstance(asked, OfferAsked | HoldAsked), f"{event} answers {asked}"
    same = (asked.gang, asked.attempt) == (event.gang, event.attempt)
    assert same, f"{event} answers {asked}"
    if isinstance(event, GangHeld):
        _hold(state, event)
    elif not ask.void:
        for sig in _short(state, asked.members, event):
            remember_refused(state, sig)
            gang_members.refused(state, (event.gang, event.attempt), sig)


def _short(
    state: PlacementState, members: tuple[Members, ...], event: GangOffered | GangRefused
) -> list[int]:
    short = members
    if isinstance(event, GangOffered):
        counts = zip(members, event.counts, strict=True)
        short = tuple(group for group, count in counts if count < size(group.ids))
    return [group.sig for group in expanded(state, short)]


def _hold(state: PlacementState, event: GangHeld) -> None:
    ids, sigs, nodes = unpack(event.ids), unpack(event.sigs), unpack(event.nodes)
    rows = state.ledger.rows(ids)
    state.ledger.advance(rows, "GangHeld")
    masks = unpack(event.devices) if event.devices else np.zeros(len(ids), np.int64)
    for sig, part in groups(sigs):
        assert_not_over(state, sig, put(state, rows[part], sig, nodes[part], masks[part]))
    state.holds[event.gang, event.attempt] = ids
    member_volumes.held(state, event)
    if state.nominated:
        for pod, sig, node in zip(ids.tolist(), sigs.tolist(), nodes.tolist(), strict=True):
            nominations.held_for(state, pod, event.gang, sig, node)
        nominations.pods_came(state, nodes)


def committed(state: PlacementState, event: GangCommitted) -> None:
    """Holds become reservations; what permit dropped meanwhile is given back."""
    if state.unsettled:
        members = unpack(event.ids).tolist()
        remade_nodes.attempt_over(state, event.gang, event.attempt, members)
    gang_members.over(state, (event.gang, event.attempt))
    member_volumes.committed(state, event)
    nominations.gang_committed(state, event.gang)
    ids = state.holds.pop((event.gang, event.attempt), None)
    if ids is None:
        return
    kept = np.isin(ids, unpack(event.ids))
    state.ledger.advance(state.ledger.rows(ids[kept]), "GangCommitted")
    _give_back(state, ids[~kept])


def released(state: PlacementState, event: GangReleased | GangTimedOut) -> None:
    """Every hold of the attempt is void, and so is what was asked for it."""
    state.todo.void(event.gang, event.attempt)
    gang_members.over(state, (event.gang, event.attempt))
    if state.unsettled:
        remade_nodes.attempt_over(state, event.gang, event.attempt, ())
    member_volumes.released(state, (event.gang, event.attempt))
    if (event.gang, event.attempt) in state.holds:
        nominations.gang_released(state, event.gang)
    ids = state.holds.pop((event.gang, event.attempt), None)
    if ids is not None:
        _give_back(state, ids)


def _give_back(state: PlacementState, ids: I64) -> None:
    ledger = state.ledger
    rows = ledger.rows(ids)
    before = ledger.advance(rows, "GangReleased")
    mine = before == State.HELD
    take(state, rows[mine])
    reservations.let_go(state, ids[mine].tolist())
    settle(state, ids[mine])
