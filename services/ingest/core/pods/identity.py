"""Pod identity: the namespace and labels of a pod, as far as inter-pod rules read them.

A rule (of any pod ever seen) reads some labels in some namespaces. Pods there have the namespace,
these labels and whether they are terminating in their signature. All other pods share one signature
whatever their names, and a world without rules pays nothing. `state.interest` has the keys by
namespace, EVERYWHERE for rules that select namespaces. It only grows and is kept in snapshots: a
pod's signature depends on the observations, never on when a snapshot was made.
"""

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np

from services.ingest.core.signatures import acquire_sig, release_sig, spec_key
from services.ingest.core.state import IngestState, Labels, LabelSet
from shared.events.ingest import NamespacesSet, PodsRelabelled
from shared.model.cluster_objects import Namespace
from shared.model.columns import I64, join, pack
from shared.model.ids import SignatureId
from shared.model.objects import PodSpec, PodTerm, Selector
from shared.model.queues import queue_name

EVERYWHERE = ""
PODS_PER_EVENT = 16_384
NAMESPACES_PER_EVENT = 2_000

_decoder = msgspec.msgpack.Decoder(PodSpec)


def learn(state: IngestState, spec: PodSpec, namespace: str) -> None:
    """Extend the interest by a spec's rules; pods known already get new signatures."""
    if spec.has_rules:
        places = extend_interest(state, [(spec, namespace)])
        if places:
            relabel(state, pods_of(state, labelsets_of(state, places)))


def extend_interest(state: IngestState, rules: Iterable[tuple[PodSpec, str]]) -> list[str]:
    """Extend the interest by the rules of (spec, namespace); return the namespaces
    where it grew.
    """
    interest = state.interest
    more: dict[str, frozenset[str]] = {}
    for spec, namespace in rules:
        for place, selector in _looked_at(spec, namespace):
            known = more.get(place, interest.get(place))
            keys = frozenset(requirement.key for requirement in selector)
            if known is None or not keys <= known:
                more[place] = keys | (known or frozenset())
    selects = EVERYWHERE in more and EVERYWHERE not in interest
    interest.update(more)
    if selects:
        publish_namespaces(state, sorted(namespaces(state)))
    return list(more)


def _looked_at(spec: PodSpec, namespace: str) -> Iterator[tuple[str, Selector]]:
    """Yield (namespace, selector) that the rules of a pod in this namespace read; no selector: no
    pod.
    """
    for constraint in spec.spread:
        if constraint.selector is not None:
            yield namespace, constraint.selector
    if spec.spread_by:
        yield namespace, spec.spread_by
    for term in (
        *spec.pod_affinity,
        *spec.pod_anti_affinity,
        *(preferred.term for preferred in spec.pods_preferred),
    ):
        if term.selector is not None:
            for place in _places(term, namespace):
                yield place, term.selector


def _places(term: PodTerm, namespace: str) -> Iterator[str]:
    if term.namespace_selector is not None:
        yield EVERYWHERE
    elif not term.namespaces:
        yield namespace
    yield from term.namespaces


def with_identity(
    state: IngestState, spec: PodSpec, namespace: str, labels: Labels, terminating: bool
) -> PodSpec:
    """Return the spec with the pod's identity, if a rule reads it or the pod has rules itself, and
    with its queue.
    """
    if state.queues:
        of_namespace = state.queue_of_namespace.get(namespace, "")
        queue = queue_name(dict(labels), of_namespace, state.queue_by_name)
        spec = msgspec.structs.replace(spec, queue=queue)
    interest = state.interest
    here, everywhere = interest.get(namespace), interest.get(EVERYWHERE)
    if here is None and everywhere is None:
        # No rule reads it; its own rules and claims are in its namespace.
        is_own = spec.has_rules or spec.volumes or spec.claims
        return msgspec.structs.replace(spec, namespace=namespace) if is_own else spec
    keys = (here or frozenset()) | (everywhere or frozenset())
    seen = tuple(sorted(pair for pair in labels if pair[0] in keys))
    return msgspec.structs.replace(spec, namespace=namespace, labels=seen, terminating=terminating)


def labelsets_of(state: IngestState, places: Iterable[str]) -> Iterator[LabelSet]:
    """Yield the label sets of pods in these namespaces."""
    chosen = dict.fromkeys(places)
    if EVERYWHERE in chosen:
        yield from state.labelsets.values()
        return
    for place in chosen:
        yield from state.labelsets_in.get(place, {}).values()


