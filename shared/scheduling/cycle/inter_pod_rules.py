"""Inter-pod rules in a cycle: which apply to a signature, and single cycles that keep them.

A pick changes the scores of every node of a domain: k pods are k cycles over arrays. Counts of the
pods placed in between are kept beside the table's. grouped_cycles.py has shorter arrays.
"""

from collections.abc import Iterable, Iterator
from copy import copy
from typing import NamedTuple

import numpy as np

from shared.model.objects import PodSpec
from shared.model.pod_rules.rule_counts import RuleCount
from shared.scheduling.cycle.one_node import BatchNode, OneNode, one_node
from shared.scheduling.cycle.score_classes import StaticResult
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.plugins import dynamic_resources, inter_pod_affinity, pod_topology_spread
from shared.scheduling.plugins.dynamic_resources import DynamicResources
from shared.scheduling.plugins.inter_pod_affinity import Affinity
from shared.scheduling.plugins.pod_topology_spread import Spread
from shared.scheduling.plugins.volumes import (
    node_volume_limits,
    volume_binding,
    volume_restrictions,
    volume_zone,
)
from shared.scheduling.plugins.volumes.node_volume_limits import NodeVolumeLimits
from shared.scheduling.plugins.volumes.volume_binding import VolumeBinding
from shared.scheduling.plugins.volumes.volume_restrictions import VolumeRestrictions
from shared.scheduling.plugins.volumes.volume_zone import VolumeZone
from shared.scheduling.profile import Plugins
from shared.scheduling.table.counters import Counts
from shared.scheduling.table.layout import I16, I64, INFEASIBLE, Mask, NominatedPods, Totals
from shared.scheduling.table.other_shards import OtherShards
from shared.scheduling.table.picks import Pick
from shared.scheduling.table.table import NodeTable


class Rule(NamedTuple):
    """Nodes that a plugin refuses for one reason; `resolvable` as in Refusal."""

    plugin: str
    message: str
    refused: Mask
    resolvable: bool


class VolumeAndDeviceRules:
    """The rules of the plugins of volumes and devices that run, with the present claims, volumes
    and devices. `rejected`: plugin and message of a PreFilter that rejects the pod, if one does.
    """

    def __init__(
        self, table: NodeTable, spec: PodSpec, plugins: Plugins, others: OtherShards
    ) -> None:
        filters = plugins.inter_pod_plugins
        self.scores: tuple[str, int, I64] | None = None
        self.rejected: tuple[str, str] | None = None
        self._applying: set[str] = set()
        self._counts_claims = bool(spec.volumes) and volume_restrictions.NAME in filters
        self._devices: DynamicResources | None = None
        self.device_weight = 0
        if spec.volumes:
            self._add_volumes(table, spec, plugins, others)
        if spec.claims and dynamic_resources.NAME in filters and not self.rejected:
            self._add_devices(table, spec, plugins)

    def _add_devices(self, table: NodeTable, spec: PodSpec, plugins: Plugins) -> None:
        name = dynamic_resources.NAME
        self._devices = DynamicResources(table, spec)
        if self._devices.rejects:
            self.rejected = name, self._devices.rejects
        if self._devices.apply:
            self._applying.add(name)
        if self._devices.has_scores:
            self.device_weight = plugins.profile.weight(name)

    def _add_volumes(
        self, table: NodeTable, spec: PodSpec, plugins: Plugins, others: OtherShards
    ) -> None:
        filters = plugins.inter_pod_plugins
        self._restrictions = VolumeRestrictions(table, spec, others)
        self._limits = NodeVolumeLimits(table, spec, plugins.needs_drivers)
        self._binding = VolumeBinding(table, spec)
        self._zone = VolumeZone(table, spec)
        if plugins.storage_weight and volume_binding.NAME in filters:
            scores = self._binding.scores(plugins.profile.volume_shape)
            if scores is not None:
                self.scores = volume_binding.NAME, plugins.storage_weight, scores
        rejecting = {
            volume_restrictions.NAME: self._restrictions.rejects,
            volume_binding.NAME: self._binding.rejects,
            volume_zone.NAME: self._zone.rejects,
        }
        found = ((name, rejecting.get(name)) for name in filters)
        self.rejected = next(((name, text) for name, text in found if text), None)
        applying = {
            volume_restrictions.NAME: self._restrictions.apply,
            node_volume_limits.NAME: self._limits.apply,
            volume_binding.NAME: self._binding.apply,
            volume_zone.NAME: self._zone.apply,
        }
        self._applying = {name for name in filters if applying.get(name, False)}

    @property
    def apply(self) -> bool:
        """Return whether one of the plugins may refuse a node, or scores one."""
        return bool(self._applying) or self.has_scores

    @property
    def has_scores(self) -> bool:
        """Return whether one of the plugins scores nodes."""
        return self.scores is not None or bool(self.device_weight)

    def device_scores(self, feasible: Mask) -> I64:
        """Return the scores by devices; only with a `device_weight`."""
        assert self._devices is not None
        return self._devices.scores(feasible)

    def counted(self, counts: Counts) -> list[RuleCount]:
        """Return where the pod's claims are in use on the nodes of this table."""
        return self._restrictions.counted(counts) if self._counts_claims else []

    def refusals(
        self, plugin: str, counts: Counts, before: Counts
    ) -> Iterator[tuple[str, Mask, bool]]:
        """Yield what one of the plugins refuses: (message, nodes, whether preemption could make
        room). `before`: the counts at the beginning of the cycle.
        """
        if self.rejected is not None:
            if self.rejected[0] == plugin:
                yield self.rejected[1], np.ones(counts.nodes, np.bool_), False
        elif plugin not in self._applying:
            return
        elif plugin == dynamic_resources.NAME:
            assert self._devices is not None
            yield from ((text, mask, False) for text, mask in self._devices.refusals)
        elif plugin == volume_restrictions.NAME:
            yield from self._restrictions.refusals(counts, before)
        elif plugin == node_volume_limits.NAME:
            yield from self._limits.refusals(counts)
        elif plugin == volume_binding.NAME:
            yield from self._binding.refusals()
        else:
            yield from self._zone.refusals()


