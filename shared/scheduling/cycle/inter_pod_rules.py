"""Rules between pods in a cycle: which apply to a signature, and single cycles that keep them.

A pick changes what every node of a domain is worth, so there is no batch shortcut: k pods are k
cycles over arrays. Counts of the pods that come in between are kept beside the table's.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from shared.scheduling.cycle.one_node import BatchNode, OneNode, one_node
from shared.scheduling.cycle.score_classes import Static
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.cycle.volume_rules import VolumeRules
from shared.scheduling.plugins import inter_pod_affinity, pod_topology_spread
from shared.scheduling.plugins.inter_pod_affinity import Affinity
from shared.scheduling.plugins.pod_topology_spread import Spread
from shared.scheduling.table.counters import Counts
from shared.scheduling.table.layout import I64, INFEASIBLE, Held, Mask, Totals
from shared.scheduling.table.picks import Pick
from shared.scheduling.table.table import NodeTable


class Rule(NamedTuple):
    """Nodes refused for one reason by a plugin; `resolvable` as in Refusal."""

    plugin: str
    message: str
    refused: Mask
    resolvable: bool


class Rules:
    """The rules between pods that apply to one signature, on the nodes as they are."""

    def __init__(self, table: NodeTable, sig: Signature) -> None:
        profile = sig.plugins.profile
        self.spread = None
        if sig.constraints:
            needs_all_keys = profile.needs_all_keys(sig.spec)
            self.spread = Spread(table, sig.spec, sig.constraints, needs_all_keys)
        self.affinity = Affinity(table, sig.spec, profile.hard_pod_affinity_weight)
        self.volumes = VolumeRules(table, sig.spec, sig.plugins.between)
        self._filters = sig.plugins.between
        self._spread_weight = profile.weight(pod_topology_spread.NAME)
        self._affinity_weight = profile.weight(inter_pod_affinity.NAME)
        if profile.ignores_preferred_terms and not sig.spec.pods_preferred:
            self._affinity_weight = 0

    @property
    def are_of_volumes(self) -> bool:
        """Whether no rule is about anything but volumes."""
        affinity = self.affinity
        terms = affinity.affine or affinity.anti or affinity.opposed or affinity.scored
        return self.spread is None and not terms

    @property
    def apply(self) -> bool:
        """Whether there are any."""
        return not self.are_of_volumes or self.volumes.apply

    def refusals(self, counts: Counts, before: Counts | None = None) -> Iterator[Rule]:
        """By plugin and reason, in kube-scheduler's order. `before`: the counts at the beginning of
        the cycle, where they were others.
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
        """Nodes that any of them refuses."""
        found = np.zeros(counts.nodes, np.bool_)
        for rule in self.refusals(counts, before):
            found |= rule.refused
        return found

    def scores(self, counts: Counts, feasible: Mask) -> list[tuple[str, int, I64]]:
        """(plugin, weight, 0..100 for each feasible node) of the plugins that score."""
        found = []
        if self.spread is not None and self.spread.soft and self._spread_weight:
            normalised = self.spread.scores(counts, feasible)
            found.append((pod_topology_spread.NAME, self._spread_weight, normalised))
        pulls = self.affinity.scored and self._affinity_weight
        pulled = self.affinity.scores(counts, feasible) if pulls else None
        if pulled is not None:
            found.append((inter_pod_affinity.NAME, self._affinity_weight, pulled))
        return found


def rules_of(table: NodeTable, sig: Signature) -> Rules | None:
    """The rules for a signature, made anew when nodes or counters changed; None = there are none.
    Signatures must be known to the table's counters.
    """
    if not sig.is_concerned:
        return None
    base = table.parent or table
    version = (
        *(base.counters.version, base.static_version, base.changes.restarts),
        base.storage.version if sig.uses else 0,
    )
    if sig.rules is None or sig.rules[0] != version:
        rules = Rules(base, sig)
        sig.rules = version, rules if rules.apply else None
    return sig.rules[1]


