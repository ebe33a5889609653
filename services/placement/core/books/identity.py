"""Who pods are, as ingest says it: the signature of a pod may become another one any time.

The two differ only in namespace, labels and terminating (`PodSpec.anonymous`), so whoever is
charged stays where it is, with its devices and its start. The ledger remembers the last signature
told of a pod since it got another one (`own_sig`; 0 = it never did): dispatches and asks name
signatures that queueing knew, in journals that run ahead of or behind ingest's. Whatever they name,
a pod is tried, held and charged under what ingest told this shard last; a signature that is told
later changes the charge as it comes. So the order of the journals does not matter.
"""

import msgspec
import numpy as np

from services.placement.core.books.charges import forget_if_unused, namespaces_changed, swap
from services.placement.core.books.ledger import IS_CHARGED, groups
from services.placement.core.placing.work_queue import Ask, Asked, Work
from services.placement.core.state import PlacementState
from services.placement.core.transitions import State
from shared.events.ingest import NamespacesSet, PodsRelabelled
from shared.events.permit import HoldAsked
from shared.events.preemption import DryRunAsked, GangNominateAsked, NominateAsked
from shared.events.queueing import Members
from shared.model.columns import I64, pack, split, unpack


def relabelled(state: PlacementState, event: PodsRelabelled) -> None:
    """These pods have other signatures, wherever they stand."""
    ids, sigs = unpack(event.ids), unpack(event.sigs)
    ledger = state.ledger
    rows = ledger.rows(ids)
    kinds = ledger.kind[rows]
    live = kinds != State.GONE
    ledger.own_sig[rows[live]] = sigs[live]
    state.has_own_sigs = True
    strays = kinds == State.STRAY
    ledger.sig[rows[strays]] = sigs[strays]
    _refuse_alike(state, sigs)
    charged = IS_CHARGED[kinds]
    for sig, part in groups(sigs[charged]):
        _swap(state, rows[charged][part], sig)
    queued = ids[kinds == State.QUEUED]
    if len(queued):
        state.todo.ask_anew(queued)
        works = state.todo.works
        state.todo.works = type(works)(new for old in works for new in _split(state, old, queued))
    if state.nominated:
        _rename_nominations(state, dict(zip(ids.tolist(), sigs.tolist(), strict=True)))


def _swap(state: PlacementState, rows: I64, sig: int) -> None:
    """Charge pods under another signature; not where more than their names changed: what was
    decided stands until a fact says otherwise.
    """
    for old, part in groups(state.ledger.sig[rows]):
        if old != sig and alike(state, old, sig):
            swap(state, rows[part], old, sig)


def alike(state: PlacementState, old: int, new: int) -> bool:
    """Whether two signatures differ only in who the pod is."""
    return state.specs[old].anonymous() == state.specs[new].anonymous()


def _refuse_alike(state: PlacementState, sigs: I64) -> None:
    """Pods that are refused stay refused under their new signatures, so that the next improvement
    is told to them, too. To remember one too many costs a check.
    """
    if state.refused:
        refused = {state.specs[sig].anonymous() for sig in state.refused}
        new = [sig for sig in np.unique(sigs).tolist() if sig not in state.retired]
        state.refused.update(sig for sig in new if state.specs[sig].anonymous() in refused)
        hopeless = {state.specs[sig].anonymous() for sig in state.hopeless}
        state.hopeless.update(sig for sig in new if state.specs[sig].anonymous() in hopeless)


def _rename_nominations(state: PlacementState, sigs: dict[int, int]) -> None:
    for _ask, one in sorted(state.nominations.items()):
        sig = sigs.get(one.pod, one.sig)
        if sig != one.sig and alike(state, one.sig, sig):
            old, one.sig = one.sig, sig
            state.stirred.add(one.node)
            if old in state.retired:
                forget_if_unused(state, old)


def own_sigs(state: PlacementState, sig: int, ids: I64) -> I64:
    """The signatures of pods that somebody dispatched, or asked about, under `sig`."""
    rows = state.ledger.rows(ids)  # first: it may replace the columns
    own = state.ledger.own_sig[rows]
    return np.where(own == 0, sig, own).astype(np.int64)


def _own_sig(state: PlacementState, sig: int, pod: int) -> int:
    return int(own_sigs(state, sig, np.array([pod], np.int64))[0])


def by_own_sig(state: PlacementState, sig: int, ids: I64) -> list[tuple[int, I64]]:
    """(signature, pods) of a dispatch or a group of members, in a fixed order."""
    if not state.has_own_sigs or not len(ids):
        return [(sig, ids)]
    return [(own, ids[part]) for own, part in groups(own_sigs(state, sig, ids))]


def _split(state: PlacementState, work: Work, changed: I64) -> list[Work]:
    """A dispatch whose pods no longer have one signature becomes several, in its place."""
    left = work.left()
    if not np.isin(left, changed).any():
        return [work]
    return [
        Work(work.attempt, sig, ids, work.urgent, work.priority, work.order)
        for sig, ids in by_own_sig(state, work.sig, left)
    ]


def expanded(state: PlacementState, members: tuple[Members, ...]) -> tuple[Members, ...]:
    """Groups of members by the signatures that they have."""
    if not state.has_own_sigs:
        return members
    return tuple(
        Members(sig, pack(ids))
        for group in members
        for sig, ids in by_own_sig(state, group.sig, unpack(group.ids))
    )


def as_told(state: PlacementState, ask: Ask) -> Asked:
    """What is asked, with the signatures that the pods have. Offers answer group by group, and
    look at each group themselves.
    """
    event = ask.event
    if not state.has_own_sigs:
        return event
    if isinstance(event, HoldAsked):
        return msgspec.structs.replace(event, members=expanded(state, event.members))
    if isinstance(event, GangNominateAsked):
        own = ((one, _own_sig(state, one.sig, one.pod)) for one in event.nominees)
        nominees = tuple(msgspec.structs.replace(one, sig=sig) for one, sig in own)
        return msgspec.structs.replace(event, nominees=nominees)
    if isinstance(event, DryRunAsked | NominateAsked):
        sig = _own_sig(state, event.sig, event.pod)
        return event if sig == event.sig else msgspec.structs.replace(event, sig=sig)
    return event


def namespaces_set(state: PlacementState, event: NamespacesSet) -> None:
    """Labels of namespaces by name; who is not here has no object, and is known by name alone."""
    state.namespaces.update(event.labels)
    for name in split(event.gone):
        state.namespaces.pop(name, None)
    namespaces_changed(state)
