"""Answers `muster why pod`: where a pod stands and why.

Queueing's journal shows where the pod stands, binding's the requests to the API, and the shards'
how each node fares. The records show which service decided it, and when.
"""

from typing import Any, cast

from muster.cli.errors import UsageFault
from muster.cli.output import RecordText
from muster.cli.recorded_run import Recorded
from muster.explain.why.answers import Answer, NodeAnswer, Reason, decided_by, node_answer_of
from muster.explain.why.gone import add_eviction, evictions_for, gone_answer
from muster.explain.why.journals import Journals
from muster.explain.why.nodes import kept_by
from muster.explain.why.picks import pick_of
from services.binding.core.pod_table import FACT
from services.binding.core.state import BindingState
from services.binding.core.transitions import FOR_PERMIT, FOR_VOLUMES, Phase
from services.placement.core.placing.unsupported import unsupported_reason
from services.placement.core.preemption.nominations import kept, nominated_pods_for
from services.placement.core.state import PlacementState
from services.queueing.core.state import QueueingState, Sig
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting.messages import (
    fit_error,
    gang_message,
    parked_message,
    sum_reasons,
)
from services.queueing.core.waiting.permit_rejections import is_permit_rejected
from services.queueing.core.why import gated_message, why
from shared.events.base import Event
from shared.events.binding import BindFailed, Bound, PreBindFailed, VolumesTaken
from shared.events.describe import NAMED_MAX, View
from shared.events.ingest import PodsAssigned, PodsNamed, PodsPending
from shared.events.names import Names, Subject, holds, is_called, is_named
from shared.events.observed import InputRejected
from shared.events.permit import GangCommitted
from shared.events.placement import NominationReady, Refused, Reserved
from shared.events.preemption import PreemptionOpened
from shared.events.queueing import (
    Activated,
    Dispatched,
    GangDispatched,
    GangWaits,
    Parked,
    PreemptAsked,
    TryFailed,
    Woken,
)
from shared.model.columns import as_numbers, split
from shared.model.ids import (
    BINDING,
    INGEST,
    PERMIT,
    PREEMPTION,
    QUEUEING,
    GangId,
    JournalName,
    NodeId,
    PodId,
    SignatureId,
)
from shared.replay.newest_record import Holds
from shared.scheduling.cycle.report import explain

SKEW_MS = 10_000
"""How far the clocks of services in other processes may differ."""

STATES = {
    Pod.GATED: "gated",
    Pod.READY: "in the queue",
    Pod.IN_FLIGHT: "being tried",
    Pod.LEFTOVER: "being tried",
    Pod.PARKED: "unschedulable",
    Pod.ASKING: "unschedulable",
    Pod.PREEMPTING: "waiting for its victims to leave",
    Pod.NOMINATED: "nominated",
    Pod.BACKOFF: "in backoff",
    Pod.GANG_PENDING: "waiting for its gang",
    Pod.GANG_IN_FLIGHT: "waiting for its gang",
    Pod.RESERVED: "being bound",
    Pod.BOUND: "bound",
}
QUEUE: tuple[type[Event], ...] = (Woken, Activated, Parked)
DECIDED: dict[Pod, dict[str, tuple[type[Event], ...]]] = {
    Pod.GATED: {INGEST: (PodsPending,)},
    Pod.READY: {QUEUEING: QUEUE, INGEST: (PodsPending,)},
    Pod.IN_FLIGHT: {QUEUEING: (Dispatched,)},
    Pod.LEFTOVER: {"placement": (Refused,)},
    Pod.PARKED: {QUEUEING: (Parked,)},
    Pod.ASKING: {QUEUEING: (PreemptAsked,)},
    Pod.PREEMPTING: {PREEMPTION: (PreemptionOpened,)},
    Pod.NOMINATED: {"placement": (NominationReady,)},
    Pod.BACKOFF: {
        QUEUEING: (*QUEUE, TryFailed),
        BINDING: (BindFailed, PreBindFailed, VolumesTaken),
    },
    Pod.GANG_PENDING: {QUEUEING: (GangWaits, Parked)},
    Pod.GANG_IN_FLIGHT: {QUEUEING: (GangDispatched,)},
    Pod.RESERVED: {"placement": (Reserved,), PERMIT: (GangCommitted,)},
    Pod.BOUND: {BINDING: (Bound,), INGEST: (PodsAssigned,)},
}
"""The journals and events that bring a pod to each place. For a bound pod the first journal with an
event counts: binding's outcome shows the decision, the world's fact only the result.
"""


