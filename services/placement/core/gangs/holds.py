"""A shard's part in gangs: offers on a trial table, holds in one step, and their release.

The shard never ends a hold by itself: permit's journal commits or releases it.

Members with wide rules are held in turns, and those of trees with topologies by one shard after the
other, before it is known whether enough fit. Until the commit such a hold wakes no refused pods.
Its release wakes only pods that were refused during the hold.
"""

from collections.abc import Iterator
from contextlib import nullcontext

import msgspec
import numpy as np

from services.placement.core.books import remade_nodes
from services.placement.core.books.charges import announce, charge, release
from services.placement.core.books.identity import expanded
from services.placement.core.books.ledger import IS_CHARGED, groups
from services.placement.core.books.wide_rules import is_wide, quietly
from services.placement.core.extenders import gang_members
from services.placement.core.gangs import domain_offers, member_choices, places, tree_offers
from services.placement.core.gangs.member_choices import Choices
from services.placement.core.gangs.member_picks import Reasons, pick_members, reasons
from services.placement.core.gangs.nominated_places import GangPlaces
from services.placement.core.gangs.tree_trials import TreeTrial
from services.placement.core.gangs.trial_picks import with_nominated_pods
from services.placement.core.placing.cycle import spec_for_bind_plugins
from services.placement.core.placing.dispatches import (
    assert_not_over,
    remember_refused,
    resume_deferred,
)
from services.placement.core.preemption import nominations
from services.placement.core.state import PlacementState
from services.placement.core.transitions import State
from services.placement.core.volumes import reservations
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut, HoldAsked, OfferAsked
from shared.events.placement import (
    GangHeld,
    GangOffered,
    GangRefused,
    MemberClaims,
    MemberVolumes,
    Shown,
)
from shared.events.queueing import Members
from shared.model.columns import I64, as_numbers, pack, pack_totals, size, unpack
from shared.model.ids import PodId, SignatureId
from shared.model.objects import PodSpec
from shared.scheduling.table.picks import Picks

Part = tuple[I64, I64, Picks, list[Choices]]
"""(pods, signatures, picks, choices); the choices are empty if there are none to make."""
PLACEABLE = (State.FREE,)
LEFT_OUT = (State.GONE, State.ASSIGNED, State.STRAY, State.BOUND)


def decide_offer(state: PlacementState, event: OfferAsked, void: bool) -> GangOffered:
    """Return the offer, with the number of the places that the gang keeps here."""
    offered = _offer(state, event, void)
    if not state.kept_places:
        return offered
    kept = sum(one.gang == event.gang and one.counts for one in nominations.kept(state))
    return msgspec.structs.replace(offered, kept=kept)


def _offer(state: PlacementState, event: OfferAsked, void: bool) -> GangOffered:
    """Return how many members of each group fit, tried in order on a trial table, with the reasons
    of the first group that is short.
    """
    nodes = len(state.nodes)
    known = all(group.sig in state.specs for group in expanded(state, event.members))
    if void or not known:
        none = tuple(0 for _ in event.members)
        return GangOffered(state.shard, event.gang, event.attempt, none, (), nodes)
    if event.topology is not None:
        by_domain = domain_offers.decide_offer(state, event, event.topology)
        return msgspec.structs.replace(by_domain, wide=pack(_wide(state, event)))
    if event.tree:
        of_tree = tree_offers.decide_offer(state, event)
        return msgspec.structs.replace(of_tree, wide=pack(_wide(state, event)))
    trial, gang_places = state.table.trial(), GangPlaces(state, event.gang, event.attempt)
    counts: list[int] = []
    short: list[SignatureId] = []
    why: Reasons = ()
    helps = False
    with member_choices.assumed_on_trial(state) as assumed:
        for group in event.members:
            placed = 0
            for part in expanded(state, (group,)):
                picks, _ = pick_members(
                    state, trial, part.sig, size(part.ids), assumed, gang_places
                )
                placed += len(picks.rows)
                if len(picks.rows) == size(part.ids):
                    continue
                short.append(part.sig)
                if event.preempts and not helps:
                    with with_nominated_pods(trial, gang_places.nominated_pods(part.sig) or {}):
                        helps = places.may_help(state, trial, part.sig)
            counts.append(placed)
        if short:
            why = reasons(state, trial, short[0], gang_places)
    offered = GangOffered(state.shard, event.gang, event.attempt, tuple(counts), why, nodes)
    return msgspec.structs.replace(offered, preemptible=helps, wide=pack(_wide(state, event)))


