"""Answers `muster why node/NAME`: what is on it, and what is kept there for which pods."""

from collections import Counter
from collections.abc import Sequence
from typing import cast

from muster.cli.errors import UsageFault
from muster.cli.output import time_of
from muster.cli.recorded_run import Recorded
from muster.explain.why.answers import Amount, Kept, OneNodeAnswer, OnNode, decided_by
from muster.explain.why.journals import Journals
from services.placement.core.state import Nomination, PlacementState
from services.placement.core.transitions import State
from shared.events.base import Event
from shared.events.describe import View
from shared.events.ingest import NodesGone, NodesSet
from shared.events.names import Names, Subject, column_of, is_called
from shared.events.observed import InputRejected
from shared.model.ids import INGEST, NO_NODE, NodeId
from shared.model.objects import CPU, EPHEMERAL_STORAGE, GPU, MEMORY, PODS, Node, PodSpec

STATES = {
    State.RESERVED: "being bound",
    State.HELD: "held for its gang",
    State.BOUND: "bound",
    State.ASSIGNED: "bound",
    State.FAILED: "its bind failed",
}
BINARY = ("Ki", "Mi", "Gi", "Ti")


async def why_node(run: Recorded, name: str) -> OneNodeAnswer:
    """Answer for a node. Raises UsageFault if no record names it, and the errors of reading
    journals.
    """
    journals = Journals(run)
    answer = OneNodeAnswer(node=name, state="")
    number = NO_NODE
    for shard in await journals.placements():
        for one, node in shard.nodes.items():
            if node.name == name:
                number = one
                await _add(journals, answer, shard, one, node)
    await _add_decision(journals, answer, name, number)
    answer.read_to = journals.read_to()
    return answer


async def _add_decision(
    journals: Journals, answer: OneNodeAnswer, name: str, number: NodeId
) -> None:
    """Add the newest record about the node, and the state of one that no shard has. Raises
    UsageFault.
    """

    def is_it(event: Event) -> bool:
        if isinstance(event, NodesSet):
            return any(node.name == name for node in event.nodes)
        return isinstance(event, InputRejected) and is_called(event.what, "node", name)

    found = await journals.newest(INGEST, is_it)
    if found is None and not number:
        raise UsageFault(f"node {name}: no node of this name is known")
    if found is None:
        return  # the record was cut
    event = found.event
    if isinstance(event, InputRejected):
        answer.state = answer.state or "left out"
        answer.message = f"{event.field}: {event.rule}"
    elif not number:
        last = next(
            one
            for one, node in zip(column_of(event, "ids"), cast(NodesSet, event).nodes, strict=True)
            if node.name == name
        )
        gone = await journals.holding(INGEST, NodesGone, last)
        answer.state = "just seen" if gone is None else "deleted"
        number, found = last, gone or found
    view = View(Names(nodes={number: name}), Subject("node", name, frozenset([number])))
    answer.decided = decided_by(found, view)


async def _add(
    journals: Journals, answer: OneNodeAnswer, shard: PlacementState, number: NodeId, node: Node
) -> None:
    """Add what a shard knows of its node."""
    answer.state = state_of(node)
    answer.shard = shard.shard
    answer.taints = taints_of(node)
    ledger = shard.ledger
    rows = ledger.charged()
    rows = rows[ledger.node[rows] == number]
    specs = [shard.specs[sig] for sig in ledger.sig[rows].tolist()]
    answer.amounts = tuple(
        Amount(name, quantity(name, used), quantity(name, have))
        for name, (used, have) in sorted(amounts_of(node, specs).items())
    )
    leaving = {victim for one in shard.nominations.values() for victim in one.victims}
    answer.pods = tuple(
        [
            OnNode(
                await journals.pod_name(pod),
                "leaving" if pod in leaving else STATES[State(int(ledger.kind[pod - ledger.base]))],
                spec.priority,
            )
            for pod, spec in zip(ledger.ids(rows).tolist(), specs, strict=True)
        ]
    )
    for _ask, one in sorted(shard.nominations.items()):
        if one.node == number:
            answer.kept += (await kept_by(journals, shard, one),)


async def kept_by(journals: Journals, shard: PlacementState, one: Nomination) -> Kept:
    """Return what a nomination keeps."""
    return Kept(
        node=shard.nodes[one.node].name,
        pod=await journals.pod_name(one.pod),
        priority=shard.specs[one.sig].priority,
        victims=tuple([await journals.pod_name(victim) for victim in sorted(one.victims)]),
        gang=await journals.gang_name(one.gang) if one.gang else "",
        until_time=time_of(one.until_ms) if one.until_ms else None,
    )


def state_of(node: Node) -> str:
    """Return whether pods may come to the node."""
    return "unschedulable (cordoned)" if node.unschedulable else "schedulable"


def taints_of(node: Node) -> tuple[str, ...]:
    """Return the taints as kubectl writes them."""
    return tuple(
        f"{one.key}{f'={one.value}' if one.value else ''}:{one.effect}" for one in node.taints
    )


def amounts_of(node: Node, specs: Sequence[PodSpec]) -> dict[str, tuple[int, int]]:
    """Return what these pods request of each resource, and what the node has, in base units."""
    used: Counter[str] = Counter({PODS: len(specs)})
    for spec in specs:
        used.update(dict(spec.requests))
        if spec.gpu is not None:
            used[GPU] += spec.gpu.milli * spec.gpu.count
    have = dict(node.allocatable)
    if node.gpu_count:
        have[GPU] = 1_000 * node.gpu_count
    return {name: (used[name], amount) for name, amount in have.items()}


def quantity(resource: str, amount: int) -> str:
    """Return an amount in base units as Kubernetes writes it."""
    if resource in (CPU, GPU):
        return f"{amount}m" if amount % 1_000 else str(amount // 1_000)
    unit = ""
    if resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith("hugepages-"):
        for larger in BINARY:
            if not amount or amount % 1_024:
                break
            amount, unit = amount // 1_024, larger
    return f"{amount}{unit}"
