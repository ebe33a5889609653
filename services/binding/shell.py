"""Binding's shell: sends the requests of effects in bounded chunks in parallel, and submits the
answers.

Silence is never a no: any failure after a request may have left is UNKNOWN. When ownership ends
nothing is submitted any more, though requests on the wire may still land.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import numpy as np

from services.binding import extender_victims, late_events, pod_writes
from services.binding.bind_plugins import TEXT_MAX, BindPluginRunner, Refusal
from services.binding.core.binds import OTHER, UNASSIGNED
from services.binding.core.conditions.status_patches import may_write
from services.binding.core.pod_table import NAMED
from services.binding.core.state import BindingState, Eviction
from services.binding.core.transitions import Phase
from services.binding.extender_victims import ref_at
from shared.events.base import Event
from shared.events.binding import (
    BindsAsked,
    ClaimReturnsAsked,
    EvictionsAsked,
    ExtendersPreemptAsked,
    FencesAsked,
    GroupsAsked,
    PermitsAsked,
    PostBindsAsked,
    PreBindsAsked,
    ReadsAsked,
    RequestsAsked,
    VolumesAsked,
)
from shared.events.observed import (
    BindAnswers,
    ClaimReturnAnswers,
    EvictAnswers,
    ExtendersPreempted,
    GroupAnswers,
    PostBindAnswers,
    PreBindAnswers,
    RequestAnswers,
    VolumeAnswers,
)
from shared.extenders.port import Binders, ExtenderCalls, NodeVictimRefs, VictimsLeft
from shared.extenders.values import Extender
from shared.machine.runtime import OwnerPort
from shared.model.api_outcome import Answer
from shared.model.columns import I64, pack, unpack
from shared.model.groups.provisioning import ProvisioningWrite
from shared.model.ids import EffectId, NodeId, PodId
from shared.model.preemption.victims import NodeVictims
from shared.ports.cluster import (
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    BindRequest,
    ClaimsRequest,
    Cluster,
    GroupCondition,
    NodesRequest,
    PodRead,
    PodRef,
    VolumeRequest,
)

CHUNK_PODS = 1_024
PODS_IN_FLIGHT = 16 * CHUNK_PODS
"""Pods in started chunks; the cluster limits the requests on the wire. The limit counts pods, not
chunks: pods that arrive one by one make chunks of one.
"""
DOUBT_S = 1.0
LOOK_S = 1.0
FENCE_MESSAGE = "the bind to the chosen node was given up"
UNKNOWN = PodRead(Answer.UNKNOWN)

log = logging.getLogger("muster.binding")


class PodSemaphore:
    """A semaphore that counts pods, first come, first served."""

    def __init__(self, pods_max: int) -> None:
        """Create a semaphore for `pods_max` pods."""
        self._pods_max, self._pods = pods_max, 0
        self._turn, self._left = asyncio.Lock(), asyncio.Event()

    @asynccontextmanager
    async def acquire(self, pods: int) -> AsyncIterator[None]:
        """Wait for room for this many pods; a larger number runs alone."""
        async with self._turn:
            while self._pods and self._pods + pods > self._pods_max:
                self._left.clear()
                await self._left.wait()
            self._pods += pods
        try:
            yield
        finally:
            self._pods -= pods
            self._left.set()


class BindingShell:
    """The sender of one owner."""

    def __init__(
        self,
        cluster: Cluster,
        binders: Binders | None = None,
        extender_calls: ExtenderCalls | None = None,
    ) -> None:
        """Do nothing before `start`. `binders` call extenders that bind, `extender_calls` those
        that choose victims, if there are any.
        """
        self._cluster = cluster
        self._owner: OwnerPort | None = None
        self._tasks: dict[asyncio.Task[None], bool] = {}
        self._room = PodSemaphore(PODS_IN_FLIGHT)
        self._plugin_runner = BindPluginRunner(binders)
        self._judges = extender_calls
        # Pods that extenders or plugins report as bound, with their nodes.
        self._bound_by_plugins: dict[PodId, NodeId] = {}
        # Pods evicted by this owner, by whether they were beyond their budgets.
        self.evictions = [0, 0]

    def start(self, owner: OwnerPort) -> None:
        """Start; open effects follow through `effect`."""
        self._owner = owner
        state = self._state()
        if state.recent:
            self._cluster.announce_binds(late_events.newest(state))
        doubts = late_events.doubtful_binds(state)
        if doubts:
            self._keep(self._announce_when_made(doubts))

    async def _announce_when_made(self, doubts: dict[PodId, NodeId]) -> None:
        """Announce these binds once they are known to be made."""
        while doubts:
            await asyncio.sleep(DOUBT_S)
            self._cluster.announce_binds(
                late_events.settle_doubts(self._state(), doubts), doubts is self._bound_by_plugins
            )

    def effect(self, effect_id: EffectId, effect: Event) -> None:
        """Send the effect's pods chunk by chunk, in their order."""
        assert self._owner is not None
        match effect:
            case BindsAsked():
                self._start_chunks(effect_id, effect, self._bind)
            case ReadsAsked():
                self._start_chunks(effect_id, effect, self._read)
            case FencesAsked():
                self._start_chunks(effect_id, effect, self._fence)
            case VolumesAsked():
                self._start_chunks(effect_id, effect, self._bind_volumes)
            case ClaimReturnsAsked():
                self._keep(self._give_back(effect_id, effect))
            case PreBindsAsked():
                for pod in unpack(effect.ids).tolist():
                    self._keep(self._pre_bind(effect_id, pod))
            case PermitsAsked():
                for pod in unpack(effect.ids).tolist():
                    self._keep(self._permit(effect_id, pod))
            case PostBindsAsked():
                for pod in unpack(effect.ids).tolist():
                    self._keep(self._post_bind(effect_id, pod))
            case ExtendersPreemptAsked():
                self._keep(self._ask_extenders(effect_id, effect))
            case GroupsAsked():
                self._keep(self._show_groups(effect_id, effect))
            case RequestsAsked():
                self._keep(self._request_nodes(effect_id, effect))
            case EvictionsAsked():
                self._start_chunks(effect_id, effect, self._evict)
            case _:
                raise AssertionError(f"effect {effect_id}: {effect}")

    async def stop(self) -> None:
        """Stop submitting answers."""
        self._owner = None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start_chunks(
        self,
        effect_id: EffectId,
        effect: Any,
        send: Callable[[EffectId, Any, I64], Awaitable[None]],
    ) -> None:
        pods = unpack(effect.ids)
        for start in range(0, len(pods), CHUNK_PODS):
            part = pods[start : start + CHUNK_PODS]
            self._keep(self._in_turn(effect_id, effect, part, send))

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = True
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        """Report a failed task: it is a bug, not an answer."""
        del self._tasks[task]
        if not task.cancelled() and task.exception() is not None:
            log.error("unexpected error while sending a request", exc_info=task.exception())

    async def _in_turn(
        self,
        effect_id: EffectId,
        effect: Any,
        pods: I64,
        send: Callable[[EffectId, Any, I64], Awaitable[None]],
    ) -> None:
        async with self._room.acquire(len(pods)):
            await send(effect_id, effect, pods)

    # ------------------------------------------------------------------------------- requests

    async def _bind(self, effect_id: EffectId, effect: BindsAsked, pods: I64) -> None:
        state = self._state()
        rows = self._still(state, effect_id, pods, Phase.ASKED)
        if not len(rows):
            return
        if state.plugin_specs:
            rows = self._without_plugin_binds(effect_id, state, rows)
            if not len(rows):
                return
        await self._post(effect_id, state, rows)

    async def _post(self, effect_id: EffectId, state: BindingState, rows: I64) -> None:
        pods = state.table.ids[rows]
        requests = _requests(state, rows)
        answers = await self._answers(len(rows), self._cluster.bind(requests))
        self._submit_reads(effect_id, pods, answers, None)

    def _without_plugin_binds(self, effect_id: EffectId, state: BindingState, rows: I64) -> I64:
        """Return the rows that DefaultBinder binds; start the others' plugins or extenders."""
        ids = state.table.ids[rows].tolist()
        hooked, config = state.plugin_specs, state.config
        is_own = [pod in hooked and BindPluginRunner.binds(config, hooked[pod]) for pod in ids]
        for pod, is_default in zip(ids, is_own, strict=True):
            if is_default:
                self._keep(self._bind_by_plugin(effect_id, pod))
        left: I64 = rows[~np.array(is_own, np.bool_)]
        return left

    async def _bind_by_plugin(self, effect_id: EffectId, pod: PodId) -> None:
        state = self._state()
        row = state.table.find(pod)
        if row < 0 or pod not in state.plugin_specs:
            return  # the pod is deleted, or its bind has ended
        node = state.node_names.get(state.table.node_at(row), "")
        spec = state.plugin_specs[pod]
        outcome = await self._plugin_runner.bind(state.config, spec, ref_at(state, row), node)
        column = np.array([pod], np.int64)
        if outcome.answer is Answer.ASSIGNED:
            self._announce_later(pod, state.table.node_at(row))
        if outcome.answer is not None:
            texts = (outcome.text,) if outcome.text else ()
            codes = bytes([outcome.answer])
            self._submit(BindAnswers(effect_id, pack(column), codes, texts=texts))
            return
        rows = self._still(state, effect_id, column, Phase.ASKED)
        if len(rows):
            async with self._room.acquire(1):
                await self._post(effect_id, state, rows)

    def _announce_later(self, pod: PodId, node: NodeId) -> None:
        is_first = not self._bound_by_plugins
        self._bound_by_plugins[pod] = node
        if is_first:
            self._keep(self._announce_when_made(self._bound_by_plugins))

    def _is_asked(self, effect_id: EffectId, pod: PodId) -> bool:
        """Return whether the plugins before the pod's bind are still to answer."""
        state = self._state()
        row = state.table.find(pod)
        return row >= 0 and pod in state.plugin_specs and state.table.effects.item(row) == effect_id

    async def _permit(self, effect_id: EffectId, pod: PodId) -> None:
        if not self._is_asked(effect_id, pod):
            return
        state = self._state()
        row = state.table.find(pod)
        node = state.node_names.get(state.table.node_at(row), "")
        asking = self._plugin_runner.permit(
            state.config, state.plugin_specs[pod], ref_at(state, row), node
        )
        task = asyncio.ensure_future(asking)
        try:
            # No signal comes when the pod is deleted: its plugins would wait in vain.
            while not (await asyncio.wait((task,), timeout=LOOK_S))[0]:
                if not self._is_asked(effect_id, pod):
                    return
            self._answer(effect_id, pod, task.result())
        finally:
            task.cancel()

    async def _pre_bind(self, effect_id: EffectId, pod: PodId) -> None:
        if not self._is_asked(effect_id, pod):
            return
        state = self._state()
        row = state.table.find(pod)
        node = state.node_names.get(state.table.node_at(row), "")
        spec = state.plugin_specs[pod]
        found = await self._plugin_runner.pre_bind(state.config, spec, ref_at(state, row), node)
        self._answer(effect_id, pod, found)

    def _answer(self, effect_id: EffectId, pod: PodId, found: Refusal) -> None:
        plugins = (found.plugin,) if found.plugin else ()
        errors = (True,) if found.error else ()
        self._submit(PreBindAnswers(effect_id, pack([pod]), (found.text,), plugins, errors))

    async def _post_bind(self, effect_id: EffectId, pod: PodId) -> None:
        state = self._state()
        row, found = state.table.find(pod), state.post_binds.get(pod)
        if row >= 0 and found is not None and found.effect == effect_id:
            node = state.node_names.get(found.node, "")
            await self._plugin_runner.post_bind(state.config, found.spec, ref_at(state, row), node)
        self._submit(PostBindAnswers(effect_id, pack([pod])))

    async def _read(self, effect_id: EffectId, _effect: ReadsAsked, pods: I64) -> None:
        state = self._state()
        rows = self._still(state, effect_id, pods, Phase.READING)
        if not len(rows):
            return
        pods, targets = state.table.ids[rows], state.table.nodes[rows].tolist()
        answers = await self._answers(len(rows), self._cluster.read(_refs(state, rows)))
        self._submit_reads(effect_id, pods, answers, targets)

    async def _fence(self, effect_id: EffectId, _effect: FencesAsked, pods: I64) -> None:
        state = self._state()
        table = state.table
        if effect_id in state.patching:
            # A pod that has a node by now gets no message.
            wait = [pod for pod in pods.tolist() if pod in state.messages and may_write(state, pod)]
            rows = table.find_all(np.array(wait, np.int64))
            gone = sorted(set(pods.tolist()).difference(wait))
        else:
            rows = self._still(state, effect_id, pods, Phase.FENCING)
            gone = [pod for pod in pods.tolist() if table.find(pod) < 0]
        if gone:
            self._submit_reads(
                effect_id, np.array(gone, np.int64), [PodRead(Answer.GONE)] * len(gone), None
            )
        if not len(rows):
            return
        ids, targets = table.ids[rows], table.nodes[rows].tolist()
        messages, reasons = _why(state, effect_id, ids.tolist())
        writing = self._cluster.touch(_refs(state, rows), messages, reasons)
        answers = await self._answers(len(rows), writing)
        self._submit_reads(effect_id, ids, answers, targets)

    async def _bind_volumes(self, effect_id: EffectId, _effect: VolumesAsked, pods: I64) -> None:
        state = self._state()
        rows = self._still(state, effect_id, pods, Phase.WRITING)
        ids = state.table.ids[rows].tolist()
        names = [state.node_names[node] for node in state.table.nodes[rows].tolist()]
        asked = [
            [VolumeRequest(choice, name) for choice in state.volumes.get(pod, ())]
            for pod, name in zip(ids, names, strict=True)
        ]
        claims = [
            ClaimsRequest(ref_at(state, row), state.claims[pod].choices)
            if pod in state.claims
            else None
            for pod, row in zip(ids, rows.tolist(), strict=True)
        ]
        pairs = zip(asked, claims, strict=True)
        writes = (pod_writes.write(self._cluster, *pair) for pair in pairs)
        found = await asyncio.gather(*writes)
        if ids:
            codes = bytes(one.answer for one in found)
            revisions = tuple(pack(one.revisions) for one in found) if any(claims) else ()
            self._submit(VolumeAnswers(effect_id, pack(ids), codes, revisions))

    async def _give_back(self, effect_id: EffectId, effect: ClaimReturnsAsked) -> None:
        state = self._state()
        returns = [state.claim_returns[number] for number in unpack(effect.numbers).tolist()]
        requests = [
            ClaimsRequest(PodRef(one.uid, one.namespace, one.name), one.choices, gives_back=True)
            for one in returns
        ]
        writes = (pod_writes.write_claims(self._cluster, one) for one in requests)
        found = await asyncio.gather(*writes)
        codes = bytes(one.answer for one in found)
        revisions = tuple(pack(one.revisions) for one in found)
        self._submit(ClaimReturnAnswers(effect_id, codes, revisions))

    async def _ask_extenders(self, effect_id: EffectId, effect: ExtendersPreemptAsked) -> None:
        state = self._state()
        extenders = state.config.preempters
        named = extender_victims.name_candidates(state, effect)
        found: tuple[NodeVictims, ...] = ()
        error = ""
        if not extenders:
            found = effect.candidates  # a new configuration has none
        elif named.pod is not None:
            verdict = await self._verdict(extenders, named.pod, named.nodes)
            found, error = (
                extender_victims.number_victims(state, effect, named, verdict),
                verdict.error[:TEXT_MAX],
            )
        self._submit(ExtendersPreempted(effect_id, effect.ask, effect.pod, found, error))

    async def _verdict(
        self, extenders: Sequence[Extender], pod: PodRef, nodes: dict[str, NodeVictimRefs]
    ) -> VictimsLeft:
        try:
            assert self._judges is not None, "no client for preemption extenders"
            return await self._judges.process_preemption(extenders, pod, nodes)
        except Exception as error:
            log.warning("preemption extender call failed: %r", error)
            return VictimsLeft(error=repr(error))

    async def _show_groups(self, effect_id: EffectId, effect: GroupsAsked) -> None:
        groups = []
        for key, message in zip(effect.keys, effect.messages, strict=True):
            namespace, _, name = key.partition("/")
            groups.append(GroupCondition(namespace, name, message, key in effect.errors))
        try:
            await self._cluster.show_groups(groups)
        except Exception as error:
            log.warning("conditions of PodGroups were not written: %r", error)
        self._submit(GroupAnswers(effect_id))

    async def _request_nodes(self, effect_id: EffectId, effect: RequestsAsked) -> None:
        state = self._state()
        requests = [_nodes_request(state, one) for one in effect.requests]
        messages = [""] * len(requests)
        try:
            messages = await self._cluster.request_nodes(requests)
        except Exception as error:
            log.warning("the cluster autoscaler was not asked for nodes: %r", error)
        self._submit(RequestAnswers(effect_id, tuple(messages)))

    async def _evict(self, effect_id: EffectId, effect: EvictionsAsked, pods: I64) -> None:
        state = self._state()
        eviction = state.evictions.get(effect.ask)
        open_ = [
            pod
            for pod in pods.tolist()
            if eviction is not None and eviction.effects.get(pod) == effect_id
        ]
        found = [(pod, row) for pod in open_ if (row := state.table.find(pod)) >= 0]
        if not found:
            return
        refs = [_victim(state, eviction, pod, row) for pod, row in found]
        try:
            answers = await self._cluster.evict(refs, _preemptor(state, effect))
        except Exception as error:
            log.warning("evictions failed: %r", error)
            answers = [Answer.UNKNOWN] * len(refs)
        for ref, answer in zip(refs, answers, strict=True):
            self.evictions[ref.is_beyond_budget] += answer is Answer.DONE
        ids = pack([pod for pod, _row in found])
        self._submit(EvictAnswers(effect_id, ids, bytes(answers)))

    async def _answers(self, count: int, call: Awaitable[list[PodRead]]) -> list[PodRead]:
        try:
            answers = await call
        except Exception as error:
            log.warning("no answer from the cluster: %r", error)
            return [UNKNOWN] * count
        assert len(answers) == count, f"{len(answers)} answers to {count} requests"
        return answers

    # -------------------------------------------------------------------------------- answers

    def _submit_reads(
        self, effect_id: EffectId, pods: I64, reads: Sequence[PodRead], targets: list[NodeId] | None
    ) -> None:
        """Submit read answers. `targets` only if an answer shows the pod's node."""
        codes = bytes([read.answer for read in reads])
        revisions = pack([read.revision for read in reads])
        nodes = b""
        if targets is not None and self._owner is not None:
            state = self._state()
            nodes = pack(
                [
                    node_shown(state, pod, read.node, target)
                    for pod, read, target in zip(pods.tolist(), reads, targets, strict=True)
                ]
            )
        self._submit(BindAnswers(effect_id, pack(pods), codes, revisions, nodes))

    def _submit(self, event: Event) -> None:
        if self._owner is not None:
            self._owner.submit(event)

    def _state(self) -> BindingState:
        assert self._owner is not None
        state: BindingState = self._owner.state
        return state

    def _still(self, state: BindingState, effect_id: EffectId, pods: I64, phase: Phase) -> I64:
        """Return the rows of pods of an effect that still wait for its answer."""
        table = state.table
        rows = table.find_all(pods)
        wait = (table.effects[rows] == effect_id) & (table.phases[rows] == phase)
        waiting: I64 = rows[wait]
        return waiting


