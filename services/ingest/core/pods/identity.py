"""Who a pod is: its namespace and labels, as far as rules between pods look at them.

A rule (of any pod that was ever seen) looks at some labels in some namespaces. Pods there have the
namespace, these labels and whether they are terminating in their signature; all others share one
signature whatever their names are, and a world without rules pays nothing. `state.interest` has
the keys by namespace, EVERYWHERE for rules that select namespaces. It only grows, and is kept in
snapshots: which signature a pod has depends on the observations, never on when a snapshot was made.

With several shards nobody could count pods of the whole world, so only rules count that look at the
pods of one node.
"""

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np

from services.ingest.core.signatures import drop_sig, spec_key, take_sig
from services.ingest.core.state import IngestState, Labels, LabelSet
from shared.events.ingest import NamespacesSet, PodsRelabelled
from shared.model.cluster_objects import Namespace
from shared.model.columns import I64, join, pack
from shared.model.objects import PodSpec, PodTerm, Selector

EVERYWHERE = ""
PODS_PER_EVENT = 16_384
NAMESPACES_PER_EVENT = 2_000

_decoder = msgspec.msgpack.Decoder(PodSpec)


def learn(state: IngestState, spec: PodSpec, namespace: str) -> None:
    """Rules may look at more than any before: pods known already get the signatures for that."""
    spec = heeded(state, spec)
    if spec.has_rules:
        places = look_at(state, [(spec, namespace)])
        if places:
            relabel(state, pods_of(state, labelsets_of(state, places)))


def heeded(state: IngestState, spec: PodSpec) -> PodSpec:
    """The spec with the rules that somebody can keep."""
    return spec.with_rules_of_nodes() if spec.has_rules and len(state.shard_nodes) > 1 else spec


def look_at(state: IngestState, rules: Iterable[tuple[PodSpec, str]]) -> list[str]:
    """Look at what the rules of pods (spec, namespace) look at; returns where that is more."""
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
        tell_namespaces(state, sorted(namespaces(state)))
    return list(more)


def _looked_at(spec: PodSpec, namespace: str) -> Iterator[tuple[str, Selector]]:
    """Where the rules of a pod of this namespace look for which pods; no selector = at nobody."""
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


def identified(
    state: IngestState, spec: PodSpec, namespace: str, labels: Labels, terminating: bool
) -> PodSpec:
    """The spec with who the pod is: in its signature if anybody looks, or if it looks itself."""
    interest = state.interest
    here, everywhere = interest.get(namespace), interest.get(EVERYWHERE)
    if here is None and everywhere is None:
        # Nobody looks at it; its own rules, and its claims, are of its namespace.
        is_own = heeded(state, spec).has_rules or spec.volumes
        return msgspec.structs.replace(spec, namespace=namespace) if is_own else spec
    keys = (here or frozenset()) | (everywhere or frozenset())
    seen = tuple(sorted(pair for pair in labels if pair[0] in keys))
    return msgspec.structs.replace(spec, namespace=namespace, labels=seen, terminating=terminating)


def labelsets_of(state: IngestState, places: Iterable[str]) -> Iterator[LabelSet]:
    """The label sets of pods in these namespaces."""
    chosen = dict.fromkeys(places)
    if EVERYWHERE in chosen:
        yield from state.labelsets.values()
        return
    for place in chosen:
        yield from state.labelsets_in.get(place, {}).values()


def pods_of(state: IngestState, labelsets: Iterable[LabelSet], *, waiting: bool = False) -> I64:
    """Slots of the pods with these label sets, by ascending id; `waiting`: of those alone that
    have no node.
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
    """Give these pods the signatures that the present interest, and what selects them, ask for."""
    table = state.pods
    before = table.sigs[slots]
    dropped = [drop for part in alike(state, slots) for drop in _intern(state, part)]
    tell_relabelled(state, slots[table.sigs[slots] != before])
    for sig, pods in dropped:
        drop_sig(state, sig, pods)


def alike(state: IngestState, slots: I64) -> list[I64]:
    """Pods with one signature, label set and end, all with a node or none, in the order of their
    first pods: numbers of signatures must not depend on those of label sets, which are an encoding
    of ours.
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


def _intern(state: IngestState, slots: I64) -> list[tuple[int, int]]:
    """Give pods that are alike their signature; returns what they no longer hold."""
    table = state.pods
    first = int(slots[0])
    sig, count = int(table.sigs[first]), len(slots)
    labels = state.labelset_by_number[int(table.labelsets[first])]
    is_terminating = bool(table.terminating[first])
    spec = anonymous_of(state, first)
    own = identified(state, spec, labels.namespace, labels.labels, is_terminating)
    key = spec_key(own)
    if key == state.sig_keys[sig]:
        return []
    table.sigs[slots] = take_sig(state, own, key, count)
    return [(sig, count)]


def anonymous_of(state: IngestState, slot: int) -> PodSpec:
    """The spec of a pod without who it is, but with what it is spread by: what selects it now; once
    it has a node what did when it got it.
    """
    table = state.pods
    sig = int(table.sigs[slot])
    spec = spec_of(state, sig).anonymous()
    if table.nodes[slot]:
        return spread(spec, state.spread_sigs.get(sig, ()))
    labels = state.labelset_by_number[int(table.labelsets[slot])]
    return spread(spec, spread_by(state, spec, labels.spread_by))


def spread_by(state: IngestState, spec: PodSpec, selector: Selector) -> Selector:
    """What pods that this selects are spread by: nothing where they have constraints of their own
    or are not ours.
    """
    return selector if selector and not spec.spread and is_ours(state, spec) else ()


def is_ours(state: IngestState, spec: PodSpec) -> bool:
    """Whether pods of this spec are for us to schedule."""
    return not state.config.schedulers or spec.scheduler in state.config.schedulers


def spread(spec: PodSpec, selector: Selector) -> PodSpec:
    """The spec of pods that are spread by this."""
    return msgspec.structs.replace(spec, spread_by=selector) if selector else spec


def spec_of(state: IngestState, sig: int) -> PodSpec:
    """What a signature in use stands for."""
    return _decoder.decode(state.sig_keys[sig])


def tell_relabelled(state: IngestState, slots: I64) -> None:
    """These pods have the signatures that the table says."""
    table = state.pods
    for start in range(0, len(slots), PODS_PER_EVENT):
        part = slots[start : start + PODS_PER_EVENT]
        state.outbox.append(PodsRelabelled(pack(table.ids[part]), pack(table.sigs[part])))


def namespaces(state: IngestState) -> dict[str, Namespace]:
    """Namespaces that have an object, by name; of several of a name the one of the last uid."""
    found = (one for one in state.objects.values() if isinstance(one, Namespace))
    return {one.name: one for one in sorted(found, key=lambda one: one.uid)}


def tell_namespaces(state: IngestState, names: list[str]) -> None:
    """What these namespaces are labelled with, if any rule selects namespaces."""
    if not names or EVERYWHERE not in state.interest:
        return
    known = namespaces(state)
    for start in range(0, len(names), NAMESPACES_PER_EVENT):
        part = dict.fromkeys(names[start : start + NAMESPACES_PER_EVENT])
        labels = tuple((name, known[name].labels) for name in part if name in known)
        gone = join(name for name in part if name not in known)
        state.outbox.append(NamespacesSet(labels, gone))