async def why_pod(run: Recorded, name: str, namespace: str = "", node: str = "") -> Answer:
    """Answer for the pod NAME or NAMESPACE/NAME. Raises UsageFault if no record names it, and the
    errors of reading journals.
    """
    return await _Asking(run, name, f"{namespace}/" if namespace else "").answer(node)


class _Asking:
    """One question about a pod; `_name` becomes NAMESPACE/NAME once it is found."""

    def __init__(self, run: Recorded, name: str, inside: str) -> None:
        self._journals, self._name, self._inside = Journals(run), name, inside

    async def answer(self, node: str) -> Answer:
        journals = self._journals
        rows = await journals.rows_of(self._name, self._inside)
        if len(rows) > 1:
            alike = ", ".join(sorted(rows))
            raise UsageFault(f"pod {self._name}: may be {alike}: name one, or its -n NAMESPACE")
        if rows:
            ((self._name, row),) = rows.items()
        answer = await (self._live(row, node) if rows else self._past())
        answer.read_to = journals.read_to()
        return answer

    async def _live(self, row: int, node: str) -> Answer:
        journals = self._journals
        binding, queue = await journals.binding(), await journals.queueing()
        pod = binding.table.pod_at(row)
        answer = standing(queue, binding, row, self._name)
        view = View(
            _names(queue, binding, pod, self._name), Subject("pod", self._name, frozenset([pod]))
        )
        await self._find_decision(answer, queue, pod, view)
        if answer.state == STATES[Pod.BOUND]:
            await add_eviction(journals, answer, pod)
        if binding.table.nodes[row] and answer.node:
            await self._picked(answer, pod, binding.table.node_at(row), node)
        elif node:
            answer.nodes = (await self._node(queue, pod, node),)
        if answer.node == "" and queue.pods.state_of(pod) in (Pod.PREEMPTING, Pod.NOMINATED):
            await self._nominated(answer, pod)
        if not answer.node and queue.kept_places:
            await self._kept(answer, queue, pod)
        if answer.node or answer.gang:
            answer.evictions = await evictions_for(journals, pod, _number(queue, pod, "gang"))
        return answer

    async def _picked(self, answer: Answer, pod: PodId, node: NodeId, other: str) -> None:
        """Add why the pod got its node, and the answer of another node then. Raises UsageFault."""
        try:
            answer.pick, nodes = await pick_of(self._journals, pod, node)
        except LookupError:
            answer.detail = answer.detail or "no shard picked this node: another scheduler bound it"
            if other:
                raise UsageFault(f"--node {other}: {answer.detail}") from None
            return
        if other and answer.pick.missing:
            raise UsageFault(f"--node {other}: not known: {answer.pick.missing}")
        answer.nodes = tuple(one for one in nodes if one.node == answer.node)
        if other and other != answer.node:
            there = next((one for one in nodes if one.node == other), None)
            answer.nodes += (there or await self._elsewhere(other),)

    async def _elsewhere(self, name: str) -> NodeAnswer:
        """Return the answer for a node that the picking shard did not have. Raises UsageFault."""
        for shard in await self._journals.placements():
            if any(node.name == name for node in shard.nodes.values()):
                text = "another shard has this node now, and did not try the pod"
                return NodeAnswer(name, "Muster", (text,), 0)
        raise UsageFault(f"--node {name}: no node of this name was known then")

    async def _past(self) -> Answer:
        """Return the answer for a name without a live pod: the pod is gone, or ingest left it
        out.
        """
        name, inside = self._name, self._inside
        short = name.rpartition("/")[2]

        def is_it(event: Event) -> bool:
            if isinstance(event, PodsNamed):
                is_ours = is_named(f"{event.namespace}/{short}", name, inside)
                return is_ours and short in event.names and short in split(event.names)
            return isinstance(event, InputRejected) and is_called(event.what, "pod", name, inside)

        found = await self._journals.newest(INGEST, is_it)
        if found is None:
            within = f" in namespace {inside[:-1]}" if inside else ""
            raise UsageFault(
                f"pod {name}: not known{within}: it does not exist, or has no node and a "
                "schedulerName that is not ours"
            )
        if isinstance(found.event, PodsNamed):
            return await gone_answer(self._journals, f"{found.event.namespace}/{short}", found)
        rejected = cast(InputRejected, found.event)
        return Answer(
            pod=rejected.what.removeprefix("Pod "),
            state="refused",
            message=f"{rejected.field}: {rejected.rule}",
            decided=decided_by(found, View(Names())),
        )

    async def _find_decision(
        self, answer: Answer, queue: QueueingState, pod: PodId, view: View
    ) -> None:
        """Find the newest record that brought the pod where it is, and the shards' last checks."""
        code = queue.pods.state_of(pod)
        by = DECIDED.get(code, DECIDED[Pod.BOUND])
        since_ms = int(queue.pods.order_ms[pod - queue.pods.base]) if code < Pod.BOUND else 0
        number = _number(queue, pod, "gang")
        found = []
        for journal in self._expand(by):
            holds = _about(pod, number, by.get(journal, by.get("placement", ())))
            one = await self._journals.newest(journal, holds, since_ms - SKEW_MS)
            found += [one] if one is not None else []
            if found and by is DECIDED[Pod.BOUND]:
                break
        if found:
            decision = max(found, key=lambda one: one.time_ms)
            for other in as_numbers(getattr(decision.event, "victims", b""))[:NAMED_MAX]:
                view.names.pods[other] = await self._journals.pod_name(other)
            answer.decided = decided_by(decision, view)
        if answer.reasons:
            answer.confirmed = await self._looks(_number(queue, pod, "sig"), view)

    def _expand(self, by: dict[str, Any]) -> list[JournalName]:
        shards = self._journals.shards
        return [
            name for key in by for name in (shards if key == "placement" else [JournalName(key)])
        ]

    async def _looks(self, sig: SignatureId, view: View) -> tuple[RecordText, ...]:
        looks = []
        for journal in self._journals.shards:

            def is_look(event: Event) -> bool:
                return isinstance(event, Refused) and event.sig == sig

            one = await self._journals.newest(journal, is_look)
            looks += [decided_by(one, view)] if one is not None else []
        return tuple(looks)

    async def _nominated(self, answer: Answer, pod: PodId) -> None:
        for shard in await self._journals.placements():
            for one in shard.nominations.values():
                if one.pod == pod:
                    answer.node = shard.nodes[one.node].name

    async def _kept(self, answer: Answer, queue: QueueingState, pod: PodId) -> None:
        """Add the room that other gangs keep for lost members and this pod may not take."""
        sig, gang = queue.sigs.get(_number(queue, pod, "sig")), _number(queue, pod, "gang")
        for shard in await self._journals.placements():
            for one in kept(shard):
                is_above = sig is None or shard.specs[one.sig].priority >= sig.pod_priority
                if is_above and one.gang != gang:
                    answer.kept += (await kept_by(self._journals, shard, one),)

    async def _node(self, queue: QueueingState, pod: PodId, name: str) -> NodeAnswer:
        """Return Filter's and Score's present answer for a node. Raises UsageFault."""
        sig = _number(queue, pod, "sig")
        for shard in await self._journals.placements():
            found = node_answer(shard, sig, pod, name)
            if found is not None:
                return found
        raise UsageFault(f"--node {name}: no node of this name is known")