class Rules:
    """The inter-pod rules that apply to one signature, on the present nodes. `within`: the only
    nodes that a spread counts, as kube-scheduler's snapshot has no others for a pod group.
    """

    def __init__(self, table: NodeTable, sig: Signature, within: Mask | None = None) -> None:
        profile = sig.plugins.profile
        self.spread = None
        if sig.constraints:
            needs_all_keys = profile.needs_all_keys(sig.spec)
            self.spread = Spread(
                table, sig.spec, sig.constraints, needs_all_keys, sig.others, within
            )
        self.affinity = Affinity(table, sig)
        self.volumes = VolumeAndDeviceRules(table, sig.spec, sig.plugins, sig.others)
        self._filters = sig.plugins.inter_pod_plugins
        self._spread_weight = profile.weight(pod_topology_spread.NAME)
        self._affinity_weight = profile.weight(inter_pod_affinity.NAME)
        if profile.ignores_preferred_terms and not sig.spec.pods_preferred:
            self._affinity_weight = 0
        self.kinds: tuple[StaticResult, I16 | None] | None = None  # kept by grouped_cycles.grouped

    @property
    def are_of_volumes(self) -> bool:
        """Return whether all rules are about volumes."""
        affinity = self.affinity
        terms = affinity.affine or affinity.anti or affinity.opposed or affinity.scored
        return self.spread is None and not terms

    @property
    def apply(self) -> bool:
        """Return whether there are any rules."""
        return not self.are_of_volumes or self.volumes.apply

    def columns(self) -> list[I64 | Mask]:
        """Return what tells nodes apart for spread and affinity, besides counts."""
        return [*(() if self.spread is None else self.spread.columns()), *self.affinity.columns()]

    def read_by_node(self) -> list[int]:
        """Return the counters of which they read single nodes, not domains."""
        spread = () if self.spread is None else self.spread.read_by_node()
        return list(dict.fromkeys((*spread, *self.affinity.read_by_node())))

    def among(self, rows: I64) -> "Rules":
        """Return the same rules with these nodes only."""
        found = copy(self)
        found.spread = None if self.spread is None else self.spread.among(rows)
        found.affinity = self.affinity.among(rows)
        return found

    def counted(self, counts: Counts) -> tuple[RuleCount, ...]:
        """Return what the rules count on the nodes of this table, for other shards."""
        spread = [] if self.spread is None else self.spread.counted(counts)
        return (*spread, *self.affinity.counted(counts), *self.volumes.counted(counts))

    def refusals(self, counts: Counts, before: Counts | None = None) -> Iterator[Rule]:
        """Yield the refusals by plugin and reason, in kube-scheduler's order. `before`: the counts
        at the beginning of the cycle, if they differed.
        """
        for name in self._filters:
            if name == pod_topology_spread.NAME:
                yield from self._spread_refusals(counts, before or counts)
            elif name == inter_pod_affinity.NAME:
                yield from self._affinity_refusals(counts, before or counts)
            else:
                for one in self.volumes.refusals(name, counts, before or counts):
                    yield Rule(name, *one)

    def _spread_refusals(self, counts: Counts, before: Counts) -> Iterator[Rule]:
        spread = pod_topology_spread
        if self.spread is not None and self.spread.hard:
            missing, skewed = self.spread.refusals(counts, before)
            yield Rule(spread.NAME, spread.MISSING, missing, False)
            yield Rule(spread.NAME, spread.SKEWED, skewed, True)

    def _affinity_refusals(self, counts: Counts, before: Counts) -> Iterator[Rule]:
        affinity = inter_pod_affinity
        if not self.affinity.skips(before):
            not_affine, anti, existing = self.affinity.refusals(counts)
            yield Rule(affinity.NAME, affinity.NOT_AFFINE, not_affine, False)
            yield Rule(affinity.NAME, affinity.NOT_ANTI_AFFINE, anti, True)
            yield Rule(affinity.NAME, affinity.EXISTING_REFUSE, existing, True)

    def refused(self, counts: Counts, before: Counts | None = None) -> Mask:
        """Return the nodes that any rule refuses."""
        found = np.zeros(counts.nodes, np.bool_)
        start = before or counts
        for name in self._filters:
            if name == pod_topology_spread.NAME:
                if self.spread is not None and self.spread.hard:
                    found |= self.spread.refused(counts, start)
            elif name == inter_pod_affinity.NAME:
                if not self.affinity.skips(start):
                    found |= self.affinity.refused(counts)
            else:
                for _, refused, _ in self.volumes.refusals(name, counts, start):
                    found |= refused
        return found

    def scores(self, counts: Counts, feasible: Mask) -> list[tuple[str, int, I64]]:
        """Return (plugin, weight, 0..100 for each feasible node) of the plugins that score."""
        found = []
        if self.spread is not None and self.spread.soft and self._spread_weight:
            normalised = self.spread.scores(counts, feasible)
            found.append((pod_topology_spread.NAME, self._spread_weight, normalised))
        pulls = self.affinity.scored and self._affinity_weight
        pulled = self.affinity.scores(counts, feasible) if pulls else None
        if pulled is not None:
            found.append((inter_pod_affinity.NAME, self._affinity_weight, pulled))
        if self.volumes.scores is not None:
            found.append(self.volumes.scores)
        if self.volumes.device_weight:
            normalised = self.volumes.device_scores(feasible)
            found.append((dynamic_resources.NAME, self.volumes.device_weight, normalised))
        return found