def pods_of(state: IngestState, labelsets: Iterable[LabelSet], *, waiting: bool = False) -> I64:
    """Return the slots of pods with these label sets, by ascending id; `waiting`: only pods without
    a node.
    """
    numbers = np.fromiter((held.number for held in labelsets), np.int32)
    if not len(numbers):
        return np.zeros(0, np.int64)
    table = state.pods
    chosen = np.isin(table.labelsets[: table.used], numbers) & (table.ids[: table.used] > 0)
    if waiting:
        chosen &= table.nodes[: table.used] == 0
    return table.by_id(np.flatnonzero(chosen))


def relabel(state: IngestState, slots: I64) -> None:
    """Give pods the signatures that follow from the present interest and default spread."""
    table = state.pods
    before = table.sigs[slots]
    dropped = [drop for part in group_equal_pods(state, slots) for drop in _intern(state, part)]
    publish_relabelled(state, slots[table.sigs[slots] != before])
    for sig, pods in dropped:
        release_sig(state, sig, pods)


def group_equal_pods(state: IngestState, slots: I64) -> list[I64]:
    """Return groups of pods with one signature, label set and end, all with a node or none, in the
    order of their first pods: numbers of signatures must not depend on those of label sets, a
    private encoding.
    """
    if not len(slots):
        return []
    table = state.pods
    keys = (
        table.sigs[slots].astype(np.int64) << 33
        | table.labelsets[slots].astype(np.int64) << 2
        | table.terminating[slots].astype(np.int64) << 1
        | (table.nodes[slots] != 0)
    )
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    parts = np.split(order, np.flatnonzero(ordered[1:] != ordered[:-1]) + 1)
    parts.sort(key=lambda part: int(part[0]))
    return [slots[part] for part in parts]


def _intern(state: IngestState, slots: I64) -> list[tuple[SignatureId, int]]:
    """Give each group its signature; return the (signature, count) that they no longer use."""
    table = state.pods
    first = int(slots[0])
    sig, count = SignatureId(int(table.sigs[first])), len(slots)
    labels = state.labelset_by_number[int(table.labelsets[first])]
    is_terminating = bool(table.terminating[first])
    spec = anonymous_of(state, first)
    identified = with_identity(state, spec, labels.namespace, labels.labels, is_terminating)
    key = spec_key(identified)
    if key == state.sig_keys[sig]:
        return []
    table.sigs[slots] = acquire_sig(state, identified, key, count)
    return [(sig, count)]


def anonymous_of(state: IngestState, slot: int) -> PodSpec:
    """Return the spec of a pod without identity but with its default spread: by what selects it
    now, or, with a node, by what selected it then.
    """
    table = state.pods
    sig = SignatureId(int(table.sigs[slot]))
    spec = spec_of(state, sig).anonymous()
    if table.nodes[slot]:
        return spread(spec, state.spread_sigs.get(sig, ()))
    labels = state.labelset_by_number[int(table.labelsets[slot])]
    return spread(spec, spread_by(state, spec, labels.spread_by))


def spread_by(state: IngestState, spec: PodSpec, selector: Selector) -> Selector:
    """Return the default spread of pods selected by this; nothing if they have constraints of their
    own or are not ours.
    """
    return selector if selector and not spec.spread and is_ours(state, spec) else ()


def is_ours(state: IngestState, spec: PodSpec) -> bool:
    """Return whether we schedule pods of this spec."""
    return not state.config.schedulers or spec.scheduler in state.config.schedulers


def spread(spec: PodSpec, selector: Selector) -> PodSpec:
    """Return the spec with this default spread."""
    return msgspec.structs.replace(spec, spread_by=selector) if selector else spec


def spec_of(state: IngestState, sig: SignatureId) -> PodSpec:
    """Return the spec of a signature in use."""
    return _decoder.decode(state.sig_keys[sig])


def publish_relabelled(state: IngestState, slots: I64) -> None:
    """Publish the present signatures of these pods."""
    table = state.pods
    for start in range(0, len(slots), PODS_PER_EVENT):
        part = slots[start : start + PODS_PER_EVENT]
        state.outbox.append(PodsRelabelled(pack(table.ids[part]), pack(table.sigs[part])))


def namespaces(state: IngestState) -> dict[str, Namespace]:
    """Return the namespaces that have an object, by name; of several objects of a name the one with
    the last uid.
    """
    found = (one for one in state.objects.values() if isinstance(one, Namespace))
    return {one.name: one for one in sorted(found, key=lambda one: one.uid)}


def publish_namespaces(state: IngestState, names: list[str]) -> None:
    """Publish the labels of these namespaces, if any rule selects namespaces."""
    if not names or EVERYWHERE not in state.interest:
        return
    known = namespaces(state)
    for start in range(0, len(names), NAMESPACES_PER_EVENT):
        part = dict.fromkeys(names[start : start + NAMESPACES_PER_EVENT])
        labels = tuple((name, known[name].labels) for name in part if name in known)
        gone = join(name for name in part if name not in known)
        state.outbox.append(NamespacesSet(labels, gone))
