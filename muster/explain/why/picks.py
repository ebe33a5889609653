"""Why a pod has its node: the score that its shard recorded, and the scores of all nodes at that
moment, computed again from the journal.

The computation counts only if it gives the recorded score. It cannot where the records before were
cut, or where an extender's answer is not in the journal.
"""

from itertools import groupby
from typing import NamedTuple, cast

import numpy as np

from muster.explain.why.answers import NodeAnswer, Pick, node_answer_of
from muster.explain.why.journals import Journals
from services.placement.core.extenders import questions
from services.placement.core.gangs.nominated_places import GangPlaces
from services.placement.core.placing import sampling
from services.placement.core.preemption.nominations import nominated_pods_for, nominations_on
from services.placement.core.state import PlacementState
from services.placement.core.volumes import reservations
from shared.events.names import column_of
from shared.events.placement import GangHeld, Reserved
from shared.machine.fold import NeedsReset
from shared.model.columns import I64, unpack_totals
from shared.model.ids import NO_GANG, NodeId, PodId, SignatureId
from shared.replay.newest_record import Found
from shared.scheduling.api.custom.plugin import PluginMissing
from shared.scheduling.cycle.report import explain
from shared.scheduling.table.layout import NominatedPods


class Picked(NamedTuple):
    """A pod's pick in the record that decided it: its row in the event, signature and node."""

    found: Found
    row: int
    sig: SignatureId
    node: NodeId
    total: int

    @property
    def event(self) -> Reserved | GangHeld:
        """Return the event."""
        return cast(Reserved | GangHeld, self.found.event)


async def pick_of(
    journals: Journals, pod: PodId, node: NodeId
) -> tuple[Pick, tuple[NodeAnswer, ...]]:
    """Return why the pod got this node, and the answers of all nodes at that moment: none if they
    cannot be computed again. Raises LookupError if no shard picked the node.
    """
    picked = await _picked(journals, pod, node)
    event = picked.event
    extended = event.extended if isinstance(event, Reserved) else 0
    pick = Pick(picked.total + extended, len(column_of(event, "ids")))
    if isinstance(event, Reserved):
        pick.feasible = event.feasible
        pick.next_best = event.runner_up if event.runner_up >= 0 else None
    try:
        state = await journals.state_before(picked.found)
    except (NeedsReset, PluginMissing) as error:
        pick.missing = str(error)
        return pick, ()
    pick.was_kept = any(
        one.until_ms and (one.pod == pod or one.gang == getattr(event, "gang", NO_GANG))
        for one in nominations_on(state, node)
    )
    nodes = _nodes_then(state, picked, pod)
    name = await journals.node_name(node)
    others = [one for one in nodes if not one.refused_by and one.node != name]
    best = max(others, key=lambda one: one.score, default=None)
    if not nodes:
        pick.missing = "computed again they do not give the recorded score"
        return pick, ()
    pick.feasible, pick.nodes = len(others) + 1, len(nodes)
    pick.next_best = None if best is None else best.score
    pick.next_node = "" if best is None else best.node
    return pick, nodes


async def _picked(journals: Journals, pod: PodId, node: NodeId) -> Picked:
    answers = []
    for journal in journals.shards:
        found = [await journals.holding(journal, kind, pod) for kind in (Reserved, GangHeld)]
        answers += [one for one in found if one is not None]
    for one in sorted(answers, key=lambda one: -one.time_ms):
        event = cast(Reserved | GangHeld, one.event)
        ids = column_of(event, "ids")
        row = ids.index(pod)
        sig = event.sig if isinstance(event, Reserved) else column_of(event, "sigs")[row]
        if column_of(event, "nodes")[row] == node:
            total = int(unpack_totals(event.totals, len(ids))[row])
            return Picked(one, row, sig, node, total)
    raise LookupError(pod)


def _nodes_then(state: PlacementState, picked: Picked, pod: PodId) -> tuple[NodeAnswer, ...]:
    """Return the answers of all nodes before the pick; none if they do not give the recorded score.
    Charges the earlier picks of its event to the state.
    """
    event, table = picked.event, state.table
    if isinstance(event, GangHeld):
        nominated_pods, is_in_place = _of_gang(state, event, picked.row)
    else:
        spec, is_in_place = state.specs[picked.sig], False
        nominated_pods = nominated_pods_for(state, spec.priority, pod, queue=spec.queue)
    nodes = column_of(event, "nodes")[: picked.row]
    sigs = [event.sig] * len(nodes) if isinstance(event, Reserved) else column_of(event, "sigs")
    masks = column_of(event, "devices") if event.devices else [0] * len(nodes)
    for node, sig, mask in zip(nodes, sigs, masks, strict=False):
        row = table.row_of(node)
        assert row is not None, f"node {node} had a pick"
        table.charge_one(state.sigs[sig], row, mask)
    rows, why_not = _searched(state, picked, nominated_pods, is_in_place)
    reports = explain(table, state.sigs[picked.sig], nominated_pods, rows)
    own = next(one for one in reports if one.node_id == picked.node)
    if own.total != picked.total:
        return ()
    more = _added_by_extenders(state, picked)
    named = {one.name for one in reports}
    left = (node.name for node in table.nodes if node.name not in named)
    left_out = (NodeAnswer(name, "Muster", (why_not,), 0) for name in left)
    found = (node_answer_of(one, more.get(one.node_id, 0)) for one in reports)
    return (*found, *left_out)


def _added_by_extenders(state: PlacementState, picked: Picked) -> dict[int, int]:
    """Return what extenders added to the scores, by node."""
    event, call = picked.event, state.work_queue.extender_call
    if isinstance(event, GangHeld) or call is None or call.answer is None:
        return {}
    rows, scores = questions.existing_nodes(state.table, call.answer)
    return dict(zip(state.table.ids[rows].tolist(), scores.tolist(), strict=True))


def _of_gang(state: PlacementState, event: GangHeld, row: int) -> tuple[NominatedPods | None, bool]:
    """Return the nominations that the member in this row left room for, and whether it was placed
    in one of the gang's own places.
    """
    places, trial = GangPlaces(state, event.gang, event.attempt), state.table.trial()
    first = 0
    for sig, group in groupby(column_of(event, "sigs")):
        count = len(list(group))
        chooses = questions.is_interested(state, sig) or reservations.chooses(state, sig)
        in_places = 0 if chooses else len(places.place_members(trial, sig, count))
        if row < first + count:
            return places.nominated_pods(sig), row < first + in_places
        first += count
    raise AssertionError(f"row {row} of {event}")


def _searched(
    state: PlacementState, picked: Picked, nominated_pods: NominatedPods | None, is_in_place: bool
) -> tuple[I64 | None, str]:
    """Return the rows among which the node was picked (None: all feasible ones), and why no others
    were.
    """
    event, call = picked.event, state.work_queue.extender_call
    is_alone = isinstance(event, Reserved) and event.feasible == 1
    if is_in_place or is_alone:
        only = np.array([state.table.row_of(picked.node)], np.int64)
        return only, "not tried: the pod had a nominated node, or extenders left one alone"
    if isinstance(event, GangHeld):
        return None, ""
    if call is not None and call.answer is not None:
        return questions.existing_nodes(state.table, call.answer)[0], "extenders refused it"
    if state.tree is not None:
        found = sampling.place(state, picked.sig, nominated_pods).found
        return found, "not tried: the search had found enough nodes before"
    return None, ""
