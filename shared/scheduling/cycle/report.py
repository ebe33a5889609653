"""The reasons of refusals and the scores of nodes, for messages and `explain`; not on
the hot path.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from shared.model.ids import NodeId
from shared.scheduling.api.plugin import Refusal, StaticFilter
from shared.scheduling.cycle.inter_pod_rules import nominated_counts, rules_of
from shared.scheduling.cycle.one_node import OneNode
from shared.scheduling.cycle.score_classes import StaticResult
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.plugins import dynamic_resources
from shared.scheduling.plugins.node_ports import NodePorts
from shared.scheduling.plugins.node_resources_fit import NodeResourcesFit
from shared.scheduling.plugins.volumes import volume_binding
from shared.scheduling.profile import GPU_DEVICES, GPU_MODEL, LOCAL_SCORES
from shared.scheduling.table.layout import FREE, I64, Mask, NominatedPods
from shared.scheduling.table.picks import Reasons
from shared.scheduling.table.table import NodeTable

OUTSIDE = "node(s) outside the gang's topology domain"


class PluginScore(NamedTuple):
    """One plugin's part of a node's total: normalised * weight; a plugin that skips the pod has
    none.
    """

    plugin: str
    raw: int
    normalised: int
    weight: int


class NodeReport(NamedTuple):
    """One node in one cycle: refused by `plugin` with `messages`, or scored."""

    node_id: NodeId
    name: str
    plugin: str
    messages: tuple[str, ...]
    resolvable: bool
    scores: tuple[PluginScore, ...]
    total: int


def pre_filter(table: NodeTable, sig: Signature) -> tuple[str, str] | None:
    """Return plugin and message of a PreFilter that rejects the pod on every node; None if it
    passes.
    """
    narrowing = sig.plugins.narrowing(sig.spec)
    message = None if narrowing is None else narrowing.rejects(sig.spec)
    if narrowing is not None and message is not None:
        return narrowing.name, message
    rules = rules_of(table, sig)
    if rules is not None and rules.volumes.rejected is not None:
        return rules.volumes.rejected
    for plugin in sig.plugins.pre_filters:
        message = plugin.rejects(sig.spec)
        if message is not None:
            return plugin.name, message
    return None


def ended_early(table: NodeTable, sig: Signature) -> bool:
    """Return whether PreFilter rejects the pod before DynamicResources runs, whose PostFilter fails
    then. Users' plugins run later.
    """
    rejected = pre_filter(table, sig)
    runs_later = (*sig.plugins.custom, dynamic_resources.NAME)
    return rejected is not None and rejected[0] not in runs_later


ByPlugin = dict[str, list[Refusal]]


def _inter_pod_refusals(
    table: NodeTable, sig: Signature, nominated_pods: NominatedPods | None
) -> tuple[ByPlugin, ByPlugin]:
    """Return the inter-pod refusals: with nominated pods where there are any, and without them
    there. Only nodes that pass all filters with them are filtered without them.
    """
    rules = rules_of(table, sig)
    if rules is None:
        return {}, {}
    now = table.counters.now()
    refusals = list(rules.refusals(now))
    without = [np.zeros(table.size, np.bool_) for _ in refusals]
    for row, counts in nominated_counts(table, now, nominated_pods):
        with_them = rules.refusals(counts, now)
        for refusal, later, other in zip(refusals, without, with_them, strict=True):
            later[row], refusal.refused[row] = refusal.refused[row], other.refused[row]
    first, second = ByPlugin(), ByPlugin()
    for one, later in zip(refusals, without, strict=True):
        resolvable = np.full(table.size, one.resolvable)
        first.setdefault(one.plugin, []).append(Refusal(one.message, one.refused, resolvable))
        second.setdefault(one.plugin, []).append(Refusal(one.message, later, resolvable))
    return first, second if nominated_pods else {}


def _refusals(
    table: NodeTable, sig: Signature, nominated_pods: NominatedPods | None
) -> Iterator[tuple[str, list[Refusal]]]:
    """Yield each filter plugin in order with its refusals over all nodes, PreFilter's first."""
    never, cols = np.zeros(table.size, np.bool_), table.cols
    if table.within is not None:
        yield "", [Refusal(OUTSIDE, ~table.within, never)]
    rejected = pre_filter(table, sig)
    if rejected is not None:
        plugin_name, message = rejected
        yield plugin_name, [Refusal(message, np.logical_not(never), never)]

    def static(plugin: StaticFilter) -> tuple[str, list[Refusal]]:
        mask = plugin.refuses(table, sig.spec)
        return plugin.name, [] if mask is None else [Refusal(plugin.message, mask, never)]

    devices = GPU_DEVICES.refusals(table, sig, cols)
    inter_pod, without_nominated = _inter_pod_refusals(table, sig, nominated_pods)
    for plugin in sig.plugins.filters:
        if isinstance(plugin, str):
            yield plugin, inter_pod.get(plugin, [])
            continue
        if isinstance(plugin, NodePorts):
            ports = plugin.refuses(table, sig.ports)
            yield plugin.name, [] if ports is None else [Refusal(plugin.message, ports, ports)]
        elif isinstance(plugin, NodeResourcesFit):
            amounts = plugin.refusals(table, sig, cols)
            yield plugin.name, [*amounts, *(devices if sig.whole_devices else ())]
        else:
            yield static(plugin)
    for one in sig.reserved:
        refused = cols[one.column] < one.amount
        hopeless = table.allocatable[one.column - FREE] < one.amount
        yield one.plugin, [Refusal(one.message, refused, refused & ~hopeless)]
    if sig.whole_devices:
        devices = []
    yield static(GPU_MODEL)
    yield GPU_DEVICES.name, devices
    yield from without_nominated.items()


