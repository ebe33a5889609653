"""PodTopologySpread: skew between topology domains refuses (DoNotSchedule) or costs score.

Source: KEP-895 and its successors; kube-scheduler 1.35's formulas. Only pods of the same namespace
that are not terminating count, on nodes that have all keys and that the pod could go to.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from decimal import Context, Decimal
from functools import cache
from typing import NamedTuple

import numpy as np

from shared.model.objects import HOSTNAME, PodSpec, SpreadConstraint
from shared.model.pod_rules.rule_counts import HARD_SPREAD, NO_NODE_COUNTED, SOFT_SPREAD, RuleCount
from shared.model.pod_rules.selectors import holds
from shared.scheduling.plugins.node_affinity import NodeAffinity
from shared.scheduling.plugins.taint_toleration import TaintToleration
from shared.scheduling.table.counters import Counts, spread_counter
from shared.scheduling.table.domains import Domains
from shared.scheduling.table.layout import F64, I32, I64, Mask
from shared.scheduling.table.other_shards import NO_OTHERS, OtherShards
from shared.scheduling.table.table import NodeTable

NAME = "PodTopologySpread"
MISSING = "node(s) didn't match pod topology spread constraints (missing required label)"
SKEWED = "node(s) didn't match pod topology spread constraints"
NO_COUNTER = -1
PRECISION = Context(prec=30)

_AFFINITY, _TAINTS = NodeAffinity(), TaintToleration()


class _Hard(NamedTuple):
    rule: SpreadConstraint
    counter: int  # NO_COUNTER: its selector counts no pod
    trials_only: bool  # counts only pods added or removed in a trial
    itself: int  # 1 if the pod matches its own selector
    domains: Domains
    there: Mask  # existing domains
    enough: bool  # at least minDomains exist
    elsewhere: I64  # pods of other shards, by domain of this one
    lowest_elsewhere: int | None  # the fewest pods of a domain that only other shards have


class _Soft(NamedTuple):
    rule: SpreadConstraint
    counter: int
    domains: Domains
    elsewhere: I64


class Spread:
    """The constraints of one signature on the present nodes."""

    def __init__(
        self,
        table: NodeTable,
        spec: PodSpec,
        constraints: Sequence[SpreadConstraint],
        needs_all_keys: bool,
        others: OtherShards = NO_OTHERS,
        within: Mask | None = None,
    ) -> None:
        """Compile the constraints. Where nodes need not have all keys to be scored, nodes without a
        key are one more domain of it. `others`: what they count on other shards; `within`: the only
        nodes that count.
        """
        hard = [one for one in constraints if one.hard]
        soft = [one for one in constraints if not one.hard]
        needed = soft if needs_all_keys else []
        hard_keys, soft_keys = _all_keys(table, hard, within), _all_keys(table, needed, within)
        self.has_keys = soft_keys
        self.hard = [
            self._hard(table, spec, one, hard_keys, others.find(HARD_SPREAD, at, one.topology_key))
            for at, one in enumerate(hard)
        ]
        self.soft = []
        for at, one in enumerate(soft):
            domains = _domains(table, spec, one, soft_keys, absent_is_empty=not needs_all_keys)
            elsewhere = domains.of_values(others.find(SOFT_SPREAD, at, one.topology_key).values)
            self.soft.append(_Soft(one, _soft_counter(table, spec, one), domains, elsewhere))

    def _hard(
        self,
        table: NodeTable,
        spec: PodSpec,
        rule: SpreadConstraint,
        has_keys: Mask,
        other: RuleCount,
    ) -> _Hard:
        domains = _domains(table, spec, rule, has_keys)
        there = domains.there()
        lowest = [other.lowest] if other.lowest != NO_NODE_COUNTED else []
        more = other.domains
        for value, count in other.values:
            place = domains.place_of(value)
            if place:
                there[place] = True
            else:
                lowest.append(count)
                more += 1
        enough = int(np.count_nonzero(there)) + more >= rule.min_domains
        itself = rule.selector is not None and holds(rule.selector, dict(spec.labels))
        counter, trials_only = NO_COUNTER, rule.selector == ()
        if rule.selector is not None:
            counter = table.counters.index[spread_counter(spec, rule.selector)]
        elsewhere = domains.of_values(other.values)
        least = min(lowest, default=None)
        return _Hard(
            *(rule, counter, trials_only, int(itself), domains, there, enough, elsewhere, least)
        )

    def columns(self) -> Iterator[I64 | Mask]:
        """Yield what tells nodes apart besides counts, shape (n,) each."""
        yield self.has_keys
        for hard in self.hard:
            yield from hard.domains.columns()
        for soft in self.soft:
            if soft.rule.topology_key == HOSTNAME:
                yield soft.domains.absent
            else:
                yield from soft.domains.columns()

    def read_by_node(self) -> list[int]:
        """Return the counters of which the constraints read single nodes, not domains."""
        soft = (one for one in self.soft if one.rule.topology_key == HOSTNAME)
        return [one.counter for one in soft if one.counter != NO_COUNTER]

    def among(self, rows: I64) -> "Spread":
        """Return the same constraints with these nodes only."""
        found = copy(self)
        found.has_keys = self.has_keys[rows]
        found.hard = [one._replace(domains=one.domains.among(rows)) for one in self.hard]
        found.soft = [one._replace(domains=one.domains.among(rows)) for one in self.soft]
        return found

    def refusals(self, counts: Counts, before: Counts) -> tuple[Mask, Mask]:
        """Return the nodes without a key, and those where the skew would be too large: each is
        refused by the first constraint it violates. `before`: the counts at the beginning of the
        cycle.
        """
        nodes = counts.nodes
        missing, skewed = np.zeros(nodes, np.bool_), np.zeros(nodes, np.bool_)
        for one in self.hard:
            absent = one.domains.absent
            passed = ~(missing | skewed)
            missing |= passed & absent
            skewed |= passed & ~absent & _beyond(one, counts, before)[one.domains.place]
        return missing, skewed

    def refused(self, counts: Counts, before: Counts) -> Mask:
        """Return the nodes that `refusals` has for any reason."""
        found: Mask | None = None
        for one in self.hard:
            beyond = _beyond(one, counts, before)
            beyond[0] = True  # the nodes without the key
            refused = beyond[one.domains.place]
            found = refused if found is None else found | refused
        return np.zeros(counts.nodes, np.bool_) if found is None else found

    def scores(self, counts: Counts, feasible: Mask) -> I64:
        """Return 0..100 for each feasible node, more for domains with fewer pods; 0 for nodes
        without one of the keys.
        """
        scored = feasible & self.has_keys
        raw = _rounded(self._raw(counts, scored))
        found = np.zeros(len(raw), np.int64)
        among = raw[scored]
        if not len(among):
            return found
        lowest, highest = int(among[among.argmin()]), int(among[among.argmax()])
        found[scored] = 100 if not highest else 100 * (highest + lowest - among) // highest
        return found

    def _raw(self, counts: Counts, scored: Mask) -> F64:
        raw = np.zeros(len(scored))
        for one in self.soft:
            place, row = one.domains.place, _row(counts, one.counter)
            if one.rule.topology_key == HOSTNAME:
                each = row if one.counter == NO_COUNTER else counts.each(one.counter)
                size, matching = counts.number(scored), each.astype(np.int64)
            else:
                size = int(np.count_nonzero(np.bincount(place[scored])))
                matching = (one.domains.sums(row) + one.elsewhere)[place]
            score = matching * _ln(size + 2) + float(one.rule.max_skew - 1)
            raw += score if one.domains.anywhere else np.where(one.domains.absent, 0.0, score)
        return raw

    def counted(self, counts: Counts) -> list[RuleCount]:
        """Return what the constraints count on the nodes of this table."""
        found = []
        for at, hard in enumerate(self.hard):
            key, row = hard.rule.topology_key, _row(counts, hard.counter)
            sums = hard.domains.sums(np.zeros_like(row) if hard.trials_only else row)
            there = hard.domains.there()
            if key == HOSTNAME:
                among, number = sums[there], int(np.count_nonzero(there))
                lowest = int(among.min()) if number else NO_NODE_COUNTED
                found.append(RuleCount(HARD_SPREAD, at, key, (), 0, lowest, number))
            else:
                values = hard.domains.values(sums, there)
                found.append(RuleCount(HARD_SPREAD, at, key, values))
        for at, soft in enumerate(self.soft):
            key = soft.rule.topology_key
            if key != HOSTNAME:
                sums = soft.domains.sums(_row(counts, soft.counter))
                found.append(RuleCount(SOFT_SPREAD, at, key, soft.domains.values(sums)))
        return found


def _beyond(one: _Hard, counts: Counts, before: Counts) -> Mask:
    """Return the domains where the skew would be too large, shape (width,)."""
    row = _row(counts, one.counter)
    # An empty selector counts no pod at the beginning of a cycle, and every pod after it.
    sums = one.domains.sums(row - _row(before, one.counter) if one.trials_only else row)
    sums += one.elsewhere
    lowest = _lowest(one, sums) if one.enough else 0
    beyond: Mask = sums + (one.itself - lowest) > one.rule.max_skew
    return beyond


def _lowest(one: _Hard, sums: I64) -> int:
    """Return the fewest pods of a domain, on any shard; 0 if there is no domain."""
    among = sums[one.there]
    here = int(among[among.argmin()]) if len(among) else one.lowest_elsewhere
    elsewhere = here if one.lowest_elsewhere is None else one.lowest_elsewhere
    return 0 if here is None or elsewhere is None else min(here, elsewhere)


def _all_keys(table: NodeTable, rules: list[SpreadConstraint], within: Mask | None) -> Mask:
    found = np.ones(table.size, np.bool_) if within is None else within.copy()
    for rule in rules:
        found &= table.labels(rule.topology_key).present()
    return found


def _soft_counter(table: NodeTable, spec: PodSpec, rule: SpreadConstraint) -> int:
    """Return the counter of a soft constraint. An empty selector counts no pod, although the pod
    matches it.
    """
    if not rule.selector:
        return NO_COUNTER
    return table.counters.index[spread_counter(spec, rule.selector)]


def _domains(
    table: NodeTable,
    spec: PodSpec,
    rule: SpreadConstraint,
    has_keys: Mask,
    *,
    absent_is_empty: bool = False,
) -> Domains:
    counted = has_keys
    for honored, plugin in ((rule.honor_affinity, _AFFINITY), (rule.honor_taints, _TAINTS)):
        refused = plugin.refuses(table, spec) if honored else None
        if refused is not None:
            counted = counted & ~refused
    return Domains(table.labels(rule.topology_key), counted, absent_is_empty=absent_is_empty)


def _row(counts: Counts, at: int) -> I32:
    return np.zeros(counts.nodes, np.int32) if at == NO_COUNTER else counts.row(at)


def _rounded(values: F64) -> I64:
    """Round to the nearest integer, halves away from zero; values are not negative."""
    whole = np.floor(values)
    return (whole + (values - whole >= 0.5)).astype(np.int64)


@cache
def _ln(number: int) -> float:
    """Return the natural logarithm, correctly rounded: libm's differs between machines."""
    return float(Decimal(number).ln(PRECISION))
