"""What `muster get` lists: all of a kind in a run, where `muster why` explains one.

The rows come from the states alone, apart from the times at which pods were first seen.
"""

from collections import defaultdict
from datetime import datetime
from typing import cast

import numpy as np
from msgspec import Struct

from muster.cli.output import Time, time_of
from muster.cli.recorded_run import Recorded
from muster.explain.why import gangs, pods
from muster.explain.why.gone import EVICTING
from muster.explain.why.journals import Journals
from muster.explain.why.nodes import amounts_of, state_of, taints_of
from services.binding.core.pod_table import DEAD, NAMED
from services.ingest.core.state import IngestState
from services.placement.core.state import PlacementState
from services.queueing.core.transitions import Pod
from shared.events.ingest import PodsNamed
from shared.events.names import column_of
from shared.model.ids import INGEST, PodId
from shared.model.objects import CPU, GPU, MEMORY, PODS, PodSpec
from shared.model.queues import chains, shown_amount


class PodRow(Struct, kw_only=True):
    """A live pod. `message`: why it waits. `nominated_node`: from there victims leave for it.
    `seen_time`: when it was first seen (null: that record was cut).
    """

    namespace: str
    name: str
    state: str
    node: str
    nominated_node: str
    gang: str
    seen_time: Time | None
    message: str


class GangRow(Struct, kw_only=True):
    """A gang; the fields are GangAnswer's. `members`, `placed`: all, and those with a node."""

    gang: str
    state: str
    members: int
    placed: int
    min_count: int
    missing: int
    wait_start_time: Time | None
    message: str
    next: str


class NodeRow(Struct, kw_only=True):
    """A node of a shard, with what its pods request. Memory is in bytes, GPUs in thousandths."""

    node: str
    state: str
    shard: int
    pods: int
    pods_allocatable: int
    cpu_milli: int
    cpu_milli_allocatable: int
    memory_bytes: int
    memory_bytes_allocatable: int
    gpu_milli: int
    gpu_milli_allocatable: int
    taints: tuple[str, ...]


class QueueRow(Struct, kw_only=True):
    """A queue, after the one above it. `depth`: how many are above. `used`: what its pods and those
    of the queues below it use, and `max`: what they may, as quantities by resource. `borrowed`:
    what is used above what is `guaranteed`, of each resource that a queue guarantees. `waiting`:
    its pods without a node, of which the first was seen at `wait_start_time`.
    """

    queue: str
    parent: str
    depth: int
    used: dict[str, str]
    max: dict[str, str]
    guaranteed: dict[str, str]
    borrowed: dict[str, str]
    waiting: int
    wait_start_time: Time | None


async def list_pods(run: Recorded, namespace: str) -> tuple[list[PodRow], datetime]:
    """Return the live pods by name (`namespace` empty: of all), and the time of the newest record.
    Raises the errors of reading journals.
    """
    journals = Journals(run)
    ingest = cast(IngestState, (await journals.fold(INGEST)).state)
    queue, binding = await journals.queueing(), await journals.binding()
    leaving = (await journals.preemption()).victims
    nominated = {
        one.pod: shard.nodes[one.node].name
        for shard in await journals.placements()
        for one in shard.nominations.values()
    }
    keys = {record.id: key for key, record in ingest.gangs.items()}
    gang_of = dict(zip(ingest.pods.ids.tolist(), ingest.pods.gangs.tolist(), strict=True))
    seen = await _seen(journals)
    table = binding.table
    live = np.flatnonzero(table.flags[: table.used] & (DEAD | NAMED) == NAMED)
    found = []
    for row in live.tolist():
        chunk = table.names[int(table.chunks[row])]
        if namespace not in ("", chunk.namespace):
            continue
        pod, name = table.pod_at(row), chunk.name_list()[int(table.places[row])]
        answer = pods.standing(queue, binding, row, f"{chunk.namespace}/{name}")
        is_leaving = pod in leaving and answer.state == pods.STATES[Pod.BOUND]
        found.append(
            PodRow(
                namespace=chunk.namespace,
                name=name,
                state=EVICTING if is_leaving else answer.state,
                node=answer.node,
                nominated_node="" if answer.node else nominated.get(pod, ""),
                gang=keys.get(gang_of.get(pod, 0), ""),
                seen_time=seen.get(pod),
                message=answer.message or answer.detail,
            )
        )
    found.sort(key=lambda one: (one.namespace, one.name))
    return found, time_of(journals.now_ms())