def _first_refusals(
    table: NodeTable, sig: Signature, nominated_pods: NominatedPods | None
) -> Iterator[tuple[str, list[Refusal], Mask, Mask]]:
    """Yield the plugin, its refusals, the nodes it is the first to refuse, and those of them that
    are resolvable: a node with several reasons of one plugin is resolvable only if all of them are.
    """
    open_nodes = np.ones(table.size, np.bool_)
    for name, refusals in _refusals(with_nominated(table, nominated_pods), sig, nominated_pods):
        refused = np.zeros(table.size, np.bool_)
        resolvable = np.ones(table.size, np.bool_)
        for refusal in refusals:
            refused |= refusal.refused
            resolvable &= refusal.resolvable | ~refusal.refused
        first = refused & open_nodes
        yield name, refusals, first, first & resolvable
        open_nodes &= ~refused


def with_nominated(table: NodeTable, nominated_pods: NominatedPods | None) -> NodeTable:
    """Return the table as Filter sees it: with nominations charged."""
    if not nominated_pods:
        return table
    trial = table.trial()
    trial.within = table.within
    rows: dict[Signature, list[int]] = {}  # of pods without devices: a signature at once
    for node_id in sorted(nominated_pods):
        row = table.row_of(node_id)
        for sig, mask in nominated_pods[node_id] if row is not None else ():
            assert row is not None
            if sig.gpu_count:
                trial.charge_one(sig, row, mask)
            else:
                rows.setdefault(sig, []).append(row)
    for sig, some in rows.items():
        trial.charge(sig, np.array(some, np.int64))
    trial.counters = table.counters  # a nomination counts only for its own node there
    return trial


def reasons(
    table: NodeTable, sig: Signature, nominated_pods: NominatedPods | None = None
) -> Reasons:
    """Return (message, nodes) over all nodes, with the first refusing plugin per node; a message of
    PreFilter is about the pod, and its count is 0.
    """
    rejected = pre_filter(table, sig)
    if rejected is not None:
        return Reasons(((rejected[1], 0),), 0)
    counts: dict[str, int] = {}
    resolvable_count = 0
    for _, refusals, first, resolvable in _first_refusals(table, sig, nominated_pods):
        for refusal in refusals:
            nodes = int(np.count_nonzero(refusal.refused & first))
            if nodes:
                counts[refusal.message] = counts.get(refusal.message, 0) + nodes
        resolvable_count += int(np.count_nonzero(resolvable))
    return Reasons(tuple(sorted(counts.items())), resolvable_count)