def node_answer(
    shard: PlacementState, sig: SignatureId, pod: PodId, name: str
) -> NodeAnswer | None:
    """Return the shard's present answer about a node; None if it has none of this name."""
    if any(node.name == name for node in shard.withheld.values()):
        text = f"made again while {shard.unsettled_on[name]} binds to its name may be on their way"
        return NodeAnswer(name, "Muster", (text,), 0)
    if all(node.name != name for node in shard.nodes.values()):
        return None
    why_not = unsupported_reason(shard, sig)
    if why_not:
        return NodeAnswer(name, "Muster", (why_not,), 0)
    spec = shard.specs[sig]
    nominated_pods = nominated_pods_for(shard, spec.priority, pod, queue=spec.queue)
    reports = explain(shard.table, shard.sigs[sig], nominated_pods)
    return next((node_answer_of(one) for one in reports if one.name == name), None)


def _number(queue: QueueingState, pod: PodId, column: str) -> Any:
    """Return a pod's signature or gang; 0 if queueing does not know the pod."""
    pods = queue.pods
    if not pods.base <= pod < pods.top:
        return 0
    return int(getattr(pods, column)[pod - pods.base])


def standing(queue: QueueingState, binding: BindingState, row: int, name: str) -> Answer:
    """Return where a pod stands from the states alone; `row` is its row in binding's table."""
    answer = _standing(queue, binding.table.pod_at(row), name)
    _bind_standing(answer, binding, row)
    return answer