def _wide(state: PlacementState, event: OfferAsked | HoldAsked) -> list[SignatureId]:
    """Return the members' signatures that need a turn, ascending."""
    sigs = {group.sig for group in expanded(state, event.members)}
    return sorted(sig for sig in sigs if is_wide(state, sig))


def decide_hold(state: PlacementState, event: HoldAsked, void: bool) -> GangHeld | GangRefused:
    """Hold all requested members or none; in a turn as many as fit. Deleted and placed members are
    left out. In a topology domain the groups are tried in reverse order, too.
    """
    if event.tree:
        return _held_tree(state, event, void)
    answer = _held_in_order(state, event, void)
    can_turn = len(event.members) > 1 and event.domains and not (void or event.turn)
    if isinstance(answer, GangHeld) or not can_turn:
        return answer
    members, paths = event.members[::-1], event.domains[::-1]
    in_reverse = msgspec.structs.replace(event, members=members, domains=paths)
    other = _held_in_order(state, in_reverse, void)
    return other if isinstance(other, GangHeld) else answer


def _refuses(state: PlacementState, event: HoldAsked, void: bool) -> tuple[GangRefused, bool]:
    """Return a refusal, and whether it is the answer."""
    refuse = GangRefused(state.shard, event.gang, event.attempt, (), len(state.nodes), state.world)
    known = all(group.sig in state.specs for group in event.members)
    if void or not known or event.shard != state.shard:
        return refuse, True
    if not set(_wide(state, event)).issubset(as_numbers(event.sigs)):
        return msgspec.structs.replace(refuse, uncounted=True), True
    return refuse, False


def _held_tree(state: PlacementState, event: HoldAsked, void: bool) -> GangHeld | GangRefused:
    """Hold members of a tree with topologies."""
    refuse, is_answer = _refuses(state, event, void)
    columns = [_placeable(state, group) for group in event.members]
    if is_answer or any(ids is None for ids in columns):
        return refuse
    ids_of = [ids for ids in columns if ids is not None]
    counted = [[(group.sig, len(ids))] for group, ids in zip(event.members, ids_of, strict=True)]
    trial = TreeTrial(state, event, counted, gives_room=not event.partly)
    placed = sum(trial.counts)
    if not placed or not (event.partly or trial.is_feasible):
        return msgspec.structs.replace(refuse, reasons=trial.why, placed=placed)
    parts: list[Part] = []
    for ids, found in zip(ids_of, trial.picks, strict=True):
        for sig, picks, choices in found:
            chosen = ids[: len(picks.rows)]
            parts.append((chosen, np.full(len(chosen), sig), picks, choices))
    return msgspec.structs.replace(
        _held_event(state, event, parts), homes=trial.homes(is_held=True)
    )


def _placeable(state: PlacementState, group: Members) -> I64 | None:
    """Return the members without those deleted or placed; None if one is in another state."""
    ids = unpack(group.ids)
    rows = state.ledger.rows(ids)  # first: may replace the columns
    kinds = state.ledger.kind[rows]
    if not np.isin(kinds, (*PLACEABLE, *LEFT_OUT)).all():
        return None
    return ids[~np.isin(kinds, LEFT_OUT)]