def first_resolvable(
    table: NodeTable, sig: Signature, nominated_pods: NominatedPods | None = None
) -> Mask:
    """Return the nodes whose first refusal is Unschedulable, whatever other refusals follow."""
    found = np.zeros(table.size, np.bool_)
    for _, _, _, resolvable in _first_refusals(table, sig, nominated_pods):
        found |= resolvable
    return found


def resolvable_rows(
    table: NodeTable, sig: Signature, nominated_pods: NominatedPods | None = None
) -> I64:
    """Return the rows, ascending, that refuse with Unschedulable and that removing pods may make
    fit.

    A node may be refused for room first and have the wrong GPU model besides.
    """
    found = first_resolvable(table, sig, nominated_pods)
    passing = StaticResult(table, sig.spec, sig.plugins).ok
    if passing is not None:
        found &= passing
    return np.flatnonzero(found)


def refused_nodes(
    table: NodeTable, sig: Signature, nominated_pods: NominatedPods | None = None
) -> dict[int, NodeReport]:
    """Return the report of each node that refuses the pod, by row."""
    refused: dict[int, NodeReport] = {}
    for name, refusals, first, resolvable in _first_refusals(table, sig, nominated_pods):
        for row in np.flatnonzero(first).tolist():
            texts = tuple(r.message for r in refusals if r.refused[row])
            refused[row] = NodeReport(
                table.node_id_at(row),
                table.nodes[row].name,
                name,
                texts,
                bool(resolvable[row]),
                (),
                -1,
            )
    return refused


def explain(
    table: NodeTable,
    sig: Signature,
    nominated_pods: NominatedPods | None = None,
    found: I64 | None = None,
) -> list[NodeReport]:
    """Return every node, in tie order: the refusing plugin with its reason, or the scores by
    plugin; of feasible nodes only those of the rows `found`, if given.
    """
    refused = refused_nodes(table, sig, nominated_pods)
    feasible = np.ones(table.size, np.bool_)
    feasible[list(refused)] = False
    if found is not None:
        feasible[:] = False
        feasible[found] = True
    static_result = StaticResult(table, sig.spec, sig.plugins)
    normalised = static_result.normalised(static_result.counts(feasible))
    rules = rules_of(table, sig)
    inter_pod = [] if rules is None else rules.scores(table.counters.now(), feasible)
    reports = []
    for row in range(table.size):
        report = refused.get(row)
        if report is not None:
            reports.append(report)
        elif feasible[row]:
            reports.append(_scored(table, sig, static_result, normalised, inter_pod, row))
    return reports


def _local(sig: Signature, values: list[float]) -> Iterator[PluginScore]:
    """Yield the scores of the node-local plugins."""
    if sig.scores is not None:
        for term in sig.scores.terms:
            score = term.of.score(values)
            yield PluginScore(term.name, score, score, term.weight)
        return
    for local in LOCAL_SCORES:
        if local.applies(sig):
            score = local.score(sig, values)
            yield PluginScore(local.name, score, score, 1)


def _scored(
    table: NodeTable,
    sig: Signature,
    static_result: StaticResult,
    normalised: list[tuple[int, ...]],
    inter_pod: list[tuple[str, int, I64]],
    row: int,
) -> NodeReport:
    group = 0 if static_result.class_of is None else int(static_result.class_of[row])
    scores = [
        PluginScore(plugin.name, raw, score, weight)
        for (plugin, weight), raw, score, applies in zip(
            static_result.plugins,
            static_result.raws[group],
            normalised[group],
            static_result.applying,
            strict=True,
        )
        if applies
    ]
    if sig.plugins.storage_weight and all(name != volume_binding.NAME for name, *_ in inter_pod):
        scores.append(PluginScore(volume_binding.NAME, 0, 0, sig.plugins.storage_weight))
    for name, weight, column in inter_pod:
        score = int(column[row])
        scores.append(PluginScore(name, score, score, weight))
    scores += _local(sig, OneNode(table, row).values)
    total = sig.plugins.least + sum(score.normalised * score.weight for score in scores)
    node = table.nodes[row]
    return NodeReport(table.node_id_at(row), node.name, "", (), False, tuple(scores), total)
