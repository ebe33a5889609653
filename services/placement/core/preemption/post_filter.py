"""PostFilter with users' plugins: they run in the profile's order, DefaultPreemption among them,
until one answers. From there on it is an ordinary preemption: nominated, validated and evicted by
the same steps.
"""

from functools import cache

import numpy as np
from msgspec.structs import replace

from services.placement.core.books.charges import compiled
from services.placement.core.books.ledger import UNSTARTED_MS
from services.placement.core.preemption import dry_run, nominations
from services.placement.core.preemption.dry_run import EvictablePods
from services.placement.core.preemption.unit_parts import Victim
from services.placement.core.state import PlacementState
from shared.events.placement import PREEMPTION, Candidate, CandidatesFound
from shared.events.preemption import DryRunAsked
from shared.model.ids import PodId, SignatureId
from shared.model.preemption.post_filter import FIRST, NOT_FOUND, around
from shared.model.profile import DYNAMIC_RESOURCES
from shared.scheduling.api.custom.plugin import Plugin
from shared.scheduling.api.custom.post_filter import (
    RefusedNodes,
    RunningPod,
    Verdict,
    failed,
    verdict,
)
from shared.scheduling.cycle.report import ended_early, explain


def decide_candidates(state: PlacementState, event: DryRunAsked) -> CandidatesFound:
    """Return this shard's answer to one preemptor, or to several."""
    if event.sig not in state.specs:
        return dry_run.decide_candidates(state, event)
    steps = compiled(state, event.sig).plugins.post_filters
    if not steps:
        return _with_claims(state, event.sig, dry_run.decide_candidates(state, event))
    # Plugins know no series: the preemptors after the first ask again.
    found = ask_plugins(state, replace(event, others=b""), steps)
    if found.lower:
        return replace(found, cut=bool(event.others))
    if found.candidates and event.others:
        return replace(found, candidates=(), series=found.candidates[:1], cut=True)
    return found


def decide_all_candidates(state: PlacementState, event: DryRunAsked) -> CandidatesFound:
    """Return the answer for one preemptor, with every node that DefaultPreemption finds."""
    steps = compiled(state, event.sig).plugins.post_filters
    if steps:
        return ask_plugins(state, event, steps)
    found, reasons = dry_run.candidates(state, event)
    nodes = len(state.nodes)
    answer = CandidatesFound(state.shard, event.ask, event.pod, tuple(found), reasons, nodes)
    return _with_claims(state, event.sig, answer)


def _with_claims(
    state: PlacementState, sig: SignatureId, found: CandidatesFound
) -> CandidatesFound:
    """Return the answer with DynamicResources' message at its place in the profile, if it is not
    the default one.
    """
    claims = compiled(state, sig).plugins.claims
    return found if claims == FIRST else replace(found, said=around(claims, PREEMPTION))


def is_from_plugin(state: PlacementState, found: CandidatesFound, sig: SignatureId) -> bool:
    """Return whether a user's plugin found these."""
    steps = compiled(state, sig).plugins.post_filters
    return bool(steps) and not isinstance(steps[found.rank], str)


def ask_plugins(
    state: PlacementState, event: DryRunAsked, steps: tuple[Plugin | str, ...]
) -> CandidatesFound:
    """Return the answer of the first plugin that has one, or the messages of all."""
    wanted = compiled(state, event.sig)
    found = CandidatesFound(state.shard, event.ask, event.pod, (), nodes=len(state.nodes))
    texts: list[str] = []
    for rank, plugin in enumerate(steps):
        if plugin == DYNAMIC_RESOURCES:
            if ended_early(state.table, wanted):
                return replace(found, said=(NOT_FOUND,))
            texts += around(wanted.plugins.claims)
            continue
        if isinstance(plugin, str):
            default = dry_run.decide_candidates(state, event)
            if default.candidates:
                is_last = DYNAMIC_RESOURCES in steps[rank:]
                more = around(wanted.plugins.claims) if is_last else ()
                return replace(default, rank=rank, said=(*texts, PREEMPTION, *more))
            end_ms = default.protected_until_ms
            found = replace(found, reasons=default.reasons, protected_until_ms=end_ms)
            texts.append(PREEMPTION)
            continue
        candidate, answer = _ask(state, event, plugin)
        if candidate is not None:
            return replace(found, candidates=(candidate,), rank=rank)
        texts.append(answer.text)
        if answer.is_last:
            break
    return replace(found, said=tuple(texts))


def _ask(
    state: PlacementState, event: DryRunAsked, plugin: Plugin
) -> tuple[Candidate | None, Verdict]:
    run = EvictablePods(state, event)
    nodes = _nodes(state, event, plugin, run)
    answer = verdict(plugin, state.specs[event.sig], nodes)
    if answer.evict is None:
        return None, answer
    row, chosen = int(answer.evict.node), {PodId(one.number) for one in answer.evict.pods}
    node = state.table.node_id_at(row)
    # The nomination will be validated against these: no needless eviction.
    if not nominations.room_for(state, event.pod, event.sig, node, chosen)[0]:
        name = state.nodes[node].name
        return None, failed(plugin, f"gave {name}, which would not take the pod without those")
    return run.candidate(row, [one for one in run.evictable(row) if one.pod in chosen]), answer


def _nodes(
    state: PlacementState, event: DryRunAsked, plugin: Plugin, run: EvictablePods
) -> RefusedNodes:
    """Return the nodes as the plugin sees them; columns that it does not read are left out."""
    may_help = np.zeros(state.table.size, np.bool_)
    may_help[run.rows] = True

    def shown(victim: Victim) -> RunningPod:
        return RunningPod(
            state.specs[victim.sig],
            plugin.reads,
            victim.pod,
            victim.start_ms % UNSTARTED_MS,
            is_protected=run.is_protected(victim),
        )

    @cache
    def reasons() -> tuple[tuple[str, ...], ...]:
        reports = explain(state.table, run.wanted, run.nominated_pods)
        return tuple(one.messages for one in reports)

    @cache
    def pods(row: int) -> tuple[RunningPod, ...]:
        if not 0 <= row < state.table.size:
            raise IndexError(row)
        return tuple(map(shown, run.evictable(row)))

    return RefusedNodes(state.table, may_help, lambda: list(reasons()), lambda row: list(pods(row)))