def rules_of(table: NodeTable, sig: Signature) -> Rules | None:
    """Return the rules for a signature, rebuilt after changes of nodes or counters; None if there
    are none. The table's counters must know the signature.
    """
    if not sig.is_concerned:
        return None
    base = table.parent or table
    if table.within is not None:
        return _rules_within(base, sig, table.within)
    version = (
        *(base.counters.version, base.static_version, base.changes.restarts),
        base.storage.version if sig.uses else 0,
        base.claims.version if sig.spec.claims else 0,
    )
    if sig.rules is None or sig.rules[0] != version:
        rules = Rules(base, sig)
        sig.rules = version, rules if rules.apply else None
    return sig.rules[1]


def _rules_within(table: NodeTable, sig: Signature, within: Mask) -> Rules | None:
    rules = Rules(table, sig, within) if sig.is_concerned else None
    return rules if rules is not None and rules.apply else None


def know_others(sig: Signature, counts: Iterable[RuleCount]) -> None:
    """Apply what the rules of a signature count on other shards from now on."""
    sig.others = OtherShards(counts)
    sig.rules = None


def counted(table: NodeTable, sig: Signature, within: Mask | None = None) -> tuple[RuleCount, ...]:
    """Return what the rules of a signature count on the nodes of this table. `within`: the only
    nodes that a spread counts.
    """
    rules = rules_of(table, sig) if within is None else _rules_within(table, sig, within)
    return () if rules is None else rules.counted(table.counters.now())


def refused_with(
    table: NodeTable, rules: Rules, counts: Counts, nominated_pods: NominatedPods | None
) -> Mask:
    """Return the nodes that the rules refuse. A node with nominated pods must pass with them and
    without, as in kube-scheduler; nominated pods of other nodes are not counted.
    """
    refused = rules.refused(counts)
    for row, more in nominated_counts(table, counts, nominated_pods):
        refused[row] |= rules.refused(more, counts)[row]
    return refused


