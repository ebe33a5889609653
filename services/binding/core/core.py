"""Binding's core: what each event does to the state, and in which order decisions come.

It decides nothing about pods. Each bind that it is asked for ends in exactly one Bound or
BindFailed, and before a BindFailed it is certain that no POST of ours can land any more.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from services.binding.core import (
    bind_plugins,
    binds,
    evictions,
    extender_victims,
    facts,
    newest_binds,
    promises,
    snapshot,
    status_patches,
    volumes,
)
from services.binding.core.config import parse_config
from services.binding.core.pod_table import MAYBE
from services.binding.core.state import BindingState
from services.binding.core.transitions import Phase
from shared.events import binding as own
from shared.events import ingest, observed
from shared.events.base import Configured, Event
from shared.events.permit import GangCommitted
from shared.events.placement import Reserved, VolumesBound, VolumesChosen, VolumesFailed
from shared.events.preemption import EvictAsked, EvictRecalled, VictimsAsked
from shared.events.queueing import Confirmed, Parked, TryFailed
from shared.model.columns import pack, unpack
from shared.model.ids import BINDING, INGEST, PERMIT, PREEMPTION, QUEUEING, placement

FAILURES = ("gone", "foreign", "abandoned", "failed", "refused")


class BindingCore:
    """Reads everybody who may reserve, evict, or say what is true."""

    journal = BINDING

    def __init__(self, placements: int = 1) -> None:
        """Listens to so many placement partitions."""
        shards = tuple(placement(shard) for shard in range(placements))
        self.sources = (INGEST, QUEUEING, *shards, PERMIT, PREEMPTION)
        self._evolve: dict[type, Callable[[BindingState, Any], None]] = {
            Configured: _configured,
            ingest.PodsNamed: facts.pods_named,
            ingest.PodsAssigned: facts.pods_assigned,
            ingest.PodsGone: facts.pods_gone,
            ingest.NodesSet: facts.nodes_set,
            ingest.NodesGone: facts.nodes_gone,
            ingest.WorldRestored: facts.world_restored,
            Reserved: _reserved,
            VolumesChosen: _reserved,
            GangCommitted: _committed,
            VolumesBound: volumes.bound,
            VolumesFailed: volumes.failed,
            EvictAsked: evictions.evict_asked,
            EvictRecalled: evictions.evict_recalled,
            VictimsAsked: extender_victims.victims_asked,
            Parked: status_patches.waits,
            Confirmed: status_patches.waits,
            TryFailed: status_patches.waits,
            observed.BindAnswers: binds.bind_answers,
            observed.EvictAnswers: evictions.evict_answers,
            observed.VolumeAnswers: volumes.answers,
            observed.PreBindAnswers: bind_plugins.pre_bind_answers,
            observed.PostBindAnswers: bind_plugins.post_bind_answers,
            observed.ExtendersPreempted: extender_victims.answered,
            own.BindsAsked: binds.binds_asked,
            own.ReadsAsked: binds.reads_asked,
            own.FencesAsked: binds.fences_asked,
            own.VolumesAsked: volumes.asked,
            own.VolumesGranted: promises.told,
            own.VolumesTaken: volumes.taken,
            own.VolumesOver: promises.over_told,
            own.PermitsAsked: bind_plugins.asked,
            own.PreBindsAsked: bind_plugins.asked,
            own.PreBindFailed: bind_plugins.pre_bind_failed,
            own.PostBindsAsked: bind_plugins.post_binds_asked,
            own.EvictionsAsked: evictions.evictions_asked,
            own.ExtendersPreemptAsked: extender_victims.asked,
            own.VictimsJudged: extender_victims.told,
            own.Bound: _bound,
            own.BindFailed: _bind_failed,
            own.Evicted: evictions.evicted,
            own.EvictionFailed: evictions.eviction_failed,
        }

    def new(self) -> BindingState:
        """Nothing known."""
        return BindingState(self.sources)

    def evolve(self, state: BindingState, event: Event) -> None:
        """Total for everything the sources address to binding."""
        self._evolve[type(event)](state, event)

    def decide(self, state: BindingState) -> Iterator[Event]:
        """Outcomes first, then binds in the order of decision, repeats, evictions, messages."""
        if state.promises_over or state.untold or state.taken:
            yield from promises.tell(state)
        if state.pre_bind_no:
            yield from bind_plugins.give_up(state)
        if state.has_reports:
            yield from _report(state)
        if state.post_new:
            yield from bind_plugins.ask_post_binds(state)
        if state.todo:
            yield from binds.ask_binds(state)
        if state.due:
            yield from binds.ask_due(state)
        if state.evict_reports:
            yield from evictions.evict_reports(state)
        if state.judged or state.judge_new:
            yield from extender_victims.tell(state)
            yield from extender_victims.ask(state)
        if state.evictions:
            yield from evictions.ask_evictions(state)
        if state.patches or state.refreshes:
            yield from status_patches.ask_patches(state)

    def due_ms(self, state: BindingState) -> int | None:
        """Now if there is something to tell or ask, else the next repeat."""
        if state.todo or state.has_reports or state.evict_reports:
            return state.now_ms
        if state.pre_bind_no or state.post_new or state.promises_over or state.taken:
            return state.now_ms
        if state.judge_new or state.judged:
            return state.now_ms
        due_ms = state.due.first_ms()
        if state.evictions:
            other_ms = evictions.evictions_due_ms(state)
            if other_ms is not None:
                due_ms = other_ms if due_ms is None else min(due_ms, other_ms)
        if state.patches or state.refreshes:
            other_ms = status_patches.due_ms(state)
            if other_ms is not None:
                due_ms = other_ms if due_ms is None else min(due_ms, other_ms)
        return due_ms

    def effects(self, state: BindingState) -> Mapping[int, Event]:
        """Requests without a definite answer, by ascending number."""
        return state.effects

    def dump(self, state: BindingState) -> Any:
        """See the module `saved`."""
        return snapshot.dump(state)

    def load(self, body: Any) -> BindingState:
        """Inverse of dump."""
        return snapshot.load(body, self.sources)

    def check(self, state: BindingState) -> None:
        """Open binds, effects and queues agree with the table."""
        snapshot.check(state)


def _configured(state: BindingState, event: Configured) -> None:
    """A new owner: the one before it may still send what it had asked for."""
    state.config = parse_config(event.config.get("binding", {}))
    table = state.table
    asked = np.flatnonzero(table.phases[: table.used] == Phase.ASKED)
    table.flags[asked] |= MAYBE
    status_patches.drop_all(state)


def _reserved(state: BindingState, event: Reserved | VolumesChosen) -> None:
    if event.volumes:
        volumes.chosen(state, event)
    if event.spec is not None:
        bind_plugins.reserved(state, event.ids, event.spec)
    binds.reserved(state, event.ids, event.nodes, event.spec is not None)


def _committed(state: BindingState, event: GangCommitted) -> None:
    """Members with volumes wait for the word of their shards."""
    for one in event.shown:
        bind_plugins.reserved(state, one.ids, one.spec)
    ids, nodes = event.ids, event.nodes
    if event.with_volumes:
        others = ~np.isin(unpack(ids), unpack(event.with_volumes))
        ids, nodes = pack(unpack(ids)[others]), pack(unpack(nodes)[others])
    if ids:
        binds.reserved(state, ids, nodes, bool(event.shown))


def _report(state: BindingState) -> Iterator[Event]:
    bound = state.reports["bound"]
    if bound.ids:
        yield own.Bound(_packed(bound.ids), _packed(bound.nodes))
    for reason in FAILURES:
        failed = state.reports[reason]
        if failed.ids:
            ids = _packed(failed.ids)
            pods = unpack(ids).tolist() if reason == "failed" else ()
            texts = tuple(state.bind_no[pod] for pod in pods)
            plugins = _refused_by(state, ids) if reason == "refused" else ()
            yield own.BindFailed(ids, reason, _packed(failed.nodes), texts, plugins)


def _refused_by(state: BindingState, ids: bytes) -> tuple[str, ...]:
    """Which permit plugin of a user is against each of these pods, if any is against one."""
    found = tuple(state.refused_by.get(pod, "") for pod in unpack(ids).tolist())
    return found if any(found) else ()


def _packed(parts: list[Any]) -> bytes:
    """One column of single values and arrays."""
    return b"".join(
        pack(part) if isinstance(part, np.ndarray) else part.to_bytes(8, "little") for part in parts
    )


def _bound(state: BindingState, event: own.Bound) -> None:
    _reported(state, "bound")
    newest_binds.note(state, event)


def _bind_failed(state: BindingState, event: own.BindFailed) -> None:
    if event.texts:
        for pod in unpack(event.ids).tolist():
            del state.bind_no[pod]
    if event.plugins:
        state.refused_by.clear()
    _reported(state, event.reason)


def _reported(state: BindingState, end: str) -> None:
    state.reports[end].clear()
    state.has_reports = any(column.ids for column in state.reports.values())
