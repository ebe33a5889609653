"""Reasons why a pod does not fit a node even without the pods of lower priority: for messages."""

import numpy as np

from services.placement.core.state import PlacementState
from shared.scheduling.cycle.inter_pod_rules import Rule, refusals_on
from shared.scheduling.cycle.one_node import OneNode
from shared.scheduling.cycle.report import first_resolvable
from shared.scheduling.cycle.score_classes import StaticResult
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.plugins.node_ports import NodePorts
from shared.scheduling.plugins.node_resources_fit import NodeResourcesFit
from shared.scheduling.profile import GPU_DEVICES, GPU_MODEL, FilterStep
from shared.scheduling.table.layout import FREE, I64, PODS_INDEX, NominatedPods
from shared.scheduling.table.ports import clashes


def stuck_rows(
    state: PlacementState, wanted: Signature, nominated_pods: NominatedPods | None
) -> I64:
    """Return the rows whose first refusal preemption may resolve and whose next one it cannot: only
    users' plugins and other filter orders make such rows.
    """
    passing = None
    if _may_be_stuck(wanted):
        passing = StaticResult(state.table, wanted.spec, wanted.plugins).ok
    if passing is None:
        return np.zeros(0, np.int64)
    return np.flatnonzero(first_resolvable(state.table, wanted, nominated_pods) & ~passing)


def _may_be_stuck(wanted: Signature) -> bool:
    """Return whether a static filter comes after a dynamic one."""
    mended = False
    for step in wanted.plugins.filters:
        if isinstance(step, NodePorts | NodeResourcesFit | str):
            mended = True
        elif mended:
            return True
    return wanted.spec.gpu is not None and bool(wanted.spec.gpu.models)


def messages(state: PlacementState, scratch: OneNode, wanted: Signature) -> list[str]:
    """Return the messages of the first filter that refuses. A node with nominated pods must pass
    with them, and then without them, which concerns inter-pod rules only.
    """
    ways = [list(way) for way in refusals_on(state.table, wanted, scratch)]
    rules = ways[0] if ways else []
    for step in (*wanted.plugins.filters, GPU_MODEL):
        found = _step_messages(state, scratch, wanted, step, rules)
        if found:
            return found
    more = [(one.column, one.amount) for one in wanted.reserved]
    found = _short(state, scratch, wanted, [*more, *GPU_DEVICES.checks(state.table, wanted.spec)])
    return found or [one.message for way in ways[1:] for one in way][:1]


def _step_messages(
    state: PlacementState,
    scratch: OneNode,
    wanted: Signature,
    step: FilterStep,
    rules: list[Rule],
) -> list[str]:
    """Return all messages of one filter about the node."""
    table, spec = state.table, wanted.spec
    if isinstance(step, str):
        return [one.message for one in rules if one.plugin == step]
    if isinstance(step, NodePorts):
        taken = any(clashes(port, scratch.ports) for port in wanted.ports)
        return [step.message] if taken else []
    if isinstance(step, NodeResourcesFit):
        checks = step.checks(table, spec)
        devices = GPU_DEVICES.checks(table, spec) if wanted.whole_devices else []
        return _short(state, scratch, wanted, [*checks, *devices])
    refused = step.refuses(table, spec)
    return [] if refused is None or not refused[scratch.row] else [step.message]


def _short(
    state: PlacementState, scratch: OneNode, wanted: Signature, checks: list[tuple[int, float]]
) -> list[str]:
    return [
        message(state, column, wanted)
        for column, amount in checks
        if scratch.values[column] < amount
    ]


def message(state: PlacementState, column: int, wanted: Signature) -> str:
    """Return the message for a column that is too small."""
    if column == FREE + PODS_INDEX:
        return "Too many pods"
    for one in wanted.reserved:
        if one.column == column:
            return one.message
    for name, at in state.table.resources.items():
        if FREE + at == column:
            return f"Insufficient {name}"
    return "" if wanted.spec.gpu is None else GPU_DEVICES.message(wanted.spec.gpu)
