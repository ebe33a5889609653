"""Who goes for a pod, where plugins of users have a say in it: they are asked in the profile's
order, DefaultPreemption among them, until one has an answer. From there on it is a preemption like
any other: nominated, re-validated, evicted by the same steps.
"""

from functools import cache

import numpy as np
from msgspec.structs import replace

from services.placement.core.books.charges import compiled
from services.placement.core.books.ledger import UNSTARTED_MS
from services.placement.core.preemption import dry_run as preempt
from services.placement.core.preemption import nominations
from services.placement.core.preemption.dry_run import ByName, Victim
from services.placement.core.state import PlacementState
from shared.events.placement import PREEMPTION, Candidate, CandidatesFound
from shared.events.preemption import DryRunAsked
from shared.model.post_filter import FIRST, NO_CLAIMS, NOT_FOUND, around
from shared.model.profile import DYNAMIC_RESOURCES
from shared.scheduling.api.custom import Plugin
from shared.scheduling.api.custom_post_filter import (
    RefusedNodes,
    RunningPod,
    Verdict,
    failed,
    verdict,
)
from shared.scheduling.cycle.report import ended_early, explain


def dry_run(state: PlacementState, event: DryRunAsked) -> CandidatesFound:
    """This shard's answer to one who asks, or to several."""
    if event.sig not in state.specs:
        return preempt.dry_run(state, event)
    steps = compiled(state, event.sig).plugins.post_filters
    if not steps:
        return _with_claims(state, event.sig, preempt.dry_run(state, event))
    # Plugins know nothing of a series: who comes after the first asks again.
    found = asked(state, replace(event, others=b""), steps)
    if found.lower:
        return replace(found, cut=bool(event.others))
    if found.candidates and event.others:
        return replace(found, candidates=(), series=found.candidates[:1], cut=True)
    return found


def all_found(state: PlacementState, event: DryRunAsked) -> CandidatesFound:
    """The same for one, with every node that DefaultPreemption finds."""
    steps = compiled(state, event.sig).plugins.post_filters
    if steps:
        return asked(state, event, steps)
    found, reasons = preempt.candidates(state, event)
    nodes = len(state.nodes)
    answer = CandidatesFound(state.shard, event.ask, event.pod, tuple(found), reasons, nodes)
    return _with_claims(state, event.sig, answer)


def _with_claims(state: PlacementState, sig: int, found: CandidatesFound) -> CandidatesFound:
    """With what DynamicResources says, where that is not as by default."""
    claims = compiled(state, sig).plugins.profile.claims
    return found if claims == FIRST else replace(found, said=around(claims, PREEMPTION))


def is_own(state: PlacementState, found: CandidatesFound, sig: int) -> bool:
    """Whether a plugin of a user found these."""
    steps = compiled(state, sig).plugins.post_filters
    return bool(steps) and not isinstance(steps[found.rank], str)


def asked(
    state: PlacementState, event: DryRunAsked, steps: tuple[Plugin | str, ...]
) -> CandidatesFound:
    """What the first of them says that has an answer, or what all of them said."""
    wanted = compiled(state, event.sig)
    found = CandidatesFound(state.shard, event.ask, event.pod, (), nodes=len(state.nodes))
    said: list[str] = []
    for rank, plugin in enumerate(steps):
        if plugin == DYNAMIC_RESOURCES:
            if ended_early(state.table, wanted):
                return replace(found, said=(NOT_FOUND,))
            said.append(NO_CLAIMS)
            continue
        if isinstance(plugin, str):
            default = preempt.dry_run(state, event)
            if default.candidates:
                more = (NO_CLAIMS,) * (DYNAMIC_RESOURCES in steps[rank:])
                return replace(default, rank=rank, said=(*said, PREEMPTION, *more))
            found = replace(found, reasons=default.reasons)
            said.append(PREEMPTION)
            continue
        candidate, answer = _ask(state, event, plugin)
        if candidate is not None:
            return replace(found, candidates=(candidate,), rank=rank)
        said.append(answer.text)
        if answer.is_last:
            break
    return replace(found, said=tuple(said))


def _ask(
    state: PlacementState, event: DryRunAsked, plugin: Plugin
) -> tuple[Candidate | None, Verdict]:
    run = ByName(state, event)
    nodes = _nodes(state, event, plugin, run)
    answer = verdict(plugin, state.specs[event.sig], nodes)
    if answer.evict is None:
        return None, answer
    row, chosen = int(answer.evict.node), {one.number for one in answer.evict.pods}
    node = state.table.node_id_at(row)
    # What the nomination will be held against: nobody is evicted in vain.
    if not nominations.room_for(state, event.pod, event.sig, node, chosen)[0]:
        name = state.nodes[node].name
        return None, failed(plugin, f"gave {name}, which would not take the pod without those")
    return run.candidate(row, [one for one in run.evictable(row) if one.pod in chosen]), answer


def _nodes(state: PlacementState, event: DryRunAsked, plugin: Plugin, run: ByName) -> RefusedNodes:
    """What the plugin sees; what it does not ask for is not looked up."""
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
        told = explain(state.table, run.wanted, run.held)
        return tuple(one.messages for one in told)

    @cache
    def pods(row: int) -> tuple[RunningPod, ...]:
        if not 0 <= row < state.table.size:
            raise IndexError(row)
        return tuple(map(shown, run.evictable(row)))

    return RefusedNodes(state.table, may_help, lambda: list(reasons()), lambda row: list(pods(row)))
