"""Unpacks a PodsSeen and splits it into parts with the same default spread."""

import msgspec
import numpy as np

from services.ingest.core.pods.assigned import UNASSIGNED
from services.ingest.core.pods.identity import spread_by
from services.ingest.core.state import IngestState
from shared.events.observed import PodsSeen
from shared.model.columns import I64, split
from shared.model.objects import Selector


class Seen(msgspec.Struct):
    """The unpacked columns of a PodsSeen. `nodes` is None if all pods are unassigned, `names` while
    these are all pods of the event, so that whole columns are passed on. `spread_by`: the selector
    of the pods' default spread.
    """

    event: PodsSeen
    uids: list[str]
    names: list[str] | None
    revisions: I64
    nodes: list[str] | None
    spread_by: Selector = ()

    def part(self, chosen: list[int]) -> "Seen":
        """Return the rows at these places."""
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
    """Split pods with a node from those without, if something selects them: default spread applies
    to waiting pods.
    """
    event = seen.event
    if not (state.spreads and state.spreaders):
        return [seen]
    if seen.nodes is not None and UNASSIGNED not in seen.nodes:
        return [seen]
    labels = state.labelsets.get((event.namespace, event.labels, event.owner))
    identity = event.namespace, event.labels, event.owner
    selector = labels.spread_by if labels else state.spreaders.selector(*identity)
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
    """Split known pods by their default spread; pods that have a node keep theirs."""
    if not (state.spread_sigs or seen.spread_by):
        return [(seen, slots)]
    table = state.pods
    placed = table.nodes[slots] != 0
    if seen.nodes is not None:
        placed |= np.array([node != UNASSIGNED for node in seen.nodes])
    parts: dict[Selector, list[int]] = {}
    pairs = zip(table.sigs[slots].tolist(), placed.tolist(), strict=True)
    for row, (sig, is_placed) in enumerate(pairs):
        selector = state.spread_sigs.get(sig, ()) if is_placed else seen.spread_by
        parts.setdefault(selector, []).append(row)
    return [
        (msgspec.structs.replace(seen.part(rows), spread_by=selector), slots[rows])
        for selector, rows in parts.items()
    ]
