"""By what pods without constraints of their own are spread: Services and controllers select them.

A pod has that in its signature while it waits, always by the objects as they are now, as
kube-scheduler looks them up in each cycle. A pod that has a node keeps what it was placed by, and
one that came with a node has none: nobody asks any more, and a counter that nobody reads would be
kept for it. So an object that changes costs no more than the pods that wait.
"""

from collections.abc import Iterable

from services.ingest.core.pods.identity import (
    alike,
    anonymous_of,
    labelsets_of,
    look_at,
    pods_of,
    relabel,
    spec_of,
)
from services.ingest.core.state import IngestState, LabelSet
from shared.model.cluster_objects import ClusterObject, Service
from shared.model.default_spread import Spreader, Spreaders, name_of, selects

FEW = 16  # Services of which each is held against all label sets of a namespace


def replace_spreader(
    state: IngestState, before: ClusterObject | None, after: ClusterObject | None
) -> None:
    """An object came, changed or went; pods do not follow before `follow`."""
    if isinstance(before, Spreader):
        state.spreaders.drop(before)
    if isinstance(after, Spreader):
        state.spreaders.put(after)


def follow(
    state: IngestState, changes: Iterable[tuple[ClusterObject | None, ClusterObject | None]]
) -> None:
    """Pods that wait are spread by the objects as they are after these changes."""
    touched: dict[str, list[Spreader]] = {}
    for before, after in changes:
        replace_spreader(state, before, after)
        for one in (before, after):
            if isinstance(one, Spreader):
                touched.setdefault(one.namespace, []).append(one)
    if touched and state.spreads:
        respread(state, [held for part in touched.items() for held in _concerned(state, *part)])


def _concerned(state: IngestState, namespace: str, touched: list[Spreader]) -> Iterable[LabelSet]:
    """Label sets that some of these objects are about; all of them where that is quicker."""
    here = state.labelsets_in.get(namespace, {}).values()
    owners = {who for one in touched if (who := name_of(one))}
    selectors = {one.selector: None for one in touched if isinstance(one, Service)}
    if len(selectors) > FEW:
        return here
    found = {held.number: held for held in here if held.owner in owners}
    for selector in selectors:
        for pair in selector[:1]:  # most label sets lack it, and need no call
            likely = (held for held in here if pair in held.labels)
            found.update((one.number, one) for one in likely if selects(selector, one.labels))
    return found.values()


def respread(state: IngestState, labelsets: Iterable[LabelSet], *, all_anew: bool = False) -> None:
    """Find anew what selects pods with these labels; `all_anew`: it counts for others than before,
    even where it is the same.
    """
    changed = []
    for held in labelsets:
        who = held.namespace, held.labels, held.owner
        selector = state.spreaders.selector(*who) if state.spreads else ()
        if all_anew or selector != held.spread_by:
            held.spread_by = selector
            changed.append(held)
    waiting = pods_of(state, changed, waiting=True)
    if not len(waiting):
        return
    table = state.pods
    firsts = [int(part[0]) for part in alike(state, waiting)]
    places = look_at(
        state,
        (
            (anonymous_of(state, first), labels.namespace)
            for first in firsts
            for labels in [state.labelset_by_number[int(table.labelsets[first])]]
        ),
    )
    if places:  # who stands there has more of its labels in its signature now
        numbers = {held.number: held for held in (*changed, *labelsets_of(state, places))}
        relabel(state, pods_of(state, numbers.values()))
    else:
        relabel(state, waiting)


def load_spread(state: IngestState) -> None:
    """What follows from objects, label sets and signatures, from nothing."""
    for one in state.objects.values():
        replace_spreader(state, None, one)
    if state.spreads:
        for held in state.labelsets.values():
            held.spread_by = state.spreaders.selector(held.namespace, held.labels, held.owner)
    for sig, key in state.sig_keys.items():
        if b"spread_by" in key:
            selector = spec_of(state, sig).spread_by
            if selector:
                state.spread_sigs[sig] = selector


def check_spread(state: IngestState) -> None:
    """Assert that all of it is as it would be from nothing."""
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