def _standing(queue: QueueingState, pod: PodId, name: str) -> Answer:
    """Return the answer from queueing's state."""
    code = queue.pods.state_of(pod)
    answer = Answer(pod=name, state=STATES.get(code, "bound"))
    if code in (Pod.UNKNOWN, Pod.BOUND, Pod.GONE):
        return answer
    answer.detail = why(queue, pod)
    if code is Pod.BACKOFF and is_permit_rejected(queue, pod - queue.pods.base):
        answer.state = STATES[Pod.PARKED]
        return answer
    sig: Sig | None = queue.sigs.get(_number(queue, pod, "sig"))
    gang = queue.gangs.get(_number(queue, pod, "gang"))
    if gang is not None and (not gang.committed or code is Pod.GANG_PENDING):
        answer.gang = gang.key
        answer.message = gang_message(gang)
    elif sig is not None and sig.refusals:
        reasons, nodes = sum_reasons(sig.refusals.values())
        largest = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
        answer.reasons = tuple(Reason(text, count) for text, count in largest)
        answer.message = fit_error(reasons, nodes)
        if code is Pod.PARKED:
            answer.message = parked_message(sig, queue.config)
    if code is Pod.GATED:
        answer.message = gated_message(queue, pod)
    return answer


def _bind_standing(answer: Answer, binding: BindingState, row: int) -> None:
    """Add the node and the state of the bind from binding's state."""
    table = binding.table
    phase, node = Phase(int(table.phases[row])), table.node_at(row)
    name = binding.node_names.get(node, f"node {node}")
    if int(table.flags[row]) & FACT:
        answer.state, answer.node = STATES[Pod.BOUND], name
        answer.message = answer.detail = ""
        answer.reasons = ()
    elif phase is not Phase.IDLE:
        answer.node = name
        answer.detail = f"reserved: its bind is {phase.name.lower()}"
        if phase in FOR_VOLUMES:
            answer.detail = "reserved: waits until the claims of its volumes are bound"
        elif phase in FOR_PERMIT:
            answer.detail = "reserved: waits until the permit plugins of its profile agree"


def _about(pod: PodId, gang: GangId, types: tuple[type[Event], ...]) -> Holds:
    """Return a predicate for events of these types about the pod or its gang."""
    ids = frozenset([pod])

    def is_about(event: Event) -> bool:
        if not isinstance(event, types):
            return False
        if getattr(event, "pod", 0) == pod or holds(getattr(event, "ids", b""), ids):
            return True
        if gang and getattr(event, "gang", 0) == gang and not hasattr(event, "ids"):
            return True
        return any(holds(part.ids, ids) for part in getattr(event, "members", ()))

    return is_about


def _names(queue: QueueingState, binding: BindingState, pod: PodId, name: str) -> Names:
    gangs = {number: gang.key for number, gang in queue.gangs.items() if gang.key}
    return Names(pods={pod: name}, nodes=dict(binding.node_names), gangs=gangs)
