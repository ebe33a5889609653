"""Binding's core: the effect of each event on the state, and the order of decisions.

It decides nothing about pods. Each requested bind ends in exactly one Bound or BindFailed, and
before a BindFailed it is certain that no POST of ours can land any more.
"""

import sys
from collections.abc import Iterator, Mapping
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
    provisioning,
    volumes,
)
from services.binding.core.claims import returns
from services.binding.core.conditions import group_conditions, status_patches
from services.binding.core.config import Config
from services.binding.core.derived import check, derive, still_queued
from services.binding.core.pod_table import MAYBE
from services.binding.core.state import BindingState
from services.binding.core.transitions import Phase
from shared.events.base import Configured, Event
from shared.events.binding import (
    BindFailed,
    Bound,
)
from shared.events.permit import GangCommitted
from shared.events.placement import Reserved, VolumesChosen
from shared.machine.core import Core
from shared.machine.handlers import handlers
from shared.machine.saved import load, save
from shared.model.columns import gathered, pack, unpack
from shared.model.ids import BINDING, INGEST, PERMIT, PREEMPTION, QUEUEING, EffectId, placement
from shared.model.options import read_options

FAILURES = ("gone", "foreign", "abandoned", "failed", "refused")


class BindingCore(Core[BindingState]):
    """The core of binding. It reads every journal that reserves pods, evicts pods or has facts."""

    journal = BINDING

    def __init__(self, placements: int = 1) -> None:
        """Create a core that reads this many placement shards."""
        shards = tuple(placement(shard) for shard in range(placements))
        self.sources = (INGEST, QUEUEING, *shards, PERMIT, PREEMPTION)

    def new(self) -> BindingState:
        """Return an empty state."""
        return BindingState(self.sources)

    def evolve(self, state: BindingState, event: Event) -> None:
        """Apply one event; defined for every event addressed to binding."""
        HANDLERS[type(event)](state, event)

    def decide(self, state: BindingState) -> Iterator[Event]:
        """Yield outcomes first, then binds in the order of decision, repeats, evictions and
        messages.
        """
        if state.promises_over or state.unannounced or state.promise_conflicts:
            yield from promises.decide_promises(state)
        if state.claim_conflicts:
            yield from returns.decide_conflicts(state)
        if state.pre_bind_rejections:
            yield from bind_plugins.decide_pre_bind_failed(state)
        if state.has_reports:
            yield from _decide_reports(state)
        if state.post_new:
            yield from bind_plugins.decide_post_binds(state)
        if state.queued:
            yield from binds.decide_binds(state)
        if state.due:
            yield from binds.decide_due(state)
        if state.evict_reports:
            yield from evictions.decide_evict_reports(state)
        if state.victim_answers or state.victims_to_ask:
            yield from extender_victims.decide_victims_judged(state)
            yield from extender_victims.decide_extenders_preempt(state)
        if state.evictions:
            yield from evictions.decide_evictions(state)
        if state.patches or state.refreshes:
            yield from status_patches.decide_patches(state)
        if state.claims_over or state.claim_returns:
            yield from returns.decide_returns(state)
        if state.group_conditions:
            yield from group_conditions.decide_groups(state)
        if state.provisioning or state.provisioning_errors:
            yield from provisioning.decide_requests(state)

    def due_ms(self, state: BindingState) -> int | None:
        """Return now if there is something to report or send, else the time of the next
        repeat, ms.
        """
        if state.queued or state.has_reports or state.evict_reports:
            return state.now_ms
        if (
            state.pre_bind_rejections
            or state.post_new
            or state.promises_over
            or state.promise_conflicts
            or state.claim_conflicts
        ):
            return state.now_ms
        if state.victims_to_ask or state.victim_answers:
            return state.now_ms
        if provisioning.is_due(state) or (state.group_conditions and not state.group_effect):
            return state.now_ms
        due_ms = state.due.first_ms()
        if state.evictions:
            other_ms = evictions.evictions_due_ms(state)
            if other_ms is not None:
                due_ms = other_ms if due_ms is None else min(due_ms, other_ms)
        if state.claims_over or state.claim_returns:
            other_ms = returns.due_ms(state)
            if other_ms is not None:
                due_ms = other_ms if due_ms is None else min(due_ms, other_ms)
        if state.patches or state.refreshes:
            other_ms = status_patches.due_ms(state)
            if other_ms is not None:
                due_ms = other_ms if due_ms is None else min(due_ms, other_ms)
        return due_ms

    def effects(self, state: BindingState) -> Mapping[EffectId, Event]:
        """Return the requests without a definite answer, by ascending number."""
        return state.effects

    def dump(self, state: BindingState) -> Any:
        """Return canonical plain values."""
        return save(state, queued=[still_queued(state)])

    def load(self, body: Any) -> BindingState:
        """Restore what `dump` returned."""
        return derive(load(self.new(), body))

    def check(self, state: BindingState) -> None:
        """Check that open binds, effects and queues agree with the table."""
        check(state)


