"""Pod identities: the signature of a pod may change at any time.

The old and the new signature differ only in namespace, labels and terminating
(`PodSpec.anonymous`), so a charged pod keeps its node, devices and start time. The ledger keeps the
latest signature of each relabelled pod (`latest_sig`; 0 = never relabelled). Dispatches and tasks
name the signatures that queueing knew, in journals that run ahead of or behind ingest's. A pod is
always tried, held and charged under ingest's latest signature, whatever they name; a signature that
arrives later changes the charge then. So the order of the journals does not matter.
"""

import msgspec
import numpy as np

from services.placement.core.books.charges import forget_if_unused, namespaces_changed, swap
from services.placement.core.books.ledger import IS_CHARGED, groups
from services.placement.core.placing.work_queue import Batch, Task, TaskEvent
from services.placement.core.state import PlacementState
from services.placement.core.transitions import State
from shared.events.ingest import NamespacesSet, PodsRelabelled
from shared.events.permit import HoldAsked
from shared.events.preemption import DryRunAsked, GangNominateAsked, NominateAsked
from shared.events.queueing import Members
from shared.model.columns import I64, pack, split, unpack
from shared.model.ids import PodId, SignatureId


def on_pods_relabelled(state: PlacementState, event: PodsRelabelled) -> None:
    """Give pods new signatures, wherever they are."""
    ids, sigs = unpack(event.ids), unpack(event.sigs)
    ledger = state.ledger
    rows = ledger.rows(ids)
    kinds = ledger.kind[rows]
    live = kinds != State.GONE
    ledger.latest_sig[rows[live]] = sigs[live]
    state.has_latest_sigs = True
    strays = kinds == State.STRAY
    ledger.sig[rows[strays]] = sigs[strays]
    _refuse_alike(state, sigs)
    charged = IS_CHARGED[kinds]
    for sig, part in groups(sigs[charged]):
        _swap(state, rows[charged][part], sig)
    queued = ids[kinds == State.QUEUED]
    if len(queued):
        state.work_queue.void_call(queued)
        state.work_queue.split(lambda batch: _split(state, batch, queued))
    if state.nomination_of_pod:
        _rename_nominations(state, dict(zip(ids.tolist(), sigs.tolist(), strict=True)))


def _swap(state: PlacementState, rows: I64, sig: SignatureId) -> None:
    """Charge pods under another signature, unless more than their identity changed: then the
    decision stands until a fact contradicts it.
    """
    for old, part in groups(state.ledger.sig[rows]):
        if old != sig and differ_only_in_identity(state, old, sig):
            swap(state, rows[part], old, sig)


def differ_only_in_identity(state: PlacementState, old: SignatureId, new: SignatureId) -> bool:
    """Return whether two signatures differ only in the pod's identity."""
    return state.specs[old].anonymous() == state.specs[new].anonymous()


def _refuse_alike(state: PlacementState, sigs: I64) -> None:
    """Keep refused pods refused under their new signatures, so that the next improvement reaches
    them too. An unneeded entry costs one check.
    """
    if state.refused:
        refused = {state.specs[sig].anonymous() for sig in state.refused}
        new = [sig for sig in np.unique(sigs).tolist() if sig not in state.retired]
        state.refused.update(sig for sig in new if state.specs[sig].anonymous() in refused)
        hopeless = {state.specs[sig].anonymous() for sig in state.hopeless}
        state.hopeless.update(sig for sig in new if state.specs[sig].anonymous() in hopeless)


def _rename_nominations(state: PlacementState, sigs: dict[PodId, SignatureId]) -> None:
    for _ask, one in sorted(state.nominations.items()):
        sig = sigs.get(one.pod, one.sig)
        if sig != one.sig and differ_only_in_identity(state, one.sig, sig):
            old, one.sig = one.sig, sig
            state.changed_nomination_nodes.add(one.node)
            if old in state.retired:
                forget_if_unused(state, old)


def latest_sigs(state: PlacementState, sig: SignatureId, ids: I64) -> I64:
    """Return the latest signatures of pods that a dispatch or task names under `sig`."""
    rows = state.ledger.rows(ids)  # first: may replace the columns
    latest = state.ledger.latest_sig[rows]
    return np.where(latest == 0, sig, latest).astype(np.int64)


def _latest_sig(state: PlacementState, sig: SignatureId, pod: PodId) -> SignatureId:
    return SignatureId(latest_sigs(state, sig, np.array([pod], np.int64)).item(0))


def by_latest_sig(
    state: PlacementState, sig: SignatureId, ids: I64
) -> list[tuple[SignatureId, I64]]:
    """Return (signature, pods) of a dispatch or a group of members, in a fixed order."""
    if not state.has_latest_sigs or not len(ids):
        return [(sig, ids)]
    return [(latest, ids[part]) for latest, part in groups(latest_sigs(state, sig, ids))]


def _split(state: PlacementState, batch: Batch, changed: I64) -> list[Batch]:
    """Split a dispatch whose pods no longer share one signature into several, in its place."""
    left = batch.left()
    if not np.isin(left, changed).any():
        return [batch]
    return [batch.part(sig, ids) for sig, ids in by_latest_sig(state, batch.sig, left)]


def expanded(state: PlacementState, members: tuple[Members, ...]) -> tuple[Members, ...]:
    """Return the members grouped by their latest signatures."""
    if not state.has_latest_sigs:
        return members
    return tuple(
        Members(sig, pack(ids))
        for group in members
        for sig, ids in by_latest_sig(state, group.sig, unpack(group.ids))
    )


def with_latest_sigs(state: PlacementState, task: Task) -> TaskEvent:
    """Return the task's event with the pods' latest signatures. Offers are answered group by group
    and look up each group themselves.
    """
    event = task.event
    if not state.has_latest_sigs:
        return event
    if isinstance(event, HoldAsked):
        parts = [expanded(state, (group,)) for group in event.members]
        paths = zip(parts, event.domains, strict=True) if event.domains else ()
        groups = zip(parts, event.leaves, strict=True) if event.leaves else ()
        return msgspec.structs.replace(
            event,
            members=tuple(one for part in parts for one in part),
            domains=tuple(path for part, path in paths for _ in part),
            leaves=tuple(leaf for part, leaf in groups for _ in part),
        )
    if isinstance(event, GangNominateAsked):
        latest = ((one, _latest_sig(state, one.sig, one.pod)) for one in event.nominees)
        nominees = tuple(msgspec.structs.replace(one, sig=sig) for one, sig in latest)
        return msgspec.structs.replace(event, nominees=nominees)
    if isinstance(event, DryRunAsked | NominateAsked):
        sig = _latest_sig(state, event.sig, event.pod)
        return event if sig == event.sig else msgspec.structs.replace(event, sig=sig)
    return event


def on_namespaces_set(state: PlacementState, event: NamespacesSet) -> None:
    """Update the labels of namespaces by name. A namespace that is missing here has no object and
    is known by name only.
    """
    state.namespaces.update(event.labels)
    for name in split(event.gone):
        state.namespaces.pop(name, None)
    namespaces_changed(state)