async def list_gangs(run: Recorded, namespace: str) -> tuple[list[GangRow], datetime]:
    """Return the gangs by name (`namespace` empty: of all), and the time of the newest record.
    Raises the errors of reading journals.
    """
    journals = Journals(run)
    ingest = cast(IngestState, (await journals.fold(INGEST)).state)
    seen = await _seen(journals)
    found = []
    for key in sorted(ingest.gangs):
        if namespace not in ("", key.partition("/")[0]):
            continue
        answer, members = await gangs.standing(journals, ingest, key)
        found.append(
            GangRow(
                gang=key,
                state=answer.state,
                members=len(members),
                placed=sum(bool(one.node) for one in answer.members),
                min_count=answer.min_count,
                missing=answer.missing,
                wait_start_time=seen.get(gangs.oldest_waiting(members)),
                message=answer.message,
                next=answer.next,
            )
        )
    return found, time_of(journals.now_ms())


async def list_nodes(run: Recorded) -> list[NodeRow]:
    """Return the nodes that a shard has, by name. Raises the errors of reading journals."""
    shards = await Journals(run).placements()
    found = [row for shard in shards for row in _nodes_of(shard)]
    return sorted(found, key=lambda one: one.node)


def _nodes_of(shard: PlacementState) -> list[NodeRow]:
    ledger = shard.ledger
    rows = ledger.charged()
    specs: dict[int, list[PodSpec]] = defaultdict(list)
    for node, sig in zip(ledger.node[rows].tolist(), ledger.sig[rows].tolist(), strict=True):
        specs[node].append(shard.specs[sig])
    found = []
    for number, node in shard.nodes.items():
        amounts = amounts_of(node, specs[number])
        count, cpu, memory, gpu = (amounts.get(name, (0, 0)) for name in (PODS, CPU, MEMORY, GPU))
        found.append(
            NodeRow(
                node=node.name,
                state=state_of(node),
                shard=shard.shard,
                pods=len(specs[number]),
                pods_allocatable=count[1],
                cpu_milli=cpu[0],
                cpu_milli_allocatable=cpu[1],
                memory_bytes=memory[0],
                memory_bytes_allocatable=memory[1],
                gpu_milli=gpu[0],
                gpu_milli_allocatable=gpu[1],
                taints=taints_of(node),
            )
        )
    return found


async def _seen(journals: Journals) -> dict[PodId, datetime]:
    """Return when each pod was first seen."""
    named = await journals.every(INGEST, (PodsNamed,))
    times = ((time_of(one.time_ms), one) for one in named)
    return {pod: time for time, one in times for pod in column_of(one.event, "ids")}


async def list_queues(run: Recorded) -> tuple[list[QueueRow], datetime]:
    """Return the queues as a tree, and the time of the newest record. Raises the errors of reading
    journals.
    """
    journals = Journals(run)
    state, seen = await journals.queueing(), await _seen(journals)
    pods = state.pods
    waiting: dict[str, list[PodId]] = defaultdict(list)
    rows = np.flatnonzero((pods.state > int(Pod.UNKNOWN)) & (pods.state < int(Pod.RESERVED)))
    for row in rows.tolist():
        waiting[state.sigs[pods.sig_at[row]].queue].append(PodId(row + pods.base))
    found = []
    tree = chains(state.queues)
    counted = {resource for one in state.queues for resource, _amount in one.guaranteed}
    for name in sorted(tree, key=lambda name: [one.name for one in reversed(tree[name])]):
        times = [seen[pod] for pod in waiting[name] if pod in seen]
        over = state.quota.borrowed(name) if state.quota is not None else {}
        found.append(
            QueueRow(
                queue=name,
                parent=tree[name][0].parent,
                depth=len(tree[name]) - 1,
                used=_shown(state.quota.used.get(name, {}) if state.quota is not None else {}),
                max=_shown(dict(tree[name][0].max)),
                guaranteed=_shown(dict(tree[name][0].guaranteed)),
                borrowed=_shown({key: over[key] for key in over if key in counted}),
                waiting=len(waiting[name]),
                wait_start_time=min(times, default=None),
            )
        )
    return found, time_of(journals.now_ms())


def _shown(amounts: dict[str, int]) -> dict[str, str]:
    return {name: shown_amount(name, amount) for name, amount in sorted(amounts.items())}
