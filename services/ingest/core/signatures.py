"""Interning with reference counts: specs (signatures), label sets, gang keys.

A number is given at first use and released when the last live pod that uses it is deleted.
"""

import msgspec
import numpy as np

from services.ingest.core.images import add_named, numbers_named, publish_counts, remove_named
from services.ingest.core.pods.table import I32
from services.ingest.core.queue_plugins import publish_queued
from services.ingest.core.state import GangRecord, IngestState, Labels, LabelSet, Signature
from shared.events.ingest import GangGone, SignatureDefined, SignatureRetired
from shared.model.ids import NO_GANG, GangId, SignatureId
from shared.model.objects import Budget, PodSpec
from shared.model.pod_rules.selectors import holds

_encoder = msgspec.msgpack.Encoder(order="deterministic")


def spec_key(spec: PodSpec) -> bytes:
    """Return canonical bytes of a spec, equal for interchangeable pods."""
    return _encoder.encode(spec)


def acquire_sig(state: IngestState, spec: PodSpec, key: bytes, pods: int) -> SignatureId:
    """Return the signature's number, defined now if it is new; `pods` more pods use it."""
    found = state.sigs.get(key)
    if found is None:
        images = numbers_named(state, spec)
        found = state.sigs[key] = Signature(SignatureId(state.next_sig), images=images)
        if fresh := add_named(state, images):
            publish_counts(state, fresh)
        state.sig_keys[found.sig] = key
        state.next_sig += 1
        state.outbox.append(SignatureDefined(found.sig, spec))
        if state.queue_plugins is not None:
            publish_queued(state, found, spec)
        if spec.spread_by:
            state.spread_sigs[found.sig] = spec.spread_by
    found.pods += pods
    return found.sig


def release_sig(state: IngestState, sig: SignatureId, pods: int) -> None:
    """Release the signature for `pods` pods; the last one retires it."""
    key = state.sig_keys[sig]
    found = state.sigs[key]
    found.pods -= pods
    assert found.pods >= 0, f"signature {sig}: {found.pods} pods"
    if found.pods == 0:
        del state.sigs[key], state.sig_keys[sig]
        state.spread_sigs.pop(sig, None)
        state.outbox.append(SignatureRetired(sig))
        if left := remove_named(state, found.images):
            publish_counts(state, left)


def acquire_labels(
    state: IngestState, namespace: str, labels: Labels, owner: str, pods: int
) -> LabelSet:
    """Return the interned label set; a new one is matched with everything that selects pods."""
    found = state.labelsets.get((namespace, labels, owner))
    if found is None:
        found = LabelSet(state.next_labelset, namespace, labels, owner)
        state.next_labelset += 1
        state.labelset_by_number[found.number] = found
        index_labels(state, found)
        if state.spreads:
            found.spread_by = state.spreaders.selector(namespace, labels, owner)
        found.budgets = tuple(
            sorted(
                known.id
                for known in state.budgets.values()
                if covers(known.budget, namespace, labels)
            )
        )
    found.pods += pods
    return found


def index_labels(state: IngestState, labels: LabelSet) -> None:
    """Index a label set by its values and by its namespace."""
    state.labelsets[labels.namespace, labels.labels, labels.owner] = labels
    state.labelsets_in.setdefault(labels.namespace, {})[labels.number] = labels


def release_labels(state: IngestState, number: int, pods: int) -> None:
    """Release the label set for `pods` pods."""
    found = state.labelset_by_number[number]
    found.pods -= pods
    assert found.pods >= 0, f"labels {found.labels}: {found.pods} pods"
    if found.pods == 0:
        del state.labelsets[found.namespace, found.labels, found.owner]
        del state.labelset_by_number[number], state.labelsets_in[found.namespace][number]
        if not state.labelsets_in[found.namespace]:
            del state.labelsets_in[found.namespace]


def acquire_gang(state: IngestState, key: str, pods: int) -> GangId:
    """Return the gang's number, given by its first member or its object; 0 for no gang."""
    if not key:
        return NO_GANG
    found = state.gangs.get(key)
    if found is None:
        found = state.gangs[key] = GangRecord(GangId(state.next_gang))
        state.gang_keys[found.id] = key
        state.next_gang += 1
    found.pods += pods
    return found.id


def release_gang(state: IngestState, gang: GangId, pods: int) -> None:
    """Release the gang for `pods` members; it is forgotten without members and object, and ends
    with its members if it has no object.
    """
    key = state.gang_keys[gang]
    found = state.gangs[key]
    found.pods -= pods
    assert found.pods >= 0, f"gang {key}: {found.pods} members"
    if found.pods == 0 and found.gang is not None and found.gang.of_pods:
        state.outbox.append(GangGone(gang))
        found.gang = None
    forget_gang(state, key)


def forget_gang(state: IngestState, key: str) -> None:
    """Forget a gang without members, object, and groups below it."""
    found = state.gangs[key]
    if found.pods == 0 and found.gang is None and key not in state.children:
        del state.gangs[key], state.gang_keys[found.id]


def release_many(state: IngestState, sigs: I32, labelsets: I32, gangs: I32) -> None:
    """Release the references of many pods, one call per distinct number, ascending."""
    for numbers, drop in ((labelsets, release_labels), (gangs, release_gang), (sigs, release_sig)):
        values, counts = np.unique(numbers, return_counts=True)
        for number, count in zip(values.tolist(), counts.tolist(), strict=True):
            if number:
                drop(state, number, count)


def covers(budget: Budget, namespace: str, labels: Labels) -> bool:
    """Return whether a budget's selector matches. An empty selector matches nothing, and none
    matches a pod without labels (filterPodsWithPDBViolation).
    """
    if budget.namespace != namespace or not labels:
        return False
    if not (budget.match_labels or budget.match_expressions):
        return False
    found = dict(labels)
    if any(found.get(key) != value for key, value in budget.match_labels):
        return False
    return holds(budget.match_expressions, found)
