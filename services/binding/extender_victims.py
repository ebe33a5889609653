"""Candidates for a preemption in names, as extenders know them, and their answer in numbers."""

from collections.abc import Iterator
from typing import NamedTuple

from services.binding.core.pod_table import NAMED
from services.binding.core.state import BindingState
from shared.events.binding import ExtendersPreemptAsked
from shared.extenders.port import Going, Verdict
from shared.model.columns import pack, unpack
from shared.model.victims import NodeVictims
from shared.ports.cluster import PodRef


class Told(NamedTuple):
    """The preemptor, None when it is gone; by node who would go and who else could; pods' numbers
    by uid. Pods and nodes that are gone are left out.
    """

    pod: PodRef | None
    nodes: dict[str, Going]
    numbers: dict[str, int]


def named(state: BindingState, effect: ExtendersPreemptAsked) -> Told:
    """What extenders are asked."""
    pod = next((ref for _pod, ref in _refs(state, pack([effect.pod]))), None)
    nodes: dict[str, Going] = {}
    numbers: dict[str, int] = {}
    for one in effect.candidates:
        if one.node in state.node_names:
            victims, others = list(_refs(state, one.victims)), list(_refs(state, one.others))
            numbers.update((ref.uid, number) for number, ref in (*victims, *others))
            going = tuple(ref for _, ref in victims), one.violations, tuple(r for _, r in others)
            nodes[state.node_names[one.node]] = Going(*going)
    return Told(pod, nodes, numbers)


def numbered(
    state: BindingState, effect: ExtendersPreemptAsked, told: Told, verdict: Verdict
) -> tuple[NodeVictims, ...]:
    """What is left of the candidates, in their order; each victim once. Pods that have gone since
    are named still: who chooses them hears that things have changed.
    """
    found: list[NodeVictims] = []
    for one in effect.candidates:
        said = verdict.nodes.get(state.node_names.get(one.node, ""))
        if said is not None and said.uids:
            victims = [told.numbers[uid] for uid in dict.fromkeys(said.uids)]
            found.append(NodeVictims(one.node, pack(victims), said.violations))
    return tuple(found)


def _refs(state: BindingState, ids: bytes) -> Iterator[tuple[int, PodRef]]:
    table = state.table
    for pod in unpack(ids).tolist():
        row = table.find(pod)
        if row >= 0 and table.flags.item(row) & NAMED:
            yield pod, ref_at(state, row)


def ref_at(state: BindingState, row: int) -> PodRef:
    """The pod of a named row."""
    table = state.table
    chunk, place = table.names[table.chunks.item(row)], table.places.item(row)
    return PodRef(
        chunk.uid_list()[place],
        chunk.namespace,
        chunk.name_list()[place],
        table.revisions.item(row),
    )