def nominated_counts(
    table: NodeTable, counts: Counts, nominated_pods: NominatedPods | None
) -> Iterator[tuple[int, Counts]]:
    """Yield, for each node with nominations that move a counter, its row and the counts
    with them.
    """
    for node_id in sorted(nominated_pods or ()):
        row = table.row_of(node_id)
        moving = [sig for sig, _ in (nominated_pods or {})[node_id] if sig.counted or sig.uses]
        if row is not None and moving:
            more = counts.twin()
            for sig in moving:
                more.move(sig, row)
            yield row, more


def refusals_on(
    table: NodeTable, sig: Signature, node: OneNode, as_placed: bool = False
) -> Iterator[Iterator[Rule]]:
    """Yield the refusals of a node from which pods were removed, or put back: with the pods
    nominated there, if any, and without. `as_placed`: as when the nominated pods are on the node.
    """
    rules = rules_of(table, sig)
    if rules is None:
        return
    before, row = table.counters.now(), node.row
    counts = before.twin()
    for moved, sign in node.moved:
        counts.move(moved, row, sign)
    ways = [counts]
    if node.nominated:
        ways.insert(0, counts.twin())
        for nominated in node.nominated:
            ways[0].move(nominated, row)
    for way in ways:
        start = way if as_placed else before
        yield (one for one in rules.refusals(way, start) if one.refused[row])


def refusal(table: NodeTable, sig: Signature, node: OneNode, as_placed: bool = False) -> str | None:
    """Return why the rules refuse such a node, or None."""
    found = (one.message for way in refusals_on(table, sig, node, as_placed) for one in way)
    return next(found, None)


def fits(table: NodeTable, sig: Signature, node: OneNode, as_placed: bool = False) -> bool:
    """Return whether the pod fits by everything that depends on other pods: free amounts and
    inter-pod rules. `as_placed`: also once the pods nominated there are placed.
    """
    return node.fits(sig) and refusal(table, sig, node, as_placed) is None


class SingleCycles:
    """Single cycles of one signature, each after the picks before it."""

    def __init__(
        self,
        table: NodeTable,
        sig: Signature,
        rules: Rules,
        static_result: StaticResult,
        local: Totals,
        nominated_pods: NominatedPods | None,
    ) -> None:
        """`local` is modified."""
        self.table, self.sig, self.rules, self.static = table, sig, rules, static_result
        self.nominated_pods, self.local = nominated_pods, local
        self.counts = table.counters.now()
        self._nodes: dict[int, BatchNode] = {}

    def next(self) -> Pick | None:
        """Return the pick of one cycle; None if no node fits the pod."""
        feasible: Mask = self.local >= 0
        feasible &= ~refused_with(self.table, self.rules, self.counts, self.nominated_pods)
        counts = self.static.counts(feasible)
        number = sum(counts)
        if not number:
            return None
        totals = self.static.totals(self.local, self.static.class_scores(counts))
        for _, weight, normalised in self.rules.scores(self.counts, feasible):
            totals += (weight * normalised).astype(totals.dtype)
        np.putmask(totals, ~feasible, INFEASIBLE)
        row = int(totals.argmax())
        total = int(totals[row])
        totals[row] = INFEASIBLE
        runner_up = max(int(totals.max()), -1)
        node = self._nodes.get(row) or self._node(row)
        return Pick(row, total, node.mask, number, runner_up)

    def add(self, row: int) -> None:
        """Add a pod to the row."""
        self.local[row] = self._nodes[row].add_next()
        self.counts.move(self.sig, row)

    def _node(self, row: int) -> BatchNode:
        if self.nominated_pods or self.sig.gpu_count:
            node = one_node(self.table, row, self.nominated_pods)
            values, devices = node.values, list(node.devices) if self.sig.gpu_count else []
        else:
            values, devices = self.table.cols[:, row].tolist(), []
        made = self._nodes[row] = BatchNode(self.sig, values, devices)
        return made


def single_node_scores(table: NodeTable, sig: Signature, row: int) -> int:
    """Return what the rules add to a node's total if no other node is scored."""
    rules = rules_of(table, sig)
    if rules is None:
        return 0
    feasible = np.arange(table.size) == row
    scores = rules.scores(table.counters.now(), feasible)
    return sum(weight * int(normalised[row]) for _, weight, normalised in scores)


def as_columns(sig: Signature, picks: list[Pick]) -> tuple[I64, Totals, I64]:
    """Return rows, totals and device masks."""
    return (
        np.array([pick.row for pick in picks], np.int64),
        np.array([pick.total for pick in picks], sig.plugins.number),
        np.array([pick.mask for pick in picks], np.int64),
    )