def refused_with(table: NodeTable, rules: Rules, counts: Counts, held: Held | None) -> Mask:
    """Nodes that the rules refuse. A node with nominated pods must pass with them and without, as
    in kube-scheduler; those of other nodes are not counted.
    """
    refused = rules.refused(counts)
    for row, more in held_counts(table, counts, held):
        refused[row] |= rules.refused(more, counts)[row]
    return refused


def held_counts(
    table: NodeTable, counts: Counts, held: Held | None
) -> Iterator[tuple[int, Counts]]:
    """For each node with nominations that move a counter: its row, and the counts with them."""
    for node_id in sorted(held or ()):
        row = table.row_of(node_id)
        moving = [sig for sig, _ in (held or {})[node_id] if sig.counted or sig.uses]
        if row is not None and moving:
            more = counts.twin()
            for sig in moving:
                more.move(sig, row)
            yield row, more


def refusals_on(table: NodeTable, sig: Signature, node: OneNode) -> Iterator[Iterator[Rule]]:
    """What the rules say against a node from which pods were taken, or put back: with the pods that
    are nominated there, if there are any, and without.
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
        yield (one for one in rules.refusals(way, before) if one.refused[row])


def refusal(table: NodeTable, sig: Signature, node: OneNode) -> str | None:
    """Why the rules keep the pod from such a node; None = they do not."""
    found = (one.message for way in refusals_on(table, sig, node) for one in way)
    return next(found, None)


def fits(table: NodeTable, sig: Signature, node: OneNode) -> bool:
    """All that depends on other pods: what the node has left, and rules between pods."""
    return node.fits(sig) and refusal(table, sig, node) is None


class Cycles:
    """Single cycles of one signature, each after the picks before it."""

    def __init__(
        self,
        table: NodeTable,
        sig: Signature,
        rules: Rules,
        static: Static,
        local: Totals,
        held: Held | None,
    ) -> None:
        """`local` is used up."""
        self.table, self.sig, self.rules, self.static = table, sig, rules, static
        self.held, self.local = held, local
        self.counts = table.counters.now()
        self._nodes: dict[int, BatchNode] = {}

    def next(self) -> Pick | None:
        """The pick of one cycle; None when no node takes the pod."""
        feasible: Mask = self.local >= 0
        feasible &= ~refused_with(self.table, self.rules, self.counts, self.held)
        counts = self.static.counts(feasible)
        number = sum(counts)
        if not number:
            return None
        totals = self.static.totals(self.local, self.static.terms(counts))
        for _, weight, normalised in self.rules.scores(self.counts, feasible):
            totals += (weight * normalised).astype(totals.dtype)
        np.putmask(totals, ~feasible, INFEASIBLE)
        row = int(totals.argmax())
        total = int(totals[row])
        totals[row] = INFEASIBLE
        runner_up = max(int(totals.max()), -1)
        node = self._nodes.get(row) or self._node(row)
        return Pick(row, total, node.mask, number, runner_up)

    def take(self, row: int) -> None:
        """A pod is on the row from now on."""
        self.local[row] = self._nodes[row].take()
        self.counts.move(self.sig, row)

    def _node(self, row: int) -> BatchNode:
        node = one_node(self.table, row, self.held)
        devices = list(node.devices) if self.sig.gpu_count else []
        made = self._nodes[row] = BatchNode(self.sig, node.values, devices)
        return made


def alone(table: NodeTable, sig: Signature, row: int) -> int:
    """What the rules add to the total of a node when no other node is looked at."""
    rules = rules_of(table, sig)
    if rules is None:
        return 0
    feasible = np.arange(table.size) == row
    scores = rules.scores(table.counters.now(), feasible)
    return sum(weight * int(normalised[row]) for _, weight, normalised in scores)


def as_columns(sig: Signature, picks: list[Pick]) -> tuple[I64, Totals, I64]:
    """Rows, totals and device masks."""
    return (
        np.array([pick.row for pick in picks], np.int64),
        np.array([pick.total for pick in picks], sig.plugins.number),
        np.array([pick.mask for pick in picks], np.int64),
    )
