"""Converts preemption candidates to names for extenders, and their answer back to numbers."""

from collections.abc import Iterator
from typing import NamedTuple

from services.binding.core.pod_table import NAMED
from services.binding.core.state import BindingState
from shared.events.binding import ExtendersPreemptAsked
from shared.extenders.port import NodeVictimRefs, VictimsLeft
from shared.model.columns import pack, unpack
from shared.model.ids import PodId
from shared.model.preemption.victims import NodeVictims
from shared.ports.cluster import PodRef


class NamedCandidates(NamedTuple):
    """The preemptor, None if deleted; by node the victims and the other evictable pods; pod numbers
    by uid. Deleted pods and nodes are left out.
    """

    pod: PodRef | None
    nodes: dict[str, NodeVictimRefs]
    numbers: dict[str, int]


def name_candidates(state: BindingState, effect: ExtendersPreemptAsked) -> NamedCandidates:
    """Return the question for extenders."""
    pod = next((ref for _pod, ref in _refs(state, pack([effect.pod]))), None)
    nodes: dict[str, NodeVictimRefs] = {}
    numbers: dict[str, int] = {}
    for one in effect.candidates:
        if one.node in state.node_names:
            victims, others = list(_refs(state, one.victims)), list(_refs(state, one.others))
            numbers.update((ref.uid, number) for number, ref in (*victims, *others))
            candidate = (
                tuple(ref for _, ref in victims),
                one.violations,
                tuple(r for _, r in others),
            )
            nodes[state.node_names[one.node]] = NodeVictimRefs(*candidate)
    return NamedCandidates(pod, nodes, numbers)


def number_victims(
    state: BindingState, effect: ExtendersPreemptAsked, named: NamedCandidates, verdict: VictimsLeft
) -> tuple[NodeVictims, ...]:
    """Return the candidates that extenders left, in their order, each victim once. Pods deleted
    meanwhile are still named: nominating them will find that out.
    """
    found: list[NodeVictims] = []
    for one in effect.candidates:
        answer = verdict.nodes.get(state.node_names.get(one.node, ""))
        if answer is not None and answer.uids:
            victims = [named.numbers[uid] for uid in dict.fromkeys(answer.uids)]
            found.append(NodeVictims(one.node, pack(victims), answer.violations))
    return tuple(found)


def _refs(state: BindingState, ids: bytes) -> Iterator[tuple[PodId, PodRef]]:
    table = state.table
    for pod in unpack(ids).tolist():
        row = table.find(pod)
        if row >= 0 and table.flags.item(row) & NAMED:
            yield pod, ref_at(state, row)


def ref_at(state: BindingState, row: int) -> PodRef:
    """Return the pod of a named row."""
    table = state.table
    chunk, place = table.names[table.chunks.item(row)], table.places.item(row)
    return PodRef(
        chunk.uid_list()[place],
        chunk.namespace,
        chunk.name_list()[place],
        table.revisions.item(row),
    )
