"""Checks victims when they are chosen: present, of lower priority, enough, and none needless."""

from collections.abc import Mapping

from muster.checker.books import Ledger, Nomination
from muster.checker.filters.fits import Load, surely_fits, surely_not
from muster.checker.inputs.journals import Step
from shared.events.placement import CandidatesFound, Nominated
from shared.events.preemption import DryRunAsked
from shared.model.columns import unpack
from shared.model.ids import GangId
from shared.model.objects import PodSpec


def others_leaving(ledger: Ledger, pod: int, node: int) -> set[int]:
    """Return the victims on a node that leave for other preemptors."""
    resting = [one for kept in ledger.resting.values() for one in kept]
    return {
        victim
        for nomination in (*ledger.nominations.values(), *resting)
        if nomination.pod != pod and nomination.node == node
        for victim in nomination.victims
    }


def candidates(ledger: Ledger, event: CandidatesFound, step: Step) -> None:
    """Check a dry run's answer."""
    ask = ledger.asks.get(event.ask)
    if ask is None:
        ledger.blame("asked", step.position, f"candidates for ask {event.ask}, which was not asked")
        return
    spec = ledger.specs[ask.sig]
    taken = set(unpack(ask.taken).tolist())
    for candidate in event.candidates:
        victims = unpack(candidate.victims).tolist()
        if taken & set(victims):
            ledger.blame("victims", step.position, f"ask {event.ask}: victims are taken already")
        check_victims(ledger, step, event.pod, spec, candidate.node, victims, ask.claims)
        spare = {one.gang: one.left for one in ask.spare}
        _check_minimal(ledger, step, event.pod, spec, candidate.node, victims, taken, spare)
        _check_minimums(ledger, step, candidate.node, set(victims), taken, spare)
        _check_budgets(ledger, step, ask, victims, candidate.violations)


def _check_budgets(
    ledger: Ledger, step: Step, ask: DryRunAsked, victims: list[int], violations: int
) -> None:
    """Check a lower bound: victims of one budget beyond its allowance are certain violations."""
    left = {budget.budget: budget.left for budget in ask.budgets}
    counted = {one.budget: set(unpack(one.pods).tolist()) for one in ask.named}
    for budget, pods in sorted(ledger.covered.items()):
        counted_here = pods & set(victims) - counted.get(budget, set())
        beyond = len(counted_here) - left.get(budget, 0)
        if beyond > violations:
            ledger.blame("budget", step.position, f"ask {ask.ask}: {beyond} beyond budget {budget}")


def check_victims(
    ledger: Ledger,
    step: Step,
    pod: int,
    spec: PodSpec,
    node: int,
    victims: list[int],
    claims: bool = False,
) -> None:
    """Check that the victims are on the node and of lower priority, or in queues for one that
    `claims` (see reclaims.py).
    """
    if not victims:
        ledger.blame("victims", step.position, f"pod {pod}: a candidate without victims")
    for victim in victims:
        load = ledger.loads.get(node, Load())
        if victim not in load.pods or victim not in ledger.place:
            ledger.blame("victims", step.position, f"victim {victim} is not on node {node}")
        elif claims and load.pods[victim].queue:
            continue
        elif load.pods[victim].priority >= spec.priority:
            ledger.blame(
                "victims", step.position, f"victim {victim} is not of lower priority than pod {pod}"
            )


def crowd(ledger: Ledger, pod: int, spec: PodSpec, node: int, gone: set[int]) -> Load:
    """Return a node's load for a pod: without the pods in `gone`, with the pods nominated there
    before it.
    """
    load = ledger.loads.get(node, Load()).without(gone)
    for nomination in ledger.nominations.values():
        if nomination.node == node and nomination.pod != pod and nomination.is_before(spec):
            load.add(-nomination.pod, nomination.spec)
    return load


def _check_minimal(
    ledger: Ledger,
    step: Step,
    pod: int,
    spec: PodSpec,
    node: int,
    victims: list[int],
    taken: set[int],
    spare: Mapping[GangId, int],
) -> None:
    where = ledger.nodes.get(node)
    if where is None:
        ledger.blame("victims", step.position, f"candidate node {node} is not of this shard")
        return
    leaving = others_leaving(ledger, pod, node) | taken
    reason = surely_not(spec, where, crowd(ledger, pod, spec, node, leaving | set(victims)))
    if reason is not None:
        ledger.blame("victims-suffice", step.position, f"pod {pod} on node {node}: {reason}")
    for victim in victims:
        fewer = leaving | (set(victims) - ledger.together.kept_with(victim, victims, spare))
        load = crowd(ledger, pod, spec, node, fewer)
        if ledger.is_wide(spec):
            continue  # pods of other shards may keep it off the node
        around = ledger.around(spec, {node: load})
        obstacle = around.obstacle(where) if around is not None else None
        if obstacle is None and surely_fits(spec, where, load):
            ledger.blame(
                "victims-needed", step.position, f"pod {pod} fits node {node} with {victim} kept"
            )


def _check_minimums(
    ledger: Ledger,
    step: Step,
    node: int,
    victims: set[int],
    taken: set[int],
    spare: Mapping[GangId, int],
) -> None:
    """Check that no more pods of a group leave one by one than it can spare."""
    groups = {ledger.together.minimum_of(victim)[0] for victim in victims} - {0}
    for group in sorted(groups):
        pods = ledger.together.groups[group]
        stay = (pods & ledger.facts & set(ledger.loads.get(node, Load()).pods)) - taken - victims
        if stay and len(pods & victims) > spare.get(GangId(group), 0):
            text = f"group {group}: {sorted(pods & victims)} leave node {node}, not {sorted(stay)}"
            ledger.blame("minimum-kept", step.position, text)


def nominate(ledger: Ledger, event: Nominated, step: Step) -> None:
    """Check a nomination and add it to the books."""
    spec, where = ledger.specs[event.sig], ledger.nodes.get(event.node)
    victims = unpack(event.victims).tolist()
    if where is None:
        ledger.blame("own-nodes", step.position, f"nomination on node {event.node}")
        return
    check_victims(ledger, step, event.pod, spec, event.node, victims, event.claims)
    gone = others_leaving(ledger, event.pod, event.node) | set(victims)
    reason = surely_not(spec, where, crowd(ledger, event.pod, spec, event.node, gone))
    if reason is not None:
        ledger.blame(
            "victims-suffice", step.position, f"nominated pod {event.pod} would not fit: {reason}"
        )
    ledger.nominations[event.pod] = Nomination(
        event.pod, event.node, spec, tuple(victims), claims=event.claims
    )
