"""HTTP extenders: asked about the nodes of one pod by an effect, and what becomes of the answer.

A step cannot wait, so nodes may have changed when the answer is there: what was left is held
against the nodes as they are then, and where none of it takes the pod any more the extenders are
asked anew. Nothing is reserved meanwhile. As in kube-scheduler no other pod is placed between a
question and its answer.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np
from msgspec import structs

from services.placement.core.books.charges import compiled
from services.placement.core.placing import sampling
from services.placement.core.placing.answers import refuse, reserve_one
from services.placement.core.placing.cycle import place_there
from services.placement.core.placing.unsupported import obstacle
from services.placement.core.placing.work_queue import Work
from services.placement.core.preemption import nominations
from services.placement.core.state import PlacementState
from shared.events.observed import ExtendersAnswered
from shared.events.placement import ExtendersAsked, NominationLost, Refused, Reserved
from shared.model.columns import I64, few, pack, size, unpack
from shared.scheduling.profile import NAMED_NODES
from shared.scheduling.table.layout import Held
from shared.scheduling.table.table import NodeTable

NO_ROWS = np.zeros(0, np.int64)
NOT_LEFT = "extenders refuse the nominated node"


def concerned(state: PlacementState, sig: int) -> bool:
    """Whether some extender wants to judge the nodes of these pods."""
    spec = state.specs[sig]
    return any(one.judges(spec) for one in state.config.extenders)


def ask(state: PlacementState, work: Work, alone: bool = True) -> ExtendersAsked | Refused:
    """What extenders are asked about the work's next pod; a pod that fits nowhere is not worth it.
    Where its nominated node takes it they are asked about that `alone`, as in kube-scheduler.
    """
    ids = work.left()[:1]
    held, examined = _held(state, work), 0
    rows = _nominated(state, work.sig, int(ids[0]), held) if alone else NO_ROWS
    alone = len(rows) > 0
    if not alone and state.tree is not None:
        found = sampling.place(state, work.sig, held)
        rows, examined = found.found, found.examined
    elif not alone:
        rows = state.kernel.fitting(state.table, compiled(state, work.sig), held)
    if not len(rows):
        return refuse(state, work, ids, held, examined)
    nodes, number = pack(state.table.ids[rows]), state.extender_asks + 1
    return ExtendersAsked(number, work.attempt, work.sig, int(ids[0]), nodes, examined, alone)


def _held(state: PlacementState, work: Work) -> Held | None:
    if not state.nominations:
        return None
    pod = int(work.left()[0])
    return nominations.held_against(state, state.specs[work.sig].priority, pod)


def _nominated(state: PlacementState, sig: int, pod: int, held: Held | None) -> I64:
    """The row of its nominated node, if the pod fits there."""
    number = state.nominated.get(pod)
    row = None if number is None else state.table.row_of(state.nominations[number].node)
    if row is None:
        return NO_ROWS
    return place_there(state.table, compiled(state, sig), row, held or {}).rows


def promise_refused(state: PlacementState) -> Iterator[NominationLost]:
    """Extenders do not leave the pod the node that was promised to it, though its victims have
    left: the promise is over, as in kube-scheduler, whatever else they leave.
    """
    asking = state.todo.asking
    if asking is None or asking.answer is None or asking.answer.error:
        return
    pod, answer = asking.asked.pod, asking.answer
    one = state.nominations.get(state.nominated.get(pod, 0))
    if one is None or not one.announced:
        return
    if one.node in few(asking.asked.nodes) and one.node not in few(answer.nodes):
        yield NominationLost(state.shard, one.ask, pod, NOT_LEFT, refused=True)


def conclude(state: PlacementState) -> Reserved | Refused | ExtendersAsked:
    """What follows for the pod that extenders were asked about."""
    asking = state.todo.asking
    assert asking is not None
    assert asking.answer is not None, f"no answer yet to {asking.asked}"
    work, answer = asking.work, asking.answer
    if work.sig not in state.specs or obstacle(state, work.sig):
        return refuse(state, work, work.left(), None)
    held = _held(state, work)
    if answer.error and not asking.asked.alone:
        return _error(state, work, answer.error)
    rows, scores = still_there(state.table, answer)
    picked = state.kernel.place_among(state.table, compiled(state, work.sig), held, rows, scores)
    if picked is not None:
        pick, extended = picked
        return structs.replace(reserve_one(state, work, work.left(), pick), extended=extended)
    if answer.nodes or asking.asked.alone:
        return ask(state, work, alone=False)
    return _refuse(state, work, held, asking.asked, answer)


def _error(state: PlacementState, work: Work, error: str) -> Refused:
    """An extender failed that may not be ignored: that says nothing of any node."""
    ids, nodes = work.left()[:1].tobytes(), len(state.nodes)
    return Refused(state.shard, work.attempt, work.sig, ids, (), nodes, state.world, error=error)


def still_there(table: NodeTable, answer: ExtendersAnswered) -> tuple[I64, I64]:
    """Rows of the nodes that extenders left, and what they add to them."""
    nodes = unpack(answer.nodes)
    scores = unpack(answer.scores) if answer.scores else np.zeros(len(nodes), np.int64)
    given = zip(nodes.tolist(), scores.tolist(), strict=True)
    rows = [(table.row_of(node), score) for node, score in given]
    there = [(row, score) for row, score in rows if row is not None]
    columns = np.array(there, np.int64).reshape(len(there), 2)
    return columns[:, 0], columns[:, 1]


def _refuse(
    state: PlacementState,
    work: Work,
    held: Held | None,
    asked: ExtendersAsked,
    answer: ExtendersAnswered,
) -> Refused:
    """Why no node is left: the words of plugins and of extenders. Of nodes that went without a word
    nothing is said, or what PreFilter says of those that it left out.
    """
    event = refuse(state, work, work.left(), held)
    found = Counter(dict(event.reasons))
    silent = size(asked.nodes) - sum(count for _text, count in answer.failed)
    sig = compiled(state, work.sig)
    if silent > 0 and sig.plugins.left_out(state.table, sig.spec) is not None:
        found[NAMED_NODES.message] += silent
    for text, count in answer.failed:
        found[text] += count
    reasons = tuple(sorted(found.items()))
    return structs.replace(event, reasons=reasons, resolvable=event.resolvable + answer.resolvable)