def _held_in_order(state: PlacementState, event: HoldAsked, void: bool) -> GangHeld | GangRefused:
    refuse, is_answer = _refuses(state, event, void)
    if is_answer:
        return refuse
    trial, gang_places = state.table.trial(), GangPlaces(state, event.gang, event.attempt)
    domains = state.table.domains(event.levels) if event.levels else None
    parts: list[Part] = []
    short: list[SignatureId] = []
    placed = 0
    with member_choices.assumed_on_trial(state) as assumed:
        for at, group in enumerate(event.members):
            ids = _placeable(state, group)
            if ids is None:
                return refuse
            trial.within = None if domains is None else domains.within(event.domains[at])
            picks, choices = pick_members(state, trial, group.sig, len(ids), assumed, gang_places)
            placed += len(picks.rows)
            if len(picks.rows) < len(ids):
                short.append(group.sig)
                if not event.turn:
                    break
                ids = ids[: len(picks.rows)]
            parts.append((ids, np.full(len(ids), group.sig), picks, choices))
        if short and not (event.turn and placed):
            why = reasons(state, trial, short[0], gang_places)
            return msgspec.structs.replace(refuse, reasons=why, placed=placed)
    if event.turn and not placed:
        return refuse
    return _held_event(state, event, parts)


def _held_event(state: PlacementState, event: HoldAsked, parts: list[Part]) -> GangHeld:
    masks = np.concatenate([picks.masks for _ids, _sigs, picks, _choices in parts])
    rows = np.concatenate([picks.rows for _ids, _sigs, picks, _choices in parts])
    chosen = list(_chosen(state, parts))
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
        volumes=tuple(
            MemberVolumes(pod, one.volumes, spec) for pod, one, spec in chosen if one.volumes
        ),
        claims=tuple(
            MemberClaims(pod, one.claims, spec) for pod, one, spec in chosen if one.claims
        ),
    )


def _chosen(
    state: PlacementState, parts: list[Part]
) -> Iterator[tuple[PodId, Choices, PodSpec | None]]:
    """Yield the members with chosen volumes or devices, and their specs for bind plugins."""
    for ids, sigs, _picks, choices in parts:
        if choices:
            for pod, sig, one in zip(ids.tolist(), sigs.tolist(), choices, strict=True):
                yield pod, one, spec_for_bind_plugins(state, sig)


def _shown(state: PlacementState, parts: list[Part]) -> tuple[Shown, ...]:
    """Return the specs of members at whose bind plugins act; for members with choices the specs go
    with these.
    """
    parts = [part for part in parts if len(part[0]) and not part[3]]
    specs = [
        (ids, spec_for_bind_plugins(state, SignatureId(sigs.item(0))))
        for ids, sigs, *_rest in parts
    ]
    return tuple(Shown(pack(ids), spec) for ids, spec in specs if spec is not None)


def on_gang_answer(state: PlacementState, event: GangOffered | GangHeld | GangRefused) -> None:
    """Remove the answered task; remember groups that were short for wake-ups."""
    task = state.work_queue.tasks.popleft()
    asked = task.event
    assert isinstance(asked, OfferAsked | HoldAsked), f"{event} answers {asked}"
    same = (asked.gang, asked.attempt) == (event.gang, event.attempt)
    assert same, f"{event} answers {asked}"
    if isinstance(event, GangHeld):
        _charge_hold(state, event, is_quiet=_is_quiet(asked))
    elif not task.void and not _is_before_a_turn(event):
        for sig in _short(state, asked.members, event):
            remember_refused(state, sig)
            gang_members.note_refused(state, (event.gang, event.attempt), sig)
            # Its own holds must not wake it.
            state.refused_during_hold.get((event.gang, event.attempt), set()).discard(sig)


def _is_quiet(asked: OfferAsked | HoldAsked) -> bool:
    """Return whether members are held before it is known that enough fit."""
    return isinstance(asked, HoldAsked) and bool(asked.turn or asked.tree)


