"""What extenders say about the nodes of one pod; placing/cycle.py asks them, by an effect.

A step cannot wait, so nodes may have changed when the answer arrives. The nodes that extenders left
are filtered again as they are then; if none fits any more, the extenders are asked again. Nothing
is reserved meanwhile. As in kube-scheduler, no other pod is placed between a question and its
answer.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np
from msgspec import structs

from services.placement.core.books.charges import compiled
from services.placement.core.placing.work_queue import Batch
from services.placement.core.state import PlacementState
from shared.events.observed import ExtendersAnswered
from shared.events.placement import ExtendersAsked, NominationLost, Refused
from shared.model.columns import I64, as_numbers, size, unpack
from shared.model.ids import NO_ASK, SignatureId
from shared.scheduling.table.table import NodeTable

NOT_LEFT = "extenders refuse the nominated node"


def is_interested(state: PlacementState, sig: SignatureId) -> bool:
    """Return whether an extender is interested in these pods (IsInterested)."""
    spec = state.specs[sig]
    return any(one.judges(spec) for one in state.config.extenders)


def decide_promise_refused(state: PlacementState) -> Iterator[NominationLost]:
    """End the nomination if extenders refuse the pod its nominated node after the victims have
    left, as in kube-scheduler, whatever other nodes they leave.
    """
    call = state.work_queue.extender_call
    if call is None or call.answer is None or call.answer.error:
        return
    pod, answer = call.asked.pod, call.answer
    one = state.nominations.get(state.nomination_of_pod.get(pod, NO_ASK))
    if one is None or not one.announced:
        return
    if one.node in as_numbers(call.asked.nodes) and one.node not in as_numbers(answer.nodes):
        yield NominationLost(state.shard, one.ask, pod, NOT_LEFT, refused=True)


def refused_by_error(state: PlacementState, batch: Batch, error: str) -> Refused:
    """Return the refusal after the error of an extender that may not be ignored. It gives no reason
    about any node.
    """
    ids, nodes = batch.left()[:1].tobytes(), len(state.nodes)
    return Refused(state.shard, batch.attempt, batch.sig, ids, (), nodes, state.world, error=error)


def existing_nodes(table: NodeTable, answer: ExtendersAnswered) -> tuple[I64, I64]:
    """Return the rows of the nodes that extenders left and still exist, with the
    extenders' scores.
    """
    nodes = unpack(answer.nodes)
    scores = unpack(answer.scores) if answer.scores else np.zeros(len(nodes), np.int64)
    given = zip(nodes.tolist(), scores.tolist(), strict=True)
    rows = [(table.row_of(node), score) for node, score in given]
    there = [(row, score) for row, score in rows if row is not None]
    columns = np.array(there, np.int64).reshape(len(there), 2)
    return columns[:, 0], columns[:, 1]


def with_extender_reasons(
    state: PlacementState, refused: Refused, asked: ExtendersAsked, answer: ExtendersAnswered
) -> Refused:
    """Return the refusal with the reasons of extenders too. Nodes dropped without a reason have
    none, or the one for nodes that PreFilter left out.
    """
    found = Counter(dict(refused.reasons))
    silent = size(asked.nodes) - sum(count for _text, count in answer.failed)
    sig = compiled(state, refused.sig)
    narrowing = sig.plugins.narrowing(sig.spec)
    if silent > 0 and narrowing is not None:
        found[narrowing.message] += silent
    for text, count in answer.failed:
        found[text] += count
    reasons = tuple(sorted(found.items()))
    resolvable = refused.resolvable + answer.resolvable
    return structs.replace(refused, reasons=reasons, resolvable=resolvable)