def _requests(state: BindingState, rows: I64) -> list[BindRequest]:
    table = state.table
    columns = (table.chunks, table.places, table.nodes, table.revisions)
    values = zip(*(column[rows].tolist() for column in columns), strict=True)
    names = state.node_names
    requests = []
    chunk, number, uids, pod_names = None, -1, [""], [""]
    for chunk_number, place, node, revision in values:
        if chunk_number != number:
            number, chunk = chunk_number, table.names[chunk_number]
            uids, pod_names = chunk.uid_list(), chunk.name_list()
        assert chunk is not None
        requests.append(
            BindRequest(uids[place], chunk.namespace, pod_names[place], names[node], revision)
        )
    return requests


def _refs(state: BindingState, rows: I64) -> list[PodRef]:
    return [ref_at(state, row) for row in rows.tolist()]


def _why(state: BindingState, effect: EffectId, pods: list[PodId]) -> tuple[list[str], list[str]]:
    """Return the messages and reasons that fences write. A given-up bind is an error."""
    if effect not in state.patching:
        messages = [state.bind_errors.get(pod, FENCE_MESSAGE) for pod in pods]
        return messages, [SCHEDULER_ERROR] * len(pods)
    messages = [state.messages[pod] for pod in pods]
    errors = [state.errors.get(pod) == message for pod, message in zip(pods, messages, strict=True)]
    return messages, [SCHEDULER_ERROR if error else UNSCHEDULABLE for error in errors]