def _is_before_a_turn(event: GangOffered | GangRefused) -> bool:
    """Return whether the members are tried again in a turn, so that this answer says nothing."""
    return bool(event.wide) if isinstance(event, GangOffered) else event.uncounted


def _short(
    state: PlacementState, members: tuple[Members, ...], event: GangOffered | GangRefused
) -> list[SignatureId]:
    short = members
    if isinstance(event, GangOffered):
        counts = zip(members, event.counts, strict=True)
        short = tuple(group for group, count in counts if count < size(group.ids))
    return [group.sig for group in expanded(state, short)]


def _charge_hold(state: PlacementState, event: GangHeld, is_quiet: bool) -> None:
    key = event.gang, event.attempt
    if is_quiet:
        state.refused_during_hold.setdefault(key, set())
    with quietly(state) if is_quiet else nullcontext():
        _charge_members(state, event)
    held = state.holds.get(key)  # by earlier turns
    ids = unpack(event.ids)
    state.holds[key] = ids if held is None else np.concatenate((held, ids))


def _charge_members(state: PlacementState, event: GangHeld) -> None:
    ids, sigs, nodes = unpack(event.ids), unpack(event.sigs), unpack(event.nodes)
    rows = state.ledger.rows(ids)
    state.ledger.advance(rows, "GangHeld")
    masks = unpack(event.devices) if event.devices else np.zeros(len(ids), np.int64)
    for sig, part in groups(sigs):
        assert_not_over(state, sig, charge(state, rows[part], sig, nodes[part], masks[part]))
    member_choices.hold_choices(state, event)
    if state.nomination_of_pod:
        for pod, sig, node in zip(ids.tolist(), sigs.tolist(), nodes.tolist(), strict=True):
            nominations.note_held_member(state, pod, event.gang, sig, node)
        nominations.note_pods_added(state, nodes)


def on_gang_committed(state: PlacementState, event: GangCommitted) -> None:
    """Turn holds into reservations; release the members that permit dropped."""
    if state.unsettled:
        members = unpack(event.ids).tolist()
        remade_nodes.settle_attempt(state, event.gang, event.attempt, members)
    gang_members.end_attempt(state, (event.gang, event.attempt))
    member_choices.commit_choices(state, event)
    nominations.note_gang_committed(state, event.gang)
    ids = state.holds.pop((event.gang, event.attempt), None)
    if ids is None:
        return
    kept = np.isin(ids, unpack(event.ids))
    rows = state.ledger.rows(ids[kept])
    state.ledger.advance(rows, "GangCommitted")
    if state.refused_during_hold.pop((event.gang, event.attempt), None) is not None:
        announce(state, rows[IS_CHARGED[state.ledger.kind[rows]]])
    _release_members(state, ids[~kept])


def on_gang_released(state: PlacementState, event: GangReleased | GangTimedOut) -> None:
    """Release every hold of the attempt, and void its tasks."""
    state.work_queue.void(event.gang, event.attempt)
    gang_members.end_attempt(state, (event.gang, event.attempt))
    if state.unsettled:
        remade_nodes.settle_attempt(state, event.gang, event.attempt, ())
    member_choices.drop_choices(state, (event.gang, event.attempt))
    if (event.gang, event.attempt) in state.holds:
        nominations.note_gang_released(state, event.gang)
    ids = state.holds.pop((event.gang, event.attempt), None)
    refused = state.refused_during_hold.pop((event.gang, event.attempt), None)
    if ids is not None:
        with quietly(state) if refused is not None else nullcontext():
            _release_members(state, ids)
    if refused:
        state.maybe_allowed.update(refused & state.refused)


def _release_members(state: PlacementState, ids: I64) -> None:
    ledger = state.ledger
    rows = ledger.rows(ids)
    before = ledger.advance(rows, "GangReleased")
    is_held = before == State.HELD
    release(state, rows[is_held])
    reservations.end_waits(state, ids[is_held].tolist())
    resume_deferred(state, ids[is_held])
