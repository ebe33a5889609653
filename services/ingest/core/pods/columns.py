"""A PodsSeen taken apart, and into parts of pods that are spread by the same."""

import msgspec
import numpy as np

from services.ingest.core.pods.assigned import UNASSIGNED
from services.ingest.core.pods.identity import spread_by
from services.ingest.core.state import IngestState
from shared.events.observed import PodsSeen
from shared.model.columns import I64, split
from shared.model.objects import Selector


class Seen(msgspec.Struct):
    """The columns of a PodsSeen, taken apart; `nodes` is None when all are unassigned, `names`
    while these are all the event's pods: whole columns are passed on as they came. `spread_by` is
    what the pods are spread by for want of constraints of their own.
    """

    event: PodsSeen
    uids: list[str]
    names: list[str] | None
    revisions: I64
    nodes: list[str] | None
    spread_by: Selector = ()

    def part(self, chosen: list[int]) -> "Seen":
        """The rows at these places."""
        nodes = None if self.nodes is None else [self.nodes[i] for i in chosen]
        names = split(self.event.names) if self.names is None else self.names
        return Seen(
            self.event,
            [self.uids[i] for i in chosen],
            [names[i] for i in chosen],
            self.revisions[chosen],
            nodes,
            self.spread_by,
        )


def by_node(state: IngestState, seen: Seen) -> list[Seen]:
    """Pods with a node apart from those without, where something selects them: what spreads them
    is asked while they wait.
    """
    event = seen.event
    if not (state.spreads and state.spreaders):
        return [seen]
    if seen.nodes is not None and UNASSIGNED not in seen.nodes:
        return [seen]
    labels = state.labelsets.get((event.namespace, event.labels, event.owner))
    who = event.namespace, event.labels, event.owner
    selector = labels.spread_by if labels else state.spreaders.selector(*who)
    chosen = spread_by(state, event.spec, selector)
    if not chosen:
        return [seen]
    nodes = seen.nodes or []
    placed = [row for row, node in enumerate(nodes) if node != UNASSIGNED]
    if not placed:
        seen.spread_by = chosen
        return [seen]
    waiting = [row for row, node in enumerate(nodes) if node == UNASSIGNED]
    return [seen.part(placed), msgspec.structs.replace(seen.part(waiting), spread_by=chosen)]


def by_selector(state: IngestState, seen: Seen, slots: I64) -> list[tuple[Seen, I64]]:
    """Known pods by what they are spread by: those that have a node keep what they have."""
    if not (state.spread_sigs or seen.spread_by):
        return [(seen, slots)]
    table = state.pods
    placed = table.nodes[slots] != 0
    if seen.nodes is not None:
        placed |= np.array([node != UNASSIGNED for node in seen.nodes])
    parts: dict[Selector, list[int]] = {}
    pairs = zip(table.sigs[slots].tolist(), placed.tolist(), strict=True)
    for row, (sig, is_placed) in enumerate(pairs):
        own = state.spread_sigs.get(sig, ()) if is_placed else seen.spread_by
        parts.setdefault(own, []).append(row)
    return [
        (msgspec.structs.replace(seen.part(rows), spread_by=own), slots[rows])
        for own, rows in parts.items()
    ]