def _on_configured(state: BindingState, event: Configured) -> None:
    """Apply a configuration. After a new claim, the previous owner may still send its requests."""
    state.config = read_options("binding", event.config, Config)
    table = state.table
    asked = np.flatnonzero(table.phases[: table.used] == Phase.ASKED)
    table.flags[asked] |= MAYBE
    status_patches.drop_all(state)


def _on_reserved(state: BindingState, event: Reserved | VolumesChosen) -> None:
    if event.volumes:
        volumes.note_choices(state, event)
    if event.claims:
        returns.note_claims(state, event)
    if event.spec is not None:
        bind_plugins.keep_specs(state, event.ids, event.spec)
    binds.reserve(state, event.ids, event.nodes, event.spec is not None)


def _on_gang_committed(state: BindingState, event: GangCommitted) -> None:
    """Start the binds of committed members; those with volumes wait for their shards'
    VolumesChosen.
    """
    for one in event.shown:
        bind_plugins.keep_specs(state, one.ids, one.spec)
    ids, nodes = event.ids, event.nodes
    if event.with_volumes:
        others = ~np.isin(unpack(ids), unpack(event.with_volumes))
        ids, nodes = pack(unpack(ids)[others]), pack(unpack(nodes)[others])
    if ids:
        binds.reserve(state, ids, nodes, bool(event.shown))


def _decide_reports(state: BindingState) -> Iterator[Event]:
    bound = state.reports["bound"]
    if bound.ids:
        yield Bound(gathered(bound.ids), gathered(bound.nodes))
    for reason in FAILURES:
        failed = state.reports[reason]
        if failed.ids:
            ids = gathered(failed.ids)
            pods = unpack(ids).tolist() if reason == "failed" else ()
            texts = tuple(state.bind_errors[pod] for pod in pods)
            plugins = _refused_by(state, ids) if reason == "refused" else ()
            yield BindFailed(ids, reason, gathered(failed.nodes), texts, plugins)


def _refused_by(state: BindingState, ids: bytes) -> tuple[str, ...]:
    """Return the Permit plugin that rejected each pod; empty if none did for any pod."""
    found = tuple(state.permit_rejectors.get(pod, "") for pod in unpack(ids).tolist())
    return found if any(found) else ()


def _on_bound(state: BindingState, event: Bound) -> None:
    _clear_report(state, "bound")
    newest_binds.note(state, event)


def _on_bind_failed(state: BindingState, event: BindFailed) -> None:
    if event.texts:
        for pod in unpack(event.ids).tolist():
            del state.bind_errors[pod]
    if event.plugins:
        state.permit_rejectors.clear()
    _clear_report(state, event.reason)


def _clear_report(state: BindingState, end: str) -> None:
    state.reports[end].clear()
    state.has_reports = any(column.ids for column in state.reports.values())


HANDLERS = handlers(
    sys.modules[__name__],
    *(facts, binds, volumes, promises, bind_plugins, evictions, extender_victims, status_patches),
    *(group_conditions, provisioning, returns),
)