def _nodes_request(state: BindingState, write: ProvisioningWrite) -> NodesRequest:
    """Return the request with the names of its samples; one whose name is not known has no uid."""
    namespace, _, name = write.name.partition("/")
    rows = [state.table.find(pod) for pod in write.samples]
    samples = tuple(
        ref_at(state, row) if row >= 0 and state.table.flags.item(row) & NAMED else PodRef("")
        for row in rows
    )
    of = write.key, write.class_name
    return NodesRequest(namespace, name, *of, samples, write.counts, write.uid)


def _victim(state: BindingState, eviction: Eviction | None, pod: PodId, row: int) -> PodRef:
    assert eviction is not None, f"pod {pod} is evicted for no ask"
    return msgspec.structs.replace(
        ref_at(state, row),
        is_beyond_budget=pod in eviction.beyond,
        is_below_minimum=bool(eviction.gang),
        claimed_for=eviction.claimed_for,
    )


def _preemptor(state: BindingState, effect: EvictionsAsked) -> PodRef | None:
    """Return the preemptor of the victims, if it lives and its name is known."""
    eviction = state.evictions.get(effect.ask)
    row = state.table.find(eviction.pod) if eviction is not None and eviction.pod else -1
    if row < 0 or not state.table.flags.item(row) & NAMED:
        return None
    return ref_at(state, row)


def node_shown(state: BindingState, pod: PodId, name: str, target: NodeId) -> NodeId:
    """Return the number of the node that an answer shows: the target, if the node has the name that
    the bind was sent to.
    """
    if not name:
        return UNASSIGNED
    if name in (state.node_names.get(target), state.lost_names.get(pod)):
        return target
    return state.node_ids.get(name, OTHER)
