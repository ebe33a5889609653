"""Default topology spreading: which Services and controllers select a pod without constraints.

A waiting pod has the selector in its signature, always by the present objects, as kube-scheduler
looks them up in each cycle. A pod with a node keeps the selector it was placed by, and a pod that
came with a node has none: no rule reads it, and a counter would be kept for nothing. So a changed
object costs no more than the waiting pods.
"""

from collections.abc import Iterable

from services.ingest.core.pods.identity import (
    anonymous_of,
    extend_interest,
    group_equal_pods,
    labelsets_of,
    pods_of,
    relabel,
    spec_of,
)
from services.ingest.core.state import IngestState, LabelSet
from shared.model.cluster_objects import ClusterObject, Service
from shared.model.pod_rules.default_spread import Spreader, Spreaders, name_of, selects

FEW = 16  # up to this many Services, each is matched with all label sets of a namespace


def replace_spreader(
    state: IngestState, before: ClusterObject | None, after: ClusterObject | None
) -> None:
    """Add, change or delete an object; pods follow in `follow`."""
    if isinstance(before, Spreader):
        state.spreaders.drop(before)
    if isinstance(after, Spreader):
        state.spreaders.put(after)


def follow(
    state: IngestState, changes: Iterable[tuple[ClusterObject | None, ClusterObject | None]]
) -> None:
    """Update the waiting pods' default spread after changes of objects."""
    touched: dict[str, list[Spreader]] = {}
    for before, after in changes:
        replace_spreader(state, before, after)
        for one in (before, after):
            if isinstance(one, Spreader):
                touched.setdefault(one.namespace, []).append(one)
    if touched and state.spreads:
        respread(state, [held for part in touched.items() for held in _concerned(state, *part)])


def _concerned(state: IngestState, namespace: str, touched: list[Spreader]) -> Iterable[LabelSet]:
    """Return the label sets that some of these objects select; all of them if that is faster."""
    here = state.labelsets_in.get(namespace, {}).values()
    owners = {owner for one in touched if (owner := name_of(one))}
    selectors = {one.selector: None for one in touched if isinstance(one, Service)}
    if len(selectors) > FEW:
        return here
    found = {held.number: held for held in here if held.owner in owners}
    for selector in selectors:
        for pair in selector[:1]:  # most label sets lack it and need no call
            likely = (held for held in here if pair in held.labels)
            found.update((one.number, one) for one in likely if selects(selector, one.labels))
    return found.values()


def respread(state: IngestState, labelsets: Iterable[LabelSet], *, all_anew: bool = False) -> None:
    """Recompute what selects pods with these labels; `all_anew`: publish it even if it
    is the same.
    """
    changed = []
    for held in labelsets:
        identity = held.namespace, held.labels, held.owner
        selector = state.spreaders.selector(*identity) if state.spreads else ()
        if all_anew or selector != held.spread_by:
            held.spread_by = selector
            changed.append(held)
    waiting = pods_of(state, changed, waiting=True)
    if not len(waiting):
        return
    table = state.pods
    firsts = [int(part[0]) for part in group_equal_pods(state, waiting)]
    places = extend_interest(
        state,
        (
            (anonymous_of(state, first), labels.namespace)
            for first in firsts
            for labels in [state.labelset_by_number[int(table.labelsets[first])]]
        ),
    )
    if places:  # pods there have more labels in their signature now
        numbers = {held.number: held for held in (*changed, *labelsets_of(state, places))}
        relabel(state, pods_of(state, numbers.values()))
    else:
        relabel(state, waiting)


def check_spread(state: IngestState) -> None:
    """Check that everything derived equals what is recomputed."""
    fresh = Spreaders()
    for one in state.objects.values():
        if isinstance(one, Spreader):
            fresh.put(one)
    for held in state.labelsets.values():
        found = fresh.selector(held.namespace, held.labels, held.owner) if state.spreads else ()
        assert held.spread_by == found, f"labels {held.labels}: {held.spread_by} / {found}"
    specs = {sig: spec_of(state, sig).spread_by for sig in state.sig_keys}
    expected = {sig: selector for sig, selector in specs.items() if selector}
    assert state.spread_sigs == expected, f"{state.spread_sigs} / {expected}"
