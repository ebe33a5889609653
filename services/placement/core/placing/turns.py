"""Turns of shards: pods with wide rules are placed by one shard at a time.

A rule is wide if it reads the pods of several nodes, and so of several shards. Pods with wide
rules, and pods that such rules count, wait for a turn. Permit has one turn at a time: the other
shards first count what the rules read, and place no such pod until they have a turn themselves. So
the sums hold until the turn ends, but for facts, as in kube-scheduler's cache.

    TurnAsked       the dispatches are set aside
    CountsAsked     permit begins the turn, which the other shards answer by RulesCounted
    TurnGranted     the sums arrive, and the dispatches are placed with them
    TurnEnded       every pod is reserved or refused

Members of gangs are held in turns of their own, which HoldAsked grants and its answer ends.

With one shard there are no turns.
"""

from services.placement.core.books.wide_rules import is_wide
from services.placement.core.placing.dispatches import admit_task
from services.placement.core.placing.unsupported import used_by_strays
from services.placement.core.placing.work_queue import Task
from services.placement.core.state import PlacementState
from shared.events.permit import CountsAsked, RulesChanged, TurnGranted
from shared.events.placement import CountsChanged, RulesCounted, TurnAsked, TurnEnded
from shared.model.columns import as_numbers, pack
from shared.model.ids import SignatureId
from shared.model.pod_rules.rule_counts import IN_USE, RuleCount, SignatureCounts
from shared.scheduling.cycle.inter_pod_rules import counted, know_others
from shared.scheduling.table.layout import Mask


def must_wait(state: PlacementState) -> bool:
    """Return whether the next dispatch needs a turn first."""
    work_queue = state.work_queue
    if state.shards == 1 or work_queue.has_turn() or work_queue.extender_call is not None:
        return False
    return is_wide(state, work_queue.head().sig)


def decide_turn_asked(state: PlacementState) -> TurnAsked:
    """Ask for a turn for all dispatches that need one."""
    sigs = sorted({batch.sig for batch in state.work_queue.batches})
    return TurnAsked(state.shard, pack(sig for sig in sigs if is_wide(state, sig)))


def on_turn_asked(state: PlacementState, event: TurnAsked) -> None:
    """Set the dispatches aside."""
    state.work_queue.set_aside(set(as_numbers(event.sigs)))


def on_counts_asked(state: PlacementState, event: CountsAsked) -> None:
    """Queue the question, for a turn of another shard."""
    if event.shard != state.shard:
        admit_task(state, Task(event))


def decide_counts(state: PlacementState, event: CountsAsked) -> RulesCounted:
    """Return what the rules of the signatures count here."""
    sigs = [SignatureId(sig) for sig in as_numbers(event.sigs) if sig in state.sigs]
    within = state.table.domains(event.levels).within(event.domain) if event.levels else None
    counts = tuple(_counts(state, sig, within) for sig in sigs)
    return RulesCounted(state.shard, event.turn, counts)


def _counts(state: PlacementState, sig: SignatureId, within: Mask | None) -> SignatureCounts:
    strays = sorted(used_by_strays(state, sig)) if state.strays else []
    on_withheld_nodes = (RuleCount(IN_USE, 0, name, total=1) for name in strays)
    of_rules = counted(state.table, state.sigs[sig], within)
    return SignatureCounts(sig, (*of_rules, *on_withheld_nodes))


def on_rules_counted(state: PlacementState, event: RulesCounted) -> None:
    """Remove the answered question."""
    asked = state.work_queue.tasks.popleft().event
    assert isinstance(asked, CountsAsked), f"{event} answers {asked}"
    assert asked.turn == event.turn, f"{event} answers {asked}"


def on_turn_granted(state: PlacementState, event: TurnGranted) -> None:
    """Begin the turn with the counts of the other shards."""
    note_counts(state, event.counts)
    sigs = frozenset(SignatureId(sig) for sig in as_numbers(event.sigs))
    state.work_queue.begin_turn(event.turn, sigs)


def note_counts(state: PlacementState, counts: tuple[SignatureCounts, ...]) -> None:
    """Apply what the other shards count, also for signatures that this shard does not know yet."""
    for one in counts:
        if one.sig in state.sigs:
            know_others(state.sigs[one.sig], one.counts)
        if one.sig in state.sigs or one.sig > state.last_sig:
            state.other_counts[one.sig] = one.counts


def is_over(state: PlacementState) -> bool:
    """Return whether all pods of the present turn are decided."""
    work_queue = state.work_queue
    turn, call = work_queue.turn, work_queue.extender_call
    if turn is None or turn.batches:
        return False
    return call is None or call.work.sig not in turn.sigs


def decide_turn_ended(state: PlacementState) -> TurnEnded:
    """Return the end of the present turn."""
    turn = state.work_queue.turn
    assert turn is not None
    return TurnEnded(state.shard, turn.number, turn.moved)


def on_turn_ended(state: PlacementState, _event: TurnEnded) -> None:
    """End the turn."""
    state.work_queue.turn = None


def on_counts_changed(state: PlacementState, _event: CountsChanged) -> None:
    """Forget the change, which permit knows of now."""
    state.counts_changed = False


def on_rules_changed(state: PlacementState, event: RulesChanged) -> None:
    """Check the refused pods with wide rules again."""
    if event.shard != state.shard and state.refused:
        state.rules_moved = True
